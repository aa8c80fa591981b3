"""The time in which a queue or a team was paused does not count as waiting: moved in one statement when it resumes."""

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Case, DateTimeField, DurationField, F, Q, Value, When
from django.db.models.expressions import Combinable, CombinedExpression
from django.db.models.functions import Coalesce, Greatest, Least

from queues.models import Job, Queue
from queues.states import JobState
from tenants.models import Team
from tenants.permissions import below

PASSES_TIME = [JobState.QUEUED, JobState.ADMITTED, JobState.RUNNING, JobState.HELD]


def queue_resumed(queue: Queue, *, paused_at: datetime, now: datetime) -> int:
    """Move the waiting time of a queue's jobs past the pause; what a paused team above accounts for is left to it."""
    return _pass_over([queue.id], since=paused_at, until=_still_paused(queue.team, now))


def team_resumed(team: Team, *, paused_at: datetime, now: datetime) -> int:
    """Move the waiting time of all jobs below a team past the pause; a queue that is paused itself goes on to be."""
    until = now if team.parent is None else _still_paused(team.parent, now)
    queues = Queue.objects.filter(team__in=below(team.id))
    moved = _pass_over(queues.filter(paused_at=None).values("id"), since=paused_at, until=until)
    for queue in queues.filter(paused_at__isnull=False).order_by("id"):
        moved += _pass_over([queue.id], since=paused_at, until=min(until, queue.paused_at or until))
    return moved


def _still_paused(team: Team, now: datetime) -> datetime:
    """Return since when the team or a department above is paused, now where none is: from then on others count."""
    until = now
    above: Team | None = team
    while above is not None:
        until = min(until, above.paused_at or until)
        above = above.parent
    return until


def _pass_over(queues: Iterable[int] | object, *, since: datetime, until: datetime) -> int:
    """Add to each job's wait-from the time between ``since`` and ``until`` in which it would have waited."""
    if until <= since:
        return 0
    # What waits has waited since it came into its state; of what was put aside that moment is not kept.
    entered = Case(When(not_waiting_since=None, then=F("state_since")), default=F("submitted_at"))
    begun = Greatest(Value(since), entered, output_field=DateTimeField())
    ended = Least(Value(until), Coalesce(F("not_waiting_since"), Value(until)), output_field=DateTimeField())
    passed = Greatest(Value("0 seconds"), _between(ended, begun), output_field=DurationField())
    moved = CombinedExpression(F("wait_from"), "+", passed, output_field=DateTimeField())
    jobs = Job.objects.filter(Q(queue__in=queues), state__in=PASSES_TIME, waiting_tasks__gt=0)
    return jobs.update(wait_from=Greatest(F("wait_from"), Least(Value(until), moved)))


def _between(later: Combinable, earlier: Combinable) -> CombinedExpression:
    return CombinedExpression(later, "-", earlier, output_field=DurationField())
