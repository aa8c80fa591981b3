"""Waves that hold units as the rules see them: what still holds of each, split into what runs and what leaves.

An elastic job's running waves are one attempt: its minimum, and beside it the surplus.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain

from queues.admission.shapes import bound_groups
from queues.admission.world import Attempt, Group, JobShape, Milliseconds, Placed
from queues.classes import ask_from_json
from queues.holdings import Held, Holding, Holdings, Microseconds
from queues.models import JobClass, Task
from queues.states import TaskState, WaveState
from queues.steps import GOING_SLACK
from queues.waiting import milliseconds

YOUNG = 1 << 52
"""Added to a wave's id for those of its tasks that are too young to be recalled."""
NOT_YET = 1 << 60
"""When the least run time of what has not started is over: later than any moment."""
_SLACK = GOING_SLACK // timedelta(microseconds=1)


def attempts(found: Holdings, now: datetime) -> tuple[Attempt, ...]:
    """Return what holds as attempts, by wave; reads only where there are elastic jobs or least run times.

    What runs of a wave has the wave's id; what leaves is an attempt beside it with an id below zero. Those that do not
    depend on the time are made once and stay the same objects.
    """
    elastic = _Elastic([wave for pk, wave in found.waves.items() if pk in found.elastic], found.rows)
    young = _young(found.guarded, now)
    moving: dict[int, tuple[Attempt, ...]] = {}
    for pk in sorted(found.waves.keys() - found.parts.keys()):
        parts = tuple(
            part
            for attempt in _parts(found.waves[pk], found.rows.get(pk, ()), now, elastic=elastic)
            for part in _by_age(attempt, young.get(pk, {}))
        )
        (moving if pk in found.elastic or pk in young else found.parts)[pk] = parts
    known = {**found.parts, **moving}
    return tuple(chain.from_iterable(map(known.__getitem__, found.waves)))


def _young(limits: Mapping[int, Microseconds], now: datetime) -> dict[int, dict[int, list[Milliseconds]]]:
    """Return when each task of an independent job that is too young to be recalled is old enough, by wave and node.

    ``limits`` are the least run times of queues. Most ask for none: then nothing is read.
    """
    found: dict[int, dict[int, list[Milliseconds]]] = defaultdict(lambda: defaultdict(list))
    tasks = Task.objects.filter(state__in=[TaskState.PENDING, TaskState.RUNNING], wave__job__queue__in=list(limits))
    tasks = tasks.filter(wave__job__shape=JobShape.INDEPENDENT).exclude(wave__state=WaveState.EVICTING)
    rows = tasks.order_by("id").values_list("wave_id", "node_id", "started_at", "wave__job__queue")
    for wave, node, started, queue in rows if limits else ():
        # Of what has not started yet no minimum has passed.
        until = (started or now) + timedelta(microseconds=limits[queue])
        if until > now:
            found[wave][node].append(milliseconds(until))
    return found


def _by_age(attempt: Attempt, young: Mapping[int, Sequence[Milliseconds]]) -> Iterator[Attempt]:
    """Yield a wave of an independent job in two: what is old enough to be recalled, and what is not yet."""
    if attempt.leaving or attempt.shape is not JobShape.INDEPENDENT:
        yield attempt
        return
    counts = {node: len(times) for node, times in young.items()}
    fresh = tuple(replace(row, tasks=counts[row.node]) for row in attempt.placed if counts.get(row.node))
    rest = tuple(replace(row, tasks=row.tasks - counts.get(row.node, 0)) for row in attempt.placed)
    rest = tuple(row for row in rest if row.tasks)
    if rest:
        yield replace(attempt, placed=rest, safe_until=attempt.since) if fresh else attempt
    if fresh:
        first = min(time for times in young.values() for time in times)
        yield replace(attempt, id=attempt.id + YOUNG, placed=fresh, safe_until=first)


class _Elastic:
    """What of elastic jobs is not in one wave: their groups as asked for, and the surplus beside the minimum."""

    def __init__(self, waves: Sequence[Held], holding: Mapping[int, Sequence[Holding]]) -> None:
        """Read the groups of the elastic jobs among the waves that hold, oldest first."""
        elastic = [wave for wave in waves if wave.shape == JobShape.ELASTIC and holding.get(wave.id)]
        bases = {wave.id: wave for wave in elastic if wave.base is None}
        self.grown = {wave.id for wave in waves if wave.base in bases and not bases[wave.base].leaves}
        self._soft: dict[int, list[Holding]] = defaultdict(list)
        for wave in waves:
            if wave.id in self.grown and wave.base is not None:
                self._soft[wave.base] += holding.get(wave.id, ())
        self._leaving = {wave.base for wave in waves if wave.id in self.grown and wave.leaves}
        self._asked = _groups({base.job_class for base in bases.values()})

    def with_surplus(self, attempt: Attempt, wave: Held, holding: Sequence[Holding], now: datetime) -> Attempt:
        """Return a minimum's attempt with its groups as asked for, its surplus, and when it may grow again."""
        groups = self._asked[wave.job_class]
        soft = self._soft[wave.id]
        leaving = wave.id in self._leaving or any(row.leaves for row in soft)
        whole = sum(row.tasks for row in holding) == sum(group.tasks for group in groups)
        starting = wave.state != WaveState.RUNNING or any(row.starting for row in holding)
        # Surplus that starts before its minimum runs would only wait for it; one whose tasks end is about to be done.
        never = starting or leaving or not whole
        grows_from = 0 if wave.grows_from is None else wave.grows_from // 1000
        return replace(
            attempt,
            groups=groups,
            flavors=tuple(wave.flavors),
            placed=tuple(Placed(group=row.group, node=row.node, tasks=row.tasks) for row in holding),
            surplus=tuple(
                Placed(group=row.group, node=row.node, tasks=1)
                for row in soft
                if not row.leaves
                for _ in range(row.tasks)
            ),
            grows_from=max(grows_from, milliseconds(now) + 1) if never else grows_from,
        )


def _groups(classes: set[int]) -> dict[int, tuple[Group, ...]]:
    """Return what classes ask for, by id; what a job wishes as a whole binds each group."""
    asks = JobClass.objects.filter(id__in=classes).values_list("id", "ask") if classes else ()
    return {pk: bound_groups(ask_from_json(stored)) for pk, stored in asks}


def _parts(wave: Held, holding: Sequence[Holding], now: datetime, *, elastic: _Elastic) -> list[Attempt]:
    # Surplus without its minimum has nothing left to do.
    all_leave = wave.leaves or (wave.base is not None and wave.id not in elastic.grown)
    parts: dict[tuple[bool, bool], list[Holding]] = defaultdict(list)
    for row in holding:
        leaves = row.leaves or all_leave
        parts[leaves, leaves and row.claimed].append(row)
    found = []
    for leaves, claimed in sorted(parts):
        rows = parts[leaves, claimed]
        attempt = _attempt(wave, rows, leaves=leaves, claimed=claimed)
        if leaves or attempt.shape is not JobShape.ELASTIC:
            found.append(attempt)
        elif wave.base is None:
            found.append(elastic.with_surplus(attempt, wave, rows, now))
    return found


def _attempt(wave: Held, holding: Sequence[Holding], *, leaves: bool, claimed: bool) -> Attempt:
    """Number the groups that still hold from 0: an attempt's groups are only counted, never named."""
    kinds = sorted({row.kind for row in holding})
    index = {kind: number for number, kind in enumerate(kinds)}
    counts: dict[int, int] = defaultdict(int)
    for row in holding:
        counts[index[row.kind]] += row.tasks
    shape = JobShape(wave.shape)
    return Attempt(
        id=-2 * wave.id - claimed if leaves else wave.id,
        number=wave.id,
        job=wave.job,
        team=wave.team,
        user=wave.user,
        groups=tuple(
            Group(tasks=counts[number], units=units, cpu=cpu, memory=memory, flavors=(flavor,))
            for number, (_, flavor, units, cpu, memory) in enumerate(kinds)
        ),
        flavors=tuple(flavor for _, flavor, *_ in kinds),
        placed=tuple(Placed(group=index[row.kind], node=row.node, tasks=row.tasks) for row in holding),
        since=(wave.started_at or wave.admitted_at) // 1000,
        borrow=wave.borrow,
        preemptible=wave.preemptible,
        leaving=leaves,
        queue=wave.queue,
        ends_by=_gone_by(wave, holding) if leaves else _ends_by(wave),
        shape=shape,
        priority=wave.priority,
        safe_until=_safe_until(wave),
        saved=saved(shape, holding),
        evictions=wave.evictions,
        # Pods always take some time to go: units are free when they have gone, not when they are told.
        grace=max(1, wave.grace // 1000),
        claimed=claimed,
    )


def saved(shape: JobShape, holding: Sequence[Holding]) -> Milliseconds | None:
    """Return from when on work is not saved: any task's checkpoint is a gang's, other tasks save each its own."""
    if shape is JobShape.INDEPENDENT:
        times = [row.unsaved for row in holding]
        known = [time for time in times if time is not None] if any(row.saved for row in holding) else []
        return None if len(known) < len(times) or not known else min(known) // 1000
    last = max((row.saved for row in holding if row.saved is not None), default=None)
    return None if last is None else last // 1000


def _safe_until(wave: Held) -> Milliseconds:
    """Return when a wave's least run time is over; of one that has not started yet nothing has passed."""
    if not wave.min_runtime:
        return (wave.started_at or wave.admitted_at) // 1000
    return NOT_YET if wave.started_at is None else (wave.started_at + wave.min_runtime) // 1000


def _gone_by(wave: Held, holding: Sequence[Holding]) -> Milliseconds | None:
    """Return until when what leaves will have gone; None where it has outstayed that."""
    if wave.leaves:
        return None if wave.deadline_at is None else wave.deadline_at // 1000
    told = max((row.told for row in holding if row.told is not None), default=None)
    return None if told is None else (told + wave.grace + _SLACK) // 1000


def _ends_by(wave: Held) -> Milliseconds | None:
    """Return the wave's sure end: what is left of its time limit, and its grace."""
    left = wave.time_left
    return None if left is None else ((wave.started_at or wave.start_ends_at) + left + wave.grace) // 1000
