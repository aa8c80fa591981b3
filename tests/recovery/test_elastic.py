"""Faults while elastic jobs grow and shrink: each task starts and goes once, and the minimum never suffers."""

from typing import Any

import pytest
from django.utils import timezone

from queues.models import Claim, Eviction, Job, Task, Wave
from queues.states import JobState
from tests.clusters.contract.ground import GPU
from tests.clusters.faulty import Handler, failure
from tests.kubernetes.proxy import Edit, broken, deaf, edited, missing, reordered, replayed
from tests.loop.stage import events, state
from tests.recovery.scene import Scene


def elastic(scene: Scene, **changes: Any) -> Job:  # noqa: ANN401  fields of a spec
    """Submit an elastic job that fits with its minimum on one node and with all on three."""
    return scene.submit(shape="elastic", tasks={"min": 1, "max": 3}, gpus="h100:8", forever="1", **changes)


def grown(scene: Scene, **changes: Any) -> Job:  # noqa: ANN401  fields of a spec
    """Return an elastic job that runs on all three nodes."""
    job = elastic(scene, **changes)
    scene.until(lambda: scene.running(job) == 3)
    return job


def claim(scene: Scene) -> Job:
    """Submit a job of one node that is inside another team's guarantee."""
    spec: dict[str, Any] = {"team": "cv", "name": "owner", "gpus": "h100:8"}
    notes = {"tidegate.test/forever": "1"}
    return scene.lab.submit(scene.lab.carl, now=timezone.now(), annotations=notes, **spec)


def has_grown_and_shrunk_once(scene: Scene, job: Job, owner: Job) -> None:
    """Hold that one surplus task has made room for the owner, and that nothing else has happened."""
    scene.until(lambda: state(owner) is JobState.RUNNING)
    scene.until(lambda: not Claim.objects.exists() and not Wave.objects.filter(wish_due_at__isnull=False).exists())
    scene.balance()

    assert (state(job), job.attempt, job.evictions, job.failures) == (JobState.RUNNING, 1, 0, 0)
    assert scene.running(job) == 2
    assert (events(job).count("grew"), events(job).count("shrank"), Eviction.objects.count()) == (1, 1, 1)
    assert sorted(Wave.objects.filter(job=job).values_list("number", "state")) == [(1, "running"), (2, "running")]
    assert scene.books() == (24, 24, 24)


@pytest.mark.parametrize(
    "edit",
    [broken(1), replayed, reordered, missing("DELETED"), missing("MODIFIED")],
    ids=["cut", "replayed", "reordered", "no ends", "no changes"],
)
def test_whatever_becomes_of_events_an_elastic_job_grows_and_gives_back_once(scene: Scene, edit: Edit) -> None:
    scene.proxy.put(edited(edit), watches=True)
    job = grown(scene)

    owner = claim(scene)

    has_grown_and_shrunk_once(scene, job, owner)
    assert len(scene.objects()) == 3


def test_a_server_that_throttles_growth_and_removal_gets_its_pauses_and_is_told_again(scene: Scene) -> None:
    refused: list[str] = []

    def refuse(handler: Handler) -> None:
        refused.append(handler.asked.method)
        failure(429, "too many requests", headers={"Retry-After": "1"})(handler)

    job = elastic(scene)
    scene.until(lambda: Task.objects.filter(wave__job=job).exists())
    scene.proxy.put(refuse, verb="POST", kind="jobs", times=2)
    scene.until(lambda: scene.running(job) == 3)
    scene.proxy.put(refuse, verb="DELETE", kind="pods", times=2)

    owner = claim(scene)

    has_grown_and_shrunk_once(scene, job, owner)
    assert refused == ["POST", "POST", "DELETE", "DELETE"]
    assert len(scene.objects()) == 3


def test_answers_to_growth_and_removal_that_are_lost_double_nothing(impatient: Scene) -> None:
    scene = impatient
    created = scene.proxy.put(deaf, verb="POST", kind="jobs", times=3)
    job = grown(scene)
    removed = scene.proxy.put(deaf, verb="DELETE", kind="pods", times=2)

    owner = claim(scene)

    has_grown_and_shrunk_once(scene, job, owner)
    assert (created.seen, removed.seen > 0) == (3, True)
    assert len(scene.objects()) == 3


def test_a_network_that_goes_dark_while_a_job_grows_and_while_it_gives_back_loses_nothing(impatient: Scene) -> None:
    scene = impatient
    job = elastic(scene)
    scene.until(lambda: scene.running(job) == 1)
    with scene.proxy.dark():
        scene.until(lambda: scene.row().unreachable_since is not None)
        small = (state(job), scene.running(job) >= 1)
    scene.until(lambda: scene.running(job) == 3)

    with scene.proxy.dark():
        owner = claim(scene)
        scene.until(lambda: scene.row().unreachable_since is not None)
        large = (state(job), scene.running(job) + Task.objects.filter(wave__job=job, state="leaving").count())

    has_grown_and_shrunk_once(scene, job, owner)
    assert (small, large) == ((JobState.RUNNING, True), (JobState.RUNNING, 3))


def quota(scene: Scene, units: int) -> None:
    """Let somebody else's quota leave the team's namespace so many GPUs."""
    scene.ground.cluster.ensure_team(scene.namespace, team="nlp", ceiling=None)
    hard = {"hard": {f"requests.{GPU}": str(units)}}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "theirs"}, "spec": hard}
    scene.ground.send("create", scene.path("resourcequotas"), body=body)
    there = scene.path("resourcequotas", "theirs")
    scene.until(lambda: scene.ground.send("get", there).get("status", {}).get("hard"))


@pytest.mark.parametrize("room", [1, 2], ids=["all", "half"])
def test_surplus_that_a_quota_of_others_refuses_goes_whole_and_the_job_runs_on_with_its_minimum(
    scene: Scene, room: int
) -> None:
    quota(scene, 8 * room)
    job = elastic(scene)

    scene.until(lambda: "shrank" in events(job))
    scene.until(lambda: not Task.objects.filter(wave__job=job, state__in=["pending", "leaving"]).exists())
    scene.balance()

    (said,) = scene.events(job, "shrank")
    assert "exceeded quota: theirs" in said
    assert "runs on" in said
    assert (state(job), job.attempt, scene.running(job)) == (JobState.RUNNING, 1, 1)
    assert events(job).count("grew") == 1
    assert scene.books() == (8, 8, 8)
