"""The clusters of this installation: how each is, and what it has."""

from django.db.models import Count, Q, Sum

from queues.models import ClusterState
from queues.queries.rows.machines import ClusterDetail
from tenants.permissions import Actor, Permission, can, require

THERE = Q(nodes__gone_at=None, nodes__id__isnull=False)
USABLE = THERE & Q(nodes__ready=True, nodes__cordoned=False, nodes__tainted=False, nodes__flavor__isnull=False)


def clusters(by: Actor) -> tuple[ClusterDetail, ...]:
    """Return the clusters by name; those that are configured no more as long as nodes of theirs are known."""
    require(by, Permission.VIEW_NODES)
    tells = can(by, Permission.VIEW_DECISIONS)
    rows = ClusterState.objects.annotate(
        there=Count("nodes", filter=THERE),
        ready=Count("nodes", filter=USABLE),
        units=Sum("nodes__units", filter=THERE & Q(nodes__flavor__isnull=False), default=0),
    )
    return tuple(
        ClusterDetail(
            name=row.name,
            state=_state(row),
            error=row.error if tells else "",
            kubernetes_version=row.kubernetes_version,
            listed_at=row.listed_at,
            unreachable_since=row.unreachable_since,
            nodes=row.there,
            usable_nodes=0 if row.away else row.ready,
            units=row.units,
        )
        for row in rows.order_by("name", "id")
        if row.retired_at is None or row.there
    )


def _state(row: ClusterState) -> str:
    if row.retired_at is not None:
        return "retired"
    if row.unreachable_since is None:
        return "ready"
    return "away" if row.away else "unreachable"
