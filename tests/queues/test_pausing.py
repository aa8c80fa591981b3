"""Paused time does not count as waiting; queues follow what happens to teams."""

from datetime import datetime

import pytest

from queues import services
from queues.models import Job, Queue
from tenants import services as teams
from tenants.errors import Conflict
from tests.queues.lab import MINUTE, NOW, Lab


def pause(lab: Lab, at: datetime, *, paused: bool = True) -> None:
    services.change_queue(team="nlp", name="default", policy={"paused": paused}, by=lab.lea, now=at)


def waits_from(job: Job) -> datetime:
    return Job.objects.get(id=job.id).wait_from


def test_time_in_a_paused_queue_does_not_count(lab: Lab) -> None:
    before = lab.submit()
    pause(lab, NOW + 10 * MINUTE)
    within = lab.submit(now=NOW + 20 * MINUTE)
    others = lab.submit(lab.carl, team="cv")

    pause(lab, NOW + 40 * MINUTE, paused=False)

    assert waits_from(before) == NOW + 30 * MINUTE
    assert waits_from(within) == NOW + 40 * MINUTE
    assert waits_from(others) == NOW


def test_time_held_within_a_pause_counts_once(lab: Lab) -> None:
    job = lab.submit()
    pause(lab, NOW + 10 * MINUTE)
    services.hold(uid=job.uid, by=lab.ann, now=NOW + 20 * MINUTE)
    pause(lab, NOW + 30 * MINUTE, paused=False)

    services.release(uid=job.uid, by=lab.ann, now=NOW + 60 * MINUTE)

    assert waits_from(job) == NOW + 50 * MINUTE


def test_time_held_before_and_past_a_pause_counts_once(lab: Lab) -> None:
    job = lab.submit()
    services.hold(uid=job.uid, by=lab.ann, now=NOW + 10 * MINUTE)
    pause(lab, NOW + 20 * MINUTE)
    pause(lab, NOW + 30 * MINUTE, paused=False)

    services.release(uid=job.uid, by=lab.ann, now=NOW + 40 * MINUTE)

    assert waits_from(job) == NOW + 30 * MINUTE


def test_a_running_job_is_not_moved_by_a_pause(lab: Lab) -> None:
    job = lab.submit()
    lab.start(job)
    pause(lab, NOW + 10 * MINUTE)

    pause(lab, NOW + 20 * MINUTE, paused=False)

    assert waits_from(job) == NOW


def test_a_pause_of_the_department_does_not_count_either(lab: Lab) -> None:
    job = lab.submit()
    teams.pause_team(by=lab.root, now=NOW + 10 * MINUTE, team="ai")

    teams.resume_team(by=lab.root, now=NOW + 25 * MINUTE, team="ai")

    assert waits_from(job) == NOW + 15 * MINUTE


@pytest.mark.parametrize("queue_first", [True, False])
def test_pauses_that_overlap_count_once(lab: Lab, *, queue_first: bool) -> None:
    job = lab.submit()
    pause(lab, NOW + 10 * MINUTE)
    teams.pause_team(by=lab.root, now=NOW + 20 * MINUTE, team="nlp")

    if queue_first:
        pause(lab, NOW + 30 * MINUTE, paused=False)
        teams.resume_team(by=lab.root, now=NOW + 40 * MINUTE, team="nlp")
    else:
        teams.resume_team(by=lab.root, now=NOW + 30 * MINUTE, team="nlp")
        pause(lab, NOW + 40 * MINUTE, paused=False)

    assert waits_from(job) == NOW + 30 * MINUTE


def test_pausing_twice_keeps_the_first_time(lab: Lab) -> None:
    pause(lab, NOW)
    pause(lab, NOW + MINUTE)

    assert Queue.objects.get(team=lab.nlp).paused_at == NOW


def test_a_new_team_gets_its_default_queue(lab: Lab) -> None:
    team = teams.create_team(by=lab.root, now=NOW, name="speech", parent="ai")

    assert [queue.name for queue in Queue.objects.filter(team=team)] == ["default"]


def test_a_team_with_jobs_does_not_become_a_department_until_they_have_ended(lab: Lab) -> None:
    job = lab.submit()

    with pytest.raises(Conflict, match="nlp has jobs that have not ended"):
        teams.create_team(by=lab.root, now=NOW, name="sub", parent="nlp")
    with pytest.raises(Conflict):
        teams.update_team(by=lab.root, now=NOW, team="bio", changes={"parent": "nlp"})
    services.cancel(uid=job.uid, by=lab.ann, now=NOW)

    assert teams.create_team(by=lab.root, now=NOW, name="sub", parent="nlp").parent == lab.nlp
