"""What there is and who holds it, added up: a world without jobs, small however many there are."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import connection, transaction
from django.db.models import F, Q, Sum

from queues.admission.world import Attempt, Flavor, Group, Node, NodeState, Placed, Quota, Team, World
from queues.models import Node as StoredNode
from queues.models import Task
from queues.states import TASK_HOLDING
from tenants.models import Team as StoredTeam
from tenants.queries import kinds

NodeValues = tuple[int, str, int, int | None, int, int, datetime | None, bool]
"""Id, name, cluster, flavor, units, outside units and when it left, and whether new tasks may come."""


@contextmanager
def one_moment() -> Iterator[None]:
    """Read several things as of one moment; inside a caller's transaction, as of that one's."""
    alone = not connection.in_atomic_block
    with transaction.atomic():
        if alone:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


def estate(*, by_wave: bool = False, there: Iterable[StoredNode] | None = None) -> World:
    """Return flavors, teams with quotas, machines, and what each team holds on each of them, in four statements.

    ``by_wave``: each wave is an attempt with its id; else all that a team holds of a flavor is one. ``there`` are the
    machines with their cluster, where they are read already.
    """
    attempts = _waves() if by_wave else _attempts()
    rows = _nodes() if there is None else map(_values, there)
    nodes = tuple(_node(*row) for row in rows if row[3] is not None)
    return World(now=0, flavors=_flavors(), teams=_teams(), nodes=nodes, attempts=tuple(attempts))


def _flavors() -> tuple[Flavor, ...]:
    return tuple(Flavor(id=kind.id, name=kind.name, value=kind.value_milli) for kind in kinds())


def _teams() -> tuple[Team, ...]:
    columns = ("id", "name", "parent_id", "weight_milli", "quotas__flavor_id")
    limits = ("quotas__guaranteed", "quotas__borrow_limit", "quotas__lend_limit")
    quotas: dict[int, list[Quota]] = defaultdict(list)
    teams = {}
    rows = StoredTeam.objects.order_by("id", "quotas__flavor_id").values_list(*columns, *limits)
    for team, name, parent, weight, flavor, guaranteed, borrow, lend in rows:
        teams[team] = (name, parent, weight)
        if flavor is not None:
            quotas[team].append(Quota(flavor=flavor, guaranteed=guaranteed, borrow_limit=borrow, lend_limit=lend))
    return tuple(
        Team(id=team, name=name, parent=parent, weight=weight, quotas=tuple(quotas[team]))
        for team, (name, parent, weight) in teams.items()
    )


def _nodes() -> Iterable[NodeValues]:
    usable = Q(ready=True, cordoned=False, tainted=False, gone_at=None, cluster__away=False)
    held = Task.objects.filter(state__in=sorted(TASK_HOLDING)).values("node")
    there = StoredNode.objects.filter(Q(gone_at=None) | Q(id__in=held), flavor__isnull=False)
    columns = ("id", "name", "cluster_id", "flavor_id", "units", "outside_units", "gone_at")
    return there.annotate(can_take=usable).order_by("id").values_list(*columns, "can_take")


def _values(row: StoredNode) -> NodeValues:
    facts = (row.id, row.name, row.cluster_id, row.flavor_id, row.units, row.outside_units, row.gone_at)
    return (*facts, row.usable and not row.cluster.away)


def _node(
    pk: int,
    name: str,
    cluster: int,
    flavor: int | None,
    units: int,
    outside: int,
    gone_at: datetime | None,
    can_take: bool,  # noqa: FBT001  a row
) -> Node:
    return Node(
        id=pk,
        name=name,
        cluster=cluster,
        flavor=flavor or 0,
        # What has left has no units any more, only what tasks still hold there.
        units=units if gone_at is None else 0,
        cpu=0,
        memory=0,
        state=NodeState.READY if can_take else NodeState.LOST,
        outside_units=outside,
    )


def _attempts() -> Iterator[Attempt]:
    """Yield what each team holds of a flavor, on all machines."""
    placed: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    rows = Task.objects.filter(state__in=sorted(TASK_HOLDING)).order_by()
    for team, flavor, node, units in rows.values_list(F("wave__job__team_id"), "flavor_id", "node_id").annotate(
        Sum("units")
    ):
        placed[team, flavor][node] = units
    for number, ((team, flavor), nodes) in enumerate(sorted(placed.items()), start=1):
        yield Attempt(
            id=number,
            number=number,
            job=number,
            team=team,
            user=0,
            groups=(Group(tasks=sum(nodes.values()), units=1, flavors=(flavor,)),),
            flavors=(flavor,),
            placed=tuple(Placed(group=0, node=node, tasks=units) for node, units in sorted(nodes.items())),
            since=0,
        )


def _waves() -> Iterator[Attempt]:
    """Yield what each wave holds, its flavors as groups of single units."""
    columns = ("wave_id", "wave__job_id", "wave__job__team_id", "wave__job__user_id", "wave__job__borrow")
    rows = Task.objects.filter(state__in=sorted(TASK_HOLDING)).order_by("wave_id", "flavor_id", "node_id")
    held: dict[tuple[int, int, int, int, bool], dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for wave, job, team, user, borrow, preemptible, flavor, node, units in rows.values_list(
        *columns, "wave__job__preemptible", "flavor_id", "node_id"
    ).annotate(Sum("units")):
        held[wave, job, team, user, borrow and preemptible][flavor][node] = units
    for (wave, job, team, user, soft), flavors in held.items():
        yield Attempt(
            id=wave,
            number=wave,
            job=job,
            team=team,
            user=user,
            groups=tuple(Group(tasks=sum(flavors[each].values()), units=1, flavors=(each,)) for each in flavors),
            flavors=tuple(flavors),
            placed=tuple(
                Placed(group=group, node=node, tasks=units)
                for group, flavor in enumerate(flavors)
                for node, units in flavors[flavor].items()
            ),
            since=0,
            borrow=soft,
        )
