"""`manage.py soak`: real processes under load and faults; status 1 where anything disagrees at the end."""

import json as encoder
import tempfile
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser

from queues.soak.run import Plan, soak

MOST_JOBS = 1_000_000


class Command(BaseCommand):
    """Starts databases, processes and a cluster of its own; nothing of this installation is touched."""

    help = "Soak everything: jobs by the thousand, cancellations, faults and kills; at the end all must agree."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take length, seed, cluster, and where the summary goes."""
        parser.add_argument("--minutes", type=float, default=5.0, help="of load; waiting for quiet comes on top")
        parser.add_argument("--jobs", type=int, default=MOST_JOBS, help="stop the load after so many jobs")
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--kill-every", type=float, default=20.0, metavar="SECONDS")
        parser.add_argument("--kubeconfig", type=Path, help="a control plane with pretended kubelets, not the emulator")
        parser.add_argument("--folder", type=Path, help="keep databases and logs here")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary here")

    def handle(self, *, json: Path | None, folder: Path | None, **given: object) -> None:
        """Soak, print the summary, and fail where anything is wrong."""
        plan = Plan(
            seconds=float(str(given["minutes"])) * 60,
            jobs=int(str(given["jobs"])),
            seed=int(str(given["seed"])),
            kill_every=float(str(given["kill_every"])),
            kubeconfig=given["kubeconfig"] if isinstance(given["kubeconfig"], Path) else None,
        )
        with tempfile.TemporaryDirectory(prefix="tidegate-soak-", ignore_cleanup_errors=True) as temporary:
            verdict = soak(plan, folder or Path(temporary), say=self._say)
        for name, value in verdict.numbers.items():
            words = ", ".join(f"{key} {count}" for key, count in value.items()) if isinstance(value, dict) else value
            self._say(f"{name:<24} {words}")
        for line in verdict.wrong:
            self._say(f"WRONG  {line}")
        if json is not None:
            json.write_text(encoder.dumps({**verdict.numbers, "seed": plan.seed, "wrong": verdict.wrong}, indent=1))
        if verdict.wrong:
            raise CommandError(f"{len(verdict.wrong)} things disagree (seed {plan.seed})", returncode=1)
        self._say(f"All agree: ledger, recount, cluster and every job's end (seed {plan.seed}).")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
