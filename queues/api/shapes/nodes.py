"""What is said of machines and cycles."""

from typing import Any

from rest_framework import serializers

from tenants.rest.shapes import Duration, Shape

Out = serializers.Serializer[Any]


class NodeQuery(Shape):
    """Which machines to list."""

    flavor = serializers.CharField(required=False, default="")
    state = serializers.CharField(required=False, default="")
    q = serializers.CharField(required=False, default="")


class FlavorQuery(Shape):
    """Of which GPU type."""

    flavor = serializers.CharField(required=False, default="")


class ClusterQuery(Shape):
    """In which cluster."""

    cluster = serializers.CharField(required=False, default="")


class CellOut(Out):
    """A task on a machine; of jobs that you may not see only the units are told."""

    units = serializers.IntegerField()
    state = serializers.CharField()
    team = serializers.CharField()
    owner = serializers.CharField()
    job = serializers.UUIDField(allow_null=True)
    job_name = serializers.CharField()
    task = serializers.IntegerField(allow_null=True)
    borrowed = serializers.BooleanField(help_text="Whether any of its units is borrowed at this moment.")
    borrowed_units = serializers.IntegerField(help_text="How many of its units are borrowed at this moment.")
    started_at = serializers.DateTimeField(allow_null=True)
    ends_by = serializers.DateTimeField(allow_null=True)
    leaving_since = serializers.DateTimeField(allow_null=True)


class KeptOut(Out):
    """Units kept for a waiting job, ``reserved`` or ``held``; of jobs that you may not see only the units are told."""

    units = serializers.IntegerField()
    kind = serializers.CharField()
    team = serializers.CharField()
    job = serializers.UUIDField(allow_null=True)
    job_name = serializers.CharField()
    starts_at = serializers.DateTimeField(allow_null=True)


class OutsidePodOut(Out):
    """A pod that is not ours, told to administrators and auditors only."""

    namespace = serializers.CharField()
    name = serializers.CharField()
    units = serializers.IntegerField()
    leaving = serializers.BooleanField()
    leaving_since = serializers.DateTimeField(allow_null=True)


class NodeOut(Out):
    """A machine; ``place`` is its path of zone, block and rack as far as labels tell."""

    name = serializers.CharField()
    cluster = serializers.CharField()
    flavor = serializers.CharField(allow_null=True)
    place = serializers.ListField(child=serializers.CharField())
    units = serializers.IntegerField()
    used = serializers.IntegerField()
    outside = serializers.IntegerField()
    free = serializers.IntegerField()
    usable = serializers.BooleanField()
    state = serializers.CharField()
    why = serializers.CharField()


class ClusterOut(Out):
    """A cluster: ready, unreachable (for moments), away (its nodes are not counted on) or retired (configured no more).

    Jobs that it runs while it does not answer are unknown, not failed. ``error`` says why it does not, to those who run
    the installation.
    """

    name = serializers.CharField()
    state = serializers.CharField()
    error = serializers.CharField()
    kubernetes_version = serializers.CharField()
    listed_at = serializers.DateTimeField(allow_null=True)
    unreachable_since = serializers.DateTimeField(allow_null=True)
    nodes = serializers.IntegerField()
    usable_nodes = serializers.IntegerField()
    units = serializers.IntegerField()


class ClustersOut(Out):
    """All clusters, by name."""

    items = ClusterOut(many=True)


class DriftOut(Out):
    """A machine that differs: no_flavor, two_flavors, missing_units, dra_devices, over_used or recount."""

    cluster = serializers.CharField()
    node = serializers.CharField()
    kind = serializers.CharField()
    text = serializers.CharField()
    since = serializers.DateTimeField()


class SuggestionOut(Out):
    """A GPU type that is missing: POST /flavors with this name, resource and node_labels {label: value} makes it."""

    name = serializers.CharField()
    title = serializers.CharField()
    resource = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]  # a field, not DRF's attribute
    value = serializers.CharField()
    nodes = serializers.IntegerField()


class InventoryOut(Out):
    """Where machines differ from what is expected."""

    drift = DriftOut(many=True)
    suggestions = SuggestionOut(many=True)


class NodeWithTasksOut(NodeOut):
    """A machine with what is on it."""

    tasks = CellOut(source="cells", many=True)


class NodeDetailOut(Out):
    """All of a machine; CPU in thousandths of a core, memory in bytes."""

    node = NodeWithTasksOut(source="row")
    summary = serializers.CharField()
    kept = KeptOut(many=True)
    others = OutsidePodOut(many=True)
    others_leaving = serializers.IntegerField()
    devices = serializers.DictField(child=serializers.IntegerField())
    conditions = serializers.ListField(child=serializers.CharField())
    repelling = serializers.ListField(child=serializers.CharField())
    not_ready_since = serializers.DateTimeField(allow_null=True)
    cordoned_since = serializers.DateTimeField(allow_null=True)
    counted = serializers.DictField(child=serializers.IntegerField())
    drift = serializers.ListField(child=serializers.CharField())
    cpu_milli = serializers.IntegerField()
    cpu_used = serializers.IntegerField()
    memory = serializers.IntegerField()
    memory_used = serializers.IntegerField()
    outside_cpu_milli = serializers.IntegerField()
    outside_memory = serializers.IntegerField()
    pods = serializers.IntegerField()
    outside_pods = serializers.IntegerField()
    labels = serializers.DictField(child=serializers.CharField())
    taints = serializers.ListField(child=serializers.CharField())
    first_seen_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()
    gone_at = serializers.DateTimeField(allow_null=True)


class AllocationOut(Out):
    """Every machine with its tasks."""

    items = NodeWithTasksOut(many=True)


class DecisionQuery(Shape):
    """Which cycles to list: ``busy`` only those that admitted something."""

    busy = serializers.BooleanField(required=False, default=False)


class DecisionOut(Out):
    """One cycle; durations are milliseconds a stage."""

    cycle = serializers.IntegerField()
    at = serializers.DateTimeField()
    digest = serializers.CharField()
    classes = serializers.IntegerField()
    admissions = serializers.IntegerField()
    tasks = serializers.IntegerField()
    units = serializers.IntegerField()
    milliseconds = serializers.FloatField()
    durations = serializers.DictField(child=serializers.FloatField())
    details = serializers.DictField()


class AdmittedOut(Out):
    """A job that a cycle admitted; ``job`` is null where you may not see it."""

    job = serializers.UUIDField(allow_null=True)
    name = serializers.CharField()
    team = serializers.CharField()
    wave = serializers.IntegerField()
    units = serializers.IntegerField()
    borrowed = serializers.BooleanField()


class DecisionDetailOut(Out):
    """One cycle with what it admitted."""

    decision = DecisionOut(source="row")
    admitted = AdmittedOut(many=True)


class EvictionQuery(Shape):
    """Which evictions to list: of a team or of a job on either side, by a rule, at a time."""

    team = serializers.CharField(required=False, default="")
    job = serializers.UUIDField(required=False)
    rule = serializers.CharField(required=False, default="", help_text="guarantee or within team")
    at__gte = serializers.DateTimeField(required=False)
    at__lt = serializers.DateTimeField(required=False)


class JobRefOut(Out):
    """A job by name; all is null or empty where you may not see it."""

    id = serializers.UUIDField(source="job", allow_null=True)
    name = serializers.CharField()
    team = serializers.CharField()


class EvictionOut(Out):
    """Tasks of the victim had to leave for the claimant; ``grace_used`` is null while some still leave."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    rule = serializers.CharField()
    summary = serializers.CharField()
    claimant = JobRefOut()
    victim = JobRefOut()
    attempt = serializers.IntegerField()
    tasks = serializers.IntegerField()
    units = serializers.IntegerField()
    lost_unit_seconds = serializers.IntegerField()
    grace = Duration()
    grace_used = Duration(allow_null=True)
    exact = serializers.BooleanField(help_text="Every set of victims was compared")
    surplus = serializers.BooleanField(help_text="Soft tasks of an elastic job: no eviction of the job")
