"""Runs scenario files through the production admission rules."""

import json
import os
import sys
import time
from pathlib import Path

from django.core.management.base import BaseCommand, CommandParser

from queues.simulation.reading import ScenarioError
from queues.simulation.report import as_json, as_text
from queues.simulation.run import simulate
from queues.simulation.scenario import load


class Command(BaseCommand):
    """``simulate FILE…``: status 0 when all expectations hold, 1 when one fails, 2 when a file is not valid."""

    help = "Run scenario files on a virtual clock and check what they expect."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take files and the form of the answer."""
        parser.add_argument("files", nargs="+", type=Path)
        parser.add_argument("--json", action="store_true", help="one JSON object a file on standard output")

    def handle(self, *, files: list[Path], json: bool, **_: object) -> None:
        """Run each file; the worst outcome decides the exit status. Who stops reading wants no more."""
        try:
            status = max(self._run(path, as_object=json) for path in files)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = 1
        if status:
            sys.exit(status)

    def _run(self, path: Path, *, as_object: bool) -> int:
        try:
            result = simulate(load(path), time.perf_counter)
        except ScenarioError as error:
            self.stderr.write(str(error))
            return 2
        self.stdout.write(json.dumps(as_json(result), sort_keys=False) if as_object else as_text(result))
        return 0 if result.ok else 1
