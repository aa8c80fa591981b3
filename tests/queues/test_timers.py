from datetime import datetime, timedelta
from typing import Any

import pytest

from queues import snapshot, timers
from queues.limits import back_off
from queues.models import ClusterState, Eviction, Job, Task, Wave
from queues.promises import evicted_at
from queues.queries import evictions
from queues.states import JobState
from tests.queues.lab import MINUTE, NOW, Lab

LIMIT = timedelta(minutes=10)


def starting(lab: Lab, **spec: Any) -> Job:  # noqa: ANN401  fields of a spec
    """Return a job that was admitted and launched at NOW and of which nothing runs."""
    job = lab.submit(**spec)
    lab.start(job, running=False)
    Wave.objects.filter(job=job).update(deadline_at=NOW + LIMIT)
    return job


def running(lab: Lab, *, ends: datetime, **spec: Any) -> Job:  # noqa: ANN401  fields of a spec
    job = lab.submit(**spec)
    lab.start(job)
    Wave.objects.filter(job=job).update(deadline_at=ends)
    return job


def again(job: Job) -> Job:
    job.refresh_from_db()
    return job


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(1, 60), (2, 120), (3, 240), (4, 480), (5, 960), (6, 1920), (7, 3600), (8, 3600), (1000, 3600)],
)
def test_back_off_doubles_up_to_an_hour(failures: int, seconds: int) -> None:
    assert back_off(failures) == timedelta(seconds=seconds)


def test_nothing_happens_before_its_time(lab: Lab) -> None:
    job = starting(lab)

    assert timers.fire(NOW + LIMIT - timedelta(seconds=1)) == 0
    assert again(job).state == "admitted"


def test_a_gang_that_does_not_start_in_time_backs_off(lab: Lab) -> None:
    job = starting(lab, shape="gang", tasks=2)

    timers.fire(NOW + LIMIT)

    again(job)
    assert (job.state, job.next_state, job.reason_code, job.start_failures) == ("evicting", "queued", "START_FAILED", 1)
    assert job.backoff_until == NOW + LIMIT + MINUTE
    assert set(Task.objects.values_list("state", flat=True)) == {"leaving"}


def test_the_start_limit_counts_from_admission_however_long_the_job_waited(lab: Lab) -> None:
    job = lab.submit(now=NOW - timedelta(hours=2))
    lab.start(job, running=False)
    Wave.objects.update(deadline_at=NOW + LIMIT)

    timers.fire(NOW + LIMIT - timedelta(seconds=1))

    assert again(job).state == "admitted"


def test_after_its_last_try_the_job_fails(lab: Lab) -> None:
    job = starting(lab, shape="gang")
    Job.objects.update(start_failures=2)

    timers.fire(NOW + LIMIT)

    again(job)
    assert (job.state, job.next_state, job.start_failures, job.backoff_until) == ("evicting", "failed", 3, None)


def test_the_jobs_trouble_is_named_when_its_start_is_given_up(lab: Lab) -> None:
    job = starting(lab, shape="gang")
    Job.objects.update(reason_code="IMAGE_PULL", reason_text="no such image")

    timers.fire(NOW + LIMIT)

    assert again(job).reason_text == "Did not start within 0:10:00 (no such image)"


def test_a_cluster_that_does_not_answer_stops_the_clock(lab: Lab) -> None:
    job = starting(lab)
    ClusterState.objects.update(unreachable_since=NOW)

    timers.fire(NOW + LIMIT)

    assert again(job).state == "admitted"
    assert Wave.objects.get().deadline_at == NOW + LIMIT + MINUTE


def test_a_wave_that_the_cluster_could_not_be_told_is_not_the_jobs_failure(lab: Lab) -> None:
    job = starting(lab, shape="gang")
    Wave.objects.update(launched_at=None, wish_error="429 from the server")

    timers.fire(NOW + LIMIT)

    again(job)
    assert (job.state, job.reason_code, job.start_failures) == ("evicting", "CLUSTER_UNREACHABLE", 0)


def test_running_tasks_of_an_independent_job_are_not_stopped_because_another_does_not_start(lab: Lab) -> None:
    job = starting(lab, shape="independent", tasks=2)
    Task.objects.filter(index=0).update(state="running")

    timers.fire(NOW + LIMIT)

    assert again(job).state == "admitted"
    assert Wave.objects.get().deadline_at == NOW + LIMIT + MINUTE


def test_a_task_of_an_independent_job_whose_pod_does_not_start_leaves_while_the_others_run(lab: Lab) -> None:
    job = starting(lab, shape="independent", tasks=3, gpus="h100:2")
    Task.objects.filter(index=0).update(state="running", pod="zero")
    Task.objects.filter(index=1).update(pod="one", reason="IMAGE_PULL", message="no such image")
    Job.objects.update(reason_code="IMAGE_PULL", reason_text="no such image")

    timers.fire(NOW + LIMIT)

    row = Eviction.objects.get()
    assert again(job).state == "admitted"
    assert (job.reason_code, job.start_failures, job.backoff_until) == ("START_FAILED", 1, NOW + LIMIT + MINUTE)
    assert list(Task.objects.order_by("index").values_list("state", "reason", "eviction")) == [
        ("running", "", None),
        ("leaving", "START_FAILED", row.id),
        ("pending", "", None),
    ]
    assert (row.claimant, row.tasks, row.units, row.due_at) == (None, 1, 2, NOW + LIMIT)
    assert (Wave.objects.get().state, Wave.objects.get().deadline_at) == ("admitted", NOW + LIMIT + MINUTE)
    assert evictions(lab.root) == ()
    assert evicted_at(NOW + LIMIT) == ()
    with snapshot.load(NOW + LIMIT) as seen:
        assert {(each.leaving, each.claimed) for each in seen.world.attempts} == {(True, False), (False, False)}


def test_a_job_of_which_a_part_does_not_start_again_and_again_fails(lab: Lab) -> None:
    job = starting(lab, shape="independent", tasks=2)
    Task.objects.filter(index=0).update(state="running", pod="zero")
    Task.objects.filter(index=1).update(pod="one")
    Job.objects.update(start_failures=2)

    timers.fire(NOW + LIMIT)

    again(job)
    assert (job.state, job.next_state, job.start_failures) == ("evicting", "failed", 3)


def test_a_gang_over_its_time_limit_is_stopped_and_fails(lab: Lab) -> None:
    job = running(lab, ends=NOW + 60 * MINUTE, shape="gang", time_limit="1h")

    timers.fire(NOW + 60 * MINUTE)

    again(job)
    assert (job.state, job.next_state, job.reason_code) == ("evicting", "failed", "TIMED_OUT")
    assert Wave.objects.get().wish == "stop"


def test_time_in_earlier_attempts_counts(lab: Lab) -> None:
    job = running(lab, ends=NOW + 20 * MINUTE, shape="gang", time_limit="1h")
    Job.objects.update(ran_for=40 * MINUTE)

    timers.fire(NOW + 20 * MINUTE)

    assert again(job).reason_code == "TIMED_OUT"


def test_of_an_independent_job_only_the_wave_that_is_over_time_is_stopped(lab: Lab) -> None:
    job = running(lab, ends=NOW + 60 * MINUTE, shape="independent", tasks=2, time_limit="1h")

    timers.fire(NOW + 60 * MINUTE)

    assert again(job).state == "running"
    assert Wave.objects.get().state == "evicting"
    assert set(Task.objects.values_list("reason", flat=True)) == {"TIMED_OUT"}


def test_a_wave_that_does_not_go_is_told_again_and_firmly(lab: Lab) -> None:
    job = running(lab, ends=NOW, shape="gang", time_limit="1h", grace="30s")
    timers.fire(NOW + 60 * MINUTE)
    Wave.objects.update(wish_due_at=None, stopped_at=NOW + 60 * MINUTE)
    late = Wave.objects.get().deadline_at
    assert late is not None

    timers.fire(late)

    wave = Wave.objects.get()
    assert late == NOW + 60 * MINUTE + job.grace + timedelta(seconds=60)
    assert (wave.wish, wave.wish_due_at, wave.deadline_at) == ("stop", late, None)


def test_a_job_waits_again_when_its_back_off_is_over(lab: Lab) -> None:
    job = lab.submit()
    Job.objects.update(
        ready=False, backoff_until=NOW + 5 * MINUTE, not_waiting_since=NOW + MINUTE, reason_code="K8S_QUOTA"
    )

    timers.fire(NOW + 5 * MINUTE)

    again(job)
    assert (job.state, job.ready, job.backoff_until, job.reason_code) == (JobState.QUEUED, True, None, "")
    assert job.wait_from == NOW + 4 * MINUTE


def test_a_held_job_does_not_wait_again_when_its_back_off_is_over(lab: Lab) -> None:
    job = lab.submit()
    Job.objects.update(state="held", ready=False, backoff_until=NOW, not_waiting_since=NOW)

    timers.fire(NOW + MINUTE)

    assert (again(job).state, job.ready) == ("held", False)


def test_firing_twice_does_nothing_more(lab: Lab) -> None:
    starting(lab, shape="gang")
    timers.fire(NOW + LIMIT)

    assert timers.fire(NOW + LIMIT) == 0
