"""Faults between Tidegate and an API server: what is unknown has not failed, and nothing is lost or done twice."""

import threading
import time
from collections import Counter
from itertools import pairwise

import pytest
from django.utils import timezone
from pytest_django import Settings

from queues import services, watcher
from queues.models import Job, Wave
from queues.states import JobState
from tests.clusters.faulty import Answer, Handler, failure, silence, stream
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.proxy import cut, deaf, edited, missing, remembered, reordered, replayed, slow
from tests.loop.stage import events, finish, state
from tests.recovery.scene import Scene


def doubled() -> set[str]:
    """Return the watches that two threads of ours follow; a round that has just been left may still be ending."""
    readers = Counter(each.name for each in threading.enumerate() if each.name.startswith(("watch-", "feed")))
    return {name for name, count in readers.items() if count > 1}


def away(scene: Scene) -> bool:
    return scene.row().unreachable_since is not None


def back(scene: Scene) -> bool:
    return scene.row().unreachable_since is None


def test_a_watch_that_falls_silent_is_made_up_for_by_lists(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "STREAM_SECONDS", 1.0)
    scene.proxy.put(stream(then="silence"), watches=True)
    job = scene.runs(gpus="h100:8")
    lists = scene.follower.lists

    finish(scene.ground.cluster, job)
    ended = scene.ends(job)
    scene.until(lambda: scene.follower.lists >= lists + 3)
    scene.until(lambda: not doubled())

    scene.until(lambda: back(scene))

    assert ended is JobState.SUCCEEDED


def test_a_network_that_goes_dark_without_a_word_is_noticed_and_nothing_fails(impatient: Scene) -> None:
    scene = impatient
    job, other = scene.runs(gpus="h100:8"), scene.runs(name="other", gpus="h100:8")

    with scene.proxy.dark():
        finish(scene.ground.cluster, job)
        waiting = scene.submit(name="waiting", gpus="h100:8", forever="1")
        scene.until(lambda: away(scene) and scene.reason(waiting).get("code") == "CLUSTER_UNREACHABLE")
        during = (state(job), state(other), state(waiting))
    scene.until(lambda: back(scene) and scene.running(waiting) == 1)
    ended = scene.ends(job)
    scene.balance()

    assert during == (JobState.RUNNING, JobState.RUNNING, JobState.ADMITTED)
    assert (ended, state(other)) == (JobState.SUCCEEDED, JobState.RUNNING)
    assert list(Wave.objects.values_list("number", flat=True)) == [1, 1, 1]
    assert scene.books() == (16, 16, 16)


@pytest.mark.parametrize(
    ("scene", "answer"),
    [
        pytest.param("emulated", failure(500, "etcd is away"), id="500"),
        pytest.param("emulated", failure(503, "starting"), id="503"),
        pytest.param("emulated", silence, id="no answer"),
        pytest.param("emulated", cut(40), id="half an answer"),
        pytest.param("kubernetes", cut(40), id="half an answer-kubernetes", marks=pytest.mark.kubernetes),
    ],
    indirect=["scene"],
)
def test_an_api_server_that_answers_badly_is_away_and_nothing_fails(impatient: Scene, answer: Answer) -> None:
    scene = impatient
    job, other = scene.runs(gpus="h100:8"), scene.runs(name="other", gpus="h100:8")

    scene.proxy.put(answer)
    scene.until(lambda: away(scene))
    finish(scene.ground.cluster, job)
    waiting = scene.submit(name="waiting", gpus="h100:8", forever="1")
    scene.until(lambda: scene.reason(waiting).get("code") == "CLUSTER_UNREACHABLE")
    during = (state(job), state(other), state(waiting))
    scene.proxy.heal()
    scene.until(lambda: back(scene) and scene.running(waiting) == 1)
    ended = scene.ends(job)

    assert during == (JobState.RUNNING, JobState.RUNNING, JobState.ADMITTED)
    assert (ended, state(other)) == (JobState.SUCCEEDED, JobState.RUNNING)
    assert Wave.objects.count() == 3


def test_a_server_that_throttles_gets_the_pause_that_it_asks_for(scene: Scene) -> None:
    job = scene.runs(gpus="h100:8")
    asked: list[float] = []

    def refuse(handler: Handler) -> None:
        if handler.asked.path == "/api/v1/nodes" and not handler.asked.watches:
            asked.append(time.monotonic())
        failure(429, "too many requests", headers={"Retry-After": "2"})(handler)

    scene.proxy.put(refuse)
    scene.submit(name="waiting", gpus="h100:8")
    scene.until(lambda: len(asked) >= 3)
    scene.proxy.heal()
    scene.until(lambda: back(scene) and not Job.objects.filter(name="waiting").exclude(state="succeeded").exists())

    # Without being asked it would wait for half a second here.
    assert min(later - earlier for earlier, later in pairwise(asked)) >= 1.9
    assert state(job) is JobState.RUNNING


@pytest.mark.parametrize(
    "edit",
    [replayed, reordered, missing("DELETED"), missing("MODIFIED")],
    ids=["replayed", "reordered", "no ends", "no changes"],
)
def test_events_that_come_again_out_of_order_or_not_at_all_change_no_outcome(scene: Scene, edit: object) -> None:
    scene.proxy.put(edited(edit), watches=True)  # type: ignore[arg-type]

    jobs = [scene.submit(name=f"job-{number}", shape="gang", tasks=2, gpus="h100:4") for number in range(4)]
    failing = scene.submit(name="failing", gpus="h100:1", exit_code=3)
    ends = [scene.ends(job) for job in jobs]
    failed = scene.ends(failing)

    assert ends == [JobState.SUCCEEDED] * 4
    assert failed is JobState.FAILED
    assert [events(job).count("succeeded") for job in jobs] == [1] * 4
    assert Wave.objects.count() == 5
    scene.all_free()


def test_a_list_that_stands_still_while_watches_go_on_is_not_believed(scene: Scene) -> None:
    scene.proxy.put(remembered(), verb="GET", kind="pods", watches=False)
    scene.proxy.put(remembered(), verb="GET", kind="jobs", watches=False)
    lists = scene.follower.lists
    scene.until(lambda: scene.follower.lists > lists)

    job = scene.submit(gpus="h100:8", forever="1")
    scene.until(lambda: away(scene))
    said, during = scene.row().error, state(job)
    scene.proxy.heal()
    scene.until(lambda: back(scene) and scene.running(job) == 1)

    assert "as they were" in said
    assert during in {JobState.ADMITTED, JobState.RUNNING}
    assert (Wave.objects.count(), events(job).count("interrupted")) == (1, 0)


@pytest.mark.parametrize("answer", [deaf, slow(3.0)], ids=["lost", "late"])
def test_a_create_whose_answer_is_lost_makes_one_object(impatient: Scene, answer: Answer) -> None:
    scene = impatient
    fault = scene.proxy.put(answer, verb="POST", kind="jobs", times=1)

    job = scene.submit(gpus="h100:8", forever="1")
    scene.until(lambda: scene.running(job) == 1)

    assert fault.seen == 1
    assert len(scene.objects()) == 1
    scene.until(lambda: events(job).count("launched") == 1)
    assert Wave.objects.count() == 1
    scene.balance()
    assert scene.books() == (8, 8, 8)


def test_a_stop_whose_answer_is_lost_is_said_again(impatient: Scene) -> None:
    scene = impatient
    job = scene.runs(shape="gang", tasks=2, gpus="h100:8")
    fault = scene.proxy.put(failure(503, "no"), verb="DELETE", times=2)

    services.cancel(uid=job.uid, by=scene.lab.ann, now=timezone.now())
    ended = scene.ends(job)

    assert (ended, fault.seen) == (JobState.CANCELLED, 2)
    scene.all_free()


@pytest.mark.kubernetes
def test_an_api_server_killed_while_jobs_are_released_creates_each_exactly_once(
    real: Scene, plane: ControlPlane
) -> None:
    # Quota of pods whose creation the kill cut off stays counted for minutes; the fence (24) has room for all twice.
    jobs = [real.submit(name=f"job-{number}", gpus="h100:1", forever="1") for number in range(10)]
    real.until(lambda: len(real.created()) >= 3 or Wave.objects.filter(launched_at__isnull=False).exists())
    plane.kill("kube-apiserver")
    late = real.submit(name="late", gpus="h100:1", forever="1")
    real.until(lambda: real.reason(late).get("code") == "CLUSTER_UNREACHABLE")
    during = {state(job) for job in jobs}
    plane.start_api_server()
    real.until(lambda: all(real.running(job) == 1 for job in [*jobs, late]))
    # A create whose answer was lost is told again: its pod may run before that is written down.
    real.until(lambda: all("launched" in events(job) for job in jobs))
    real.balance()

    assert during <= {JobState.ADMITTED, JobState.RUNNING}
    assert len(real.objects()) == 11
    assert Wave.objects.count() == 11, real.words()
    assert [events(job).count("launched") for job in jobs] == [1] * 10
    assert real.books() == (11, 11, 11)


@pytest.mark.kubernetes
def test_an_api_server_that_forgot_the_past_is_listed_anew(
    real: Scene, plane: ControlPlane, settings: Settings
) -> None:
    settings.TIDEGATE_RELIST_SECONDS = 600
    job, other = real.runs(gpus="h100:8"), real.runs(name="other", gpus="h100:8")
    # No watch gets through meanwhile, so that the next one asks for what etcd has compacted and the server forgotten.
    real.proxy.put(silence, watches=True)
    finish(real.ground.cluster, job)
    plane.compact()
    plane.restart_api_server()
    real.proxy.heal()
    ended = real.ends(job)
    real.until(lambda: back(real))
    finish(real.ground.cluster, other)
    also = real.ends(other)

    assert (ended, also) == (JobState.SUCCEEDED, JobState.SUCCEEDED)
    real.all_free()
