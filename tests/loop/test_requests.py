"""How many requests of ours a job costs its API server, by the adapter's own count."""

import time
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone
from pytest_django import Settings

from queues import cycle
from queues.models import Wave
from queues.watcher import Follower
from tests.loop.stage import Stage, state

LIMIT = 120.0
READING = frozenset({"list", "watch", "get"})
GROUPS = [
    {"name": "first", "tasks": 2, "gpus": "h100:1", "run": {"image": "reg.example/first:1"}},
    {"name": "second", "tasks": 2, "gpus": "h100:1", "run": {"image": "reg.example/second:1"}},
]
MOST = 10
JOBS = 30


def told(stage: Stage) -> int:
    """Return how many requests have changed something so far."""
    return sum(count for verb, count in stage.cluster.api.requests.items() if verb.split()[0] not in READING)


@pytest.fixture
def followed(stage: Stage, settings: Settings) -> Iterator[Follower]:
    """Follow the stage's cluster by its watch: the next list is far away."""
    settings.TIDEGATE_RELIST_SECONDS = 3600.0
    follower, stop = Follower("default", stage.cluster, timezone.now), Event()
    thread = Thread(target=follower.run, args=(stop,))
    thread.start()
    yield follower
    stop.set()
    thread.join(LIMIT)
    assert not thread.is_alive()
    connections.close_all()


@pytest.mark.parametrize(
    "spec",
    [
        # Its Kubernetes Job is made and deleted.
        {"shape": "independent", "tasks": 1, "gpus": "h100:1"},
        # Where pods go to several nodes, each is let go to its own; a gang has a Service more.
        {"shape": "independent", "tasks": 4, "gpus": "h100:8"},
        {"shape": "gang", "tasks": 4, "gpus": "h100:8"},
        {"shape": "gang", "groups": GROUPS},
    ],
    ids=["one task", "tasks apart", "gang", "groups"],
)
def test_a_job_is_told_in_few_requests(stage: Stage, spec: dict[str, Any]) -> None:
    first = stage.submit(name="first", run_for="200ms", **spec)
    stage.until_ended(first)
    stage.until(lambda: not stage.objects())
    before = told(stage)

    job = stage.submit(name="second", run_for="200ms", **spec)
    stage.until_ended(job)
    stage.until(lambda: not stage.objects())

    # Namespace, fence and priority class were told with the first. What a slow cluster still shows may be told again.
    assert told(stage) - before <= MOST


def test_jobs_are_followed_by_the_watch_and_asked_for_by_nobody(stage: Stage, followed: Follower) -> None:
    jobs = [stage.submit(name=f"job-{number}", gpus="h100:1", run_for="200ms") for number in range(JOBS)]

    end = time.monotonic() + LIMIT
    while not (all(state(job) == "succeeded" for job in jobs) and not Wave.objects.exclude(wish_due_at=None).exists()):
        assert time.monotonic() < end
        cycle.run_cycle(timezone.now)
        stage.release()

    assert followed.lists >= 1
    assert stage.cluster.api.requests.total() / JOBS <= MOST
