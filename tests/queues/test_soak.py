"""What a soak is made of: draws, weather, and checks that find what is wrong."""

import http.client
import time
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from clusters import kinds
from clusters.asking import MERGE, Failure
from clusters.emulator import Emulator
from clusters.kinds import JOB
from clusters.kube import connect
from clusters.meddler import CALM, Meddler, Weather
from clusters.port import ClusterError, WaveRef
from queues import spec as specs
from queues import submission
from queues.models import Job, JobEvent, Task
from queues.soak import checks
from queues.soak.drawing import Draw, Fate, draw
from queues.soak.ground import QUOTAS, Ground
from queues.soak.makers import Makers
from queues.soak.witness import Creations
from queues.states import TaskState
from tests.queues import manifests
from tests.queues.cluster import SUCCEEDED, Cluster
from tests.queues.lab import NOW, Lab


def test_equal_seeds_draw_equal_jobs_of_every_fate() -> None:
    one, two = ([draw(random, number, teams=QUOTAS) for number in range(300)] for random in (Random(5), Random(5)))

    assert one == two
    assert {each.fate for each in one} == set(Fate)
    assert {each.team for each in one} == set(QUOTAS)
    assert {each.made for each in one} == {False, True}


def test_what_people_write_is_a_job_whatever_is_drawn(lab: Lab) -> None:
    catalog = replace(submission.catalog(lab.root), test_annotations=True)
    drawn = [draw(Random(seed), 0, teams={"nlp": 1}, kinds=kinds.KINDS) for seed in range(300)]

    read = [
        specs.read(each.spec, catalog, team="nlp") for each in drawn if each.made or "manifest" in each.spec["spec"]
    ]

    assert {spec.kind for spec in read} == {kind.key for kind in kinds.KINDS}
    assert {kinds.kind_of(each.spec) for each in drawn if each.made} == {kinds.JOB, kinds.JOB_SET}
    assert {spec.time_limit for spec in read} == {timedelta(seconds=3), timedelta(hours=1)}
    assert {spec.borrow for spec in read} == {False, True}


class Shelf:
    """A ground on which objects lie that are put there by hand."""

    def __init__(self) -> None:
        self.cluster = SimpleNamespace(api=self)
        self.objects: dict[str, dict[str, Any]] = {}

    def ask(self, verb: str, path: str, *, body: dict[str, Any] | None = None, media: str = "") -> dict[str, Any]:
        if verb == "create" and body is not None:
            self.objects[f"{path}/{body['metadata']['name']}"] = deepcopy(body)
        elif verb == "patch" and body is not None and media == MERGE:
            self.objects[path]["spec"].update(body["spec"])
        elif path not in self.objects:
            raise Failure(404, b"", {})
        return self.objects[path] if verb == "get" else {}

    def delete(self, path: str) -> None:
        self.objects.pop(path, None)


CASES = [
    ({"status": {"conditions": [{"type": "Complete", "status": "True"}]}, "spec": {"suspend": False}}, None),
    ({"spec": {"suspend": True}}, "its job has succeeded and it has not"),
    (
        {"status": {"conditions": [{"type": "Complete", "status": "True"}]}, "labels": {"tidegate.io/wave": "w"}},
        "still a wave's although its job has succeeded",
    ),
    (None, "somebody deleted it, and not its owner"),
]


@pytest.mark.parametrize(("seen", "wrong"), CASES)
def test_an_object_is_taken_away_when_it_is_as_its_jobs_end_says_and_else_is_told(
    ended: Job, seen: dict[str, Any] | None, wrong: str | None
) -> None:
    shelf = Shelf()
    makers = Makers(cast("Ground", shelf), Random(1))
    manifest = manifests.job(ended.name, suspend=True)
    makers.make(Draw(name=ended.name, team="nlp", fate=Fate.SUCCEEDS, spec=manifest, made=True))
    (path,) = shelf.objects
    if seen is None:
        del shelf.objects[path]
    else:
        found = shelf.objects[path]
        found["spec"].update(seen.get("spec", {}))
        found["status"] = seen.get("status", {})
        found["metadata"]["labels"] = seen.get("labels", {})

    told = list(makers.collect())

    assert told == ([f"Job {ended.name}: {wrong}"] if wrong else [])
    assert (path in shelf.objects) is (wrong is not None and seen is not None)


@pytest.mark.parametrize("fate", [Fate.SUCCEEDS, Fate.ENDLESS])
def test_who_made_an_object_deletes_suspends_or_starts_it_but_starts_nothing_endless(lab: Lab, fate: Fate) -> None:
    shelf, done = Shelf(), set[str]()
    lab.submit(name="made")
    Job.objects.update(kind=JOB.key, object_uid="uid", object_cluster=lab.cluster)

    for seed in range(20):
        makers = Makers(cast("Ground", shelf), Random(seed))
        manifest = manifests.job("made", suspend=True)
        makers.make(Draw(name="made", team="nlp", fate=fate, spec=manifest, made=True))
        makers.change_mind()
        done |= makers.done.keys() - {"made"}
        (there,) = shelf.objects.values() or ({"spec": {"suspend": None}},)
        assert there["spec"]["suspend"] is (None if makers.gone else not makers.started)

    assert done == {"deleted", "suspended"} | ({"started"} if fate is Fate.SUCCEEDS else set())


def test_what_somebody_started_by_hand_is_taken_away_with_its_end_whatever_that_was(lab: Lab) -> None:
    job, shelf = lab.submit(), Shelf()
    Job.objects.filter(id=job.id).update(state="cancelled", ended_at=NOW, waiting_tasks=0, ready=False)
    makers = Makers(cast("Ground", shelf), Random(1))
    manifest = manifests.job(job.name, suspend=False)
    makers.make(Draw(name=job.name, team="nlp", fate=Fate.SUCCEEDS, spec=manifest, made=True))

    told = list(makers.collect())
    makers.started.add(job.name)
    told_again = list(makers.collect())

    assert told == [f"Job {job.name}: runs although its job has cancelled"]
    assert (told_again, shelf.objects) == ([], {})


def drawn(job: Job, fate: Fate) -> dict[str, Draw]:
    return {job.name: Draw(name=job.name, team="nlp", fate=fate, spec={})}


@pytest.fixture
def ended(lab: Lab) -> Job:
    """Return a job that has run to its end, as the loop writes it."""
    cluster = Cluster(lab)
    cluster.look()
    job = lab.submit()
    wave = lab.start(job, lab.nodes[0])
    cluster.run(wave, SUCCEEDED)
    cluster.look()
    job.refresh_from_db()
    return job


def test_a_job_that_ended_as_drawn_is_right_and_one_that_did_not_is_told(ended: Job) -> None:
    assert list(checks.jobs_wrong(drawn(ended, Fate.SUCCEEDS), set())) == []
    assert list(checks.jobs_wrong(drawn(ended, Fate.FAILS), set())) == ["job train (fails): succeeded , not failed"]
    assert next(iter(checks.jobs_wrong({}, set()))) == "job train: 1 times, drawn by nobody"


def test_a_job_that_is_missing_doubled_or_ended_twice_is_told(ended: Job) -> None:
    other = Draw(name="other", team="nlp", fate=Fate.SUCCEEDS, spec={})
    JobEvent.objects.create(job=ended, at=NOW, type="failed", summary="")

    found = list(checks.jobs_wrong(drawn(ended, Fate.SUCCEEDS) | {"other": other}, set()))

    assert found == ["job other: not there", "job train: ended 2 times"]


@pytest.mark.usefixtures("ended")
def test_a_success_without_its_tasks_is_told() -> None:
    assert list(checks.succeeded_wrong()) == []

    Task.objects.update(state=TaskState.FAILED)

    assert list(checks.succeeded_wrong()) == ["job train: succeeded with 0 of 1 tasks"]


def test_what_still_holds_waits_or_has_to_be_told_is_left_over(lab: Lab, ended: Job) -> None:
    left = list(checks.ledger_left())
    lab.start(lab.submit(), lab.nodes[0])
    lab.submit(name="waits")

    assert left == ["1 waves to be told"]  # its objects still have to go
    assert list(checks.ledger_left()) == [
        "1 tasks that hold",
        "1 waves that hold",
        "1 waves to be told",
        "1 jobs that wait",
    ]
    assert ended.state == "succeeded"


def test_the_weather_strikes_as_often_as_it_says_and_calm_never(tmp_path: Path) -> None:
    with Emulator() as emulator:
        direct = emulator.kubeconfig(tmp_path / "direct")
        with Meddler(direct, seed=1, weather=CALM) as meddler:
            cluster = connect("weather", kubeconfig=meddler.kubeconfig(tmp_path / "weather"))
            calm = Counter(outcome(cluster.check) for _ in range(20))
            meddler.weather = Weather(refuse=1.0)
            refused = outcome(cluster.check)
            meddler.weather = Weather(refuse=0, throttle=0, deaf=1.0, slow=0)
            deaf = outcome(cluster.check)
            cluster.close()

    assert calm == {"fine": 20}
    assert (refused, deaf) == ("Unreachable", "Unreachable")
    assert meddler.faults == {"refuse": 1, "deaf": 1}


def test_what_was_created_twice_is_told_with_all_that_was_asked_about_it(ended: Job, tmp_path: Path) -> None:
    wave = str(ended.waves.get().uid)
    ref = WaveRef(wave=wave, job=str(ended.uid), number=1, namespace="default", groups=1)
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    meta = {"name": "tg-1", "labels": {"tidegate.io/wave": wave, "tidegate.io/group": "0"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": pod}}}
    with Emulator() as emulator:
        direct = emulator.kubeconfig(tmp_path / "direct")
        with Meddler(direct, seed=1, weather=CALM) as meddler:
            past, through = connect("past", kubeconfig=direct), meddler.kubeconfig(tmp_path / "weather")
            cluster, creations = connect("weather", kubeconfig=through), Creations(past)
            for number in (1, 2):
                cluster.api.ask("create", "/apis/batch/v1/namespaces/default/jobs", body=job)
                until(lambda number=number: len(creations.seen[wave, 0]) == number)  # type: ignore[misc]
                cluster.stop(ref)
            creations.stop()
            (told,) = creations.twice(deleted=(), passed=meddler.passed)
            forgiven = creations.twice(deleted={(wave, 0)}, passed=meddler.passed)
            cluster.close()
            past.close()

    assert f"wave {wave} group 0 was created 2 times: admitted_at " in told
    assert [told.count(words) for words in ("POST /apis", "by 201", "DELETE /apis", "by 200")] == [2, 2, 2, 2]
    assert forgiven == []


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def outcome(ask: object) -> str:
    """Return how a call ended, in a word."""
    assert callable(ask)
    try:
        ask()
    except (ClusterError, http.client.HTTPException) as error:
        return type(error).__name__
    return "fine"
