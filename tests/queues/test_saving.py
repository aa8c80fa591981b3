"""Checkpoints that jobs report, and what they change for a recall."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from queues import cycle, services, snapshot
from queues.admission.outcome import Eviction as Evicts
from queues.admission.outcome import Outcome
from queues.admission.world import Placed
from queues.apply import apply
from queues.models import Eviction, Job, Task
from queues.waiting import milliseconds
from tenants.errors import Conflict, DomainError, Invalid, NotAllowed, NotFound
from tests.queues.api.test_jobs import JSON, client
from tests.queues.lab import MINUTE, NOW, Lab
from tests.queues.test_views_pages import browser

HOUR = 60 * MINUTE


def saved(now: datetime) -> list[int | None]:
    with snapshot.load(now) as seen:
        return [attempt.saved for attempt in seen.world.attempts]


def running(lab: Lab, **spec: Any) -> Job:  # noqa: ANN401  fields of a spec
    job = lab.submit(**spec)
    lab.start(job, *lab.nodes[:2])
    return job


def report(lab: Lab, job: Job, *, minute: int, **more: object) -> services.Saved:
    return services.report_checkpoint(uid=job.uid, by=lab.ann, now=NOW + minute * MINUTE, **more)  # type: ignore[arg-type]


def test_a_checkpoint_of_any_task_is_that_of_the_gang(lab: Lab) -> None:
    job = running(lab, shape="gang", tasks=2, gpus="h100:8")

    done = report(lab, job, minute=40, task=1)

    assert (done.at, done.tasks) == (NOW + 40 * MINUTE, 2)
    assert saved(NOW + HOUR) == [milliseconds(NOW + 40 * MINUTE)]


def test_tasks_of_an_independent_job_save_each_its_own_and_the_oldest_counts(lab: Lab) -> None:
    job = running(lab, shape="independent", tasks=2, gpus="h100:1")

    one = report(lab, job, minute=40, task=0)
    after_one = saved(NOW + HOUR)
    report(lab, job, minute=50, task=1)

    assert one.tasks == 1
    assert after_one == [milliseconds(NOW)]
    assert saved(NOW + HOUR) == [milliseconds(NOW + 40 * MINUTE)]


def test_a_report_without_a_task_is_for_all(lab: Lab) -> None:
    job = running(lab, shape="independent", tasks=2, gpus="h100:1")

    assert report(lab, job, minute=30).tasks == 2
    assert saved(NOW + HOUR) == [milliseconds(NOW + 30 * MINUTE)]


def test_an_older_report_changes_nothing(lab: Lab) -> None:
    job = running(lab)
    report(lab, job, minute=40)
    report(lab, job, minute=50, at=NOW + 20 * MINUTE)

    assert saved(NOW + HOUR) == [milliseconds(NOW + 40 * MINUTE)]


def test_what_was_saved_before_the_start_is_no_checkpoint(lab: Lab) -> None:
    job = running(lab)

    with pytest.raises(Conflict) as caught:
        report(lab, job, minute=1, at=NOW - MINUTE)

    assert caught.value.code == "before_start"
    assert caught.value.fields[0].pointer == "/at"
    assert saved(NOW + HOUR) == [None]


def test_nobody_saves_in_the_future_and_a_clock_may_differ_a_little(lab: Lab) -> None:
    job = running(lab)

    with pytest.raises(Invalid) as caught:
        report(lab, job, minute=1, at=NOW + 3 * MINUTE)

    assert caught.value.fields[0].pointer == "/at"
    assert report(lab, job, minute=1, at=NOW + 2 * MINUTE).at == NOW + MINUTE


def test_only_a_running_job_and_task_can_save(lab: Lab) -> None:
    waits, runs = lab.submit(), running(lab)

    with pytest.raises(Conflict):
        report(lab, waits, minute=1)
    with pytest.raises(Invalid) as caught:
        report(lab, runs, minute=1, task=7)
    assert caught.value.fields[0].pointer == "/task"


@pytest.mark.parametrize(("who", "error"), [("carl", NotFound), ("vic", NotAllowed), ("art", NotAllowed)])
def test_who_may_not_change_the_job_reports_nothing(lab: Lab, who: str, error: type[DomainError]) -> None:
    job = running(lab)

    with pytest.raises(error):
        services.report_checkpoint(uid=job.uid, by=getattr(lab, who), now=NOW + MINUTE)

    assert not Task.objects.exclude(saved_at=None).exists()


def test_only_what_was_not_saved_is_lost(lab: Lab) -> None:
    job = running(lab, shape="gang", tasks=2, gpus="h100:8")
    claimant = lab.submit(gpus="h100:8")
    report(lab, job, minute=45)
    with snapshot.load(NOW + HOUR) as seen:
        world = seen.world
    placed = tuple(Placed(group=0, node=node.id, tasks=1) for node in lab.nodes[:2])
    eviction = Evicts(attempt=world.attempts[0].id, placed=placed, claim=1, job=claimant.id)

    apply(Outcome(evictions=(eviction,)), world, now=NOW + HOUR, digest="d")

    # 16 units for the 15 minutes since the checkpoint.
    assert Eviction.objects.get().lost_unit_seconds == 16 * 15 * 60


def test_the_job_that_saved_last_goes_first(lab: Lab) -> None:
    carl = lab.carl
    first = lab.submit(carl, name="first", team="cv", gpus="h100:8", shape="gang", tasks=2)
    second = lab.submit(carl, name="second", team="cv", gpus="h100:8", shape="gang", tasks=2)
    lab.start(first, *lab.nodes[:2])
    lab.start(second, *lab.nodes[2:4])
    services.report_checkpoint(uid=first.uid, by=carl, now=NOW + 59 * MINUTE)
    lab.submit(name="owner", shape="gang", tasks=2, gpus="h100:8")

    cycle.turn(NOW + HOUR)

    # Without its checkpoint the newer one would go: both have run for an hour.
    assert Eviction.objects.get().wave.job == first


def test_a_checkpoint_over_http_and_on_the_page(lab: Lab) -> None:
    job = running(lab)
    Task.objects.update(started_at=NOW - timedelta(days=3650))
    api = client(lab.ann)

    answer = api.post(f"/api/v1/jobs/{job.uid}/checkpoint", {}, content_type=JSON)
    wrong = api.post(f"/api/v1/jobs/{job.uid}/checkpoint", {"when": 3}, content_type=JSON)

    assert (answer.status_code, answer.json()["tasks"]) == (200, 1)
    assert wrong.status_code == 422
    assert "Last checkpoint" in browser(lab.ann).get(f"/jobs/{job.uid}").content.decode()
