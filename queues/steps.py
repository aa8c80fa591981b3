"""The one way in which a job moves: a guarded update from an expected old state, its event, and its waiting time.

Zero rows updated means that another worker won, which is normal: the caller gets False and goes on.
"""

from datetime import datetime
from typing import Any

from django.db.models import F, Value
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Coalesce

from queues.models import Job, JobEvent
from queues.states import ENDED, STEPS, JobState


class StepNotAllowed(Exception):
    """The table of states has no such step: a fault of the program, never of two workers racing."""


def waits_again(now: datetime) -> dict[str, Any]:
    """Return the changes with which a job waits again: the time in which it did not wait does not count."""
    away = CombinedExpression(Value(now), "-", Coalesce(F("not_waiting_since"), Value(now)))
    return {"wait_from": F("wait_from") + away, "not_waiting_since": None, "backoff_until": None, "ready": True}


def waits_no_more(now: datetime) -> dict[str, Any]:
    """Return the changes with which a job stops to wait; a stop within a stop keeps the earlier time."""
    return {"not_waiting_since": Coalesce(F("not_waiting_since"), Value(now)), "ready": False}


def step(
    job_id: int,
    old: JobState,
    new: JobState,
    *,
    now: datetime,
    event: str,
    summary: str,
    actor: str = "",
    details: dict[str, Any] | None = None,
    where: dict[str, Any] | None = None,
    **changes: Any,  # noqa: ANN401  columns of Job with values or expressions
) -> bool:
    """Move a job from ``old`` to ``new`` if it is still there (and ``where`` holds), and record the event.

    Must run inside the caller's transaction. Raises StepNotAllowed when the table has no such step.
    """
    if new not in STEPS[old]:
        raise StepNotAllowed(f"{old} → {new}")
    fields: dict[str, Any] = {"state": new, "state_since": now, "next_state": "", **changes}
    if new in ENDED:
        fields |= {"ended_at": now, "waiting_tasks": 0, "ready": False, "backoff_until": None}
    moved = Job.objects.filter(id=job_id, state=old, **(where or {})).update(**fields)
    if moved:
        record(job_id, now=now, event=event, summary=summary, actor=actor, details=details)
    return bool(moved)


def record(
    job_id: int, *, now: datetime, event: str, summary: str, actor: str = "", details: dict[str, Any] | None = None
) -> JobEvent:
    """Write one event of a job."""
    return JobEvent.objects.create(
        job_id=job_id, at=now, type=event, actor=actor, summary=summary, details=details or {}
    )
