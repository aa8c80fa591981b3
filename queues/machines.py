"""Nodes as the rules see them, kept from one snapshot to the next: only those that changed are read again."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from django.conf import settings
from django.db import connection
from django.db.models import Exists, OuterRef, Q
from django.db.models.expressions import RawSQL

from clusters.names import LABEL_CLUSTER
from queues.admission.world import Node, NodeState
from queues.models import Node as StoredNode
from queues.models import Task
from queues.states import TASK_HOLDING

Key = tuple[object, ...]
"""What nodes depend on beside their rows: levels, and which clusters there are and are away."""

# Its answer is one value, for ``levels_and``.
CLUSTERS = "SELECT json_agg(json_build_array(id, name, away) ORDER BY id) FROM queues_clusterstate"
_UNDER = "SELECT DISTINCT node_id FROM queues_task WHERE wave_id = ANY(%s) AND state = ANY(%s)"


class Machines(NamedTuple):
    """The nodes of a snapshot by id, in that order; ``gone`` are those that have left, with tasks of ours on them."""

    nodes: dict[int, Node]
    gone: frozenset[int]
    key: Key
    listed: tuple[Node, ...]


def levels_and(clusters: Sequence[Sequence[object]] | None) -> Key:
    """Return what nodes depend on beside their rows; ``clusters`` is the answer to ``CLUSTERS``."""
    return (*settings.TIDEGATE_LEVELS.values(), *(tuple(row) for row in clusters or ()))


def machines(
    key: Key, before: Machines | None = None, nodes: Collection[int] = (), waves: Collection[int] = ()
) -> Machines:
    """Return the nodes of a flavor: those that are there, and those that have left with tasks of ours.

    ``key`` are the levels and clusters. After ``before`` only the ``nodes`` that changed are read, and those that
    ``waves`` which changed may have left or come to.
    """
    if before is None or before.key != key:
        found, gone = _read(None)
        return Machines(found, gone, key, tuple(found.values()))
    ids = {*nodes, *((before.gone | (_under(waves) - before.nodes.keys())) if waves else ())}
    if not ids:
        return before
    found, gone = _read(ids)
    rest = {pk: node for pk, node in before.nodes.items() if pk not in ids}
    merged = dict(sorted({**rest, **found}.items()))
    return Machines(merged, (before.gone - ids) | gone, key, tuple(merged.values()))


def _under(waves: Collection[int]) -> set[int]:
    with connection.cursor() as cursor:
        cursor.execute(_UNDER, [[*waves], sorted(TASK_HOLDING)])
        return {pk for (pk,) in cursor.fetchall()}


def _read(ids: Collection[int] | None) -> tuple[dict[int, Node], frozenset[int]]:
    """Return the nodes (None: all, else of these) that belong to the world, and which of them have left."""
    held = Exists(Task.objects.filter(node=OuterRef("id"), state__in=sorted(TASK_HOLDING)))
    rows = StoredNode.objects.filter(flavor__isnull=False).filter(Q(gone_at=None) | held).select_related("cluster")
    if ids is not None:
        rows = rows.filter(id__in=RawSQL("SELECT unnest(%s::bigint[])", [[*ids]]))
    found = list(rows.order_by("id"))
    return {row.id: _node(row) for row in found}, frozenset(row.id for row in found if row.gone_at is not None)


def _node(row: StoredNode) -> Node:
    return Node(
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
    )


def _state(node: StoredNode) -> NodeState:
    if node.usable:
        return NodeState.READY
    return NodeState.CORDONED if node.gone_at is None and node.ready else NodeState.LOST
