"""The database as a world: one REPEATABLE READ transaction and a fixed number of queries, whatever waits."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import Count, Q, TextField
from django.db.models.functions import Cast

from queues.admission.world import (
    Aging,
    Ask,
    Attempt,
    Flavor,
    Group,
    JobClass,
    Milliseconds,
    Node,
    NodeState,
    Placed,
    Policy,
    Queue,
    QueueOrder,
    Quota,
    Team,
    World,
)
from queues.classes import ask_from_json
from queues.limits import start_ends_at, time_left
from queues.models import JobClass as StoredClass
from queues.models import Node as StoredNode
from queues.models import Queue as StoredQueue
from queues.models import Task, Wave
from queues.states import HOLDING, TASK_HOLDING, WaveState
from queues.waiting import StoredHeads, milliseconds, span
from tenants.models import Flavor as StoredFlavor
from tenants.models import Installation
from tenants.models import Quota as StoredQuota
from tenants.models import Team as StoredTeam


class Snapshot(NamedTuple):
    """What one cycle decides from."""

    world: World
    heads: StoredHeads


@contextmanager
def load(now: datetime) -> Iterator[Snapshot]:
    """Open a snapshot as of ``now``; its heads can be read until it is left. It writes nothing.

    Inside a caller's transaction it shares that one.
    """
    alone = not connection.in_atomic_block
    with transaction.atomic():
        if alone:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        heads = StoredHeads()
        yield Snapshot(_world(now, heads), heads)


def digest(snapshot: Snapshot) -> str:
    """Return a fingerprint of what the cycle saw: equal inputs have equal ones."""
    world, heads = snapshot
    first = [heads.users(job_class.id) for job_class in world.classes]
    return hashlib.sha256(repr((world, first)).encode()).hexdigest()


def _world(now: datetime, heads: StoredHeads) -> World:
    return World(
        now=milliseconds(now),
        policy=_policy(),
        flavors=_flavors(),
        teams=_teams(),
        queues=_queues(),
        nodes=_nodes(),
        attempts=_attempts(),
        classes=_classes(heads.classes),
    )


def _policy() -> Policy:
    row = Installation.objects.filter(id=1).first()
    if row is None:
        return Policy()
    aging = Aging(every=span(row.aging_every), step=row.aging_step, cap=row.aging_cap)
    return Policy(aging=aging, overcommit=row.overcommit)


def _flavors() -> tuple[Flavor, ...]:
    rows = StoredFlavor.objects.order_by("id").values_list("id", "name", "value_milli", "spread")
    return tuple(Flavor(id=pk, name=name, value=value, spread=spread) for pk, name, value, spread in rows)


def _teams() -> tuple[Team, ...]:
    quotas: dict[int, list[Quota]] = defaultdict(list)
    for team, flavor, guaranteed, borrow, lend in StoredQuota.objects.order_by("team_id", "flavor_id").values_list(
        "team_id", "flavor_id", "guaranteed", "borrow_limit", "lend_limit"
    ):
        quota = Quota(flavor=flavor, guaranteed=guaranteed, borrow_limit=borrow, lend_limit=lend)
        quotas[team].append(quota)
    return tuple(
        Team(
            id=team.id,
            name=team.name,
            parent=team.parent_id,
            weight=team.weight_milli,
            quotas=tuple(quotas[team.id]),
            per_user_limit=team.per_user_limit,
            paused=team.paused_at is not None,
        )
        for team in StoredTeam.objects.order_by("id")
    )


def _queues() -> tuple[Queue, ...]:
    return tuple(
        Queue(
            id=queue.id,
            name=queue.name,
            team=queue.team_id,
            order=QueueOrder(queue.order),
            per_user_limit=queue.per_user_limit,
            paused=queue.paused_at is not None,
        )
        for queue in StoredQueue.objects.order_by("id")
    )


def _nodes() -> tuple[Node, ...]:
    """Return nodes of a flavor: those that are there, and those that have left with tasks of ours."""
    held = Task.objects.filter(state__in=TASK_HOLDING).values("node")
    rows = StoredNode.objects.filter(Q(gone_at__isnull=True) | Q(id__in=held), flavor__isnull=False).order_by("id")
    return tuple(
        Node(
            id=row.id,
            name=row.name,
            cluster=row.cluster_id,
            flavor=row.flavor_id,
            units=row.units,
            cpu=row.cpu_milli,
            memory=row.memory,
            pods=row.pods,
            labels=tuple(sorted(row.labels.items())),
            state=_state(row),
            outside_units=row.outside_units,
            outside_cpu=row.outside_cpu_milli,
            outside_memory=row.outside_memory,
            outside_pods=row.outside_pods,
        )
        for row in rows
        if row.flavor_id is not None
    )


def _state(node: StoredNode) -> NodeState:
    if node.usable:
        return NodeState.READY
    return NodeState.CORDONED if node.gone_at is None and node.ready else NodeState.LOST


def _classes(ids: tuple[int, ...]) -> tuple[JobClass, ...]:
    rows = StoredClass.objects.filter(id__in=ids).order_by("id")
    columns = rows.values_list("id", "queue_id", "priority", Cast("ask", TextField()))
    return tuple(JobClass(id=pk, queue=queue, priority=priority, ask=_ask(ask)) for pk, queue, priority, ask in columns)


@lru_cache(maxsize=4096)
def _ask(text: str) -> Ask:
    return ask_from_json(json.loads(text))


class _Holding(NamedTuple):
    """Equal tasks of one wave and group on one node."""

    wave: int
    group: int
    node: int
    flavor: int
    units: int
    cpu: int
    memory: int
    tasks: int


def _attempts() -> tuple[Attempt, ...]:
    """Return the waves that hold, with what still holds of them added up by node."""
    holding: dict[int, list[_Holding]] = defaultdict(list)
    columns = ("wave_id", "group", "node_id", "flavor_id", "units", "cpu_milli", "memory")
    tasks = Task.objects.filter(state__in=TASK_HOLDING).order_by().values_list(*columns).annotate(Count("id"))
    for row in sorted(tasks):
        holding[row[0]].append(_Holding(*row))
    waves = Wave.objects.filter(state__in=HOLDING).select_related("job__queue").order_by("id")
    return tuple(_attempt(wave, holding[wave.id]) for wave in waves if holding[wave.id])


def _attempt(wave: Wave, holding: list[_Holding]) -> Attempt:
    """Number the groups that still hold from 0: an attempt's groups are only counted, never named."""
    kinds = sorted({(h.group, h.flavor, h.units, h.cpu, h.memory) for h in holding})
    index = {kind: number for number, kind in enumerate(kinds)}
    placed = tuple(
        Placed(group=index[h.group, h.flavor, h.units, h.cpu, h.memory], node=h.node, tasks=h.tasks) for h in holding
    )
    counts: dict[int, int] = defaultdict(int)
    for place in placed:
        counts[place.group] += place.tasks
    job = wave.job
    return Attempt(
        id=wave.id,
        number=wave.id,
        job=job.id,
        team=job.team_id,
        user=job.user_id,
        groups=tuple(
            Group(tasks=counts[number], units=units, cpu=cpu, memory=memory, flavors=(flavor,))
            for number, (_, flavor, units, cpu, memory) in enumerate(kinds)
        ),
        flavors=tuple(flavor for _, flavor, *_ in kinds),
        placed=placed,
        since=milliseconds(wave.started_at or wave.admitted_at),
        borrow=job.borrow,
        preemptible=job.preemptible,
        leaving=wave.state == WaveState.EVICTING,
        queue=job.queue_id,
        ends_by=_ends_by(wave),
    )


def _ends_by(wave: Wave) -> Milliseconds | None:
    """Return the wave's sure end: what is left of its time limit, and its grace."""
    left = time_left(wave.job)
    if wave.state == WaveState.EVICTING:
        return None if wave.deadline_at is None else milliseconds(wave.deadline_at)
    if left is None:
        return None
    return milliseconds((wave.started_at or start_ends_at(wave)) + left + wave.job.grace)
