"""`manage.py run_cycle`: one turn of the loop by hand."""

from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from queues import cycle, fleet
from queues.release import release_due


class Command(BaseCommand):
    """Decide, then tell the clusters."""

    help = "Run one cycle and release what it admitted; for a look at the loop without workers."

    def handle(self, *_: Any, **__: Any) -> None:  # noqa: ANN401  Django's signature
        """Run it and say what happened."""
        turns = cycle.run_cycle(timezone.now)
        told = release_due(timezone.now, clusters=fleet.clusters())
        self.stdout.write(f"{turns} cycles, {told} waves told" if turns else "another worker runs the loop now")
