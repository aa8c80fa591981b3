"""What is said of jobs."""

from dataclasses import fields
from functools import cache
from typing import Any

from rest_framework import serializers

from queues.queries.rows.jobs import JobDetail
from queues.services import IfExists
from tenants.rest.schema import WarningOut
from tenants.rest.shapes import Choice, Duration, Flag, Shape, Text, Whole

Out = serializers.Serializer[Any]


class JobQuery(Shape):
    """Which jobs to list; ``state``, ``team`` and ``gpu_type`` take several words with commas, ``label`` may repeat."""

    state = serializers.CharField(required=False, allow_blank=True)
    team = serializers.CharField(required=False, allow_blank=True)
    owner = serializers.CharField(required=False, allow_blank=True, help_text="A login, or me.")
    label = serializers.CharField(required=False, allow_blank=True, help_text="key:value")  # type: ignore[assignment]  # a field, not DRF's attribute
    gpu_type = serializers.CharField(required=False, allow_blank=True)
    queue = serializers.CharField(required=False, allow_blank=True, help_text="A name, or team/name.")
    q = serializers.CharField(required=False, allow_blank=True, help_text="Words that the name has.")
    external_id = serializers.CharField(required=False, allow_blank=True)
    created_at__gte = serializers.CharField(required=False, allow_blank=True)
    created_at__lt = serializers.CharField(required=False, allow_blank=True)


class JobCountQuery(JobQuery):
    """Which jobs to count, and by what."""

    group_by = Choice(("state", "team", "queue", "owner"), required=False, default="state")


class SubmitQuery(Shape):
    """What to do where external_id is taken."""

    if_exists = Choice(IfExists, required=False)


class JobPatch(Shape):
    """What to change of a job; labels are replaced as a whole, ``max_tasks`` is for elastic jobs without groups."""

    priority = Text(required=False, max_length=63)
    labels = serializers.DictField(required=False, child=serializers.JSONField())
    max_tasks = Whole(required=False)


class CheckpointIn(Shape):
    """What was saved: by which task (its index in the job; null: the whole job), and when (null: now)."""

    task = Whole(required=False, allow_null=True, min_value=0)
    at = serializers.DateTimeField(required=False, allow_null=True)


class BatchIn(Shape):
    """Jobs to submit, each a compact spec."""

    jobs = serializers.ListField(child=serializers.JSONField())


class CancelManyIn(Shape):
    """Which jobs to cancel: named ones, or those that a filter of the list finds."""

    ids = serializers.ListField(child=serializers.UUIDField(), required=False)
    filter = serializers.DictField(required=False, child=Text())
    dry_run = Flag(required=False, default=False)


class WaitQuery(Shape):
    """Until when to wait, at most ``timeout`` seconds."""

    until = Choice(("running", "terminal"), required=False, default="terminal")
    timeout = serializers.IntegerField(required=False, default=60, min_value=0, max_value=60)


class BlockerOut(Out):
    """What stands in a job's way; ``job`` is null where you may not see it."""

    text = serializers.CharField()
    units = serializers.IntegerField()
    job = serializers.UUIDField(allow_null=True)


class ActionOut(Out):
    """What would help."""

    text = serializers.CharField()
    href = serializers.CharField()


class ReasonOut(Out):
    """Why a job stands where it stands."""

    code = serializers.CharField()
    permanent = serializers.BooleanField()
    summary = serializers.CharField()
    since = serializers.DateTimeField()
    details = serializers.DictField()
    blockers = BlockerOut(many=True)
    actions = ActionOut(many=True)


class PositionOut(Out):
    """The place in the queue order; ``about`` behind the first 200."""

    rank = serializers.IntegerField()
    units_ahead = serializers.IntegerField()
    about = serializers.BooleanField()


class EstimateOut(Out):
    """When a waiting job is expected to start: a range with its basis, or nulls with the cause; ``summary`` says it."""

    p50 = serializers.DateTimeField(allow_null=True)
    p90 = serializers.DateTimeField(allow_null=True)
    basis = serializers.CharField(help_text="room, time_limits or run_times")
    cause = serializers.CharField(help_text="endless, never, paused, blocked, too_late or too_far")
    summary = serializers.CharField()
    as_of = serializers.DateTimeField()


class ElasticOut(Out):
    """An elastic job between its bounds: it grew to what runs and starts now; ``stalled`` codes what stops it."""

    min = serializers.IntegerField(source="least")
    max = serializers.IntegerField(source="most")
    running = serializers.IntegerField()
    starting = serializers.IntegerField()
    grows_from = serializers.DateTimeField(allow_null=True, help_text="It gave surplus back and grows not before.")
    stalled = serializers.CharField(help_text="A reason's code, or empty.")
    summary = serializers.CharField()


class JobOut(Out):
    """A job in a list; ``units`` counts all its tasks, of an elastic job those of its minimum.

    ``elastic`` is null for other shapes.
    """

    id = serializers.UUIDField(source="uid")
    name = serializers.CharField()
    team = serializers.CharField()
    queue = serializers.CharField()
    owner = serializers.CharField()
    shape = serializers.CharField()
    tasks = serializers.IntegerField()
    tasks_waiting = serializers.IntegerField()
    units = serializers.IntegerField()
    gpu_types = serializers.ListField(source="flavors", child=serializers.CharField())
    priority = serializers.CharField()
    state = serializers.CharField()
    state_since = serializers.DateTimeField()
    attempt = serializers.IntegerField()
    submitted_at = serializers.DateTimeField()
    wait_from = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    external_id = serializers.CharField(allow_null=True)
    labels = serializers.DictField(child=serializers.CharField())
    reason = ReasonOut(allow_null=True)
    elastic = ElasticOut(allow_null=True)


class GroupOut(Out):
    """A task group as asked for, per task; CPU in thousandths of a core, memory in bytes.

    ``max_tasks`` is null where as many as ``tasks`` run at most.
    """

    name = serializers.CharField()
    tasks = serializers.IntegerField()
    max_tasks = serializers.IntegerField(source="most", allow_null=True)
    units = serializers.IntegerField()
    gpu_types = serializers.ListField(source="flavors", child=serializers.CharField())
    cpu_milli = serializers.IntegerField()
    memory = serializers.IntegerField()
    image = serializers.CharField()


class JobDetailOut(JobOut):
    """All of a job but its history. ``estimate`` is null where nothing has been told yet, and of what does not wait."""

    groups = GroupOut(many=True)
    spec = serializers.JSONField()
    time_limit = Duration(allow_null=True)
    ran_for = Duration()
    ends_by = serializers.DateTimeField(allow_null=True)
    grace = Duration()
    retries = serializers.IntegerField()
    failures = serializers.IntegerField()
    interruptions = serializers.IntegerField(
        help_text="How often lost nodes and deleted or evicted pods ended an attempt."
    )
    evictions = serializers.IntegerField()
    borrow = serializers.BooleanField()
    preemptible = serializers.BooleanField()
    borrowed = serializers.BooleanField(
        help_text="Whether any unit of it is borrowed at this moment, the surplus of an elastic job left out."
    )
    next_state = serializers.CharField()
    backoff_until = serializers.DateTimeField(allow_null=True)
    cloned_from = serializers.UUIDField(allow_null=True)
    position = PositionOut(allow_null=True)
    estimate = EstimateOut(allow_null=True)
    tasks_by_state = serializers.DictField(child=serializers.IntegerField())
    may = serializers.ListField(child=serializers.CharField())

    @classmethod
    def show(cls, detail: JobDetail) -> dict[str, Any]:
        """Return the row's fields and the detail's own as one object."""
        row = {each.name: getattr(detail.row, each.name) for each in fields(detail.row)}
        own = {each.name: getattr(detail, each.name) for each in fields(detail) if each.name != "row"}
        return dict(_shape(cls).to_representation({**row, **own, "may": sorted(detail.may)}))


@cache
def _shape(shape: type[JobDetailOut]) -> JobDetailOut:
    """Return a shape that is only read: to build its fields takes longer than to show a job with them."""
    return shape()


class SubmittedOut(JobDetailOut):
    """A job that is there now; ``created`` false where its external_id had been used before."""

    created = serializers.BooleanField()
    terminal = serializers.BooleanField()
    warnings = WarningOut(many=True)


class CountsOut(Out):
    """How many jobs there are by what was asked."""

    group_by = serializers.CharField()
    counts = serializers.DictField(child=serializers.IntegerField())


class EventOut(Out):
    """Something that happened to a job; ``id`` rises for ever."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    type = serializers.CharField()
    actor = serializers.CharField()
    summary = serializers.CharField()
    details = serializers.DictField()
    job = serializers.UUIDField()
    job_name = serializers.CharField()


class TaskOut(Out):
    """An admitted task on its node.

    ``container`` ended badly, ``meaning`` says how in words, ``log_kept``: its last lines outlive its pod.
    """

    index = serializers.IntegerField()
    group = serializers.IntegerField()
    node = serializers.CharField()
    units = serializers.IntegerField()
    state = serializers.CharField()
    pod = serializers.CharField()
    started_at = serializers.DateTimeField(allow_null=True)
    saved_at = serializers.DateTimeField(allow_null=True, help_text="Its last checkpoint")
    ended_at = serializers.DateTimeField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    container = serializers.CharField()
    reason = serializers.CharField()
    message = serializers.CharField()
    meaning = serializers.CharField()
    log_kept = serializers.BooleanField()


class WaveOut(Out):
    """The tasks that one decision admitted; ``tasks_left_out`` are not listed.

    ``surplus`` ones are beside the minimum of an elastic job and go back to whoever needs their GPUs.
    """

    id = serializers.UUIDField(source="uid")
    number = serializers.IntegerField()
    cycle = serializers.IntegerField()
    state = serializers.CharField()
    gpu_types = serializers.ListField(source="flavors", child=serializers.CharField())
    units = serializers.IntegerField()
    borrowed = serializers.BooleanField(
        help_text="Whether any unit is borrowed: now, where the wave holds units, else as it was when it was admitted."
    )
    surplus = serializers.BooleanField()
    admitted_at = serializers.DateTimeField()
    launched_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    outcome = serializers.CharField()
    error = serializers.CharField()
    tasks = TaskOut(many=True)
    tasks_left_out = serializers.IntegerField()


class CheckpointOut(Out):
    """So many running tasks count as saved until ``at``."""

    at = serializers.DateTimeField()
    tasks = serializers.IntegerField()


class AttemptOut(Out):
    """All waves since the job was last queued."""

    number = serializers.IntegerField()
    waves = WaveOut(many=True)


class AttemptsOut(Out):
    """A job's attempts, newest first."""

    items = AttemptOut(many=True)


class ManifestOut(Out):
    """Kubernetes objects; ``changed`` points to what Tidegate sets in, or takes out of, one that people wrote."""

    items = serializers.ListField(child=serializers.DictField())
    changed = serializers.ListField(child=serializers.CharField())


class BoundOut(Out):
    """Until when a job starts: ``latest`` = ``holds_from`` + (``before`` + 1) x ``longest``, as things are now.

    ``planned_at`` is the start that is planned for it, if it holds. ``latest`` is null where nothing is certain.
    """

    standing = serializers.CharField(help_text="guaranteed or borrower")
    planned_at = serializers.DateTimeField(allow_null=True)
    moved = serializers.CharField(help_text="Why the plan moved last: earlier, impossible or guaranteed")
    holds_from = serializers.DateTimeField()
    before = serializers.IntegerField(help_text="Jobs that hold before it")
    longest = Duration(help_text="The longest time for which anything holds GPUs of the type")
    latest = serializers.DateTimeField(allow_null=True)
    cause = serializers.CharField(help_text="Why latest is null: borrower, endless or many")
    summary = serializers.CharField()


class ExplanationOut(Out):
    """Why a job waits, in numbers of one GPU type."""

    reason = ReasonOut(allow_null=True)
    flavor = serializers.CharField()
    needs = serializers.IntegerField()
    team_guaranteed = serializers.IntegerField()
    team_used = serializers.IntegerField()
    team_left = serializers.IntegerField()
    may_borrow = serializers.IntegerField(allow_null=True)
    free_now = serializers.IntegerField()
    largest_free_block = serializers.IntegerField()
    rule = serializers.CharField()
    bound = BoundOut(allow_null=True)
    position = PositionOut(allow_null=True)
    ahead = BlockerOut(many=True)
    helps = ActionOut(many=True)
    as_of = serializers.DateTimeField()


class ProblemOut(Out):
    """Why one item of many was refused."""

    status = serializers.IntegerField()
    code = serializers.CharField()
    detail = serializers.CharField()
    errors = serializers.ListField(child=serializers.DictField())  # type: ignore[assignment]  # a field, not DRF's attribute


class BatchItemOut(Out):
    """What became of one job of a batch: its id, or why it was refused."""

    id = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    created = serializers.BooleanField()
    terminal = serializers.BooleanField()
    warnings = WarningOut(many=True)
    error = ProblemOut(allow_null=True)


class BatchOut(Out):
    """What became of a batch, in its order."""

    items = BatchItemOut(many=True)
    created = serializers.IntegerField()
    refused = serializers.IntegerField()


class PlanErrorOut(Out):
    """What is wrong with a field."""

    pointer = serializers.CharField()
    code = serializers.CharField()
    detail = serializers.CharField()
    given = serializers.JSONField(allow_null=True)
    allowed = serializers.ListField(child=serializers.JSONField())


class PlanOut(Out):
    """What would become of a job; where it is not ``valid`` only ``errors`` say something.

    ``fits``: it can ever start. ``needs`` are the units of ``gpu_type`` that must be free at once: ``own`` ones inside
    its guarantee, and ``borrowed`` ones. ``reason`` says why it would wait, ``written`` how a manifest was read.
    """

    valid = serializers.BooleanField()
    errors = PlanErrorOut(many=True)  # type: ignore[assignment]  # a field, not DRF's attribute
    fits = serializers.BooleanField()
    starts_now = serializers.BooleanField()
    written = serializers.CharField()
    units = serializers.IntegerField()
    max_units = serializers.IntegerField(source="most_units")
    gpu_type = serializers.CharField(source="flavor")
    needs = serializers.IntegerField()
    own = serializers.IntegerField()
    borrowed = serializers.IntegerField()
    reason = ReasonOut(allow_null=True)
    position = PositionOut(allow_null=True)
    estimate = EstimateOut(allow_null=True)
    warnings = WarningOut(many=True)
    as_of = serializers.DateTimeField()


class ManyItemOut(Out):
    """What became of one job of many."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    error = ProblemOut(allow_null=True)


class ManyOut(Out):
    """What became of many jobs; ``matched`` counts also those beyond the limit of one call."""

    items = ManyItemOut(many=True)
    matched = serializers.IntegerField()
    dry_run = serializers.BooleanField()
