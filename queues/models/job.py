"""Jobs, their task groups, classes and events."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper

from queues.admission.world import JobShape
from queues.models.node import ClusterState
from queues.models.queue import PriorityClass, Queue
from queues.states import ACTIVE, ENDED, JobState
from tenants.look import looking
from tenants.models import Team, User
from tenants.permissions import Actor, Permission, teams_seen, visible_teams

WAITS = [JobState.QUEUED, JobState.ADMITTED, JobState.RUNNING]


class JobClass(models.Model):
    """(queue, base priority, ask): jobs that the rules cannot tell apart but for user and time.

    ``ask`` is rounded (SEMANTICS 4).
    """

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="classes")
    priority = models.IntegerField()
    digest = models.CharField(max_length=64)
    ask = models.JSONField()

    class Meta:
        """A class once."""

        constraints: ClassVar = [models.UniqueConstraint(name="job_class_once", fields=["queue", "priority", "digest"])]

    def __str__(self) -> str:
        """Return the digest's head."""
        return self.digest[:12]


class JobQuerySet(models.QuerySet["Job"]):
    """Jobs; every query of an edge starts with ``visible_to``."""

    def visible_to(self, who: Actor | User, permission: Permission = Permission.VIEW_JOB) -> JobQuerySet:
        """Return the jobs of the teams in which someone has the permission."""
        teams = visible_teams(who, permission)
        if not teams.query.where:
            return self.all()
        # Ids come first: knowing them, PostgreSQL takes the right index.
        ids = [team.id for team in teams_seen(who, permission)] if looking() else teams.values_list("id", flat=True)
        return self.filter(team__in=list(ids))


class Job(models.Model):
    """A job of a leaf team. ``id`` is the order of submission, ``uid`` the public UUIDv7.

    ``waiting_tasks``: tasks of an independent job that wait, 1 for another that waits, 0 when nothing waits.
    ``ready``: it may start now (waits, is not held, not backing off): what the heads' index covers.
    ``wait_from``: moved forward by all time in which it did not wait; ``not_waiting_since`` is set meanwhile.
    ``kind``: people wrote its Kubernetes object (a key of ``clusters.kinds``); ``object_uid``: they made it too.
    ``interruptions``: how often it was ended from outside (lost nodes, pods evicted or deleted by others).
    ``cancel_wanted``, ``hold_wanted`` and ``next_state``: where an evicting job goes when its pods are gone.
    """

    uid = models.UUIDField(unique=True)
    name = models.CharField(max_length=253)
    external_id = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001  NULL keeps the unique constraint out of the way
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="jobs")
    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="jobs")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="jobs")
    priority_class = models.ForeignKey(PriorityClass, on_delete=models.PROTECT, related_name="+")
    priority = models.IntegerField()
    job_class = models.ForeignKey(JobClass, on_delete=models.PROTECT, related_name="jobs")
    shape = models.CharField(max_length=12)
    units = models.PositiveIntegerField()
    labels = models.JSONField(default=dict)
    spec = models.JSONField()
    kind = models.CharField(max_length=60, blank=True)
    object_uid = models.CharField(max_length=40, null=True, blank=True)  # noqa: DJ001  NULL keeps the unique constraint out of the way
    object_cluster = models.ForeignKey(
        ClusterState, null=True, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    borrow = models.BooleanField(default=True)
    preemptible = models.BooleanField(default=True)
    time_limit = models.DurationField(null=True)
    grace = models.DurationField()
    retries = models.PositiveSmallIntegerField(default=0)

    state = models.CharField(max_length=10, default=JobState.QUEUED.value)
    state_since = models.DateTimeField()
    next_state = models.CharField(max_length=10, blank=True)
    attempt = models.PositiveIntegerField(default=1)
    waiting_tasks = models.PositiveIntegerField()
    ready = models.BooleanField(default=True)
    backoff_until = models.DateTimeField(null=True)
    reason_code = models.CharField(max_length=30, blank=True)
    reason_text = models.TextField(blank=True)
    failures = models.PositiveSmallIntegerField(default=0)
    start_failures = models.PositiveSmallIntegerField(default=0)
    evictions = models.PositiveIntegerField(default=0)
    interruptions = models.PositiveIntegerField(default=0)
    ran_for = models.DurationField()
    submitted_at = models.DateTimeField()
    wait_from = models.DateTimeField()
    not_waiting_since = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    cloned_from = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")

    objects = JobQuerySet.as_manager()

    class Meta:
        """The invariants that tables can keep, and the indexes that lists and heads need."""

        constraints: ClassVar = [
            models.CheckConstraint(name="job_state_known", condition=Q(state__in=list(JobState))),
            models.CheckConstraint(name="job_shape_known", condition=Q(shape__in=list(JobShape))),
            models.CheckConstraint(
                name="job_ended_at_iff_ended",
                condition=Q(state__in=sorted(ENDED), ended_at__isnull=False)
                | Q(state__in=sorted(ACTIVE), ended_at__isnull=True),
            ),
            models.CheckConstraint(
                name="job_ready_only_if_waiting",
                condition=Q(ready=False)
                | Q(state__in=WAITS, waiting_tasks__gt=0, backoff_until__isnull=True, not_waiting_since__isnull=True),
            ),
            models.CheckConstraint(
                name="job_ended_waits_for_nothing",
                condition=Q(state__in=sorted(ACTIVE)) | Q(waiting_tasks=0, backoff_until__isnull=True),
            ),
            models.CheckConstraint(
                name="job_next_state_iff_evicting",
                condition=(Q(state=JobState.EVICTING) & ~Q(next_state=""))
                | (~Q(state=JobState.EVICTING) & Q(next_state="")),
            ),
            models.CheckConstraint(name="job_waits_after_submission", condition=Q(wait_from__gte=F("submitted_at"))),
            models.CheckConstraint(name="job_units_positive", condition=Q(units__gt=0)),
            models.UniqueConstraint(name="job_object_once", fields=["object_uid"]),
            models.CheckConstraint(
                name="job_object_has_kind_and_cluster",
                condition=Q(object_uid__isnull=True, object_cluster__isnull=True)
                | (Q(object_uid__isnull=False, object_cluster__isnull=False) & ~Q(kind="")),
            ),
            models.UniqueConstraint(
                name="job_external_id_once",
                fields=["team", "external_id"],
                condition=Q(external_id__isnull=False, state__in=sorted(ACTIVE)),
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                name="job_heads",
                fields=["job_class", "user", "wait_from", "submitted_at", "id"],
                condition=Q(ready=True),
            ),
            models.Index(name="job_backing_off", fields=["backoff_until"], condition=Q(backoff_until__isnull=False)),
            models.Index(
                name="job_adopted",
                fields=["object_cluster", "state"],
                condition=Q(object_cluster__isnull=False, state__in=sorted(ACTIVE)),
            ),
            models.Index(name="job_list", fields=["team", "-id"]),
            models.Index(name="job_list_state", fields=["team", "state", "-id"]),
            models.Index(name="job_list_user", fields=["user", "-id"]),
            models.Index(name="job_active", fields=["state", "-id"], condition=Q(state__in=sorted(ACTIVE))),
            # Run times of finished jobs of a class, newest first, for forecasts.
            models.Index(
                name="job_finished",
                fields=["job_class", "-id"],
                condition=Q(state__in=[JobState.FAILED, JobState.SUCCEEDED]),
            ),
            models.Index(name="job_external", fields=["team", "external_id"], condition=Q(external_id__isnull=False)),
            GinIndex(name="job_labels", fields=["labels"], opclasses=["jsonb_path_ops"]),
            GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="job_name_words"),
        ]

    def __str__(self) -> str:
        """Return name and id."""
        return f"{self.name} ({self.uid})"


class TaskGroup(models.Model):
    """Equal tasks of a job, per task: CPU in thousandths, memory in bytes, ``flavors`` in order of wish.

    Of an elastic job ``tasks`` start together and up to ``most`` run; NULL where there are always as many.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="groups")
    index = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=63, blank=True)
    tasks = models.PositiveIntegerField()
    most = models.PositiveIntegerField(null=True)
    units = models.PositiveIntegerField()
    cpu_milli = models.PositiveBigIntegerField()
    memory = models.PositiveBigIntegerField()
    flavors = ArrayField(models.BigIntegerField())
    node_labels = models.JSONField(default=dict)

    class Meta:
        """A group has tasks, and a task has units."""

        constraints: ClassVar = [
            models.UniqueConstraint(name="task_group_once", fields=["job", "index"]),
            models.CheckConstraint(name="task_group_positive", condition=Q(tasks__gt=0, units__gt=0)),
            models.CheckConstraint(
                name="task_group_most_not_below_tasks", condition=Q(most__isnull=True) | Q(most__gte=F("tasks"))
            ),
        ]

    def __str__(self) -> str:
        """Return job and index."""
        return f"{self.job_id}/{self.index}"


class JobEvent(models.Model):
    """Something that happened to a job; ``id`` is the durable sequence of the event stream."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    type = models.CharField(max_length=30)
    actor = models.CharField(max_length=150, blank=True)
    summary = models.TextField()
    details = models.JSONField(default=dict)

    class Meta:
        """Read per job in order."""

        indexes: ClassVar = [models.Index(name="job_event_by_job", fields=["job", "id"])]

    def __str__(self) -> str:
        """Return type and job."""
        return f"{self.type} {self.job_id}"
