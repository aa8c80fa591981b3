"""Queues with their policy, and priority classes."""

from django.db.models import Count, QuerySet

from queues.models import Job, PriorityClass, Queue
from queues.queries.estimates import scores
from queues.queries.rows import PriorityRow, QueueRow, Score
from queues.states import ACTIVE, JobState
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
    rows = list(found)
    ids = [row.id for row in rows]
    counts, held = _counts(ids), scores(ids)
    return tuple(_row(row, counts, held.get(row.id), may_edit=row.team_id in editable) for row in rows)


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
    found = Queue.objects.filter(team__in=visible_teams(by)).select_related("team")
    return found.order_by("team__name", "name", "id")


def _counts(ids: list[int]) -> dict[tuple[int, str], int]:
    """Count the jobs that have not ended, by queue and state."""
    jobs = Job.objects.filter(queue__in=ids, state__in=sorted(ACTIVE)).order_by("queue_id", "state")
    rows = jobs.values_list("queue_id", "state").annotate(Count("id"))
    return {(queue, state): count for queue, state, count in rows}


def _row(queue: Queue, counts: dict[tuple[int, str], int], score: Score | None, *, may_edit: bool) -> QueueRow:
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
        preempt_within_team=queue.preempt_within_team,
        min_runtime=queue.min_runtime,
        limit_needed_to_borrow=queue.limit_needed_to_borrow,
        paused_at=queue.paused_at,
        version=queue.version,
        waiting_jobs=sum(counts.get((queue.id, state), 0) for state in WAITING),
        running_jobs=sum(counts.get((queue.id, state), 0) for state in HOLDING),
        may_edit=may_edit,
        score=score,
    )
