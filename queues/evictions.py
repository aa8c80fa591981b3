"""Evictions as rows: who has to go for whom, told on both sides; inside apply's transaction, with the jobs locked.

Statements do not grow with the evictions. A gang goes whole, and so does a wave of which nothing stays; of other waves
of independent jobs, and of the surplus of elastic ones, single tasks go. Surplus that goes is no eviction of its job.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from queues import recalls
from queues.admission.outcome import Eviction
from queues.admission.world import Attempt, JobShape, Placed, World
from queues.growth import Soft, stop_growing
from queues.models import Eviction as Stored
from queues.models import Job, JobEvent, Wave
from queues.progress import Trouble
from queues.states import HOLDING, JobState, WaveState
from queues.steps import GOING_SLACK, stop_waves
from queues.waiting import moment

HOUR_SECONDS = 3600
RULES = {
    "guarantee": "its guarantee was lent and is taken back",
    "within team": "it has the higher priority in the team",
}
SURPLUS = "surplus goes back to whoever needs its GPUs"
# What is stored names nobody of the other side; who may see it reads the name (``queries.history``).
ANOTHER = "another job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """Tasks of one wave that leave for one claim: ``tasks`` counts them by node, ``whole`` says that no other stays.

    Of surplus ``soft`` names the very tasks, and ``wave`` is theirs, not that of the minimum.
    """

    wave: Wave
    attempt: Attempt
    victim: Job
    claimant: Job
    said: Eviction
    tasks: Counter[int]
    units: int
    whole: bool
    now: datetime
    soft: tuple[int, ...] = ()

    @property
    def lost(self) -> timedelta:
        """Return what each unit ran in vain: since its start, or since its last checkpoint.

        Of surplus nothing is lost, as the others go on with its work.
        """
        if self.wave.started_at is None or self.said.surplus:
            return timedelta()
        saved = self.attempt.saved
        since = self.wave.started_at if saved is None else max(self.wave.started_at, moment(saved))
        return max(timedelta(), self.now - since)


class Left(NamedTuple):
    """Jobs (by id) whose tasks leave for others: those that it evicts, and those that only give surplus back."""

    evicted: tuple[int, ...] = ()
    shrunk: tuple[int, ...] = ()


def evict(evictions: Sequence[Eviction], world: World, jobs: Mapping[int, Job], *, now: datetime) -> Left:
    """Let victims leave whose claimants still wait; ``jobs`` are the locked rows."""
    if not evictions:
        return Left()
    hard = [row for row in evictions if not row.surplus]
    leaving = list(_standing(hard, world, jobs, now))
    leaving += _shrinking([row for row in evictions if row.surplus], world, jobs, now)
    if not leaving:
        return Left()
    rows = Stored.objects.bulk_create(_row(row, now) for row in leaving)
    _let_tasks_go(leaving, rows)
    _stop_waves(leaving, now)
    _count(leaving)
    _move_gangs(leaving, now)
    stop_growing({row.attempt.id for row in leaving if row.said.surplus}, now=now)
    JobEvent.objects.bulk_create([*_told_victims(leaving, now), *_told_claimants(leaving, now)])
    recalls.audit(_recalls(leaving), now=now)
    evicted = {row.victim.id for row in leaving if not row.said.surplus}
    return Left(tuple(sorted(evicted)), tuple(sorted({row.victim.id for row in leaving} - evicted)))


def _standing(evictions: Iterable[Eviction], world: World, jobs: Mapping[int, Job], now: datetime) -> Iterator[Leaving]:
    """Yield the evictions that may still be: the victim holds as the decision saw it, the claimant waits."""
    merged: dict[tuple[int, int], list[Eviction]] = defaultdict(list)
    for row in evictions:
        merged[row.attempt, row.claim].append(row)
    attempts = {attempt.id: attempt for attempt in world.attempts}
    there = Wave.objects.filter(id__in={attempt for attempt, _ in merged}, state__in=HOLDING)
    waves = there.exclude(state=WaveState.EVICTING).in_bulk()
    stays: dict[int, Counter[int]] = defaultdict(Counter)
    for part in world.attempts:
        # Also those of its tasks that are too young to go.
        if part.number in waves and not part.leaving:
            stays[part.number].update(_by_node(part.placed))
    found = []
    for (number, _), rows in merged.items():
        attempt, said = attempts[number], rows[0]
        victim, claimant, wave = jobs[attempt.job], jobs[said.job], waves.get(number)
        if wave is None or not claimant.ready or victim.state not in {JobState.ADMITTED, JobState.RUNNING}:
            continue
        placed = [part for row in rows for part in row.placed]
        tasks = Counter(_by_node(placed))
        stays[number].subtract(tasks)
        units = sum(part.tasks * attempt.groups[part.group].units for part in placed)
        found.append((wave, attempt, victim, claimant, said, tasks, units))
    for wave, attempt, victim, claimant, said, tasks, units in found:
        yield Leaving(
            wave=wave,
            attempt=attempt,
            victim=victim,
            claimant=claimant,
            said=said,
            tasks=tasks,
            units=units,
            whole=attempt.shape is not JobShape.INDEPENDENT or not stays[attempt.id].total(),
            now=now,
        )


def _shrinking(
    evictions: Sequence[Eviction], world: World, jobs: Mapping[int, Job], now: datetime
) -> Iterator[Leaving]:
    """Yield the surplus that may still go, wave by wave: what has ended meanwhile need not be told."""
    attempts = {attempt.id: attempt for attempt in world.attempts}
    soft = Soft({attempts[row.attempt].job for row in evictions})
    found = []
    for said in evictions:
        attempt, claimant = attempts[said.attempt], jobs[said.job]
        if claimant.ready:
            found += [(said, attempt, rows) for rows in soft.take(attempt.id, said.placed).values()]
    for said, attempt, rows in found:
        wave = rows[0].wave
        yield Leaving(
            wave=wave,
            attempt=attempt,
            victim=jobs[attempt.job],
            claimant=jobs[said.job],
            said=said,
            tasks=Counter(task.node_id for task in rows),
            units=sum(task.units for task in rows),
            whole=soft.is_whole(wave.id),
            now=now,
            soft=tuple(task.id for task in rows),
        )


def _by_node(placed: Iterable[Placed]) -> dict[int, int]:
    counts: dict[int, int] = defaultdict(int)
    for part in placed:
        counts[part.node] += part.tasks
    return counts


def _row(row: Leaving, now: datetime) -> Stored:
    return Stored(
        wave=row.wave,
        claimant=row.claimant,
        claim=row.said.claim,
        rule=row.said.rule,
        exact=row.said.exact,
        surplus=row.said.surplus,
        tasks=row.tasks.total(),
        units=row.units,
        lost_unit_seconds=int(row.units * row.lost.total_seconds()),
        grace=row.victim.grace,
        at=now,
        due_at=None if row.whole else now,
    )


# Of equal tasks on a node the newest go that are old enough (started by ``born``; NULL: all are); ``first`` of them are
# spoken for by earlier claims of the same decision.
_LEAVE = """
UPDATE queues_task task SET state = 'leaving', reason = %(reason)s, message = chosen.message,
    eviction_id = chosen.eviction
FROM (
    SELECT held.id, leave.eviction, leave.message, leave.first, leave.last,
        row_number() OVER (
            PARTITION BY leave.eviction, held.wave_id, held.node_id
            ORDER BY leave.born IS NOT NULL AND COALESCE(held.started_at > leave.born, TRUE), held.id DESC
        ) AS place
    FROM unnest(%(waves)s::bigint[], %(nodes)s::bigint[], %(firsts)s::integer[], %(lasts)s::integer[],
        %(evictions)s::bigint[], %(messages)s::text[], %(born)s::timestamptz[])
        AS leave(wave, node, first, last, eviction, message, born)
    JOIN queues_task held ON held.wave_id = leave.wave AND held.node_id = leave.node
    WHERE held.state IN ('pending', 'running')
) chosen
WHERE task.id = chosen.id AND chosen.place > chosen.first AND chosen.place <= chosen.last
"""


_LEAVE_SOFT = """
UPDATE queues_task task SET state = 'leaving', reason = %(reason)s, message = leave.message,
    eviction_id = leave.eviction
FROM unnest(%(tasks)s::bigint[], %(evictions)s::bigint[], %(messages)s::text[]) AS leave(task, eviction, message)
WHERE task.id = leave.task AND task.state IN ('pending', 'running')
"""


def _let_tasks_go(leaving: Sequence[Leaving], rows: Sequence[Stored]) -> None:
    spoken: Counter[tuple[int, int]] = Counter()
    values: list[tuple[int, int, int, int, int, str, datetime | None]] = []
    soft: list[tuple[int, int, str]] = []
    for row, stored in zip(leaving, rows, strict=True):
        if row.said.surplus:
            soft += [(task, stored.id, _message(row)) for task in row.soft]
            continue
        for node, tasks in sorted(row.tasks.items()):
            first = spoken[row.wave.id, node]
            spoken[row.wave.id, node] += tasks
            values.append((row.wave.id, node, first, first + tasks, stored.id, _message(row), _born(row)))
    names = ("waves", "nodes", "firsts", "lasts", "evictions", "messages", "born")
    _say_leave(_LEAVE, names, values, Trouble.EVICTED)
    _say_leave(_LEAVE_SOFT, ("tasks", "evictions", "messages"), soft, Trouble.SHRUNK)


def _born(row: Leaving) -> datetime | None:
    """Return by when a task of an independent job must have started to be old enough; None: all are."""
    least = row.victim.queue.min_runtime
    return row.now - least if row.attempt.shape is JobShape.INDEPENDENT and least else None


def _say_leave(statement: str, names: Sequence[str], values: Sequence[tuple[Any, ...]], reason: Trouble) -> None:
    if values:
        columns = [list(column) for column in zip(*values, strict=True)]
        with connection.cursor() as cursor:
            cursor.execute(statement, {"reason": reason.value} | dict(zip(names, columns, strict=True)))


_STOP = """
UPDATE queues_wave wave SET state = 'evicting', deadline_at = %(now)s + gone.grace + %(slack)s, wish = 'stop',
    wish_due_at = %(now)s, wish_tries = 0, wish_error = ''
FROM unnest(%(waves)s::bigint[], %(graces)s::interval[]) AS gone(wave, grace)
WHERE wave.id = gone.wave AND wave.state IN ('admitted', 'running')
"""


def _stop_waves(leaving: Sequence[Leaving], now: datetime) -> None:
    graces = {row.wave.id: row.victim.grace for row in leaving if row.whole}
    if graces:
        values: dict[str, Any] = {
            "now": now,
            "slack": GOING_SLACK,
            "waves": list(graces),
            "graces": list(graces.values()),
        }
        with connection.cursor() as cursor:
            cursor.execute(_STOP, values)


_COUNT = """
UPDATE queues_job job SET evictions = job.evictions + gone.tasks
FROM unnest(%(jobs)s::bigint[], %(tasks)s::integer[]) AS gone(job, tasks) WHERE job.id = gone.job
"""


def _count(leaving: Sequence[Leaving]) -> None:
    """Count evictions: of an independent job task by task, surplus not at all."""
    counts: Counter[int] = Counter()
    for row in leaving:
        if not row.said.surplus:
            counts[row.victim.id] += row.tasks.total() if row.attempt.shape is JobShape.INDEPENDENT else 1
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {"jobs": list(counts), "tasks": list(counts.values())})


_MOVE = """
UPDATE queues_job job SET state = 'evicting', next_state = 'queued', state_since = %(now)s, ready = FALSE,
    not_waiting_since = COALESCE(job.not_waiting_since, %(now)s), reason_code = %(reason)s, reason_text = gone.message,
    ran_for = job.ran_for + CASE job.state WHEN 'running' THEN %(now)s - job.state_since ELSE interval '0' END
FROM unnest(%(jobs)s::bigint[], %(messages)s::text[]) AS gone(job, message)
WHERE job.id = gone.job AND job.state IN ('admitted', 'running')
"""


def _move_gangs(leaving: Sequence[Leaving], now: datetime) -> None:
    """Send gangs back to the queue by way of evicting; independent jobs stay where they are until pods have gone."""
    gangs = {
        row.victim.id: _message(row)
        for row in leaving
        if row.attempt.shape is not JobShape.INDEPENDENT and not row.said.surplus
    }
    if gangs:
        values: dict[str, Any] = {
            "now": now,
            "reason": Trouble.EVICTED.value,
            "jobs": list(gangs),
            "messages": list(gangs.values()),
        }
        with connection.cursor() as cursor:
            cursor.execute(_MOVE, values)
    for row in leaving:
        if row.attempt.shape is JobShape.ELASTIC and row.victim.id in gangs:
            # Surplus that the decision did not see: nothing of a job stays whose minimum goes.
            stop_waves(row.victim.id, now=now, reason=Trouble.EVICTED, message=gangs[row.victim.id])


def _message(row: Leaving) -> str:
    if row.said.surplus:
        return f"Surplus that goes back for {ANOTHER}"
    return f"Reclaimed for {ANOTHER}: {RULES.get(row.said.rule, row.said.rule)}"


def _told_victims(leaving: Sequence[Leaving], now: datetime) -> Iterator[JobEvent]:
    """Yield one event for each victim and claim."""
    evicted = {row.victim.id for row in leaving if not row.said.surplus}
    gone: Counter[int] = Counter()
    for rows in _together(leaving, lambda row: (row.victim.id, row.said.claim)):
        first = rows[0]
        if first.victim.id not in evicted:
            gone[first.attempt.id] += sum(len(row.soft) for row in rows)
            yield _told_shrunk(rows, gone[first.attempt.id], now)
            continue
        tasks, units = sum(row.tasks.total() for row in rows), sum(row.units for row in rows)
        lost = sum(row.units * row.lost.total_seconds() for row in rows)
        what = "" if first.attempt.shape is not JobShape.INDEPENDENT else f" ({tasks} task{'s' * (tasks != 1)})"
        yield JobEvent(
            job_id=first.victim.id,
            at=now,
            type="evicted",
            summary=(
                f"{_message(first)}. {units} GPU{'s' * (units != 1)}{what} go back, "
                f"{_hours(lost)} GPU-hours are lost; it queues again at its old place"
            ),
            details={
                "claimant": str(first.claimant.uid),
                "claim": first.said.claim,
                "rule": first.said.rule,
                "exact": first.said.exact,
                "tasks": tasks,
                "units": units,
                "lost_unit_seconds": int(lost),
                "grace_seconds": int(first.victim.grace.total_seconds()),
                "attempt": first.victim.attempt,
            },
        )


def _recalls(leaving: Sequence[Leaving]) -> Iterator[recalls.Recall]:
    """Yield what the audit keeps of each victim and claim; surplus that goes back is no eviction."""
    for rows in _together(
        [row for row in leaving if not row.said.surplus], lambda row: (row.victim.id, row.said.claim)
    ):
        first = rows[0]
        yield recalls.Recall(
            victim=first.victim,
            claimant=first.claimant,
            claim=first.said.claim,
            rule=first.said.rule,
            exact=first.said.exact,
            tasks=sum(row.tasks.total() for row in rows),
            units=sum(row.units for row in rows),
            lost_unit_seconds=int(sum(row.units * row.lost.total_seconds() for row in rows)),
            grace=int(first.victim.grace.total_seconds()),
        )


def _told_shrunk(rows: Sequence[Leaving], gone: int, now: datetime) -> JobEvent:
    """Return what an elastic job is told that gives surplus back: ``gone`` tasks of it in all so far."""
    first = rows[0]
    attempt = first.attempt
    tasks, units = sum(len(row.soft) for row in rows), sum(row.units for row in rows)
    least = sum(row.tasks for row in attempt.placed)
    has = least + len(attempt.surplus) - gone
    return JobEvent(
        job_id=first.victim.id,
        at=now,
        type="shrank",
        summary=(
            f"Gives {tasks} surplus task{'s' * (tasks != 1)} ({units} GPU{'s' * (units != 1)}) back "
            f"for {ANOTHER}; runs on with {has}, minimum {least}"
        ),
        details={
            "claimant": str(first.claimant.uid),
            "claim": first.said.claim,
            "less": tasks,
            "tasks": has,
            "units": units,
            "grace_seconds": int(first.victim.grace.total_seconds()),
            "attempt": first.victim.attempt,
        },
    )


def _told_claimants(leaving: Sequence[Leaving], now: datetime) -> Iterator[JobEvent]:
    """Yield one event for each claim."""
    for rows in _together(leaving, lambda row: (row.claimant.id, row.said.claim)):
        units = sum(row.units for row in rows)
        jobs = len({row.victim.id for row in rows})
        yield JobEvent(
            job_id=rows[0].claimant.id,
            at=now,
            type="reclaims",
            summary=f"Reclaims {units} GPU{'s' * (units != 1)} from {jobs} job{'s' * (jobs != 1)}",
            details={
                "claim": rows[0].said.claim,
                "rule": rows[0].said.rule,
                "units": units,
                "victims": [{"job": str(row.victim.uid), "units": row.units} for row in rows],
            },
        )


def _together(leaving: Sequence[Leaving], key: Callable[[Leaving], object]) -> list[list[Leaving]]:
    found: dict[object, list[Leaving]] = defaultdict(list)
    for row in leaving:
        found[key(row)].append(row)
    return list(found.values())


def _hours(unit_seconds: float) -> str:
    return f"{unit_seconds / HOUR_SECONDS:.1f}"
