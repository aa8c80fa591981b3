"""The first page: is there room, who uses what, is anything wrong."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Q, Subquery

from queues.models import ClusterState, Decision, Job, Node, Verdict
from queues.queries.bars import bars_of, numbers_of
from queues.queries.estate import estate, one_moment
from queues.queries.history import events
from queues.queries.inventory import drift
from queues.queries.loans import loans_of
from queues.queries.nodes import nodes_known, why_unusable
from queues.queries.reasons import Reasons
from queues.queries.rows.machines import ClusterRow, Freshness
from queues.queries.rows.overview import Attention, Overview
from queues.queries.waits import waiting
from queues.states import JobState
from tenants.permissions import Actor, Permission, can

SHOWN = 10
LONG_START = timedelta(minutes=5)


def overview(by: Actor, *, now: datetime) -> Overview:
    """Return the first page: numbers of each flavor, bars of the visible teams, what needs attention, last changes."""
    with one_moment():
        known = nodes_known()
        world, waits = estate(there=known), waiting()
    fresh = freshness()
    return Overview(
        flavors=numbers_of(world, waits),
        bars=tuple(bars_of(world, waits, by)),
        loans=loans_of(world, by),
        attention=tuple(_attention(by, fresh, [row for row in known if row.gone_at is None], now)),
        changes=events(by, limit=SHOWN, newest_first=True),
        freshness=fresh,
        as_of=now,
    )


def freshness() -> Freshness:
    """Return how old the last decision and the clusters' pictures are."""
    last = Decision.objects.order_by("-id")
    rows = ClusterState.objects.filter(retired_at=None).order_by("name", "id")
    found = list(rows.annotate(last_id=Subquery(last.values("id")[:1]), last_at=Subquery(last.values("at")[:1])))
    said = [(row.last_id, row.last_at) for row in found[:1]] or list(last.values_list("id", "at")[:1])
    cycle, at = said[0] if said else (None, None)
    return Freshness(
        last_cycle=cycle,
        last_cycle_at=at,
        clusters=tuple(
            ClusterRow(
                name=row.name,
                kubernetes_version=row.kubernetes_version,
                listed_at=row.listed_at,
                heard_at=row.heard_at,
                unreachable_since=row.unreachable_since,
                error=row.error,
            )
            for row in found
        ),
    )


def _attention(by: Actor, fresh: Freshness, there: Sequence[Node], now: datetime) -> Iterator[Attention]:
    for cluster in fresh.clusters:
        if cluster.unreachable_since is not None:
            text = f"Cluster {cluster.name} does not answer. {cluster.error}".strip()
            yield Attention(kind="cluster", text=text, since=cluster.unreachable_since, cluster=cluster.name)
    yield from _nodes(there)
    if can(by, Permission.VIEW_DECISIONS):
        yield from _drift(by, there)
    yield from _jobs(by, now)


def _nodes(there: Iterable[Node]) -> Iterator[Attention]:
    sick = [row for row in there if row.flavor_id is not None and not row.usable and not row.cluster.away]
    for node in sorted(sick, key=lambda row: (-row.changed_at.timestamp(), row.id))[:SHOWN]:
        text = f"{node.name}: {why_unusable(node)}"
        yield Attention(kind="node", text=text, since=node.changed_at, node=node.name, cluster=node.cluster.name)


def _drift(by: Actor, there: Iterable[Node]) -> Iterator[Attention]:
    for row in drift(by, among=there)[:SHOWN]:
        yield Attention(
            kind="drift", text=f"{row.node}: {row.text}", since=row.since, node=row.node, cluster=row.cluster
        )


def _jobs(by: Actor, now: datetime) -> Iterator[Attention]:
    """Yield the newest jobs that can never start, and those that start for longest, read in one statement."""
    never = Verdict.objects.filter(job_class=OuterRef("job_class"), user=None, permanent=True)
    seen = Job.objects.visible_to(by)
    newest = seen.filter(Exists(never), state=JobState.QUEUED).order_by("-id")[:SHOWN]
    slow = seen.filter(state=JobState.ADMITTED, state_since__lte=now - LONG_START).order_by("state_since", "id")[:SHOWN]
    ids = Q(id__in=newest.values("id")) | Q(id__in=slow.values("id"))
    found = list(Job.objects.filter(ids).defer("spec").order_by("-id"))
    waits = [job for job in found if job.state == JobState.QUEUED]
    reasons = Reasons(waits, by, now)
    for job in waits:
        reason = reasons.of(job)
        if reason is not None and reason.permanent:
            yield Attention(kind="never", text=f"{job.name}: {reason.summary}", since=reason.since, job=job.uid)
    for job in sorted(found, key=lambda job: (job.state_since, job.id)):
        if job.state == JobState.ADMITTED:
            text = job.reason_text or "Its pods have not started yet."
            yield Attention(kind="start", text=f"{job.name}: {text}", since=job.state_since, job=job.uid)
