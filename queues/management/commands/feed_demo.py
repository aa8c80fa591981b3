"""`manage.py feed_demo`: submits the demo's jobs through the REST API, as an ML platform would, until it is stopped."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.management.base import BaseCommand

from queues.demo.feeder import Api, Feeder
from queues.management.commands.load_demo import read

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Feed a running Tidegate with the demo's jobs."""

    help = "Submit a realistic mix of jobs through the REST API of a running Tidegate."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the address, the file with tokens, and a seed that makes a mix repeatable."""
        parser.add_argument("--address", default="http://localhost:8000")
        parser.add_argument("--logins", type=Path, default=settings.BASE_DIR / ".data" / "demo.json")
        parser.add_argument("--seed", type=int, default=None)
        parser.add_argument("--seconds", type=float, default=None, help="stop after so many seconds")

    def handle(self, *, address: str, logins: Path, seed: int | None, seconds: float | None, **_: object) -> None:
        """Submit until stopped."""
        tokens = read(logins).get("tokens")
        if not isinstance(tokens, dict) or not tokens:
            self.stderr.write(f"{logins} has no tokens: run `manage.py load_demo` first.")
            sys.exit(1)
        api = Api(address, {str(name): str(secret) for name, secret in tokens.items()})
        feeder = Feeder(api, Random(seed), say=self.stdout.write)  # noqa: S311  a mix of jobs, no secret
        feeder.run(clock=time.monotonic, sleep=time.sleep, seconds=seconds)
