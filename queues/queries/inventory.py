"""Where machines differ from what is expected, and which GPU types are missing."""

from collections import Counter
from collections.abc import Iterable

from django.db.models import Q, QuerySet

from queues import inventory
from queues.inventory import Drift
from queues.models import Node
from queues.queries.rows.machines import DriftRow, Suggestion
from tenants.models import Flavor
from tenants.permissions import Actor, Permission, require

SHOWN = 200
DRIFTED = Q(flavor=None) & ~Q(counted={}) | Q(rivals__gt=0) | Q(short__gt=0)
DRIFTED |= Q(over__gt=0) | ~Q(recount=[]) | ~Q(devices={}) & Q(counted={})


def drift(by: Actor, *, among: Iterable[Node] | None = None) -> tuple[DriftRow, ...]:
    """Return the machines (or those ``among`` some that are read already) that differ from what is expected.

    The newest change comes first.
    """
    require(by, Permission.VIEW_NODES)
    if among is None:
        rows = list(_drifted().select_related("cluster", "flavor").order_by("-changed_at", "id")[:SHOWN])
    else:
        found = [row for row in among if row.cluster.retired_at is None and inventory.drifts(row)]
        rows = sorted(found, key=lambda row: (-row.changed_at.timestamp(), row.id))[:SHOWN]
    return tuple(
        DriftRow(
            cluster=row.cluster.name,
            node=row.name,
            kind=kind,
            text=drift_text(row, kind),
            since=row.changed_at,
        )
        for row in rows
        for kind in inventory.drifts(row)
    )


def count_drift() -> dict[tuple[str, str], int]:
    """Return how many machines differ, by cluster and kind."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in _drifted().select_related("cluster").defer("labels", "taints"):
        counts.update((row.cluster.name, kind.value) for kind in inventory.drifts(row))
    return dict(counts)


def suggestions(by: Actor) -> tuple[Suggestion, ...]:
    """Return the GPU types that would take in machines that match none, the largest first."""
    require(by, Permission.VIEW_NODES)
    found: Counter[tuple[str, str, str]] = Counter()
    # What was just made takes its machines in with the next list: until then it is not offered again.
    made = list(Flavor.objects.order_by("id").values_list("resource", "node_labels"))
    for labels, counted in _drifted().filter(flavor=None).order_by("id").values_list("labels", "counted"):
        kind = inventory.kind_of(labels)
        if kind is not None and not any(of in counted and own.items() <= labels.items() for of, own in made):
            found.update((*kind, resource) for resource in counted)
    taken = set(Flavor.objects.values_list("name", flat=True))
    return tuple(
        Suggestion(
            name=_free(inventory.name_for(product, resource), taken),
            title=product.replace("-", " "),
            resource=resource,
            label=label,
            value=product,
            nodes=nodes,
        )
        for (label, product, resource), nodes in sorted(found.items(), key=lambda item: (-item[1], item[0]))
    )


def drift_text(node: Node, kind: Drift) -> str:
    """Say how a machine differs, with its numbers."""
    match kind:
        case Drift.NO_FLAVOR:
            has = ", ".join(f"{units} {resource}" for resource, units in sorted(node.counted.items()))
            return f"It has {has} and matches no GPU type, so nothing runs there."
        case Drift.TWO_FLAVORS:
            own = node.flavor.name if node.flavor else "one"
            return f"{node.rivals + 1} GPU types match it equally well; it counts as {own}."
        case Drift.MISSING_UNITS:
            return f"{node.short} of its {node.units + node.short} GPUs are not offered: sick, or the plugin is down."
        case Drift.DRA_DEVICES:
            only = f"{inventory.unscheduled(node)} GPUs on it are announced by DRA alone"
            return f"{only}, and no device class that Tidegate can read selects them, so nothing runs there."
        case Drift.OVER_USED:
            return f"{node.units + node.over} GPUs are in use there, and it has {node.units}."
        case Drift.RECOUNT:
            return " ".join(_recount_text(wave, rows, pods) for wave, rows, pods in node.recount)


def _recount_text(wave: str, rows: int, pods: int) -> str:
    differs = f"its pods use {pods} GPUs there, our rows say {rows}"
    return f"Wave {wave[:8]}: {differs} ({abs(pods - rows)} {'more' if pods > rows else 'fewer'})."


def _drifted() -> QuerySet[Node]:
    return Node.objects.filter(DRIFTED, gone_at=None, cluster__retired_at=None)


def _free(name: str, taken: Iterable[str]) -> str:
    numbered = (f"{name[:60]}-{number}" for number in range(2, 100))
    return next((each for each in (name, *numbered) if each not in taken), name)
