"""Waves: what one decision admitted of a job, and its tasks on real nodes."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from queues.models.job import Job
from queues.models.node import ClusterState, Node
from queues.states import HOLDING, TASK_HOLDING, TaskState, WaveState


class Wish(models.TextChoices):
    """What the cluster is asked to do for a wave."""

    LAUNCH = "launch"
    STOP = "stop"


class Wave(models.Model):
    """The tasks of one job that one decision admitted.

    ``id`` is the order of admission, ``number`` counts the job's waves from 1, ``priority`` is the effective one.
    The outbox is in the row: ``wish_due_at`` is set while the cluster still has to be told ``wish``; it is also the
    lease of the worker that tells it. Until ``launching_until`` a launch may be under way, which no stop may overtake.
    ``launched_at``: the objects exist. ``seen_at``: a list or watch has shown them.
    ``stopped_at``: the cluster agreed to delete them. ``deadline_at`` ends a state that lasts too long.
    Of an elastic job one wave has the minimum; each other one is surplus, and ``base`` names the first.
    ``grows_from``: the job gave surplus back and does not grow before; ``stalled`` is what stops it from growing to
    its maximum. Both are kept on the first.
    """

    uid = models.UUIDField(unique=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="waves")
    cluster = models.ForeignKey(ClusterState, on_delete=models.PROTECT, related_name="waves")
    base = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="surplus_waves")
    number = models.PositiveIntegerField()
    attempt = models.PositiveIntegerField()
    flavors = ArrayField(models.BigIntegerField())
    borrowed = models.BooleanField(default=False)
    cycle = models.BigIntegerField()
    priority = models.IntegerField(default=0)
    state = models.CharField(max_length=10, default=WaveState.ADMITTED.value)
    admitted_at = models.DateTimeField()
    launching_until = models.DateTimeField(null=True)
    launched_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    stopped_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=30, blank=True)
    grows_from = models.DateTimeField(null=True)
    stalled = models.CharField(max_length=30, blank=True)
    wish = models.CharField(max_length=10, choices=Wish, default=Wish.LAUNCH)
    wish_due_at = models.DateTimeField(null=True)
    wish_tries = models.PositiveIntegerField(default=0)
    wish_error = models.TextField(blank=True)

    class Meta:
        """One number a job; the holding ones and the outbox are read by partial index."""

        constraints: ClassVar = [
            models.UniqueConstraint(name="wave_number_once", fields=["job", "number"]),
            models.CheckConstraint(
                name="wave_only_base_grows", condition=Q(base__isnull=True) | Q(grows_from__isnull=True)
            ),
            models.CheckConstraint(name="wave_state_known", condition=Q(state__in=list(WaveState))),
            models.CheckConstraint(
                name="wave_ended_at_iff_ended",
                condition=Q(state=WaveState.ENDED, ended_at__isnull=False)
                | (~Q(state=WaveState.ENDED) & Q(ended_at__isnull=True)),
            ),
        ]
        indexes: ClassVar = [
            models.Index(name="wave_holding", fields=["id"], condition=Q(state__in=sorted(HOLDING))),
            models.Index(name="wave_outbox", fields=["wish_due_at", "id"], condition=Q(wish_due_at__isnull=False)),
            models.Index(name="wave_deadline", fields=["deadline_at"], condition=Q(deadline_at__isnull=False)),
            models.Index(name="wave_by_job", fields=["job", "number"]),
        ]

    def __str__(self) -> str:
        """Return job and number."""
        return f"{self.job_id}#{self.number}"

    @property
    def surplus(self) -> bool:
        """Whether its tasks are surplus of an elastic job: soft, and beside its minimum."""
        return self.base_id is not None


class Task(models.Model):
    """One admitted task: its witness node, then the node where its pod is bound.

    Units, CPU and memory are what it holds while it holds.

    ``index`` counts the job's tasks over all groups; ``pod_index`` is the completion index in its group's Kubernetes
    Job. ``container`` is the one that ended badly. ``eviction`` says for which claim it had to leave, ``saved_at`` when
    it last reported a checkpoint.
    """

    wave = models.ForeignKey(Wave, on_delete=models.CASCADE, related_name="tasks")
    group = models.PositiveSmallIntegerField(default=0)
    index = models.PositiveIntegerField()
    pod_index = models.PositiveIntegerField()
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="tasks")
    flavor_id = models.BigIntegerField()
    units = models.PositiveIntegerField()
    cpu_milli = models.PositiveBigIntegerField()
    memory = models.PositiveBigIntegerField()
    state = models.CharField(max_length=10, default=TaskState.PENDING.value)
    pod = models.CharField(max_length=253, blank=True)
    pod_uid = models.CharField(max_length=40, blank=True)
    bound = models.BooleanField(default=False)
    started_at = models.DateTimeField(null=True)
    saved_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    container = models.CharField(max_length=63, blank=True)
    reason = models.CharField(max_length=60, blank=True)
    message = models.TextField(blank=True)
    eviction = models.ForeignKey("Eviction", null=True, on_delete=models.SET_NULL, db_index=False, related_name="gone")

    class Meta:
        """A task once in its wave; what holds is read by partial index."""

        constraints: ClassVar = [
            models.UniqueConstraint(name="task_once", fields=["wave", "group", "pod_index"]),
            models.CheckConstraint(name="task_state_known", condition=Q(state__in=list(TaskState))),
            models.CheckConstraint(
                name="task_ended_at_iff_ended",
                condition=Q(state__in=sorted(TASK_HOLDING), ended_at__isnull=True)
                | (~Q(state__in=sorted(TASK_HOLDING)) & Q(ended_at__isnull=False)),
            ),
        ]
        indexes: ClassVar = [
            models.Index(name="task_holding", fields=["wave", "node"], condition=Q(state__in=sorted(TASK_HOLDING))),
            # For what an old eviction leaves behind when it is deleted.
            models.Index(name="task_evicted", fields=["eviction"], condition=Q(eviction__isnull=False)),
            models.Index(name="task_on_node", fields=["node"], condition=Q(state__in=sorted(TASK_HOLDING))),
        ]

    def __str__(self) -> str:
        """Return wave and index."""
        return f"{self.wave_id}[{self.index}]"


class KeptLog(models.Model):
    """The last lines of a task that failed, so that they outlive its pod; seen by whoever sees the job.

    The outbox is in the row: ``due_at`` is set while they still have to be read, and is the reader's lease. The wave's
    objects stay until they are read or ``until`` has passed. ``error`` says why nothing could be kept.
    """

    task = models.OneToOneField(Task, on_delete=models.CASCADE, primary_key=True, related_name="kept_log")
    due_at = models.DateTimeField(null=True)
    until = models.DateTimeField()
    tries = models.PositiveSmallIntegerField(default=0)
    kept_at = models.DateTimeField(null=True)
    text = models.TextField(blank=True)
    cut = models.BooleanField(default=False)
    error = models.TextField(blank=True)

    class Meta:
        """What is still to be read, by partial index; what has been read is deleted by age."""

        constraints: ClassVar = [
            models.CheckConstraint(
                name="kept_log_due_until_kept",
                condition=Q(due_at__isnull=False, kept_at__isnull=True) | Q(due_at__isnull=True, kept_at__isnull=False),
            )
        ]
        indexes: ClassVar = [
            models.Index(name="kept_log_outbox", fields=["due_at", "task"], condition=Q(due_at__isnull=False)),
            models.Index(name="kept_log_age", fields=["kept_at"], condition=Q(kept_at__isnull=False)),
        ]

    def __str__(self) -> str:
        """Return the task."""
        return f"log of task {self.task_id}"
