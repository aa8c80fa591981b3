"""The one way in which a job moves: a guarded update from an expected old state, its event, and its waiting time.

Zero rows updated means that another worker won, which is normal: the caller gets False and goes on.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import DurationField, ExpressionWrapper, F, Value
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Coalesce, Greatest

from queues.models import Eviction, Job, JobEvent, Task, Wave
from queues.models.wave import Wish
from queues.states import ENDED, HOLDING, STEPS, JobState, TaskState, WaveState

# How much longer than its grace a pod may take to go before it is told again, more firmly.
GOING_SLACK = timedelta(seconds=60)


class StepNotAllowed(Exception):
    """The table of states has no such step: a fault of the program, never of two workers racing."""


def waits_again(now: datetime) -> dict[str, Any]:
    """Return the changes with which a job waits again: the time in which it did not wait does not count.

    A process that began to look before another one stopped the wait comes with an earlier ``now``: that is no time.
    """
    stopped = Coalesce(F("not_waiting_since"), Value(now))
    away = CombinedExpression(Greatest(Value(now), stopped), "-", stopped)
    return {"wait_from": F("wait_from") + away, "not_waiting_since": None, "backoff_until": None, "ready": True}


def waits_no_more(now: datetime) -> dict[str, Any]:
    """Return the changes with which a job stops to wait; a stop within a stop keeps the earlier time."""
    return {"not_waiting_since": Coalesce(F("not_waiting_since"), Value(now)), "ready": False}


def step_changes(old: JobState, new: JobState, *, now: datetime, **changes: Any) -> dict[str, Any]:  # noqa: ANN401  columns of Job
    """Return all that a step changes in a job's row; raise StepNotAllowed when the table has no such step."""
    if new not in STEPS[old]:
        raise StepNotAllowed(f"{old} → {new}")
    fields: dict[str, Any] = {"state": new, "state_since": now, "next_state": "", **changes}
    if old is JobState.RUNNING:
        fields["ran_for"] = ExpressionWrapper(F("ran_for") + (Value(now) - F("state_since")), DurationField())
    if new in ENDED:
        fields |= {"ended_at": now, "waiting_tasks": 0, "ready": False, "backoff_until": None}
    return fields


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
    fields = step_changes(old, new, now=now, **changes)
    moved = Job.objects.filter(id=job_id, state=old, **(where or {})).update(**fields)
    if moved:
        record(job_id, now=now, event=event, summary=summary, actor=actor, details=details)
    return bool(moved)


def evict(
    job_id: int,
    old: JobState,
    to: JobState,
    *,
    now: datetime,
    event: str,
    summary: str,
    actor: str = "",
    details: dict[str, Any] | None = None,
    **changes: Any,  # noqa: ANN401  columns of Job with values or expressions
) -> bool:
    """Ask all waves of an admitted or running job to go; it enters ``to`` when their pods are gone.

    A job that is leaving already only gets another goal. Must run inside the caller's transaction.
    """
    if old is JobState.EVICTING:
        moved = bool(Job.objects.filter(id=job_id, state=old).update(next_state=to, **changes))
        if moved:
            record(job_id, now=now, event=event, summary=summary, actor=actor, details=details)
        return moved
    fields = {**waits_no_more(now), **changes, "next_state": to}
    moved = step(
        job_id, old, JobState.EVICTING, now=now, event=event, summary=summary, actor=actor, details=details, **fields
    )
    if moved:
        stop_waves(job_id, now=now, reason=changes.get("reason_code", ""), message=changes.get("reason_text", ""))
    return moved


def stop_waves(job_id: int, *, now: datetime, wave_id: int | None = None, reason: str = "", message: str = "") -> None:
    """Ask a job's holding waves (or one of them) to go: their tasks hold until the pods are gone.

    ``reason`` and ``message`` are kept on the tasks that have to go.
    """
    waves = Wave.objects.filter(job_id=job_id, state__in=HOLDING - {WaveState.EVICTING})
    if wave_id is not None:
        waves = waves.filter(id=wave_id)
    going = list(waves.values_list("id", flat=True))
    grace = Job.objects.values_list("grace", flat=True).get(id=job_id)
    Wave.objects.filter(id__in=going).update(
        state=WaveState.EVICTING,
        deadline_at=now + grace + GOING_SLACK,
        wish=Wish.STOP,
        wish_due_at=now,
        wish_tries=0,
        wish_error="",
    )
    tasks = Task.objects.filter(wave_id__in=going, state__in=[TaskState.PENDING, TaskState.RUNNING])
    tasks.update(state=TaskState.LEAVING, reason=reason, message=message)


def stop_tasks(wave: Wave, job: Job, tasks: Sequence[Task], *, now: datetime, reason: str, message: str) -> None:
    """Ask single tasks of a wave to go, for nobody, while its others stay: they hold until their pods are gone."""
    row = Eviction.objects.create(
        wave=wave,
        claim=0,
        rule=reason,
        tasks=len(tasks),
        units=sum(task.units for task in tasks),
        lost_unit_seconds=0,
        grace=job.grace,
        at=now,
        due_at=now,
    )
    going = Task.objects.filter(id__in=[task.id for task in tasks], state__in=[TaskState.PENDING, TaskState.RUNNING])
    going.update(state=TaskState.LEAVING, reason=reason, message=message, eviction=row)


def record(
    job_id: int, *, now: datetime, event: str, summary: str, actor: str = "", details: dict[str, Any] | None = None
) -> JobEvent:
    """Write one event of a job."""
    return JobEvent.objects.create(
        job_id=job_id, at=now, type=event, actor=actor, summary=summary, details=details or {}
    )
