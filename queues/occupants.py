"""Who uses machines: pods of others, and where our rows and our pods tell different things."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Sum

from clusters.port import PodSeen
from queues import inventory
from queues.drift import note_drift
from queues.models import Node, Task
from queues.states import TASK_HOLDING
from queues.view import ENDED_PHASES, View, valid_uids
from tenants.models import Flavor

# So many pods of others are named at a machine.
SHOWN = 20
COLUMNS = (
    *("outside_units", "outside_cpu_milli", "outside_memory", "outside_pods"),
    *("others", "over", "recount"),
)


@dataclass(slots=True)
class _Accounted:
    """The tasks that hold, by wave, group and index, or by the UIDs of their pods, with their units."""

    units: dict[object, int] = field(default_factory=dict)

    def of(self, pod: PodSeen) -> int | None:
        """Return the units of a pod's task, None where none holds."""
        return self.units.get(pod.uid, self.units.get((pod.wave, pod.group, pod.index)))


def count_outside(cluster: int, view: View, *, now: datetime, names: Collection[str] | None = None) -> bool:
    """Keep what pods use on nodes that no task of ours accounts for; return whether that changed."""
    if names is not None and not names:
        return False
    resources = dict(Flavor.objects.values_list("id", "resource"))
    rows = Node.objects.filter(cluster_id=cluster, gone_at=None).defer("labels", "taints").order_by("id")
    if names is not None:
        rows = rows.filter(name__in=names)
    pods = {row.name: [pod for pod in view.pods_on(row.name) if pod.phase not in ENDED_PHASES] for row in rows}
    ours = _accounted(pod for found in pods.values() for pod in found)
    held = _held(rows)
    changed: list[Node] = []
    before = {}
    for row in rows:
        resource = resources.get(row.flavor_id or 0)
        claimed = inventory.claimed(resource, view.claimed.get(row.name, {}), view.taken_classes.get(row.name, {}))
        facts = _facts(row, pods[row.name], ours, held.get(row.id, 0), resource, claimed)
        if all(getattr(row, column) == value for column, value in facts.items()):
            continue
        before[row.name] = inventory.drifts(row)
        for column, value in facts.items():
            setattr(row, column, value)
        row.changed_at = now
        changed.append(row)
    if changed:
        Node.objects.bulk_update(changed, [*COLUMNS, "changed_at"], batch_size=500)
        note_drift(changed, before, now=now)
    return bool(changed)


def _facts(
    row: Node, pods: Collection[PodSeen], ours: _Accounted, held: int, resource: str | None, claimed: int
) -> Mapping[str, Any]:
    others = [pod for pod in pods if ours.of(pod) is None]
    # Cards that a plugin or a device class counts and a claim of DRA holds are the same cards, and nobody else's.
    units = _units(others, resource) + claimed
    # Pods of ours that no row holds are a matter of the recount: they leave, or somebody made them.
    foreign = _units([pod for pod in others if pod.wave is None], resource) + claimed
    return {
        "outside_units": units,
        "outside_cpu_milli": sum(pod.cpu for pod in others),
        "outside_memory": sum(pod.memory for pod in others),
        "outside_pods": len(others),
        "others": _named(others, resource),
        "over": max(0, held + foreign - row.units) if row.flavor_id else 0,
        "recount": _recount(pods, ours, resource) if resource else [],
    }


def _named(pods: Iterable[PodSeen], resource: str | None) -> list[dict[str, Any]]:
    """Name the largest pods; ``since`` is when one that leaves was asked to go."""
    largest = sorted(pods, key=lambda pod: (-_units([pod], resource), pod.namespace, pod.name))[:SHOWN]
    return [
        {
            "namespace": pod.namespace,
            "name": pod.name,
            "units": _units([pod], resource),
            "leaving": pod.leaving,
            "since": pod.leaving_since.isoformat() if pod.leaving_since else None,
        }
        for pod in largest
    ]


def _recount(pods: Iterable[PodSeen], ours: _Accounted, resource: str | None) -> list[list[Any]]:
    """Return wave, units by our rows and units by its pods, of waves of which these differ; who leaves may be late."""
    by_rows: Counter[str] = Counter()
    by_pods: Counter[str] = Counter()
    for pod in pods:
        units = ours.of(pod)
        if pod.wave is not None and not (units is None and pod.leaving):
            by_rows[pod.wave] += units or 0
            by_pods[pod.wave] += _units([pod], resource)
    return [[wave, by_rows[wave], by_pods[wave]] for wave in sorted(by_pods) if by_rows[wave] != by_pods[wave]]


def _accounted(pods: Iterable[PodSeen]) -> _Accounted:
    """Return those tasks of these pods' waves that hold."""
    waves = {pod.wave for pod in pods if pod.wave}
    held = Task.objects.filter(wave__uid__in=valid_uids(waves), state__in=TASK_HOLDING)
    found = _Accounted()
    for uid, kind, group, index, pod, units in held.values_list(
        "wave__uid", "wave__job__kind", "group", "pod_index", "pod_uid", "units"
    ):
        # A controller may number its pods otherwise than we number tasks.
        found.units[pod if kind else (str(uid), group, index)] = units
    return found


def _held(rows: Iterable[Node]) -> dict[int, int]:
    held = Task.objects.filter(node__in=[row.id for row in rows], state__in=sorted(TASK_HOLDING))
    return dict(held.order_by("node_id").values_list("node_id").annotate(Sum("units")))


def _units(pods: Iterable[PodSeen], resource: str | None) -> int:
    if resource == "cpu":
        return -(-sum(pod.cpu for pod in pods) // 1000)
    return sum(pod.counted.get(resource or "", 0) for pod in pods)
