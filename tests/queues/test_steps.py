from datetime import timedelta

import pytest

from queues.models import Job, Task, Wave
from queues.states import STEPS, JobState
from queues.steps import StepNotAllowed, evict, step, waits_again, waits_no_more
from tests.queues.lab import MINUTE, NOW, Lab


def test_a_step_moves_a_job_once_and_records_it(lab: Lab) -> None:
    job = lab.submit()

    def cancel() -> bool:
        return step(job.id, JobState.QUEUED, JobState.CANCELLED, now=NOW, event="cancelled", summary="x")

    first, second = cancel(), cancel()

    job.refresh_from_db()
    assert (first, second) == (True, False)
    assert (job.state, job.ended_at, job.waiting_tasks, job.ready) == ("cancelled", NOW, 0, False)
    assert job.events.filter(type="cancelled").count() == 1


@pytest.mark.parametrize(("old", "new"), [(a, b) for a in JobState for b in JobState if b not in STEPS[a]], ids=str)
def test_steps_that_the_table_lacks_are_refused(old: JobState, new: JobState) -> None:
    with pytest.raises(StepNotAllowed):
        step(1, old, new, now=NOW, event="x", summary="x")


def test_time_in_which_a_job_did_not_wait_does_not_count(lab: Lab) -> None:
    job = lab.submit()
    Job.objects.update(**waits_no_more(NOW + 5 * MINUTE))
    Job.objects.update(**waits_no_more(NOW + 7 * MINUTE))

    Job.objects.update(**waits_again(NOW + 15 * MINUTE))

    job.refresh_from_db()
    assert (job.wait_from, job.not_waiting_since, job.ready) == (NOW + 10 * MINUTE, None, True)


def test_who_looked_before_the_wait_stopped_does_not_turn_waiting_time_back(lab: Lab) -> None:
    job = lab.submit()
    Job.objects.update(**waits_no_more(NOW + 5 * MINUTE))

    Job.objects.update(**waits_again(NOW + 4 * MINUTE))

    job.refresh_from_db()
    assert (job.wait_from, job.not_waiting_since, job.ready) == (NOW, None, True)


def test_an_evicted_job_holds_until_its_pods_are_gone(lab: Lab) -> None:
    job = lab.submit(shape="gang", tasks=2, grace="30s")
    lab.start(job)

    moved = evict(job.id, JobState.RUNNING, JobState.QUEUED, now=NOW + MINUTE, event="evicted", summary="x")

    job.refresh_from_db()
    wave = Wave.objects.get()
    assert moved
    assert (job.state, job.next_state, job.ran_for) == ("evicting", "queued", MINUTE)
    assert (wave.state, wave.wish, wave.wish_due_at) == ("evicting", "stop", NOW + MINUTE)
    assert wave.deadline_at == NOW + MINUTE + timedelta(seconds=90)
    assert set(Task.objects.values_list("state", flat=True)) == {"leaving"}


def test_a_job_that_is_leaving_gets_another_goal(lab: Lab) -> None:
    job = lab.submit()
    lab.start(job)
    evict(job.id, JobState.RUNNING, JobState.QUEUED, now=NOW, event="evicted", summary="x")

    evict(job.id, JobState.EVICTING, JobState.CANCELLED, now=NOW, event="cancelled", summary="x")

    job.refresh_from_db()
    assert (job.state, job.next_state) == ("evicting", "cancelled")


def test_an_eviction_from_another_state_than_expected_does_nothing(lab: Lab) -> None:
    job = lab.submit()

    moved = evict(job.id, JobState.RUNNING, JobState.QUEUED, now=NOW, event="evicted", summary="x")

    job.refresh_from_db()
    assert (moved, job.state) == (False, "queued")
