"""The database as a world: one REPEATABLE READ transaction and a fixed number of queries, whatever waits."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from django.conf import settings
from django.db import connection, transaction
from django.db.models.expressions import RawSQL

from clusters.names import LABEL_CLUSTER
from queues import promises, warm
from queues.admission.world import (
    Aging,
    Ask,
    Flavor,
    JobClass,
    Milliseconds,
    Node,
    NodeState,
    Policy,
    Queue,
    QueueOrder,
    Quota,
    Team,
    World,
)
from queues.attempts import attempts
from queues.attempts import forget as forget_attempts
from queues.classes import ask_from_json
from queues.models import ClusterState
from queues.models import JobClass as StoredClass
from queues.models import Node as StoredNode
from queues.models import Queue as StoredQueue
from queues.models.queue import PreemptWithinTeam
from queues.states import TASK_HOLDING
from queues.waiting import StoredHeads, milliseconds, span
from tenants.models import Flavor as StoredFlavor
from tenants.models import Installation
from tenants.models import Quota as StoredQuota
from tenants.models import Team as StoredTeam

MOST_ASKS = 200_000


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
        settled = _settled()
        heads = StoredHeads(settled.start_limits, promises.idle(now))
        yield Snapshot(_world(now, settled, heads), heads)


def forget() -> None:
    """Read everything anew the next time."""
    _known_nodes.forget()
    _known_settled.clear()
    forget_attempts()
    _asks.clear()


def digest(snapshot: Snapshot) -> str:
    """Return a fingerprint of what the cycle saw: equal inputs have equal ones."""
    world, heads = snapshot
    few = replace(world, nodes=(), classes=())
    classes = [(row.id, row.queue, row.priority) for row in world.classes]
    text = repr((few, _nodes_text(world.nodes), classes, sorted(map(tuple, heads.first_rows))))
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=2)
def _nodes_text(nodes: tuple[Node, ...]) -> str:
    return repr(nodes)


def _world(now: datetime, settled: "_Settled", heads: StoredHeads) -> World:
    return World(
        now=milliseconds(now),
        policy=settled.policy,
        flavors=settled.flavors,
        teams=settled.teams,
        queues=settled.queues,
        nodes=_nodes(),
        attempts=attempts(now),
        classes=_classes(heads.classes),
        claims=promises.claims(),
        holds=promises.holds(),
        evicted_at=promises.evicted_at(now),
    )


class _Settled(NamedTuple):
    """What people set and seldom change."""

    policy: Policy
    flavors: tuple[Flavor, ...]
    teams: tuple[Team, ...]
    queues: tuple[Queue, ...]
    start_limits: Mapping[int, Milliseconds]


_TABLES = ("tenants_installation", "tenants_flavor", "tenants_team", "tenants_quota", "queues_queue")
_ROWS = " UNION ALL ".join(f"SELECT '{table}' AS of, id, {warm.VERSION} AS version FROM {table}" for table in _TABLES)  # noqa: S608  constants only
_VERSION = f"SELECT md5(string_agg(concat_ws(' ', of, id, version), ',' ORDER BY of, id)) FROM ({_ROWS}) found"  # noqa: S608  constants only
_known_settled: dict[str, _Settled] = {}
"""The last one, by the versions of all rows that it is made of."""


def _settled() -> _Settled:
    with connection.cursor() as cursor:
        cursor.execute(_VERSION)
        version = str(cursor.fetchone()[0])
    known = _known_settled.get(version)
    if known is None:
        queues = list(StoredQueue.objects.order_by("id"))
        limits = {queue.id: span(queue.start_limit) for queue in queues}
        known = _Settled(_policy(), _flavors(), teams(), _queues(queues), limits)
        _known_settled.clear()
        _known_settled[version] = known
    return known


def _policy() -> Policy:
    row = Installation.objects.filter(id=1).first()
    if row is None:
        return Policy(recall=True)
    return Policy(
        aging=Aging(every=span(row.aging_every), step=row.aging_step, cap=row.aging_cap),
        overcommit=row.overcommit,
        recall=True,
        restart_cost=span(row.restart_cost),
        evictions_per_minute=row.evictions_per_minute,
        max_evictions=row.max_evictions,
        hold_idle_limit=None if row.hold_idle_limit is None else row.hold_idle_limit * 1000,
    )


def _flavors() -> tuple[Flavor, ...]:
    rows = StoredFlavor.objects.order_by("id").values_list("id", "name", "value_milli", "spread")
    return tuple(Flavor(id=pk, name=name, value=value, spread=spread) for pk, name, value, spread in rows)


def teams() -> tuple[Team, ...]:
    """Return the teams with their quotas."""
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


def _queues(rows: Iterable[StoredQueue]) -> tuple[Queue, ...]:
    return tuple(
        Queue(
            id=queue.id,
            name=queue.name,
            team=queue.team_id,
            order=QueueOrder(queue.order),
            per_user_limit=queue.per_user_limit,
            paused=queue.paused_at is not None,
            hold_after=span(queue.hold_after),
            preempt_within_team=queue.preempt_within_team == PreemptWithinTeam.LOWER_PRIORITY,
            limit_needed_to_borrow=queue.limit_needed_to_borrow,
        )
        for queue in rows
    )


_NODES = f"""
SELECT id, {warm.VERSION} FROM queues_node node
WHERE flavor_id IS NOT NULL AND (
    gone_at IS NULL OR EXISTS (SELECT FROM queues_task WHERE node_id = node.id AND state = ANY(%s))
)
ORDER BY id
"""  # noqa: S608  constants only
_known_nodes: warm.Warm[Node] = warm.Warm()


def _nodes() -> tuple[Node, ...]:
    """Return nodes of a flavor: those that are there, and those that have left with tasks of ours."""
    found = warm.versions(_NODES, [sorted(TASK_HOLDING)])
    away = ClusterState.objects.filter(away=True).order_by("id").values_list("id", flat=True)
    return _known_nodes.read(found, _read_nodes, key=(*settings.TIDEGATE_LEVELS.values(), *away))


def _read_nodes(ids: list[int]) -> Iterator[tuple[int, Node]]:
    rows = StoredNode.objects.filter(id__in=RawSQL("SELECT unnest(%s::bigint[])", [ids]))
    for row in rows.select_related("cluster"):
        yield (
            row.id,
            Node(
                id=row.id,
                name=row.name,
                cluster=row.cluster_id,
                flavor=row.flavor_id or 0,
                units=row.units,
                cpu=row.cpu_milli,
                memory=row.memory,
                pods=row.pods,
                labels=tuple(sorted({**row.labels, LABEL_CLUSTER: row.cluster.name}.items())),
                domains=tuple(row.labels.get(label) for label in settings.TIDEGATE_LEVELS.values()),
                state=NodeState.LOST if row.cluster.away else _state(row),
                outside_units=row.outside_units,
                outside_cpu=row.outside_cpu_milli,
                outside_memory=row.outside_memory,
                outside_pods=row.outside_pods,
            ),
        )


def _state(node: StoredNode) -> NodeState:
    if node.usable:
        return NodeState.READY
    return NodeState.CORDONED if node.gone_at is None and node.ready else NodeState.LOST


_CLASSES = """
SELECT id, queue_id, priority, digest FROM queues_jobclass WHERE id = ANY(%s) ORDER BY id
"""
_asks: dict[str, Ask] = {}
"""By digest, which says what is asked for: equal ones are equal for ever."""


def _classes(ids: tuple[int, ...]) -> tuple[JobClass, ...]:
    with connection.cursor() as cursor:
        cursor.execute(_CLASSES, [list(ids)])
        rows = cursor.fetchall()
    missing = {digest: pk for pk, _, _, digest in rows if digest not in _asks}
    if missing:
        if len(_asks) > MOST_ASKS:
            _asks.clear()
            return _classes(ids)
        known = StoredClass.objects.filter(id__in=RawSQL("SELECT unnest(%s::bigint[])", [list(missing.values())]))
        _asks.update((digest, ask_from_json(ask)) for digest, ask in known.values_list("digest", "ask"))
    return tuple(
        JobClass(id=pk, queue=queue, priority=priority, ask=_asks[digest]) for pk, queue, priority, digest in rows
    )
