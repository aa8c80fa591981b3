"""`manage.py bench`: measures the rules on published workloads."""

import os
import sys
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from queues.benchmarks.calibration import calibrate
from queues.benchmarks.catalog import BENCHMARKS
from queues.benchmarks.results import NoTrace, Result, Setting, as_json, as_text, commit


class Command(BaseCommand):
    """``bench NAME…``: status 0 whatever the values are; a benchmark is not a test."""

    help = "Run benchmarks and print each value beside peer and limit."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take names, the folder of traces, a seed and where JSON lines go."""
        parser.add_argument("names", nargs="*", metavar="NAME", help="which ones; see --list")
        parser.add_argument("--data", type=Path, help="the folder of traces")
        parser.add_argument("--json", type=Path, metavar="FILE", help="append JSON lines to this file")
        parser.add_argument("--list", action="store_true", help="name the benchmarks")
        parser.add_argument("--seed", type=int, default=42)
        parser.add_argument("--part", type=int, default=1, help="take one part in so many of the workload")
        parser.add_argument("--tick", type=int, default=1, help="Philly: seconds between two decisions")

    def handle(
        self,
        *,
        names: list[str],
        data: Path | None,
        json: Path | None,
        seed: int,
        part: int,
        tick: int,
        **options: object,
    ) -> None:
        """Run what is named, in that order."""
        if options["list"]:
            self._list()
            return
        unknown = [name for name in names if name not in BENCHMARKS]
        if unknown or not names:
            raise CommandError(f"no benchmark is called {', '.join(unknown)}" if unknown else "name one; see --list")
        setting = Setting(data=data, seed=seed, part=part, tick=tick * 1000)
        load = os.getloadavg()[0]
        calibration = " | ".join(f"{row.name} {row.value:,.0f} {row.unit}" for row in calibrate(Path.cwd()))
        self.stdout.write(f"calibration: {calibration} | load {load:.1f} | {sys.version.split()[0]}")
        for name in names:
            self._run(name, setting, json)

    def _list(self) -> None:
        for name, benchmark in BENCHMARKS.items():
            about = (benchmark.__doc__ or "").splitlines()[0]
            self.stdout.write(f"{name:<16} {about}")

    def _run(self, name: str, setting: Setting, json: Path | None) -> None:
        where = commit(settings.BASE_DIR)
        try:
            for row in BENCHMARKS[name](setting):
                self._tell(row, setting, where, json)
        except NoTrace as error:
            raise CommandError(f"{name} {error}") from error

    def _tell(self, row: Result, setting: Setting, where: str, json: Path | None) -> None:
        self.stdout.write(as_text(row, seed=setting.seed, commit=where))
        self.stdout.flush()
        if json is not None:
            with json.open("a") as file:
                file.write(as_json(row, seed=setting.seed, commit=where) + "\n")
