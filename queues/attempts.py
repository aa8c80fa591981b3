"""Waves that hold units as the rules see them: what still holds of each, split into what runs and what leaves."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.db.models import BooleanField, Count, ExpressionWrapper, Max, Q
from django.db.models.expressions import Combinable

from queues.admission.world import Attempt, Group, JobShape, Milliseconds, Placed
from queues.limits import start_ends_at, time_left
from queues.models import Task, Wave
from queues.states import HOLDING, TASK_HOLDING, TaskState, WaveState
from queues.steps import GOING_SLACK
from queues.waiting import milliseconds, span

COLUMNS = ("wave_id", "group", "node_id", "flavor_id", "units", "cpu_milli", "memory", "leaves", "claimed")
Kind = tuple[int, int, int, int, int]
"""Group, flavor, units, CPU and memory: tasks that the rules cannot tell apart."""


class Holding(NamedTuple):
    """Equal tasks of one wave and group on one node; ``told`` is when the last of them had to leave for a claim."""

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
    told: datetime | None

    @property
    def kind(self) -> Kind:
        """Return what its tasks have in common."""
        return (self.group, self.flavor, self.units, self.cpu, self.memory)


def attempts(now: datetime) -> tuple[Attempt, ...]:
    """Return the waves that hold, in two queries.

    What runs of a wave has the wave's id; what leaves is an attempt beside it with an id below zero.
    """
    holding: dict[int, list[Holding]] = defaultdict(list)
    tasks = Task.objects.filter(state__in=TASK_HOLDING).order_by().annotate(leaves=_is(state=TaskState.LEAVING))
    tasks = tasks.annotate(claimed=_is(eviction__isnull=False))
    for row in tasks.values_list(*COLUMNS).annotate(Count("id"), Max("eviction__at")):
        holding[row[0]].append(Holding(*row))
    waves = Wave.objects.filter(state__in=HOLDING).select_related("job__queue").order_by("id")
    waves = waves.defer("job__spec", "job__labels")
    return tuple(attempt for wave in waves for attempt in _parts(wave, sorted(holding[wave.id], key=_order), now))


def _is(**facts: object) -> Combinable:
    return ExpressionWrapper(Q(**facts), BooleanField())


def _order(row: Holding) -> tuple[int, int, int]:
    return (row.group, row.node, row.units)


def _parts(wave: Wave, holding: Sequence[Holding], now: datetime) -> list[Attempt]:
    all_leave = wave.state == WaveState.EVICTING
    parts: dict[tuple[bool, bool], list[Holding]] = defaultdict(list)
    for row in holding:
        leaves = row.leaves or all_leave
        parts[leaves, leaves and row.claimed].append(row)
    return [
        _attempt(wave, parts[leaves, claimed], now, leaves=leaves, claimed=claimed) for leaves, claimed in sorted(parts)
    ]


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
        evictions=job.evictions,
        # Pods always take some time to go: units are free when they have gone, not when they are told.
        grace=max(1, span(job.grace)),
        claimed=claimed,
    )


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
