"""Jobs walked from submission to their end on a real control plane."""

import pytest
from django.utils import timezone

from queues import services
from queues.models import Task, Wave
from queues.states import JobState
from tests.loop.stage import Stage, events, state, units_in_use

pytestmark = pytest.mark.kubernetes


def test_a_gang_runs_to_its_end_on_the_nodes_it_was_given(real: Stage) -> None:
    job = real.submit(shape="gang", tasks=4, gpus="h100:8", forever="1")

    real.until(lambda: Task.objects.filter(wave__job=job, state="running").count() == 4, seconds=120)
    witnesses = dict(Task.objects.filter(wave__job=job).values_list("pod", "node__name"))
    bound = {pod.name: pod.node for pod in real.pods()}
    in_use = units_in_use()
    real.finish(job)
    ended = real.until_ended(job, seconds=120)
    real.until(lambda: not real.objects() and not real.pods(), seconds=120)

    assert witnesses == bound
    assert len(set(bound.values())) == 4
    assert in_use == 32
    assert ended is JobState.SUCCEEDED
    assert units_in_use() == 0
    assert events(job) == ["submitted", "admitted", "launched", "started", "succeeded"]


def test_a_hundred_tasks_run_in_waves_until_all_have_succeeded(real: Stage) -> None:
    job = real.submit(shape="independent", tasks=100, gpus="h100:1")

    ended = real.until_ended(job, seconds=120)

    assert ended is JobState.SUCCEEDED
    assert Task.objects.filter(wave__job=job, state="succeeded").count() == 100
    assert Wave.objects.filter(job=job).count() >= 4


def test_a_failed_task_ends_its_gang_and_the_retry_runs_in_a_new_wave(real: Stage) -> None:
    job = real.submit(shape="gang", tasks=2, gpus="h100:8", exit_code=3, retries=1)

    ended = real.until_ended(job, seconds=120)

    assert ended is JobState.FAILED
    assert (job.attempt, job.failures) == (2, 2)
    assert Wave.objects.filter(job=job).count() == 2


def test_a_cancelled_gang_ends_when_its_pods_are_gone(real: Stage) -> None:
    job = real.submit(shape="gang", tasks=2, gpus="h100:8", forever="1")
    real.until(lambda: state(job) is JobState.RUNNING, seconds=120)

    services.cancel(uid=job.uid, by=real.lab.ann, now=timezone.now())
    ended = real.until_ended(job, seconds=120)

    assert ended is JobState.CANCELLED
    assert not real.pods()
    assert units_in_use() == 0
