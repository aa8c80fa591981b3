"""How long a job takes from submission to its Kubernetes Job, through real processes."""

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from statistics import quantiles

import pytest
from celery import current_app
from pytest_django import Settings

from queues import hints
from queues.models import Job, JobEvent
from tests.processes.town import Town

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

JOBS = 60
PAUSE_SECONDS = 0.1
TICK_SECONDS = 60


@pytest.fixture
def nodes() -> int:
    return 8


@pytest.fixture
def town_with_hints(town: Town, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Town]:
    """Let this process's own hints reach the town's workers, and the beat come too late to help."""
    settings.REDIS_URL = town.valkey.url
    monkeypatch.setattr(hints, "_alone_until", 0.0)
    monkeypatch.setattr(current_app.conf, "broker_url", town.valkey.url)
    hints.broker.cache_clear()
    town.env["TIDEGATE_TICK_SECONDS"] = str(TICK_SECONDS)
    yield town
    hints.broker.cache_clear()
    current_app.pool.force_close_all()  # type: ignore[attr-defined]


def test_a_job_with_room_is_admitted_within_a_second_and_created_within_two(
    town_with_hints: Town, capsys: pytest.CaptureFixture[str]
) -> None:
    town = town_with_hints
    town.watcher()
    town.worker(beat=True)
    town.submit()
    town.until(lambda: Job.objects.filter(state="succeeded").count() == 1)

    for _ in range(JOBS):
        town.submit(run_for="500ms")
        time.sleep(PAUSE_SECONDS)
    town.until(lambda: Job.objects.filter(state="succeeded").count() == 1 + JOBS)

    jobs = list(Job.objects.order_by("id").values_list("id", "submitted_at"))[1:]
    admitted, created = (p95(jobs, event) for event in ("admitted", "launched"))
    with capsys.disabled():
        print(f"\nsubmitted → admitted {admitted:.3f} s, → Kubernetes Job {created:.3f} s at p95 of {JOBS}")  # noqa: T201
    # One and two seconds are promised of a machine that does nothing else, and benchmarks measure them. What is
    # tested is that hints do it on any machine: a job that waited for the beat would wait for up to a minute.
    assert admitted <= TICK_SECONDS / 3, (admitted, created)
    assert created <= TICK_SECONDS / 2, (admitted, created)


def p95(jobs: Sequence[tuple[int, datetime]], event: str) -> float:
    """Return the 95th percentile of the seconds from a job's submission to its first event of this type."""
    at = dict(JobEvent.objects.filter(type=event).order_by("-id").values_list("job_id", "at"))
    seconds: list[float] = [(at[job] - submitted).total_seconds() for job, submitted in jobs]
    return quantiles(seconds, n=20)[-1]
