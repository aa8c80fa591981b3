"""An elastic job walked on a real control plane: it starts with its minimum, grows, gives back, and ends."""

from typing import Any

import pytest
from django.utils import timezone

from queues import services
from queues.models import Job, Task, Wave
from queues.states import JobState
from tests.loop.stage import Stage, events, state, units_in_use

pytestmark = pytest.mark.kubernetes


def running(job: Job) -> int:
    return Task.objects.filter(wave__job=job, state="running").count()


def test_an_elastic_job_grows_gives_back_and_is_gone_when_it_is_cancelled(real: Stage) -> None:
    job = real.submit(shape="elastic", tasks={"min": 1, "max": 4}, gpus="h100:8", forever="1")
    real.until(lambda: running(job) == 4, seconds=120)
    first, surplus = Wave.objects.filter(job=job).order_by("number")
    bound = {pod.name: pod.node for pod in real.pods()}
    witnesses = dict(Task.objects.filter(wave__job=job).values_list("pod", "node__name"))

    spec: dict[str, Any] = {"team": "cv", "gpus": "h100:8", "annotations": {"tidegate.test/forever": "1"}}
    owner = real.lab.submit(real.lab.carl, now=timezone.now(), **spec)
    real.until(lambda: state(owner) is JobState.RUNNING, seconds=120)
    shrunk = (state(job), running(job), job.attempt, job.evictions)
    services.cancel(uid=job.uid, by=real.lab.ann, now=timezone.now())
    ended = real.until_ended(job, seconds=120)

    assert (first.tasks.count(), surplus.tasks.count(), surplus.base) == (1, 3, first)
    assert witnesses == bound
    assert len(set(bound.values())) == 4
    assert shrunk == (JobState.RUNNING, 3, 1, 0)
    assert events(job)[:6] == ["submitted", "admitted", "launched", "started", "grew", "shrank"]
    assert ended is JobState.CANCELLED
    assert units_in_use() == 8


def test_an_elastic_job_succeeds_with_its_minimum_and_leaves_nothing_behind(real: Stage) -> None:
    job = real.submit(shape="elastic", tasks={"min": 2, "max": 4}, gpus="h100:8", run_for="3s")

    ended = real.until_ended(job, seconds=120)
    real.until(lambda: not real.objects() and not real.pods(), seconds=120)

    assert ended is JobState.SUCCEEDED
    assert (job.attempt, job.failures, job.evictions) == (1, 0, 0)
    assert units_in_use() == 0
