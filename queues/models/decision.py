"""What the loop decided, and why jobs wait."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from queues.models.job import Job, JobClass
from tenants.models import User


class Decision(models.Model):
    """One cycle: ``id`` is its number. ``durations`` are milliseconds a stage; ``digest`` is of the input."""

    at = models.DateTimeField()
    digest = models.CharField(max_length=64)
    classes = models.PositiveIntegerField()
    admissions = models.PositiveIntegerField()
    tasks = models.PositiveIntegerField()
    units = models.PositiveIntegerField()
    durations = models.JSONField(default=dict)
    details = models.JSONField(default=dict)

    class Meta:
        """Read by time."""

        indexes: ClassVar = [models.Index(name="decision_by_time", fields=["-at"])]

    def __str__(self) -> str:
        """Return the cycle's number."""
        return f"cycle {self.id}"


class Verdict(models.Model):
    """Why the jobs of a class (``user`` NULL), one user's jobs of it, or one ``job`` of it wait.

    From the last cycle that said so; ``since`` tells when the code began. ``spare``: to the numbers belong what is left
    of their GPU type (``Spare``).
    """

    job_class = models.ForeignKey(JobClass, on_delete=models.CASCADE, related_name="verdicts")
    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="+")
    job = models.ForeignKey(Job, null=True, on_delete=models.CASCADE, related_name="verdicts")
    code = models.CharField(max_length=30)
    permanent = models.BooleanField(default=False)
    numbers = models.JSONField(default=dict)
    spare = models.BooleanField(default=False)
    since = models.DateTimeField()
    at = models.DateTimeField()

    class Meta:
        """One current verdict."""

        constraints: ClassVar = [
            models.UniqueConstraint(name="verdict_once", fields=["job_class", "user", "job"], nulls_distinct=False)
        ]

    def __str__(self) -> str:
        """Return the code."""
        return self.code


class Spare(models.Model):
    """What the last decision left of a GPU type that somebody waits for: it changes with every start and end.

    ``teams`` gives, by the team's id, what it has left of what it is promised, and what it may borrow beside that.
    """

    flavor = models.CharField(max_length=63, unique=True)
    free = models.IntegerField()
    largest_block = models.IntegerField()
    teams = models.JSONField(default=dict)

    def __str__(self) -> str:
        """Return type and units."""
        return f"{self.free} {self.flavor} free"
