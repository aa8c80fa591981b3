"""What recalls leave behind: reserved units, planned starts, what is kept idle, and who had to go for whom."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from queues.admission.world import Standing
from queues.models.job import Job
from queues.models.wave import Wave

STANDINGS = [standing.value for standing in Standing]


class Claim(models.Model):
    """Units reserved for a waiting job until what leaves for it is gone; ``id`` is the number that the rules gave it.

    ``placed`` is a list of [group, node, tasks]; ``pending`` a list of [wave, surplus, placed]: who has yet to go.
    """

    id = models.BigIntegerField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="claims")
    standing = models.CharField(max_length=10)
    flavors = ArrayField(models.BigIntegerField())
    placed = models.JSONField()
    pending = models.JSONField(default=list)
    units = models.PositiveIntegerField()
    decided_at = models.DateTimeField()

    class Meta:
        """A standing that the rules know."""

        constraints: ClassVar = [
            models.CheckConstraint(name="claim_standing_known", condition=Q(standing__in=STANDINGS))
        ]

    def __str__(self) -> str:
        """Return number and job."""
        return f"claim {self.id} of {self.job_id}"


class Hold(models.Model):
    """The planned start of a waiting job: ``starts_at`` NULL where it cannot be told.

    ``rank`` is its place among the holds, ``moved`` the cause of the last move.
    """

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="hold")
    rank = models.PositiveIntegerField()
    standing = models.CharField(max_length=10)
    flavors = ArrayField(models.BigIntegerField())
    placed = models.JSONField()
    units = models.PositiveIntegerField()
    starts_at = models.DateTimeField(null=True)
    moved = models.CharField(max_length=30, blank=True)
    since = models.DateTimeField()

    class Meta:
        """A standing that the rules know."""

        constraints: ClassVar = [
            models.CheckConstraint(name="hold_standing_known", condition=Q(standing__in=STANDINGS))
        ]

    def __str__(self) -> str:
        """Return job and start."""
        return f"{self.job_id} at {self.starts_at}"


class Idle(models.Model):
    """What a waiting job has kept idle so far (``unit_ms``), and the free units that it keeps since ``since``."""

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="+")
    unit_ms = models.BigIntegerField()
    units = models.PositiveIntegerField()
    since = models.DateTimeField()

    def __str__(self) -> str:
        """Return job and units."""
        return f"{self.job_id} keeps {self.units}"


class Eviction(models.Model):
    """Tasks of a wave had to leave for a claim of ``claimant``: by which rule, and what was lost since the last save.

    Without a claimant they leave for nobody, as they did not start: that is no eviction, and told like one.
    ``exact``: every set of victims was compared. ``surplus`` tasks go without its being an eviction of the job.
    ``due_at`` is set while the cluster still has to be told which single pods go; it is also the lease of the worker
    that tells it. Of a whole wave the wave's own outbox tells.
    """

    wave = models.ForeignKey(Wave, on_delete=models.CASCADE, related_name="evictions")
    claimant = models.ForeignKey(Job, null=True, on_delete=models.CASCADE, related_name="recalls")
    claim = models.BigIntegerField()
    rule = models.CharField(max_length=20)
    exact = models.BooleanField(default=True)
    surplus = models.BooleanField(default=False)
    tasks = models.PositiveIntegerField()
    units = models.PositiveIntegerField()
    lost_unit_seconds = models.BigIntegerField()
    grace = models.DurationField()
    at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    tries = models.PositiveIntegerField(default=0)

    class Meta:
        """Read by time, and what has to be told."""

        indexes: ClassVar = [
            models.Index(name="eviction_by_time", fields=["-at", "-id"]),
            models.Index(name="eviction_outbox", fields=["due_at", "id"], condition=Q(due_at__isnull=False)),
        ]

    def __str__(self) -> str:
        """Return wave and claimant."""
        return f"wave {self.wave_id} for {self.claimant_id}"
