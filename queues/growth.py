"""Elastic jobs as rows: the surplus that they get, and which of it goes; inside apply's transaction, jobs locked.

Surplus tasks of one decision are a wave of their own beside the wave of the minimum. They come last and go first.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import NamedTuple
from uuid import UUID

from django.db.models import Max
from uuid6 import uuid7

from queues.admission.outcome import Growth, Stalled
from queues.admission.world import Attempt, JobShape, Node, Placed, World
from queues.models import Job, JobEvent, Task, Wave
from queues.models.wave import Wish
from queues.states import TASK_HOLDING, JobState, TaskState, WaveState
from tenants.models import Installation

ELASTIC_PAUSE = timedelta(minutes=10)


class _Grown(NamedTuple):
    """An elastic job that grows now: its minimum's wave, and where the new tasks go."""

    base: Wave
    attempt: Attempt
    placed: tuple[Placed, ...]


def grow(growth: Sequence[Growth], world: World, jobs: Mapping[int, Job], *, now: datetime, cycle: int) -> list[Task]:
    """Start surplus tasks of the jobs whose minimum still runs as the decision saw it; return them."""
    grown = list(_standing(growth, world, jobs)) if growth else []
    if not grown:
        return []
    nodes = {node.id: node for node in world.nodes}
    numbers = dict(
        Wave.objects.filter(job__in=[row.base.job_id for row in grown])
        .values_list("job_id")
        .annotate(Max("number"))
        .order_by("job_id")
    )
    waves = Wave.objects.bulk_create(_wave(row, numbers[row.base.job_id] + 1, now=now, cycle=cycle) for row in grown)
    taken = _taken_indices(row.base.job_id for row in grown)
    tasks = [task for wave, row in zip(waves, grown, strict=True) for task in _tasks(wave, row, taken[row.base.job_id])]
    JobEvent.objects.bulk_create(_event(wave, row, nodes, now) for wave, row in zip(waves, grown, strict=True))
    return Task.objects.bulk_create(tasks)


def tell_stalled(stalled: Iterable[Stalled], world: World) -> None:
    """Keep on the minimum's wave what stops a job from growing; rows that stay as they are are not written."""
    said = {row.attempt: row.code.value for row in stalled}
    elastic = [row.id for row in world.attempts if row.shape is JobShape.ELASTIC and row.id > 0]
    if not elastic:
        return
    bases = Wave.objects.filter(id__in=elastic, base__isnull=True).order_by("id")
    changed = [wave for wave in bases.only("id", "stalled") if wave.stalled != said.get(wave.id, "")]
    for wave in changed:
        wave.stalled = said.get(wave.id, "")
    Wave.objects.bulk_update(changed, ["stalled"])


def pause() -> timedelta:
    """Return how long a job does not grow after surplus of it has gone."""
    policy = Installation.objects.filter(id=1).only("elastic_pause").first()
    return ELASTIC_PAUSE if policy is None else policy.elastic_pause


def stop_growing(bases: Iterable[int], *, now: datetime) -> None:
    """Let elastic jobs, by the wave of their minimum, not grow for a while."""
    Wave.objects.filter(id__in=list(bases), base__isnull=True).update(grows_from=now + pause())


class Soft:
    """The surplus tasks that hold and do not leave yet, of some jobs: each is given away once, the newest first."""

    def __init__(self, jobs: Iterable[int]) -> None:
        """Read them; their jobs are locked."""
        held = Task.objects.filter(wave__job__in=list(jobs), wave__base__isnull=False)
        held = held.filter(state__in=[TaskState.PENDING, TaskState.RUNNING]).exclude(wave__state=WaveState.EVICTING)
        self._left: dict[tuple[int, int, int], list[Task]] = defaultdict(list)
        self._stay: dict[int, int] = defaultdict(int)
        for task in held.select_related("wave").order_by("id"):
            self._left[task.wave.base_id or 0, task.group, task.node_id].append(task)
            self._stay[task.wave_id] += 1

    def take(self, base: int, placed: Iterable[Placed]) -> dict[int, list[Task]]:
        """Return tasks on these places by wave; what has ended meanwhile is not there."""
        found: dict[int, list[Task]] = defaultdict(list)
        for row in placed:
            left = self._left[base, row.group, row.node]
            for task in [left.pop() for _ in range(min(row.tasks, len(left)))]:
                found[task.wave_id].append(task)
                self._stay[task.wave_id] -= 1
        return found

    def is_whole(self, wave: int) -> bool:
        """Whether nothing of a wave stays."""
        return not self._stay[wave]


def _standing(growth: Iterable[Growth], world: World, jobs: Mapping[int, Job]) -> Iterator[_Grown]:
    """Yield the growth of jobs that still run the attempt that the decision saw."""
    attempts = {attempt.id: attempt for attempt in world.attempts}
    rows = {row.attempt: row.placed for row in growth}
    bases = Wave.objects.filter(id__in=list(rows), state=WaveState.RUNNING).select_related("job__queue").order_by("id")
    for base in bases.defer("job__spec", "job__labels"):
        if jobs[base.job_id].state == JobState.RUNNING:
            yield _Grown(base, attempts[base.id], rows[base.id])


def _wave(row: _Grown, number: int, *, now: datetime, cycle: int) -> Wave:
    base = row.base
    return Wave(
        uid=UUID(int=uuid7().int),
        job_id=base.job_id,
        cluster_id=base.cluster_id,
        base=base,
        number=number,
        attempt=base.attempt,
        flavors=base.flavors,
        cycle=cycle,
        priority=base.priority,
        admitted_at=now,
        deadline_at=now + base.job.queue.start_limit,
        wish=Wish.LAUNCH,
        wish_due_at=now,
    )


def _taken_indices(jobs: Iterable[int]) -> dict[int, set[int]]:
    """Return the indices of each job's tasks that hold: none is given twice at a time."""
    found: dict[int, set[int]] = defaultdict(set)
    held = Task.objects.filter(wave__job__in=list(jobs), state__in=TASK_HOLDING)
    for job, index in held.order_by("id").values_list("wave__job", "index"):
        found[job].add(index)
    return found


def first_indices(groups: Sequence[tuple[int, int | None]]) -> list[int]:
    """Return the index of each group's first task, from how many start together and how many there may be."""
    firsts, total = [], 0
    for tasks, most in groups:
        firsts.append(total)
        total += most or tasks
    return firsts


def _tasks(wave: Wave, row: _Grown, taken: set[int]) -> Iterator[Task]:
    groups = row.attempt.groups
    firsts = first_indices([(group.tasks, group.most) for group in groups])
    inside = [count() for _ in groups]
    for placed in row.placed:
        group = groups[placed.group]
        for _ in range(placed.tasks):
            index = next(place for place in count(firsts[placed.group] + group.tasks) if place not in taken)
            taken.add(index)
            yield Task(
                wave=wave,
                group=placed.group,
                index=index,
                pod_index=next(inside[placed.group]),
                node_id=placed.node,
                flavor_id=row.attempt.flavors[placed.group],
                units=group.units,
                cpu_milli=group.cpu,
                memory=group.memory,
            )


def _event(wave: Wave, row: _Grown, nodes: Mapping[int, Node], now: datetime) -> JobEvent:
    places: dict[str, int] = defaultdict(int)
    for placed in row.placed:
        places[nodes[placed.node].name] += placed.tasks
    more = sum(places.values())
    has = more + sum(placed.tasks for placed in row.attempt.placed + row.attempt.surplus)
    most = sum(group.most or group.tasks for group in row.attempt.groups)
    return JobEvent(
        job_id=row.base.job_id,
        at=now,
        type="grew",
        summary=(
            f"Grew by {more} task{'s' * (more != 1)} to {has} of at most {most}, "
            f"on {len(places)} node{'s' * (len(places) != 1)}; whoever needs these GPUs gets them back"
        ),
        details={"cycle": wave.cycle, "wave": wave.number, "tasks": has, "more": more, "nodes": places},
    )
