"""A decision as rows: one transaction of guarded updates, whose statements do not grow with the admissions.

A job that has changed since the snapshot (cancelled, held) loses its admission; the others stand.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from uuid import UUID

from django.db import connection, transaction
from uuid6 import uuid7

from queues import promises
from queues import said as said_verdicts
from queues.admission.decide import Admission, Outcome
from queues.admission.order import effective_priority
from queues.admission.world import Aging, Ask, Group, JobShape, Node, World
from queues.evictions import evict
from queues.growth import first_indices, grow, tell_stalled
from queues.models import Decision, Job, JobEvent, Task, Wave
from queues.models.wave import Wish
from queues.waiting import milliseconds


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
        jobs = _lock(outcome, world)
        admitted = _admit(outcome.admissions, asks, world.policy.aging, now)
        stood = tuple(admission for admission in outcome.admissions if admission.job in admitted)
        tasks = _start(stood, admitted, world, now=now, cycle=decision.id)
        left = evict(outcome.evictions, world, jobs, now=now)
        grown = grow(outcome.growth, world, jobs, now=now, cycle=decision.id)
        tell_stalled(outcome.stalled, world)
        waiting = {job.id for job in jobs.values() if job.ready}
        promises.keep(outcome, asks, waiting, now=now)
        said = [row for row in outcome.verdicts if row.job is None or row.job in waiting]
        verdicts = said_verdicts.keep(said, now=now, cycle=decision.id)
        decision.admissions, decision.tasks, decision.units = len(stood), len(tasks), sum(task.units for task in tasks)
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


def _lock(outcome: Outcome, world: World) -> dict[int, Job]:
    """Lock all jobs that the decision moves or promises something, in one order, and return them as they are now."""
    victims = {attempt.id: attempt.job for attempt in world.attempts}
    ids = {row.job for row in outcome.admissions} | {row.job for row in outcome.claims}
    ids |= {victims[row.attempt] for row in outcome.growth}
    ids |= {row.job for row in outcome.holds} | {job for job, _ in outcome.idle}
    ids |= {job for row in outcome.evictions for job in (row.job, victims[row.attempt])}
    ids |= {row.job for row in outcome.verdicts if row.job is not None}
    if not ids:
        return {}
    rows = Job.objects.filter(id__in=ids).select_related("team").defer("spec").order_by("id")
    return {job.id: job for job in rows.select_for_update(of=("self",), no_key=True)}


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


def _start(
    admissions: Sequence[Admission], admitted: Mapping[int, _Admitted], world: World, *, now: datetime, cycle: int
) -> list[Task]:
    """Write waves with their tasks and events; the outbox asks for their launch at once."""
    if not admissions:
        return []
    asks = {job_class.id: job_class.ask for job_class in world.classes}
    nodes = {node.id: node for node in world.nodes}
    waves = Wave.objects.bulk_create(_waves(admissions, admitted, nodes, now=now, cycle=cycle))
    alone = [admission for admission in admissions if asks[admission.job_class].shape is JobShape.INDEPENDENT]
    indices = _open_indices(alone)
    started = list(zip(waves, admissions, strict=True))
    tasks = [
        task
        for wave, admission in started
        for task in _tasks(wave, admission, asks[admission.job_class].groups, indices.get(admission.job))
    ]
    JobEvent.objects.bulk_create(_event(wave, admission, nodes, now) for wave, admission in started)
    return Task.objects.bulk_create(tasks)


def _waves(
    admissions: Sequence[Admission],
    admitted: Mapping[int, _Admitted],
    nodes: Mapping[int, Node],
    *,
    now: datetime,
    cycle: int,
) -> Iterator[Wave]:
    numbers = {job: count(row.last_wave + 1) for job, row in admitted.items()}
    for admission in admissions:
        row = admitted[admission.job]
        yield Wave(
            uid=UUID(int=uuid7().int),
            job_id=admission.job,
            cluster_id=nodes[admission.placed[0].node].cluster,
            number=next(numbers[admission.job]),
            attempt=row.attempt,
            flavors=list(admission.flavors),
            borrowed=admission.borrowed,
            cycle=cycle,
            priority=row.priority,
            admitted_at=now,
            deadline_at=now + row.start_limit,
            wish=Wish.LAUNCH,
            wish_due_at=now,
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


def _tasks(wave: Wave, admission: Admission, groups: Sequence[Group], indices: Iterator[int] | None) -> Iterator[Task]:
    """Yield the wave's tasks: of a gang all, numbered over its groups; else one for each of ``indices``."""
    first = first_indices([(group.tasks, group.most) for group in groups])
    inside = [count() for _ in groups]
    for placed in admission.placed:
        group = groups[placed.group]
        for _ in range(placed.tasks):
            pod_index = next(inside[placed.group])
            yield Task(
                wave=wave,
                group=placed.group,
                index=first[placed.group] + pod_index if indices is None else next(indices),
                pod_index=pod_index,
                node_id=placed.node,
                flavor_id=admission.flavors[placed.group],
                units=group.units,
                cpu_milli=group.cpu,
                memory=group.memory,
            )


def _event(wave: Wave, admission: Admission, nodes: Mapping[int, Node], now: datetime) -> JobEvent:
    places: dict[str, int] = defaultdict(int)
    for placed in admission.placed:
        places[nodes[placed.node].name] += placed.tasks
    tasks = sum(places.values())
    source = "borrowed" if admission.borrowed else "guaranteed"
    return JobEvent(
        job_id=admission.job,
        at=now,
        type="admitted",
        summary=f"Admitted {tasks} task{'s' * (tasks != 1)} on {len(places)} node{'s' * (len(places) != 1)}, {source}",
        details={"cycle": wave.cycle, "wave": wave.number, "borrowed": admission.borrowed, "nodes": places},
    )
