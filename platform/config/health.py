"""Whether Tidegate is alive and ready, and its numbers for monitoring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from rest_framework.permissions import AllowAny
from rest_framework.renderers import JSONRenderer

from queues.queries.numbers import Numbers, last_cycle_at, numbers
from tenants.permissions import Permission, require
from tenants.rest.views import RestView

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from prometheus_client import Metric
    from rest_framework.request import Request

MISSED_BEATS = 3
TEXT = "text/plain; version=0.0.4; charset=utf-8"


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer as long as this process can."""
    del request
    return JsonResponse({"alive": True})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 where the database answers and the loop has decided lately, else 503 with the part that is missing."""
    del request
    parts = {"database": _database()}
    parts["loop"] = _loop(timezone.now()) if not parts["database"] else "unknown without the database"
    ready = not any(parts.values())
    body = {"ready": ready, "parts": {name: fault or "ok" for name, fault in parts.items()}}
    response = JsonResponse(body, status=200 if ready else 503)
    response["Cache-Control"] = "no-store"
    return response


class MetricsView(RestView):
    """/metrics, for whoever may see all teams' numbers, or for all where TIDEGATE_METRICS_OPEN is set."""

    schema = None
    permission_classes = [AllowAny]  # noqa: RUF012  DRF's form

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:  # noqa: ANN401, ARG002, FBT001, FBT002  DRF's signature
        """Take whatever Accept says: there is one form."""
        return JSONRenderer(), JSONRenderer.media_type

    def get(self, request: Request) -> HttpResponse:  # noqa: ARG002  DRF's signature
        """Return the numbers in the form that Prometheus reads."""
        if not settings.TIDEGATE_METRICS_OPEN:
            require(self.known_actor(), Permission.VIEW_DECISIONS)
        registry = CollectorRegistry()
        registry.register(Collected(numbers(now=self.now)))
        return HttpResponse(generate_latest(registry), content_type=TEXT)


class Collected:
    """One scrape's numbers as metric families."""

    def __init__(self, found: Numbers) -> None:
        """Keep what was found."""
        self.found = found

    def collect(self) -> Iterator[Metric]:
        """Yield the families in the order in which people read them."""
        found = self.found
        yield _family("jobs", "Jobs that have not ended", ("team", "state"), found.jobs)
        yield _family("waiting_tasks", "Tasks that wait", ("team",), {(t,): n for t, n in found.waiting_tasks.items()})
        yield _family("used_units", "Units held by admitted tasks", ("team", "flavor"), found.used)
        for index, word in enumerate(("installed", "usable", "guaranteed")):
            values = {(flavor,): units[index] for flavor, units in found.capacity.items()}
            yield _family(f"{word}_units", f"Units that are {word}", ("flavor",), values)
        yield _family("cycle_age_seconds", "Seconds since the loop last decided", (), {(): found.cycle_age})
        yield _family("cycle_seconds", "How long the last cycle took", (), {(): found.cycle_seconds})
        yield _family("cycle", "Number of the last cycle", (), {(): found.cycle})
        yield _family("outbox_waves", "Waves that a cluster has still to be told about", (), {(): found.outbox})
        yield _family("outbox_age_seconds", "How long the oldest of these is due", (), {(): found.outbox_age or 0})
        ages = {(name,): age for name, age in found.cluster_ages.items()}
        yield _family("cluster_age_seconds", "Age of the picture of a cluster", ("cluster",), ages)
        lost = {(name,): int(gone) for name, gone in found.cluster_unreachable.items()}
        yield _family("node_drift", "Nodes that differ from what is expected", ("cluster", "kind"), found.drift)
        yield _family("cluster_unreachable", "1 while a cluster does not answer", ("cluster",), lost)


def _family(name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, float | None]) -> Metric:
    family = GaugeMetricFamily(f"tidegate_{name}", text, labels=labels)
    for key, value in values.items():
        if value is not None:
            family.add_metric(key, value)
    return family


def _database() -> str:
    """Return what is wrong with the database, or ""."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return f"does not answer: {type(error).__name__}"
    return ""


def _loop(now: datetime) -> str:
    """Return what is wrong with the loop, or ""."""
    at = last_cycle_at()
    if at is None:
        return "has not decided yet"
    age = (now - at).total_seconds()
    return f"last decided {age:.0f} s ago" if age > MISSED_BEATS * settings.TIDEGATE_TICK_SECONDS else ""
