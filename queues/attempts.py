"""Waves that hold units as the rules see them: what still holds of each, split into what runs and what leaves.

An elastic job's running waves are one attempt: its minimum, and beside it the surplus.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection
from django.db.models.expressions import RawSQL

from queues.admission.shapes import bound_groups
from queues.admission.world import Attempt, Group, JobShape, Milliseconds, Placed
from queues.classes import ask_from_json
from queues.limits import start_ends_at, time_left
from queues.models import JobClass, Task, Wave
from queues.states import HOLDING, TASK_HOLDING, TaskState, WaveState
from queues.steps import GOING_SLACK
from queues.waiting import milliseconds, span

YOUNG = 1 << 52
"""Added to a wave's id for those of its tasks that are too young to be recalled."""
Kind = tuple[int, int, int, int, int]
"""Group, flavor, units, CPU and memory: tasks that the rules cannot tell apart."""


class Holding(NamedTuple):
    """Equal tasks of one wave and group on one node.

    ``starting`` counts those that do not run yet, ``told`` is when the last of them had to leave for a claim, ``saved``
    when the last reported a checkpoint, and ``unsaved`` from when on work of one of them is not saved: its start, or
    its own checkpoint.
    """

    wave: int
    group: int
    node: int
    flavor: int
    units: int
    cpu: int
    memory: int
    leaves: bool
    claimed: bool
    tasks: int
    starting: int
    told: datetime | None
    saved: datetime | None
    unsaved: datetime | None

    @property
    def kind(self) -> Kind:
        """Return what its tasks have in common."""
        return (self.group, self.flavor, self.units, self.cpu, self.memory)


class Holdings(NamedTuple):
    """What holds as of a snapshot, by wave; never changed but for ``parts``, only replaced.

    ``waves`` have job and queue, which are only read. ``elastic`` are those of elastic jobs, ``guarded`` the queues of
    independent jobs that ask for a least run time (or did). ``parts`` are attempts that do not depend on the time.
    """

    waves: dict[int, Wave]
    rows: dict[int, tuple[Holding, ...]]
    elastic: frozenset[int]
    guarded: dict[int, timedelta]
    parts: dict[int, tuple[Attempt, ...]]


def holdings(before: Holdings | None = None, waves: Collection[int] = (), jobs: Collection[int] = ()) -> Holdings:
    """Return what holds: all of it anew, or after ``before`` that of the ``waves`` and ``jobs`` that changed."""
    if before is None:
        found, rows = _read_waves(None), _read_rows(None)
        kept = Holdings({}, {}, frozenset(), {}, {})
    else:
        ids = {*waves, *(wave.id for wave in before.waves.values() if wave.job_id in jobs)} if jobs else {*waves}
        if not ids:
            return before
        found, rows = _read_waves(ids), _read_rows(ids)
        kept = Holdings(
            {pk: wave for pk, wave in before.waves.items() if pk not in ids},
            {pk: held for pk, held in before.rows.items() if pk not in ids},
            before.elastic - ids,
            before.guarded,
            {pk: parts for pk, parts in before.parts.items() if pk not in ids},
        )
    alone = (wave.job.queue for wave in found.values() if wave.job.shape == JobShape.INDEPENDENT)
    return Holdings(
        dict(sorted({**kept.waves, **found}.items())),
        {**kept.rows, **{pk: rows[pk] for pk in found if pk in rows}},
        kept.elastic | {pk for pk, wave in found.items() if wave.job.shape == JobShape.ELASTIC},
        kept.guarded | {queue.id: queue.min_runtime for queue in alone if queue.min_runtime},
        kept.parts,
    )


def attempts(found: Holdings, now: datetime) -> tuple[Attempt, ...]:
    """Return what holds as attempts, by wave; reads only where there are elastic jobs or least run times.

    What runs of a wave has the wave's id; what leaves is an attempt beside it with an id below zero.
    """
    elastic = _Elastic([wave for pk, wave in found.waves.items() if pk in found.elastic], found.rows)
    young = _young(found.guarded, now)
    made: list[Attempt] = []
    for pk, wave in found.waves.items():
        parts = found.parts.get(pk)
        if parts is None:
            parts = tuple(
                part
                for attempt in _parts(wave, found.rows.get(pk, ()), now, elastic=elastic)
                for part in _by_age(attempt, young.get(pk, {}))
            )
            if wave.started_at is not None and pk not in found.elastic and pk not in young:
                found.parts[pk] = parts
        made += parts
    return tuple(made)


def _young(limits: Mapping[int, timedelta], now: datetime) -> dict[int, dict[int, list[Milliseconds]]]:
    """Return when each task of an independent job that is too young to be recalled is old enough, by wave and node.

    ``limits`` are the least run times of queues. Most ask for none: then nothing is read.
    """
    found: dict[int, dict[int, list[Milliseconds]]] = defaultdict(lambda: defaultdict(list))
    tasks = Task.objects.filter(state__in=[TaskState.PENDING, TaskState.RUNNING], wave__job__queue__in=list(limits))
    tasks = tasks.filter(wave__job__shape=JobShape.INDEPENDENT).exclude(wave__state=WaveState.EVICTING)
    rows = tasks.order_by("id").values_list("wave_id", "node_id", "started_at", "wave__job__queue")
    for wave, node, started, queue in rows if limits else ():
        # Of what has not started yet no minimum has passed.
        until = (started or now) + limits[queue]
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


def _read_waves(ids: Collection[int] | None) -> dict[int, Wave]:
    """Return the waves that hold (None: all, else of these), with job and queue."""
    waves = Wave.objects.filter(state__in=sorted(HOLDING)).select_related("job__queue")
    if ids is not None:
        waves = waves.filter(id__in=RawSQL("SELECT unnest(%s::bigint[])", [[*ids]]))
    return {wave.id: wave for wave in waves.order_by("id").defer("job__spec", "job__labels")}


_ROWS = """
SELECT task.wave_id, task."group", task.node_id, task.flavor_id, task.units, task.cpu_milli, task.memory,
    task.state = 'leaving', eviction.claimant_id IS NOT NULL,
    count(*), count(*) FILTER (WHERE task.state = 'pending'), max(eviction.at), max(task.saved_at),
    min(COALESCE(task.saved_at, task.started_at))
FROM queues_task task LEFT JOIN queues_eviction eviction ON eviction.id = task.eviction_id
WHERE task.state = ANY(%s) AND (%s::bigint[] IS NULL OR task.wave_id = ANY(%s::bigint[]))
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
"""


def _read_rows(ids: Collection[int] | None) -> dict[int, tuple[Holding, ...]]:
    """Return the tasks that hold (None: all, else of these waves), equal ones counted, sorted."""
    wanted = None if ids is None else [*ids]
    found: dict[int, list[Holding]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, [sorted(TASK_HOLDING), wanted, wanted])
        for row in cursor.fetchall():
            found[row[0]].append(Holding(*row))
    return {wave: tuple(sorted(rows, key=_order)) for wave, rows in found.items()}


def _order(row: Holding) -> tuple[int, ...]:
    return (row.group, row.node, row.units, row.cpu, row.memory, row.flavor, row.leaves, row.claimed)


class _Elastic:
    """What of elastic jobs is not in one wave: their groups as asked for, and the surplus beside the minimum."""

    def __init__(self, waves: Sequence[Wave], holding: Mapping[int, Sequence[Holding]]) -> None:
        """Read the groups of the elastic jobs among the waves that hold, oldest first."""
        elastic = [wave for wave in waves if wave.job.shape == JobShape.ELASTIC and holding.get(wave.id)]
        bases = {wave.id: wave for wave in elastic if wave.base_id is None}
        self.grown = {wave.id for wave in waves if wave.base_id in bases and not _leaves(bases[wave.base_id])}
        self._soft: dict[int, list[Holding]] = defaultdict(list)
        for wave in waves:
            if wave.id in self.grown and wave.base_id is not None:
                self._soft[wave.base_id] += holding.get(wave.id, ())
        self._leaving = {wave.base_id for wave in waves if wave.id in self.grown and _leaves(wave)}
        self._asked = _groups({base.job.job_class_id for base in bases.values()})

    def with_surplus(self, attempt: Attempt, wave: Wave, holding: Sequence[Holding], now: datetime) -> Attempt:
        """Return a minimum's attempt with its groups as asked for, its surplus, and when it may grow again."""
        groups = self._asked[wave.job.job_class_id]
        soft = self._soft[wave.id]
        leaving = wave.id in self._leaving or any(row.leaves for row in soft)
        whole = sum(row.tasks for row in holding) == sum(group.tasks for group in groups)
        starting = wave.state != WaveState.RUNNING or any(row.starting for row in holding)
        # Surplus that starts before its minimum runs would only wait for it; one whose tasks end is about to be done.
        never = starting or leaving or not whole
        grows_from = 0 if wave.grows_from is None else milliseconds(wave.grows_from)
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


def _leaves(wave: Wave) -> bool:
    return wave.state == WaveState.EVICTING


def _parts(wave: Wave, holding: Sequence[Holding], now: datetime, *, elastic: _Elastic) -> list[Attempt]:
    # Surplus without its minimum has nothing left to do.
    all_leave = _leaves(wave) or (wave.surplus and wave.id not in elastic.grown)
    parts: dict[tuple[bool, bool], list[Holding]] = defaultdict(list)
    for row in holding:
        leaves = row.leaves or all_leave
        parts[leaves, leaves and row.claimed].append(row)
    found = []
    for leaves, claimed in sorted(parts):
        rows = parts[leaves, claimed]
        attempt = _attempt(wave, rows, now, leaves=leaves, claimed=claimed)
        if leaves or attempt.shape is not JobShape.ELASTIC:
            found.append(attempt)
        elif not wave.surplus:
            found.append(elastic.with_surplus(attempt, wave, rows, now))
    return found


def _attempt(wave: Wave, holding: Sequence[Holding], now: datetime, *, leaves: bool, claimed: bool) -> Attempt:
    """Number the groups that still hold from 0: an attempt's groups are only counted, never named."""
    kinds = sorted({row.kind for row in holding})
    index = {kind: number for number, kind in enumerate(kinds)}
    counts: dict[int, int] = defaultdict(int)
    for row in holding:
        counts[index[row.kind]] += row.tasks
    job = wave.job
    started = wave.started_at or wave.admitted_at
    return Attempt(
        id=-2 * wave.id - claimed if leaves else wave.id,
        number=wave.id,
        job=job.id,
        team=job.team_id,
        user=job.user_id,
        groups=tuple(
            Group(tasks=counts[number], units=units, cpu=cpu, memory=memory, flavors=(flavor,))
            for number, (_, flavor, units, cpu, memory) in enumerate(kinds)
        ),
        flavors=tuple(flavor for _, flavor, *_ in kinds),
        placed=tuple(Placed(group=index[row.kind], node=row.node, tasks=row.tasks) for row in holding),
        since=milliseconds(started),
        borrow=job.borrow,
        preemptible=job.preemptible,
        leaving=leaves,
        queue=job.queue_id,
        ends_by=_gone_by(wave, holding) if leaves else _ends_by(wave),
        shape=JobShape(job.shape),
        priority=wave.priority,
        # Of what has not started yet no minimum has passed.
        safe_until=milliseconds((wave.started_at or now) + job.queue.min_runtime),
        saved=saved(JobShape(job.shape), holding),
        evictions=job.evictions,
        # Pods always take some time to go: units are free when they have gone, not when they are told.
        grace=max(1, span(job.grace)),
        claimed=claimed,
    )


def saved(shape: JobShape, holding: Sequence[Holding]) -> Milliseconds | None:
    """Return from when on work is not saved: any task's checkpoint is a gang's, other tasks save each its own."""
    if shape is JobShape.INDEPENDENT:
        times = [row.unsaved for row in holding]
        known = [time for time in times if time is not None] if any(row.saved for row in holding) else []
        return None if len(known) < len(times) or not known else milliseconds(min(known))
    last = max((row.saved for row in holding if row.saved is not None), default=None)
    return None if last is None else milliseconds(last)


def _gone_by(wave: Wave, holding: Sequence[Holding]) -> Milliseconds | None:
    """Return until when what leaves will have gone; None where it has outstayed that."""
    if wave.state == WaveState.EVICTING:
        return None if wave.deadline_at is None else milliseconds(wave.deadline_at)
    told = max((row.told for row in holding if row.told is not None), default=None)
    return None if told is None else milliseconds(told + wave.job.grace + GOING_SLACK)


def _ends_by(wave: Wave) -> Milliseconds | None:
    """Return the wave's sure end: what is left of its time limit, and its grace."""
    left = time_left(wave.job)
    return None if left is None else milliseconds((wave.started_at or start_ends_at(wave)) + left + wave.job.grace)
