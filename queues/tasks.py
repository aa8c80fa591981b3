"""Celery tasks: hints that make the loop turn now; beat is the net under them. Each may be lost or doubled.

They take ids by keyword, pass over keywords of newer versions, and never run as long as the broker's visibility
timeout.
"""

from celery import shared_task
from celery.signals import worker_ready
from django.utils import timezone

import clusters.kube  # noqa: F401  takes seconds to load: before workers fork, not in the middle of a launch
from queues import cleanup, cycle, fleet, forecasting, hints
from queues import release as outbox
from queues.stopwatch import within

FORECAST_SECONDS = 20.0


@worker_ready.connect
def begin(**_: object) -> None:
    """Ask for all that is due as a worker comes up: nobody may have been there to hear the hints, nor a beat yet."""
    hints.ask_for_all()


@shared_task(name="queues.admit", ignore_result=True)
def admit(**_: object) -> int:
    """Run cycles until no wake-up is left; return how many ran (0 when another worker is at it)."""
    hints.heard("queues.admit")
    return cycle.run_cycle(timezone.now)


@shared_task(name="queues.release", ignore_result=True)
def release(**_: object) -> int:
    """Tell the clusters what is due; return how many waves were told."""
    hints.heard("queues.release")
    return outbox.release_due(timezone.now, clusters=fleet.clusters())


@shared_task(name="queues.forecast", ignore_result=True)
def forecast(**_: object) -> int:
    """Tell again when waiting jobs start, as far as a few seconds allow; return how many starts could be told."""
    return forecasting.forecast(timezone.now(), go_on=within(FORECAST_SECONDS))


@shared_task(name="queues.clean_up", ignore_result=True)
def clean_up(**_: object) -> int:
    """Delete what is past its use; return how many rows went."""
    return cleanup.clean_up(timezone.now())
