"""Queues of a team, and priority classes."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from django.db import models
from django.db.models import Q

from queues.admission.world import QueueOrder
from tenants.models import Team, dns_label


class PriorityClass(models.Model):
    """A named base priority; a class that is not preemptible makes firm jobs."""

    name = models.CharField(max_length=63, unique=True, validators=[dns_label])
    value = models.IntegerField()
    preemptible = models.BooleanField(default=True)
    version = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class PreemptWithinTeam(models.TextChoices):
    """Which jobs of its own team a job may evict."""

    NEVER = "never"
    LOWER_PRIORITY = "lower_priority"


class Queue(models.Model):
    """A named line of a team with the policy for its own jobs; each team has ``default``. NULL limits are no limit.

    ``max_priority`` is the highest value of a priority class that its jobs may have, ``min_runtime`` the time for which
    nobody else may recall them.
    """

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="queues")
    name = models.CharField(max_length=63, validators=[dns_label])
    order = models.CharField(
        max_length=10, choices=[(o.value, o.value) for o in QueueOrder], default=QueueOrder.FAIR_USERS.value
    )
    hold_after = models.DurationField(default=timedelta(minutes=30))
    default_time_limit = models.DurationField(null=True, blank=True, default=timedelta(hours=24))
    max_time_limit = models.DurationField(null=True, blank=True)
    max_grace = models.DurationField(default=timedelta(seconds=120))
    start_limit = models.DurationField(default=timedelta(minutes=10))
    start_retries = models.PositiveSmallIntegerField(default=3)
    per_user_limit = models.PositiveIntegerField(null=True, blank=True)
    max_priority = models.IntegerField(null=True, blank=True)
    preempt_within_team = models.CharField(
        max_length=14, choices=PreemptWithinTeam, default=PreemptWithinTeam.NEVER.value
    )
    min_runtime = models.DurationField(default=timedelta())
    limit_needed_to_borrow = models.BooleanField(default=False)
    paused_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        """Names are unique within a team."""

        constraints: ClassVar = [
            models.UniqueConstraint(name="queue_name_once", fields=["team", "name"]),
            models.CheckConstraint(name="queue_order_known", condition=Q(order__in=[o.value for o in QueueOrder])),
            models.CheckConstraint(
                name="queue_preemption_known", condition=Q(preempt_within_team__in=list(PreemptWithinTeam))
            ),
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name
