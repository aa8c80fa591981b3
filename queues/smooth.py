"""Waves that go as hoped (seen, running, succeeded) and gangs that leave, moved on together in so many statements.

Whatever else a sight shows (a failure, a refusal, single tasks that leave) goes one by one, through ``moves``: for
waves that are moved together both do the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Case, DurationField, ExpressionWrapper, F, Sum, Value, When

from queues import endings
from queues.admission.world import JobShape
from queues.limits import deadline
from queues.models import Job, JobEvent, Task, TaskGroup, Wave
from queues.models.wave import Wish
from queues.moves import RAN, UNDER_WAY, running_event
from queues.sight import COLUMNS, Sight
from queues.states import JobState, TaskState, WaveState

BATCH = 100
GOING = (WaveState.ADMITTED, WaveState.RUNNING)
AWAY = (TaskState.LEAVING, TaskState.STOPPED)
FINE = (TaskState.PENDING, TaskState.RUNNING, TaskState.SUCCEEDED)
SHAPES = (JobShape.GANG, JobShape.INDEPENDENT)

Look = Callable[[Wave, Sequence[Task]], Sight]


@dataclass(slots=True, kw_only=True)
class Moved:
    """What became of some waves: jobs that moved, tasks that ended, and the sights that are to go one by one.

    ``sights`` are all of them as they were, ``due``: clusters can be told at once to remove what has ended.
    """

    sights: list[Sight] = field(default_factory=list)
    jobs: set[int] = field(default_factory=set)
    ended: bool = False
    due: bool = False
    left: list[Sight] = field(default_factory=list)


def goes_well(sight: Sight) -> bool:
    """Return whether nothing about a sight needs an answer of the job."""
    wave, job = sight.wave, sight.wave.job
    return (
        wave.state in GOING
        and job.state in UNDER_WAY
        and job.shape in SHAPES
        and wave.attempt == job.attempt
        and not (sight.refusal or job.reason_code)
        and all(task.state in FINE and not task.reason for task in sight.now.values())
    )


def leaves(sight: Sight) -> bool:
    """Return whether a sight shows no more than a gang that leaves, as it was asked to, or has left."""
    wave, job = sight.wave, sight.wave.job
    return (
        wave.state == WaveState.EVICTING
        and job.state == JobState.EVICTING
        and job.shape == JobShape.GANG
        and wave.attempt == job.attempt
        and all(task.state in AWAY for task in sight.now.values())
    )


def takes(sight: Sight) -> bool:
    """Return whether a wave can be moved on with others."""
    return goes_well(sight) or leaves(sight)


def move_all(waves: Mapping[int, int], look: Look, *, now: datetime) -> Moved:
    """Look at waves (with their jobs) while the jobs are locked, and write what is new of those that go together."""
    moved = Moved()
    for start in range(0, len(waves), BATCH):
        _move(dict(islice(waves.items(), start, start + BATCH)), look, moved, now=now)
    return moved


def _move(waves: Mapping[int, int], look: Look, moved: Moved, *, now: datetime) -> None:
    with transaction.atomic():
        sights = list(_locked(waves, look))
        fresh = [sight for sight in sights if sight.moves]
        tasks_of = _totals(sight.wave.job_id for sight in fresh if not sight.holds)
        going: list[Sight] = []
        for sight in fresh:
            # A wave that is over and was not the whole job: what comes next is the job's affair.
            whole = sight.holds or len(sight.tasks) == tasks_of[sight.wave.job_id]
            (going if whole and takes(sight) else moved.left).append(sight)
        if going:
            _write(going, now)
    moved.sights += sights
    moved.jobs |= {sight.wave.job_id for sight in going}
    moved.ended |= any(sight.ended for sight in going)
    over = [sight.wave for sight in going if not sight.holds]
    moved.due |= any(wave.stopped_at is None and _goes_at(wave, now) <= now for wave in over)


def _locked(waves: Mapping[int, int], look: Look) -> Iterable[Sight]:
    """Yield what is seen of rows that are locked: jobs, then waves, each in order of their ids."""
    ids = list(waves)
    light = Job.objects.filter(id__in=set(waves.values())).defer("spec", "labels").order_by("id")
    jobs = {job.id: job for job in light.select_related("queue").select_for_update(of=("self",), no_key=True)}
    rows = list(Wave.objects.filter(id__in=ids).order_by("id").select_for_update(no_key=True))
    tasks: dict[int, list[Task]] = {wave.id: [] for wave in rows}
    for task in Task.objects.filter(wave__in=ids).order_by("id"):
        tasks[task.wave_id].append(task)
    for wave in rows:
        wave.job = jobs[wave.job_id]
        yield look(wave, tasks[wave.id])


def _totals(jobs: Iterable[int]) -> dict[int, int]:
    ids = set(jobs)
    if not ids:
        return {}
    rows = TaskGroup.objects.filter(job__in=ids).order_by().values_list("job")
    return dict(rows.annotate(tasks=Sum("tasks")))


def _write(sights: Sequence[Sight], now: datetime) -> None:
    _write_tasks([(task.id, sight.now[task.id]) for sight in sights for task in sight.changed])
    starting = [sight for sight in sights if sight.wave.state == WaveState.ADMITTED and sight.count(*RAN)]
    for sight in starting:
        times = (task.started_at for task in sight.now.values() if task.started_at)
        sight.wave.state = WaveState.RUNNING
        sight.wave.started_at = min(times, default=now)
    _write_waves(sights, now)
    over = [sight for sight in sights if not sight.holds]
    succeeded = [sight.wave.job for sight in over if goes_well(sight)]
    left = [sight.wave.job for sight in over if leaves(sight)]
    events = [*_start_jobs([sight.wave for sight in starting], now), *_end_jobs(succeeded, now)]
    JobEvent.objects.bulk_create([*events, *endings.arrive(left, now=now)])


_KINDS = {
    "node_id": "bigint",
    "bound": "boolean",
    "started_at": "timestamptz",
    "ended_at": "timestamptz",
    "exit_code": "integer",
}
_TASKS = f"""
UPDATE queues_task task SET {", ".join(f"{column} = new.{column}" for column in COLUMNS)}
FROM unnest(%s::bigint[], {", ".join(f"%s::{_KINDS.get(column, 'text')}[]" for column in COLUMNS)})
    AS new (id, {", ".join(COLUMNS)})
WHERE task.id = new.id
"""  # noqa: S608  constants only


def _write_tasks(rows: Sequence[tuple[int, Any]]) -> None:
    if not rows:
        return
    columns = [[getattr(after, column) for _, after in rows] for column in COLUMNS]
    with connection.cursor() as cursor:
        cursor.execute(_TASKS, [[pk for pk, _ in rows], *columns])


_WAVES = """
UPDATE queues_wave wave SET state = new.state, seen_at = new.seen_at, started_at = new.started_at,
    deadline_at = new.deadline_at, ended_at = new.ended_at,
    outcome = CASE WHEN new.ended_at IS NULL THEN wave.outcome ELSE new.outcome END,
    wish = CASE WHEN new.due_at IS NULL THEN wave.wish ELSE %s END,
    wish_due_at = CASE WHEN new.due_at IS NULL THEN wave.wish_due_at ELSE new.due_at END,
    wish_tries = CASE WHEN new.due_at IS NULL THEN wave.wish_tries ELSE 0 END,
    wish_error = CASE WHEN new.due_at IS NULL THEN wave.wish_error ELSE '' END
FROM unnest(%s::bigint[], %s::text[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[],
    %s::timestamptz[], %s::text[]) AS new (id, state, seen_at, started_at, deadline_at, ended_at, due_at, outcome)
WHERE wave.id = new.id
"""


def _write_waves(sights: Sequence[Sight], now: datetime) -> None:
    rows: list[tuple[int | str | datetime | None, ...]] = []
    for sight in sights:
        wave = sight.wave
        seen = wave.seen_at or (now if sight.seen else None)
        if sight.holds:
            going = wave.state == WaveState.EVICTING
            ends = wave.deadline_at if going else deadline(wave, starting=bool(sight.count(TaskState.PENDING)))
            rows.append((wave.id, wave.state, seen, wave.started_at, ends, None, None, ""))
        else:
            # What was told to go is gone.
            goes = _goes_at(wave, now) if wave.stopped_at is None else None
            reasons = {task.state.value: task.reason for _, task in sorted(sight.now.items(), reverse=True)}
            outcome = endings.outcome(reasons)
            rows.append((wave.id, WaveState.ENDED, seen, wave.started_at, None, now, goes, outcome))
    with connection.cursor() as cursor:
        cursor.execute(_WAVES, [Wish.STOP.value, *(list(column) for column in zip(*rows, strict=True))])


def _goes_at(wave: Wave, now: datetime) -> datetime:
    """Return when the objects of a wave go that has ended: what ended by itself keeps its logs for a while."""
    return now if wave.state == WaveState.EVICTING else now + timedelta(seconds=settings.TIDEGATE_KEEP_SECONDS)


_START = """
UPDATE queues_job job SET state = %s, state_since = %s, next_state = '',
    started_at = COALESCE(job.started_at, new.started_at), start_failures = 0
FROM unnest(%s::bigint[], %s::timestamptz[]) AS new (id, started_at)
WHERE job.id = new.id
"""


def _start_jobs(waves: Iterable[Wave], now: datetime) -> list[JobEvent]:
    """Start the jobs of these waves that do not run yet."""
    first: dict[int, Wave] = {}
    for wave in waves:
        if wave.job.state == JobState.ADMITTED:
            first.setdefault(wave.job_id, wave)
    if not first:
        return []
    with connection.cursor() as cursor:
        started = [wave.started_at for wave in first.values()]
        cursor.execute(_START, [JobState.RUNNING.value, now, list(first), started])
    return [running_event(wave, wave.job, now=now) for wave in first.values()]


def _end_jobs(jobs: Sequence[Job], now: datetime) -> list[JobEvent]:
    """Let the jobs succeed of which all tasks have succeeded."""
    if not jobs:
        return []
    ran = ExpressionWrapper(F("ran_for") + (Value(now) - F("state_since")), DurationField())
    Job.objects.filter(id__in=[job.id for job in jobs]).update(
        state=JobState.SUCCEEDED,
        state_since=now,
        next_state="",
        ran_for=Case(When(state=JobState.RUNNING, then=ran), default=F("ran_for")),
        ended_at=now,
        waiting_tasks=0,
        ready=False,
        backoff_until=None,
    )
    return [JobEvent(job_id=job.id, at=now, type="succeeded", summary="Succeeded") for job in jobs]
