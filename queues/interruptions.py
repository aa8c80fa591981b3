"""Attempts that end from outside: lost nodes, pods evicted or deleted by others. No retry is used, the place is kept.

What is interrupted again and again, never running for long, pauses before each further attempt, longer each time: a
kubelet that evicts whatever comes would else be fed for ever. Runs inside the caller's transaction, the job locked.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import F

from queues.endings import again
from queues.limits import back_off
from queues.models import Job, Task, Wave
from queues.progress import Trouble
from queues.states import JobState, WaveState
from queues.steps import evict, record, waits_no_more

# So many interruptions in a row cost nothing but the work; then a job pauses.
FREE = 3
# Who ran so long before an interruption begins to count anew.
STEADY = timedelta(minutes=10)
OUTCOMES = frozenset({Trouble.NODE_LOST.value, Trouble.DELETED_OUTSIDE.value, Trouble.START_FAILED.value})
_LOOK_BACK = 50


def interrupt(job: Job, wave: Wave, task: Task, *, now: datetime) -> None:
    """A gang's attempt was ended from outside: the job queues again at its old place, and no retry is used."""
    text = task.message or task.reason
    pause = _pause(job, wave, now)
    changes: dict[str, Any] = {} if pause is None else {"backoff_until": now + pause}
    evict(
        job.id,
        JobState(job.state),
        JobState.QUEUED,
        now=now,
        event="interrupted",
        summary=text + _pause_text(pause),
        details={"reason": task.reason, "attempt": job.attempt, "interruptions": job.interruptions + 1},
        reason_code=task.reason,
        reason_text=text,
        interruptions=F("interruptions") + 1,
        **changes,
    )


def interrupt_tasks(job: Job, wave: Wave, tasks: list[Task], *, retried: int, now: datetime) -> None:
    """Tasks of an independent job were stopped: they wait again, with the ``retried`` ones, while the others run."""
    again(job, retried + len(tasks), now=now, own_failure=False)
    first, count = next((task for task in tasks if task.reason in OUTCOMES), tasks[0]), len(tasks)
    ours = first.reason not in OUTCOMES
    pause = None if ours else _pause(job, wave, now)
    if not ours:
        Job.objects.filter(id=job.id).update(interruptions=F("interruptions") + 1)
    if pause is not None:
        Job.objects.filter(id=job.id).update(
            **waits_no_more(now),
            backoff_until=now + pause,
            reason_code=first.reason,
            reason_text=first.message or first.reason,
        )
    what = "left" if first.reason == Trouble.EVICTED else "stopped"
    text = f"{count} task{'s' * (count != 1)} {what}: {first.message or first.reason}{_pause_text(pause)}"
    record(job.id, now=now, event="interrupted", summary=text, details={"reason": first.reason, "tasks": count})


def in_a_row(job: Job, wave: Wave, now: datetime) -> int:
    """Return how often the job was interrupted in a row, this time included; 0 where this wave had run for long.

    Waves that ran at the same time are one interruption: a lost node may take several.
    """
    if wave.started_at is not None and now - wave.started_at >= STEADY:
        return 0
    count, next_began = 1, wave.admitted_at
    ended = job.waves.filter(state=WaveState.ENDED).exclude(id=wave.id).order_by("-number")
    for outcome, admitted, started, end in ended.values_list("outcome", "admitted_at", "started_at", "ended_at")[
        :_LOOK_BACK
    ]:
        if end is None or end > next_began:
            continue
        if outcome not in OUTCOMES or (started is not None and end - started >= STEADY):
            break
        count, next_began = count + 1, admitted
    return count


def _pause(job: Job, wave: Wave, now: datetime) -> timedelta | None:
    beyond = in_a_row(job, wave, now) - FREE
    return back_off(beyond) if beyond > 0 else None


def _pause_text(pause: timedelta | None) -> str:
    return "" if pause is None else f"; interrupted again and again: next try in {int(pause.total_seconds())} s"
