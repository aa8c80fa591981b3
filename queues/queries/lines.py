"""Queues with their policy, and priority classes."""

from django.db.models import Count, Q, QuerySet

from queues.models import PriorityClass, Queue
from queues.queries.rows import PriorityRow, QueueRow
from queues.states import JobState
from tenants.errors import NotFound
from tenants.permissions import Actor, Permission, visible_teams

WAITING = [JobState.QUEUED, JobState.HELD]
HOLDING = [JobState.ADMITTED, JobState.RUNNING, JobState.EVICTING]


def queues(by: Actor, *, team: str = "") -> tuple[QueueRow, ...]:
    """Return the queues of the visible teams (or of one of them) by team and name."""
    found = _visible(by)
    if team:
        found = found.filter(team__name=team)
    editable = set(visible_teams(by, Permission.EDIT_QUEUE).values_list("id", flat=True))
    return tuple(_row(row, may_edit=row.team_id in editable) for row in found)


def queue(by: Actor, team: str, name: str) -> QueueRow:
    """Return one queue of a visible team."""
    for row in queues(by, team=team):
        if row.name == name:
            return row
    raise NotFound(f"There is no queue {team[:63]}/{name[:63]}.")


def priority_classes() -> tuple[PriorityRow, ...]:
    """Return the priority classes, highest first."""
    return tuple(
        PriorityRow(name=row.name, value=row.value, preemptible=row.preemptible, version=row.version)
        for row in PriorityClass.objects.order_by("-value", "id")
    )


def _visible(by: Actor) -> QuerySet[Queue]:
    return (
        Queue.objects.filter(team__in=visible_teams(by))
        .select_related("team")
        .annotate(
            waiting=Count("jobs", filter=Q(jobs__state__in=WAITING)),
            running=Count("jobs", filter=Q(jobs__state__in=HOLDING)),
        )
        .order_by("team__name", "name", "id")
    )


def _row(queue: Queue, *, may_edit: bool) -> QueueRow:
    return QueueRow(
        id=queue.id,
        team=queue.team.name,
        name=queue.name,
        order=queue.order,
        hold_after=queue.hold_after,
        default_time_limit=queue.default_time_limit,
        max_time_limit=queue.max_time_limit,
        max_grace=queue.max_grace,
        start_limit=queue.start_limit,
        start_retries=queue.start_retries,
        per_user_limit=queue.per_user_limit,
        max_priority=queue.max_priority,
        paused_at=queue.paused_at,
        version=queue.version,
        waiting_jobs=getattr(queue, "waiting", 0),
        running_jobs=getattr(queue, "running", 0),
        may_edit=may_edit,
    )
