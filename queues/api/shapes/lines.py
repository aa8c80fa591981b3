"""What is said of queues, priority classes and the order."""

from typing import Any

from rest_framework import serializers

from queues.admission.world import QueueOrder
from queues.api.shapes.jobs import EstimateOut, JobOut
from queues.models.queue import PreemptWithinTeam
from tenants.rest.schema import WarningOut
from tenants.rest.shapes import Choice, Duration, Flag, Shape, Text, Whole

Out = serializers.Serializer[Any]


class QueueQuery(Shape):
    """Which queues to list."""

    team = serializers.CharField(required=False)


class QueuePatch(Shape):
    """What to change of a queue's policy; null is no limit."""

    order = Choice(QueueOrder, required=False)
    hold_after = Duration(required=False)
    default_time_limit = Duration(required=False, allow_null=True)
    max_time_limit = Duration(required=False, allow_null=True)
    max_grace = Duration(required=False)
    start_limit = Duration(required=False)
    start_retries = Whole(required=False)
    per_user_limit = Whole(required=False, allow_null=True)
    max_priority = Whole(required=False, allow_null=True)
    preempt_within_team = Choice(PreemptWithinTeam, required=False)
    min_runtime = Duration(required=False)
    limit_needed_to_borrow = Flag(required=False)
    paused = Flag(required=False)


class QueueIn(QueuePatch):
    """A queue to make."""

    team = Text(max_length=200)
    name = Text(max_length=200)


class ScoreOut(Out):
    """How forecasts held: of so many so many jobs started until p50 and until p90; ``width`` is the mean range."""

    forecasts = serializers.IntegerField()
    until_p50 = serializers.IntegerField()
    until_p90 = serializers.IntegerField()
    width = Duration()


class QueueOut(Out):
    """A queue and its policy."""

    team = serializers.CharField()
    name = serializers.CharField()
    order = serializers.CharField()
    hold_after = Duration()
    default_time_limit = Duration(allow_null=True)
    max_time_limit = Duration(allow_null=True)
    max_grace = Duration()
    start_limit = Duration()
    start_retries = serializers.IntegerField()
    per_user_limit = serializers.IntegerField(allow_null=True)
    max_priority = serializers.IntegerField(allow_null=True)
    preempt_within_team = serializers.CharField()
    min_runtime = Duration()
    limit_needed_to_borrow = serializers.BooleanField()
    paused_at = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField()
    waiting_jobs = serializers.IntegerField()
    running_jobs = serializers.IntegerField()
    forecasts = ScoreOut(source="score", allow_null=True)


class QueuesOut(Out):
    """Queues by team and name."""

    items = QueueOut(many=True)


class PriorityIn(Shape):
    """A priority class."""

    value = Whole()
    preemptible = Flag(required=False, default=True)


class PriorityOut(Out):
    """A priority class."""

    name = serializers.CharField()
    value = serializers.IntegerField()
    preemptible = serializers.BooleanField()
    version = serializers.IntegerField()


class PrioritiesOut(Out):
    """Priority classes, highest first."""

    items = PriorityOut(many=True)


class OrderQuery(Shape):
    """Of which GPU type to show the order; ``team`` leaves out the rows of others."""

    flavor = serializers.CharField()
    team = serializers.CharField(required=False, default="")


class OrderRowOut(Out):
    """A waiting job in the order; ``job`` is null where you may not see it."""

    rank = serializers.IntegerField(allow_null=True)
    units = serializers.IntegerField()
    units_ahead = serializers.IntegerField()
    starts_next = serializers.BooleanField()
    job = JobOut(allow_null=True)
    estimate = EstimateOut(allow_null=True)


class OrderOut(Out):
    """Who starts next on a GPU type, and (``permanent``) who can never start."""

    flavor = serializers.CharField()
    free = serializers.IntegerField()
    waiting_jobs = serializers.IntegerField()
    waiting_units = serializers.IntegerField()
    rows = OrderRowOut(many=True)
    permanent = OrderRowOut(many=True)
    as_of = serializers.DateTimeField()


class LoanQuery(Shape):
    """Which loans to show."""

    team = serializers.CharField(required=False, default="")
    flavor = serializers.CharField(required=False, default="")


class LoanJobOut(Out):
    """A job that runs on borrowed units."""

    id = serializers.UUIDField(source="job")
    name = serializers.CharField()
    owner = serializers.CharField()
    units = serializers.IntegerField()


class LoanSideOut(Out):
    """Who is on the other side: a team, or what ``kind`` says; jobs are told where you may see them."""

    kind = serializers.CharField(help_text="team, unassigned, over_lending or others")
    team = serializers.CharField()
    units = serializers.IntegerField()
    jobs = LoanJobOut(many=True)


class TeamLoansOut(Out):
    """What a team borrows and lends on a GPU type at this moment; a department: across its border."""

    team = serializers.CharField()
    department = serializers.BooleanField()
    flavor = serializers.CharField()
    borrowed = serializers.IntegerField()
    lent = serializers.IntegerField()
    lenders = LoanSideOut(many=True)
    borrowers = LoanSideOut(many=True)
    jobs = LoanJobOut(many=True)


class LoansOut(Out):
    """Loans by GPU type and team; a team without any is left out."""

    items = TeamLoansOut(many=True)


class QuotaEditIn(Shape):
    """What a team would be guaranteed, may borrow and lend; what is left out stays, null is no limit."""

    team = Text(max_length=200)
    flavor = Text(max_length=200)
    guaranteed = Whole(required=False)
    borrow_limit = Whole(required=False, allow_null=True)
    lend_limit = Whole(required=False, allow_null=True)


class QuotaPreviewIn(Shape):
    """Edits of quotas that are looked at together."""

    edits = QuotaEditIn(many=True)


class PreviewJobOut(Out):
    """A job that a change would touch; ``count`` are tasks that start, or units."""

    id = serializers.UUIDField(source="job", allow_null=True)
    name = serializers.CharField()
    team = serializers.CharField()
    owner = serializers.CharField()
    count = serializers.IntegerField()


class PreviewMoveOut(Out):
    """An expected start that a change would move."""

    job = PreviewJobOut()
    before = serializers.DateTimeField()
    after = serializers.DateTimeField()


class QuotaPreviewOut(Out):
    """What edits of quotas would change at this moment; ``moves`` are the starts that move most."""

    as_of = serializers.DateTimeField()
    warnings = WarningOut(source="notices", many=True)
    starts = PreviewJobOut(many=True)
    starts_no_more = PreviewJobOut(many=True)
    reclaimed = PreviewJobOut(many=True)
    borrowed = PreviewJobOut(many=True)
    impossible = serializers.IntegerField()
    sooner = serializers.IntegerField()
    later = serializers.IntegerField()
    moves = PreviewMoveOut(many=True)
