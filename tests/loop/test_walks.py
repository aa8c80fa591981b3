"""Jobs walked from submission to their end on the emulator."""

from datetime import timedelta
from functools import partial

from django.utils import timezone

from queues import cycle, services
from queues.models import Job, Node, Task, Wave
from queues.states import JobState
from tests.loop.stage import Stage, events, state, tried, units_in_use


def test_a_gang_runs_to_its_end_and_gives_its_units_back(stage: Stage) -> None:
    job = stage.submit(shape="gang", tasks=4, gpus="h100:8", forever="1")

    stage.until(lambda: Task.objects.filter(wave__job=job, state="running").count() == 4)
    in_use = units_in_use()
    stage.finish(job)
    ended = stage.until_ended(job)

    assert in_use == 32
    assert ended is JobState.SUCCEEDED
    assert units_in_use() == 0
    assert events(job) == ["submitted", "admitted", "launched", "started", "succeeded"]


def test_finished_objects_are_deleted_after_their_end_is_recorded(stage: Stage) -> None:
    job = stage.submit(shape="gang", tasks=2, gpus="h100:8")

    stage.until_ended(job)
    stage.until(lambda: not stage.objects())

    assert not stage.pods()
    assert Wave.objects.get(job=job).wish_due_at is None


def test_each_task_of_a_gang_is_bound_to_its_witness(stage: Stage) -> None:
    job = stage.submit(shape="gang", tasks=4, gpus="h100:8", forever="1")

    stage.until(lambda: state(job) is JobState.RUNNING)
    stage.until(lambda: Task.objects.filter(wave__job=job, state="running").count() == 4)

    witnesses = dict(Task.objects.filter(wave__job=job).values_list("pod", "node__name"))
    assert witnesses == {pod.name: pod.node for pod in stage.pods()}
    assert len(set(witnesses.values())) == 4


def test_a_hundred_tasks_run_in_waves_until_all_have_succeeded(stage: Stage) -> None:
    job = stage.submit(shape="independent", tasks=100, gpus="h100:1", run_for="200ms")

    ended = stage.until_ended(job)

    assert ended is JobState.SUCCEEDED
    assert Wave.objects.filter(job=job).count() >= 4
    assert Task.objects.filter(wave__job=job, state="succeeded").values("index").distinct().count() == 100
    assert Task.objects.filter(wave__job=job).count() == 100


def test_a_failed_gang_uses_its_retries_and_then_fails(stage: Stage) -> None:
    job = stage.submit(shape="gang", tasks=2, gpus="h100:1", exit_code=3, retries=1)

    ended = stage.until_ended(job)

    assert ended is JobState.FAILED
    assert (job.attempt, job.failures, job.reason_code) == (2, 2, "TASK_FAILED")
    assert "exit code 3" in job.reason_text
    assert Wave.objects.filter(job=job).count() == 2
    assert units_in_use() == 0


def test_a_failed_task_of_an_independent_job_is_retried_alone(stage: Stage) -> None:
    job = stage.submit(shape="independent", tasks=3, gpus="h100:1", exit_code=1, retries=1)

    ended = stage.until_ended(job)

    assert ended is JobState.FAILED
    assert Task.objects.filter(wave__job=job, state="failed").count() == 6
    assert job.reason_text == "3 of 3 tasks failed"


def test_a_running_job_that_is_cancelled_ends_when_its_pods_are_gone(stage: Stage) -> None:
    job = stage.submit(shape="gang", tasks=2, gpus="h100:8", forever="1")
    stage.until(lambda: state(job) is JobState.RUNNING)

    services.cancel(uid=job.uid, by=stage.lab.ann, now=timezone.now())
    leaving = (state(job), units_in_use())
    ended = stage.until_ended(job)

    assert leaving == (JobState.EVICTING, 16)
    assert ended is JobState.CANCELLED
    assert units_in_use() == 0
    assert not stage.pods()


def test_a_job_cancelled_before_its_launch_leaves_nothing_behind(stage: Stage) -> None:
    job = stage.submit(forever="1")
    cycle.run_cycle(timezone.now)

    services.cancel(uid=job.uid, by=stage.lab.ann, now=timezone.now())
    ended = stage.until_ended(job)

    assert ended is JobState.CANCELLED
    assert not stage.objects()


def test_a_node_that_is_deleted_gives_its_gang_back_whole_and_counts_no_more(stage: Stage) -> None:
    job = stage.submit(shape="gang", tasks=2, gpus="h100:8", forever="1", retries=1)
    running = Task.objects.filter(wave__job=job, state="running")
    stage.until(lambda: running.count() == 2)
    submitted = job.submitted_at
    node = running.order_by("id").values_list("node__name", flat=True)[0]

    stage.cluster.api.ask("delete", f"/api/v1/nodes/{node}")
    stage.until(lambda: state(job) is JobState.RUNNING and job.attempt == 2 and running.count() == 2)

    stage.lab.h100.refresh_from_db()
    assert Node.objects.get(name=node).gone_at is not None
    assert stage.lab.h100.usable == 24
    assert [wave.outcome for wave in Wave.objects.order_by("number")] == ["NODE_LOST", ""]
    assert (job.failures, job.submitted_at, events(job).count("interrupted")) == (0, submitted, 1)
    assert node not in running.values_list("node__name", flat=True)
    assert units_in_use() == 16
    assert len([pod for pod in stage.pods() if not pod.leaving]) == 2


def test_a_job_that_cannot_start_backs_off_and_fails_after_three_tries(stage: Stage) -> None:
    other = stage.submit(name="other", forever="1")
    stage.until(lambda: state(other) is JobState.RUNNING)
    job = stage.submit(never_start="ErrImagePull")
    job.queue.start_limit = timedelta()
    job.queue.save()

    stage.until(lambda: state(job) is JobState.QUEUED and job.start_failures == 1)
    backing_off = (job.reason_code, job.ready)
    for waves in (2, 3):
        Job.objects.filter(id=job.id).update(backoff_until=timezone.now())
        stage.until(partial(tried, job, waves))

    assert backing_off == ("START_FAILED", False)
    assert (state(job), job.reason_code) == (JobState.FAILED, "START_FAILED")
    assert "never to start" in job.reason_text
    assert Task.objects.filter(wave__job=other, state="running").count() == 1
