"""A decision as rows: one transaction of guarded updates, whose statements do not grow with the admissions.

A job that has changed since the snapshot (cancelled, held) loses its admission; the others stand.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import NamedTuple
from uuid import UUID

from django.db import connection, transaction
from uuid6 import uuid7

from queues import bulk, promises, takeovers
from queues import said as said_verdicts
from queues.admission.decide import Admission, Outcome
from queues.admission.order import effective_priority
from queues.admission.world import Aging, Ask, Group, JobShape, Node, World
from queues.evictions import evict
from queues.growth import first_indices, grow, tell_stalled
from queues.models import Decision, Job, JobEvent, Task, Wave
from queues.models.wave import Wish
from queues.waiting import milliseconds

WAVE = (
    *("id", "uid", "job_id", "cluster_id", "number", "attempt", "flavors"),
    *("borrowed", "cycle", "priority", "admitted_at", "deadline_at", "wish", "wish_due_at"),
)
TASK = ("wave_id", "group", "index", "pod_index", "node_id", "flavor_id", "units", "cpu_milli", "memory")
EVENT = ("job_id", "at", "type", "summary", "details")


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became rows: the decision, the admissions that stood, how many verdicts changed, which other jobs moved."""

    decision: Decision
    admissions: tuple[Admission, ...]
    verdicts: int
    moved: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Admitted:
    """A job that the guard let through."""

    attempt: int
    last_wave: int
    start_limit: timedelta
    priority: int


def apply(outcome: Outcome, world: World, *, now: datetime, digest: str) -> Applied:
    """Write what was decided from ``world`` at ``now``."""
    asks = {job_class.id: job_class.ask for job_class in world.classes}
    with transaction.atomic():
        decision = Decision.objects.create(
            at=now, digest=digest, classes=len(world.classes), admissions=0, tasks=0, units=0
        )
        waiting, jobs = _lock(outcome, world)
        admitted = _admit(outcome.admissions, asks, world.policy.aging, now)
        stood = tuple(admission for admission in outcome.admissions if admission.job in admitted)
        started = _start(stood, admitted, world, now=now, cycle=decision.id)
        left = evict(outcome.evictions, world, jobs, now=now)
        takeovers.tell(outcome.takeovers, waiting | admitted.keys(), now=now)
        grown = grow(outcome.growth, world, jobs, now=now, cycle=decision.id)
        tell_stalled(outcome.stalled, world)
        promises.keep(outcome, asks, waiting, now=now)
        said = [row for row in outcome.verdicts if row.job is None or row.job in waiting]
        verdicts = said_verdicts.keep(said, _teams(world), now=now, cycle=decision.id)
        decision.admissions, decision.tasks, decision.units = len(stood), started.tasks, started.units
        counts = {
            "evicted": len(left.evicted),
            "shrunk": len(left.shrunk),
            "grown": len({task.wave_id for task in grown}),
            "claims": len(outcome.claims),
            "holds": len(outcome.holds),
        }
        decision.details = {
            "dropped": len(outcome.admissions) - len(stood),
            **{key: number for key, number in counts.items() if number},
        }
        decision.save(update_fields=["admissions", "tasks", "units", "details"])
    moved = {task.wave.job_id for task in grown}.union(left.evicted, left.shrunk)
    return Applied(decision=decision, admissions=stood, verdicts=verdicts, moved=tuple(sorted(moved)))


def _teams(world: World) -> dict[int, int]:
    teams = {queue.id: queue.team for queue in world.queues}
    return {job_class.id: teams[job_class.queue] for job_class in world.classes}


_LOCK = "SELECT id FROM queues_job WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"


def _lock(outcome: Outcome, world: World) -> tuple[set[int], dict[int, Job]]:
    """Lock all jobs that the decision moves or promises something, in one order.

    Return which of them may start now, and those that give or take units as they are.
    """
    victims = {attempt.id: attempt.job for attempt in world.attempts}
    moved = {victims[row.attempt] for row in outcome.growth}
    moved |= {job for row in outcome.evictions for job in (row.job, victims[row.attempt])}
    ids = {row.job for row in outcome.admissions} | {row.job for row in outcome.claims} | moved
    ids |= {row.job for row in outcome.holds} | {job for job, _ in outcome.idle}
    ids |= {row.job for row in outcome.verdicts if row.job is not None}
    if not ids:
        return set(), {}
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [sorted(ids)])
        cursor.execute("SELECT id FROM queues_job WHERE id = ANY(%s) AND ready", [sorted(ids)])
        waiting = {pk for (pk,) in cursor.fetchall()}
    jobs = Job.objects.filter(id__in=moved).select_related("team", "queue").defer("spec").in_bulk() if moved else {}
    return waiting, jobs


_ADMIT = """
UPDATE queues_job job SET
    state = CASE job.state WHEN 'queued' THEN 'admitted' ELSE job.state END,
    state_since = CASE job.state WHEN 'queued' THEN %(now)s ELSE job.state_since END,
    waiting_tasks = job.waiting_tasks - start.tasks,
    ready = job.waiting_tasks > start.tasks,
    not_waiting_since = CASE WHEN job.waiting_tasks > start.tasks THEN NULL ELSE %(now)s END,
    reason_code = '', reason_text = ''
FROM unnest(%(jobs)s::bigint[], %(tasks)s::integer[]) AS start(job, tasks), queues_queue queue
WHERE job.id = start.job AND queue.id = job.queue_id AND job.ready AND job.waiting_tasks >= start.tasks
RETURNING job.id, job.attempt, queue.start_limit, job.priority, job.wait_from,
    (SELECT COALESCE(max(number), 0) FROM queues_wave wave WHERE wave.job_id = job.id)
"""


def _admit(
    admissions: Sequence[Admission], asks: Mapping[int, Ask], aging: Aging, now: datetime
) -> dict[int, _Admitted]:
    """Move the jobs that still wait as the decision saw them; return those."""
    waiting: dict[int, int] = defaultdict(int)
    for admission in admissions:
        independent = asks[admission.job_class].shape is JobShape.INDEPENDENT
        waiting[admission.job] += admission.tasks if independent else 1
    if not waiting:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_ADMIT, {"now": now, "jobs": list(waiting), "tasks": list(waiting.values())})
        return {
            job: _Admitted(
                attempt=attempt,
                last_wave=last,
                start_limit=limit,
                priority=effective_priority(aging, priority, milliseconds(wait_from), milliseconds(now)),
            )
            for job, attempt, limit, priority, wait_from, last in cursor.fetchall()
        }


class _Started(NamedTuple):
    """How many tasks start, with how many units."""

    tasks: int = 0
    units: int = 0


def _start(
    admissions: Sequence[Admission], admitted: Mapping[int, _Admitted], world: World, *, now: datetime, cycle: int
) -> _Started:
    """Write waves with their tasks and events; the outbox asks for their launch at once."""
    if not admissions:
        return _Started()
    asks = {job_class.id: job_class.ask for job_class in world.classes}
    nodes = {node.id: node for node in world.nodes}
    started = list(zip(bulk.new_ids(Wave, len(admissions)), admissions, strict=True))
    numbers = {job: count(row.last_wave + 1) for job, row in admitted.items()}
    waves = [(wave, next(numbers[admission.job]), admission, admitted[admission.job]) for wave, admission in started]
    bulk.copy_in(
        Wave, WAVE, (_wave(*row, cluster=nodes[row[2].placed[0].node].cluster, now=now, cycle=cycle) for row in waves)
    )
    indices = _open_indices([row for row in admissions if asks[row.job_class].shape is JobShape.INDEPENDENT])
    tasks = [
        task
        for wave, admission in started
        for task in _tasks(wave, admission, asks[admission.job_class].groups, indices.get(admission.job))
    ]
    bulk.copy_in(Task, TASK, tasks)
    bulk.copy_in(JobEvent, EVENT, (_event(number, cycle, row, nodes, now) for _, number, row, _ in waves))
    return _Started(len(tasks), sum(task[TASK.index("units")] for task in tasks))


def _wave(
    wave: int, number: int, admission: Admission, row: _Admitted, *, cluster: int, now: datetime, cycle: int
) -> tuple[object, ...]:
    return (
        *(wave, UUID(int=uuid7().int), admission.job, cluster, number, row.attempt, list(admission.flavors)),
        *(admission.borrowed, cycle, row.priority, now, now + row.start_limit, Wish.LAUNCH.value, now),
    )


# The lowest indices of a job's tasks that may (still, or again) be started.
_OPEN_INDICES = """
SELECT start.job, free.index
FROM unnest(%(jobs)s::bigint[], %(tasks)s::integer[]) AS start(job, tasks)
JOIN queues_job job ON job.id = start.job
CROSS JOIN LATERAL (
    SELECT index
    FROM generate_series(0, (SELECT sum(tasks) FROM queues_taskgroup asked WHERE asked.job_id = job.id) - 1) AS index
    LEFT JOIN (
        SELECT task.index, count(*) FILTER (WHERE task.state = 'failed') AS failed,
            bool_or(
                task.state NOT IN ('failed', 'stopped') OR (task.state = 'failed' AND task.reason = 'TIMED_OUT')
            ) AS over
        FROM queues_task task JOIN queues_wave wave ON wave.id = task.wave_id
        WHERE wave.job_id = job.id GROUP BY task.index
    ) known USING (index)
    WHERE known.index IS NULL OR (NOT known.over AND known.failed <= job.retries)
    ORDER BY index LIMIT start.tasks
) free
ORDER BY 1, 2
"""


def _open_indices(admissions: Sequence[Admission]) -> dict[int, Iterator[int]]:
    tasks: dict[int, int] = defaultdict(int)
    for admission in admissions:
        tasks[admission.job] += admission.tasks
    if not tasks:
        return {}
    found: dict[int, list[int]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_OPEN_INDICES, {"jobs": list(tasks), "tasks": list(tasks.values())})
        for job, index in cursor.fetchall():
            found[job].append(int(index))
    return {job: iter(indices) for job, indices in found.items()}


def _tasks(
    wave: int, admission: Admission, groups: Sequence[Group], indices: Iterator[int] | None
) -> Iterator[tuple[int, ...]]:
    """Yield the wave's tasks: of a gang all, numbered over its groups; else one for each of ``indices``."""
    first = first_indices([(group.tasks, group.most) for group in groups])
    inside = [count() for _ in groups]
    for placed in admission.placed:
        group, flavor = groups[placed.group], admission.flavors[placed.group]
        for _ in range(placed.tasks):
            place = next(inside[placed.group])
            index = first[placed.group] + place if indices is None else next(indices)
            yield wave, placed.group, index, place, placed.node, flavor, group.units, group.cpu, group.memory


def _event(
    number: int, cycle: int, admission: Admission, nodes: Mapping[int, Node], now: datetime
) -> tuple[object, ...]:
    places: dict[str, int] = defaultdict(int)
    for placed in admission.placed:
        places[nodes[placed.node].name] += placed.tasks
    tasks = sum(places.values())
    source = "borrowed" if admission.borrowed else "guaranteed"
    summary = f"Admitted {tasks} task{'s' * (tasks != 1)} on {len(places)} node{'s' * (len(places) != 1)}, {source}"
    details = {"cycle": cycle, "wave": number, "borrowed": admission.borrowed, "nodes": places}
    return admission.job, now, "admitted", summary, json.dumps(details)
