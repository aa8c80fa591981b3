"""The first page: is there room, who uses what, is anything wrong."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef

from queues.models import ClusterState, Decision, Job, Node, Verdict
from queues.queries.bars import bars_of, numbers_of
from queues.queries.estate import estate, one_moment
from queues.queries.history import events
from queues.queries.inventory import drift
from queues.queries.loans import loans_of
from queues.queries.nodes import node_rows
from queues.queries.reasons import Reasons
from queues.queries.rows import Attention, ClusterRow, Freshness, Overview
from queues.queries.waits import waiting
from queues.states import JobState
from tenants.permissions import Actor, Permission, can

SHOWN = 10
LONG_START = timedelta(minutes=5)


def overview(by: Actor, *, now: datetime) -> Overview:
    """Return the first page: numbers of each flavor, bars of the visible teams, what needs attention, last changes."""
    with one_moment():
        world, waits = estate(), waiting()
    fresh = freshness()
    return Overview(
        flavors=numbers_of(world, waits),
        bars=tuple(bars_of(world, waits, by)),
        loans=loans_of(world, by),
        attention=tuple(_attention(by, fresh, now)),
        changes=events(by, limit=SHOWN, newest_first=True),
        freshness=fresh,
        as_of=now,
    )


def freshness() -> Freshness:
    """Return how old the last decision and the clusters' pictures are."""
    last = Decision.objects.order_by("-id").only("id", "at").first()
    return Freshness(
        last_cycle=last.id if last else None,
        last_cycle_at=last.at if last else None,
        clusters=tuple(
            ClusterRow(
                name=row.name,
                kubernetes_version=row.kubernetes_version,
                listed_at=row.listed_at,
                heard_at=row.heard_at,
                unreachable_since=row.unreachable_since,
                error=row.error,
            )
            for row in ClusterState.objects.filter(retired_at=None).order_by("name", "id")
        ),
    )


def _attention(by: Actor, fresh: Freshness, now: datetime) -> Iterator[Attention]:
    for cluster in fresh.clusters:
        if cluster.unreachable_since is not None:
            text = f"Cluster {cluster.name} does not answer. {cluster.error}".strip()
            yield Attention(kind="cluster", text=text, since=cluster.unreachable_since, cluster=cluster.name)
    yield from _nodes()
    if can(by, Permission.VIEW_DECISIONS):
        yield from _drift(by)
    yield from _never(by, now)
    yield from _slow_starts(by, now)


def _nodes() -> Iterator[Attention]:
    sick = Node.objects.filter(gone_at=None, flavor__isnull=False, cluster__away=False).exclude(
        ready=True, cordoned=False, tainted=False
    )
    found = list(sick.select_related("cluster", "flavor").order_by("-changed_at", "id")[:SHOWN])
    for node, row in zip(found, node_rows(found), strict=True):
        yield Attention(
            kind="node", text=f"{row.name}: {row.why}", since=node.changed_at, node=row.name, cluster=row.cluster
        )


def _drift(by: Actor) -> Iterator[Attention]:
    for row in drift(by)[:SHOWN]:
        yield Attention(
            kind="drift", text=f"{row.node}: {row.text}", since=row.since, node=row.node, cluster=row.cluster
        )


def _never(by: Actor, now: datetime) -> Iterator[Attention]:
    never = Verdict.objects.filter(job_class=OuterRef("job_class"), user=None, permanent=True)
    jobs = Job.objects.visible_to(by).filter(Exists(never), state=JobState.QUEUED).defer("spec")
    found = list(jobs.order_by("-id")[:SHOWN])
    reasons = Reasons(found, by, now)
    for job in found:
        reason = reasons.of(job)
        if reason is not None and reason.permanent:
            yield Attention(kind="never", text=f"{job.name}: {reason.summary}", since=reason.since, job=job.uid)


def _slow_starts(by: Actor, now: datetime) -> Iterator[Attention]:
    jobs = Job.objects.visible_to(by).filter(state=JobState.ADMITTED, state_since__lte=now - LONG_START).defer("spec")
    for job in jobs.order_by("state_since", "id")[:SHOWN]:
        text = job.reason_text or "Its pods have not started yet."
        yield Attention(kind="start", text=f"{job.name}: {text}", since=job.state_since, job=job.uid)
