"""Queues with their policy, and priority classes."""

from django.conf import settings
from django.db.models import Count, OuterRef, QuerySet, Subquery

from queues.models import Job, PriorityClass, Queue
from queues.queries.estimates import scores
from queues.queries.rows.lines import PriorityRow, QueueRow
from queues.queries.rows.reasons import Score
from queues.spec.topology import NODE
from queues.states import JobState
from tenants.errors import NotFound
from tenants.permissions import Actor, Permission, leaves_seen, teams_seen, visible_teams

WAITING = [JobState.QUEUED, JobState.HELD]
HOLDING = [JobState.ADMITTED, JobState.RUNNING, JobState.EVICTING]


def queues(by: Actor, *, team: str = "") -> tuple[QueueRow, ...]:
    """Return the queues of the visible teams (or of one of them) by team and name."""
    found = _visible(by)
    if team:
        found = found.filter(team__name=team)
    editable = {team.id for team in teams_seen(by, Permission.EDIT_QUEUE)}
    rows = list(found.annotate(waiting=_counted(WAITING), holding=_counted(HOLDING)))
    held = scores(row.id for row in rows)
    return tuple(
        _row(row, row.waiting or 0, row.holding or 0, held.get(row.id), may_edit=row.team_id in editable)
        for row in rows
    )


def lines_for(by: Actor) -> tuple[str, ...]:
    """Return the queues to which somebody may submit, as team/name, by team and name."""
    teams = [team.id for team in leaves_seen(by, Permission.SUBMIT_JOB)]
    found = Queue.objects.filter(team__in=teams).order_by("team__name", "name", "id")
    return tuple(f"{team}/{name}" for team, name in found.values_list("team__name", "name"))


def queue(by: Actor, team: str, name: str) -> QueueRow:
    """Return one queue of a visible team."""
    for row in queues(by, team=team):
        if row.name == name:
            return row
    raise NotFound(f"There is no queue {team[:63]}/{name[:63]}.")


def levels() -> tuple[str, ...]:
    """Return the levels of the topology at which a job may say how close together it wants to be, outermost first."""
    return (*settings.TIDEGATE_LEVELS, NODE)


def priority_classes() -> tuple[PriorityRow, ...]:
    """Return the priority classes, highest first."""
    return tuple(
        PriorityRow(name=row.name, value=row.value, preemptible=row.preemptible, version=row.version)
        for row in PriorityClass.objects.order_by("-value", "id")
    )


def _visible(by: Actor) -> QuerySet[Queue]:
    found = Queue.objects.filter(team__in=visible_teams(by)).select_related("team")
    return found.order_by("team__name", "name", "id")


def _counted(states: list[JobState]) -> Subquery:
    """Return how many jobs of a queue are in some states."""
    jobs = Job.objects.filter(queue=OuterRef("pk"), state__in=states).order_by().values("queue")
    return Subquery(jobs.annotate(count=Count("id")).values("count"))


def _row(queue: Queue, waiting: int, holding: int, score: Score | None, *, may_edit: bool) -> QueueRow:
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
        waiting_jobs=waiting,
        running_jobs=holding,
        may_edit=may_edit,
        score=score,
    )
