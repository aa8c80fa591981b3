"""Nodes as a cluster shows them, kept as rows: which flavor they are of, and whether usable."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, Sum

from clusters.port import NodeSeen, Taint
from queues import inventory
from queues.drift import note_drift
from queues.models import Node
from queues.view import MachineRows, View
from tenants.models import Flavor

# A node that is silent this long counts as lost, with all that ran on it.
LOST_AFTER = timedelta(minutes=5)
# Only the watcher writes what it reads of the nodes: for so long it need not look again where nothing has changed.
TRUSTED_FOR = timedelta(seconds=5)
# Taints that say again what ``cordoned`` and ``ready`` say.
STATE_TAINTS = frozenset(
    {"node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
)
REPELS = frozenset({"NoSchedule", "NoExecute"})
FACTS = (
    *("flavor_id", "units", "cpu_milli", "memory", "pods", "labels", "taints", "ready", "cordoned", "tainted"),
    *("counted", "short", "rivals", "devices", "conditions", "not_ready_since", "cordoned_since", "gone_at"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The nodes of a cluster: ids by name, the ids that are lost, and whether anything about them changed."""

    ids: Mapping[str, int]
    names: Mapping[int, str]
    lost: frozenset[int]
    changed: bool


def observe(cluster: int, view: View, *, now: datetime, names: Collection[str] | None = None) -> Places:
    """Keep what the view shows of the nodes (only of the named ones, where names are given)."""
    if names is not None and not names and view.machine_rows and now - view.machine_rows.at < TRUSTED_FOR:
        return _places(view.machine_rows.rows, changed=False, now=now)
    flavors = list(Flavor.objects.order_by("id"))
    rows = Node.objects.filter(cluster_id=cluster).order_by("id")
    stored = {row.name: row for row in (rows if names is None else rows.filter(name__in=names))}
    seen = map(view.machine, view.nodes if names is None else [name for name in names if name in view.nodes])
    new: list[Node] = []
    changed: list[Node] = []
    before = {name: inventory.drifts(row) for name, row in stored.items()}
    for node in seen:
        row = stored.get(node.name)
        if row is None:
            row = Node(cluster_id=cluster, name=node.name, first_seen_at=now, changed_at=now)
            new.append(row)
            _differs(row, node, view.devices, flavors, now)
        elif _differs(row, node, view.devices, flavors, now):
            changed.append(row)
    for row in stored.values():
        if row.gone_at is None and row.name not in view.nodes:
            row.gone_at = row.changed_at = now
            changed.append(row)
    if new or changed:
        Node.objects.bulk_create(new)
        Node.objects.bulk_update(changed, [*FACTS, "changed_at"], batch_size=500)
        note_drift([*new, *changed], before, now=now)
    if new or changed or names is None:
        _count_flavors(flavors)
    known = list(rows.values_list("id", "name", "gone_at", "not_ready_since"))
    view.machine_rows = MachineRows(now, known)
    return _places(known, changed=bool(new or changed), now=now)


def _places(
    known: Collection[tuple[int, str, datetime | None, datetime | None]], *, changed: bool, now: datetime
) -> Places:
    return Places(
        ids={name: pk for pk, name, _, _ in known},
        names={pk: name for pk, name, _, _ in known},
        lost=frozenset(pk for pk, _, gone, silent in known if gone or (silent and silent + LOST_AFTER <= now)),
        changed=changed,
    )


def flavor_of(node: NodeSeen, flavors: Iterable[Flavor]) -> Flavor | None:
    """Return the flavor a node belongs to: of those it matches the one that names most labels, then the oldest."""
    return next(iter(_matching(node, flavors)), None)


def _matching(node: NodeSeen, flavors: Iterable[Flavor]) -> list[Flavor]:
    """Return the flavors that a node matches, the best first."""
    labels = dict(node.labels).items()
    found = [flavor for flavor in flavors if _units(node, flavor.resource) and flavor.node_labels.items() <= labels]
    return sorted(found, key=lambda flavor: (-len(flavor.node_labels), flavor.id))


def repels(taint: Taint, tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a taint keeps away pods with these tolerations."""
    if taint.effect not in REPELS or taint.key in STATE_TAINTS:
        return False
    return not any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    exists = toleration.get("operator") == "Exists"
    if effect not in {"", taint.effect} or (key != taint.key and not (exists and not key)):
        return False
    return exists or (toleration.get("value") or "") == taint.value


def _differs(
    row: Node, node: NodeSeen, devices: Mapping[str, Mapping[str, int]], flavors: Iterable[Flavor], now: datetime
) -> bool:
    """Write what is seen of a node into its row; return whether that changed it."""
    matching = _matching(node, flavors)
    flavor = matching[0] if matching else None
    named = len(flavor.node_labels) if flavor else 0
    own = flavor.resource if flavor else ""
    gpus = {
        resource: units for resource, units in node.counted.items() if inventory.is_gpu(resource) or resource == own
    }
    announced = dict(devices.get(node.name, {}))
    facts = {
        "flavor_id": flavor.id if flavor else None,
        "units": _units(node, flavor.resource) if flavor else inventory.sum_of(gpus),
        "cpu_milli": node.cpu,
        "memory": node.memory,
        "pods": node.pods,
        "labels": dict(node.labels),
        "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints],
        "ready": node.ready,
        "cordoned": node.cordoned,
        "tainted": any(repels(taint, flavor.tolerations if flavor else ()) for taint in node.taints),
        "counted": gpus,
        "short": inventory.missing(node.counted, node.capacity, node.labels, announced=announced),
        "rivals": sum(len(rival.node_labels) == named for rival in matching[1:]),
        "devices": announced,
        "conditions": list(node.conditions),
        "cordoned_since": (row.cordoned_since or now) if node.cordoned else None,
        "not_ready_since": None if node.ready else row.not_ready_since or now,
        "gone_at": None,
    }
    if all(getattr(row, column) == value for column, value in facts.items()):
        return False
    for column, value in facts.items():
        setattr(row, column, value)
    row.changed_at = now
    return True


def _units(node: NodeSeen, resource: str) -> int:
    return node.cpu // 1000 if resource == "cpu" else node.counted.get(resource, 0)


def count_flavors() -> None:
    """Keep how many units of each flavor are there, and usable, after a cluster went or came."""
    _count_flavors(list(Flavor.objects.order_by("id")))


def _count_flavors(flavors: Iterable[Flavor]) -> None:
    """Keep how many units of each flavor are there, and usable."""
    usable = Q(ready=True, cordoned=False, tainted=False, cluster__away=False)
    rows = (
        Node.objects.filter(gone_at__isnull=True, flavor__isnull=False, cluster__retired_at=None)
        .order_by()
        .values("flavor_id")
    )
    counts = rows.annotate(there=Sum("units"), ready_now=Sum("units", filter=usable, default=0))
    found = {row["flavor_id"]: (row["there"], row["ready_now"]) for row in counts}
    for flavor in flavors:
        there, ready = found.get(flavor.id, (0, 0))
        if (flavor.installed, flavor.usable) != (there, ready):
            Flavor.objects.filter(id=flavor.id).update(installed=there, usable=ready)
