"""Machines: what they have, what is on them, and why one cannot be used."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet, Sum

from clusters.port import Taint
from queues import inventory
from queues.classes import ask_from_json
from queues.models import Claim, Hold, Node, Task
from queues.nodes import STATE_TAINTS, repels
from queues.queries.cells import cells_on
from queues.queries.inventory import drift_text
from queues.queries.rows.machines import Cell, Kept, NodeDetail, NodeRow, OutsidePod
from queues.states import TASK_HOLDING
from tenants.errors import NotFound, Unreadable
from tenants.look import once
from tenants.permissions import Actor, Permission, can, require, teams_seen

PLACES = ("zone", "block", "rack")
# The first that holds is the one that is told.
STATES = {
    "unknown": Q(cluster__away=True),
    "ready": Q(ready=True, cordoned=False, tainted=False, cluster__away=False),
    "cordoned": Q(ready=True, cordoned=True, cluster__away=False),
    "tainted": Q(ready=True, cordoned=False, tainted=True, cluster__away=False),
    "not ready": Q(ready=False, cluster__away=False),
}


def nodes(by: Actor, *, flavor: str = "", state: str = "", text: str = "") -> tuple[NodeRow, ...]:
    """Return the machines that are there, without cells; ``state`` is ready, cordoned, tainted or not ready."""
    found = found_nodes(by, flavor=flavor, state=state, text=text)
    return node_rows(list(found.order_by("cluster__name", "name", "id")))


def found_nodes(by: Actor, *, flavor: str = "", state: str = "", text: str = "") -> QuerySet[Node]:
    """Return the machines that are there, for ``node_rows``."""
    require(by, Permission.VIEW_NODES)
    found = Node.objects.filter(gone_at=None).select_related("cluster", "flavor")
    if state:
        if state not in STATES:
            raise Unreadable(f"state is one of {', '.join(STATES)}; not {state[:40]!r}.", code="bad_filter")
        found = found.filter(STATES[state])
    if flavor:
        found = found.filter(flavor__name=flavor)
    return found.filter(name__icontains=text) if text else found


def node_rows(found: Sequence[Node]) -> tuple[NodeRow, ...]:
    """Return machines as rows without cells, in one statement."""
    used: dict[int, int] = dict(
        Task.objects.filter(node__in=[node.id for node in found], state__in=sorted(TASK_HOLDING))
        .order_by("node_id")
        .values_list("node_id")
        .annotate(Sum("units"))
    )
    return tuple(_row(node, used.get(node.id, 0)) for node in found)


def node(by: Actor, name: str, *, cluster: str = "") -> NodeDetail:
    """Return one machine with what is on it, also one that has left its cluster."""
    require(by, Permission.VIEW_NODES)
    found = Node.objects.filter(name=name).select_related("cluster", "flavor")
    if cluster:
        found = found.filter(cluster__name=cluster)
    row = found.order_by("-gone_at", "id").first()
    if row is None:
        raise NotFound(f"There is no node {name[:253]}.")
    kept = kept_on(by, row)
    tasks = Task.objects.filter(node=row, state__in=sorted(TASK_HOLDING))
    held = tasks.aggregate(units=Sum("units"), cpu=Sum("cpu_milli"), memory=Sum("memory"))
    shown = _row(row, held["units"] or 0, tuple(cells_on(by, [row.id])[row.id]))
    return NodeDetail(
        row=shown,
        summary=summary(row, shown, kept=sum(each.units for each in kept)),
        kept=kept,
        others=tuple(map(_other, row.others)) if can(by, Permission.VIEW_DECISIONS) else (),
        others_leaving=sum(pod["leaving"] for pod in row.others),
        devices=row.devices,
        conditions=tuple(row.conditions),
        repelling=_repelling(row),
        not_ready_since=row.not_ready_since,
        cordoned_since=row.cordoned_since,
        counted=row.counted,
        drift=tuple(drift_text(row, kind) for kind in inventory.drifts(row)),
        cpu_milli=row.cpu_milli,
        cpu_used=held["cpu"] or 0,
        memory=row.memory,
        memory_used=held["memory"] or 0,
        outside_cpu_milli=row.outside_cpu_milli,
        outside_memory=row.outside_memory,
        pods=row.pods,
        outside_pods=row.outside_pods,
        labels=row.labels,
        taints=tuple(map(_taint, row.taints)),
        other_taints=tuple(_taint(taint) for taint in row.taints if taint.get("key") not in STATE_TAINTS),
        first_seen_at=row.first_seen_at,
        changed_at=row.changed_at,
        gone_at=row.gone_at,
    )


def summary(node: Node, row: NodeRow, *, kept: int) -> str:
    """Say in one sentence whether all of a machine can be used by new work, the weightiest hindrance first."""
    if row.why:
        return row.why
    if found := inventory.drifts(node):
        return drift_text(node, found[0])
    if not node.units:
        return "It has no GPUs that Tidegate schedules."
    if node.conditions:
        return f"Kubernetes says {', '.join(node.conditions)}, and it takes new work all the same."
    spent = (
        (row.used, "in use"),
        (row.outside, "used outside Tidegate"),
        (min(kept, row.free), "kept for waiting jobs"),
    )
    told = ", ".join(f"{units} {how}" for units, how in spent if units)
    left = max(0, row.free - kept)
    if not told:
        return f"All {node.units} GPUs are free."
    return f"{left or 'None'} of {node.units} GPUs {'is' if left == 1 else 'are'} free: {told}."


def kept_on(by: Actor, node: Node) -> tuple[Kept, ...]:
    """Return what waiting jobs have of a machine already: reserved ones, then held ones in their order."""
    claims = Claim.objects.filter(job__ready=True).order_by("id").values_list("id", "placed")
    holds = Hold.objects.filter(job__ready=True).order_by("rank", "job_id").values_list("job_id", "placed")
    reserving, holding = _on(node, claims), _on(node, holds)
    if not reserving and not holding:
        return ()
    visible = frozenset(team.id for team in teams_seen(by, Permission.VIEW_JOB))
    jobs = ("job__team", "job__job_class")
    reserved = Claim.objects.filter(id__in=reserving).select_related(*jobs).defer("job__spec").order_by("id")
    held = Hold.objects.filter(job__in=holding).select_related(*jobs).defer("job__spec").order_by("rank", "job_id")
    return (
        *(_kept(row, node, visible, "reserved") for row in reserved),
        *(_kept(row, node, visible, "held") for row in held),
    )


def _on(node: Node, promises: Iterable[tuple[int, list[list[int]]]]) -> list[int]:
    return [pk for pk, placed in promises if any(on == node.id for _, on, _ in placed)]


def _kept(row: Claim | Hold, node: Node, visible: frozenset[int], kind: str) -> Kept:
    groups = ask_from_json(row.job.job_class.ask).groups
    units = sum(tasks * groups[group].units for group, on, tasks in row.placed if on == node.id)
    if row.job.team_id not in visible:
        return Kept(units=units, kind=kind)
    return Kept(
        units=units,
        kind=kind,
        team=row.job.team.name,
        job=row.job.uid,
        job_name=row.job.name,
        starts_at=row.starts_at if isinstance(row, Hold) else None,
    )


def _other(pod: Mapping[str, Any]) -> OutsidePod:
    return OutsidePod(
        namespace=pod["namespace"],
        name=pod["name"],
        units=pod["units"],
        leaving=pod["leaving"],
        leaving_since=datetime.fromisoformat(pod["since"]) if pod["since"] else None,
    )


@once
def nodes_known() -> tuple[Node, ...]:
    """Return the machines that are there, or on which tasks still hold units, with cluster and GPU type, by id."""
    held = Task.objects.filter(state__in=sorted(TASK_HOLDING)).values("node")
    known = Node.objects.filter(Q(gone_at=None) | Q(id__in=held)).select_related("cluster", "flavor")
    return tuple(known.defer("others").order_by("id"))


def nodes_there() -> tuple[Node, ...]:
    """Return the machines that are there with their cluster and GPU type, in order of id."""
    return tuple(row for row in nodes_known() if row.gone_at is None)


def why_unusable(node: Node) -> str:
    """Return why nothing new comes to a machine, or nothing."""
    return _state(node)[1]


def allocation(by: Actor, *, flavor: str = "") -> tuple[NodeRow, ...]:
    """Return the map: every machine with a cell for each task on it, by cluster, place and name."""
    require(by, Permission.VIEW_NODES)
    found = [row for row in nodes_there() if not flavor or (row.flavor is not None and row.flavor.name == flavor)]
    cells = cells_on(by, [node.id for node in found])
    rows = (_row(node, sum(cell.units for cell in cells[node.id]), tuple(cells[node.id])) for node in found)
    return tuple(sorted(rows, key=lambda row: (row.cluster, row.place, row.name, row.id)))


def _row(node: Node, used: int, cells: tuple[Cell, ...] = ()) -> NodeRow:
    state, why = _state(node)
    usable = node.usable and not node.cluster.away and node.flavor is not None
    return NodeRow(
        id=node.id,
        name=node.name,
        cluster=node.cluster.name,
        flavor=node.flavor.name if node.flavor else None,
        place=place_of(node.labels),
        units=node.units,
        used=used,
        outside=node.outside_units,
        free=max(0, node.units - used - node.outside_units) if usable else 0,
        usable=usable,
        state=state,
        why=why,
        cells=cells,
    )


def place_of(labels: dict[str, str]) -> tuple[str, ...]:
    """Return where a machine stands, outermost first, as far as its labels tell."""
    by_word = {key.rsplit("/", 1)[-1]: value for key, value in sorted(labels.items())}
    return tuple(by_word[word] for word in PLACES if by_word.get(word))


def _state(node: Node) -> tuple[str, str]:
    """Return one word for where a machine stands, and why it cannot be used."""
    if node.gone_at is not None:
        return "gone", f"It left the cluster at {node.gone_at:%Y-%m-%d %H:%M} UTC."
    if node.cluster.away:
        since = node.cluster.unreachable_since
        return "unknown", f"Its cluster has not answered{_since(since)}: what is on it may have changed."
    if not node.ready:
        return "not ready", f"Kubernetes says that it is not ready{_since(node.not_ready_since)}."
    if node.cordoned:
        return "cordoned", f"It is cordoned{_since(node.cordoned_since)}."
    if node.tainted:
        return "tainted", f"It has a taint that its GPU type does not tolerate: {', '.join(_repelling(node))}."
    return "ready", ""


def _since(moment: datetime | None) -> str:
    return f" since {moment:%Y-%m-%d %H:%M} UTC" if moment else ""


def _repelling(node: Node) -> tuple[str, ...]:
    """Return the taints that keep new work away, those left out that only repeat a state."""
    tolerations = node.flavor.tolerations if node.flavor else ()
    taints = [(taint, Taint(**taint)) for taint in node.taints]
    return tuple(_taint(row) for row, taint in taints if repels(taint, tolerations))


def _taint(taint: object) -> str:
    if not isinstance(taint, dict):
        return str(taint)
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"
