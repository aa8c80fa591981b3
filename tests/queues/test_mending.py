"""Rows that contradict each other are put right: units held for a job that waits, a job of which nothing holds."""

import logging
from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from queues import mending
from queues.models import Job, Task, Wave
from queues.states import JobState
from tests.queues.lab import NOW, Lab

LATER = NOW + timedelta(minutes=1)


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.HELD, JobState.FAILED, JobState.CANCELLED])
def test_a_wave_that_holds_for_a_job_that_waits_or_has_ended_is_told_to_go(
    lab: Lab, caplog: pytest.LogCaptureFixture, state: JobState
) -> None:
    job = lab.submit()
    wave = lab.start(job)
    ended = NOW if state in {JobState.FAILED, JobState.CANCELLED} else None
    Job.objects.filter(id=job.id).update(state=state, ended_at=ended)

    with caplog.at_level(logging.ERROR):
        mended, again = mending.mend(now=LATER), mending.mend(now=LATER)

    wave.refresh_from_db()
    job.refresh_from_db()
    assert (mended, again) == ({job.id}, set())
    assert (job.state, wave.state, wave.wish, wave.wish_due_at) == (state, "evicting", "stop", LATER)
    assert set(wave.tasks.values_list("state", flat=True)) == {"leaving"}
    assert f"job {job.uid} holds units although it is {state}" in caplog.text


@pytest.mark.parametrize(("stuck", "goal"), [("running", "succeeded"), ("evicting", "queued")])
def test_a_job_of_which_nothing_holds_moves_on(
    lab: Lab, caplog: pytest.LogCaptureFixture, stuck: str, goal: str
) -> None:
    job = lab.submit()
    wave = lab.start(job)
    tasks = {"running": "succeeded", "evicting": "stopped"}[stuck]
    Task.objects.filter(wave=wave).update(state=tasks, ended_at=NOW)
    Wave.objects.filter(id=wave.id).update(state="ended", ended_at=NOW)
    Job.objects.filter(id=job.id).update(state=stuck, next_state="queued" if stuck == "evicting" else "")

    with caplog.at_level(logging.ERROR):
        mended = mending.mend(now=LATER)

    job.refresh_from_db()
    assert (mended, job.state) == ({job.id}, goal)
    assert f"job {job.uid} is {stuck} although nothing of it holds units" in caplog.text


def test_what_is_as_it_should_be_is_left_alone_and_costs_two_statements(
    lab: Lab, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    lab.submit()
    lab.start(lab.submit())
    leaving = lab.start(lab.submit())
    Job.objects.filter(id=leaving.job_id).update(state="evicting", next_state="queued")
    Wave.objects.filter(id=leaving.id).update(state="evicting")
    leaving.tasks.update(state="leaving")

    with django_assert_num_queries(2):
        assert mending.mend(now=LATER) == set()
