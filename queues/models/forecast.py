"""When waiting jobs are expected to start, and how well that was told before."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from queues.models.job import Job, JobClass
from queues.models.queue import Queue

KNOWN = {"p50_at__isnull": False, "p90_at__isnull": False, "cause": ""}
UNKNOWN = {"p50_at__isnull": True, "p90_at__isnull": True, "basis": ""}


class Forecast(models.Model):
    """The expected start of one waiting ``job``, or of all others of a ``job_class``: a range, or why it is unknown.

    Of ENDLESS so many jobs ``running``, and so many ``before`` it, have no time limit. ``first_*`` is the range that
    was told first since the job waits: what the score judges.
    """

    job = models.OneToOneField(Job, null=True, on_delete=models.CASCADE, related_name="forecast")
    job_class = models.OneToOneField(JobClass, null=True, on_delete=models.CASCADE, related_name="forecast")
    p50_at = models.DateTimeField(null=True)
    p90_at = models.DateTimeField(null=True)
    basis = models.CharField(max_length=12, blank=True)
    cause = models.CharField(max_length=12, blank=True)
    running = models.PositiveIntegerField(default=0)
    before = models.PositiveIntegerField(default=0)
    as_of = models.DateTimeField()
    first_p50_at = models.DateTimeField(null=True)
    first_p90_at = models.DateTimeField(null=True)
    first_as_of = models.DateTimeField()

    class Meta:
        """Of a job or of a class; known or unknown."""

        constraints: ClassVar = [
            models.CheckConstraint(
                name="forecast_of_one",
                condition=Q(job__isnull=False, job_class__isnull=True) | Q(job__isnull=True, job_class__isnull=False),
            ),
            models.CheckConstraint(
                name="forecast_known_or_not", condition=Q(**KNOWN) & ~Q(basis="") | Q(**UNKNOWN) & ~Q(cause="")
            ),
            models.CheckConstraint(
                name="forecast_range_in_order", condition=Q(p50_at__isnull=True) | Q(p50_at__lte=F("p90_at"))
            ),
        ]

    def __str__(self) -> str:
        """Return what it is of, and the range."""
        return f"{self.job_id or self.job_class_id}: {self.p50_at} to {self.p90_at}"


class ForecastScore(models.Model):
    """How well starts of a queue's jobs were told, by the ``day`` on which they started.

    Of ``forecasts`` so many starts came until ``p50`` and until ``p90``; ``width_seconds`` adds up the ranges.
    """

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="forecast_scores")
    day = models.DateField()
    forecasts = models.PositiveIntegerField(default=0)
    until_p50 = models.PositiveIntegerField(default=0)
    until_p90 = models.PositiveIntegerField(default=0)
    width_seconds = models.BigIntegerField(default=0)

    class Meta:
        """One row a day."""

        constraints: ClassVar = [
            models.UniqueConstraint(name="forecast_score_once", fields=["queue", "day"]),
            models.CheckConstraint(
                name="forecast_score_adds_up",
                condition=Q(until_p50__lte=F("until_p90"), until_p90__lte=F("forecasts")),
            ),
        ]

    def __str__(self) -> str:
        """Return queue, day and how many came until p90."""
        return f"{self.queue_id} {self.day}: {self.until_p90}/{self.forecasts}"
