"""Kinds that people install with their controllers, which the soak plays, on the emulator."""

import pytest
from django.utils import timezone

from clusters import kinds
from clusters.asking import path_of
from clusters.kinds import Kind
from queues import services
from queues.models import Job, Task
from queues.namespaces import namespace_of
from queues.soak import manifests
from queues.soak.operators import Operators, end, pods_of
from queues.states import ENDED, JobState
from tests.loop.stage import Stage, units_in_use

INSTALLED = (kinds.PYTORCH_JOB, kinds.MPI_JOB, kinds.TRAIN_JOB, kinds.RAY_JOB)
STEER = {
    JobState.SUCCEEDED: {"tidegate.test/run-for": "100ms"},
    JobState.FAILED: {"tidegate.test/run-for": "100ms", "tidegate.test/exit-code": "3"},
}


@pytest.fixture
def installed() -> bool:
    return True


def written(kind: Kind, name: str, notes: dict[str, str]) -> dict[str, object]:
    spec = manifests.SPECS[kind](2, 1, notes)
    return {"apiVersion": kind.api, "kind": kind.name, "metadata": {"name": name}, "spec": spec}


def test_objects_of_every_kind_end_as_their_pods_do_and_nothing_is_left(stage: Stage) -> None:
    operators = Operators(stage.cluster, INSTALLED)
    wanted = {f"{kind.plural}-{end}": (kind, end) for kind in INSTALLED for end in STEER}
    for name, (kind, ended) in wanted.items():
        services.submit(spec=written(kind, name, STEER[ended]), by=stage.lab.ann, now=timezone.now())

    def all_have_ended() -> bool:
        for kind in INSTALLED:
            operators.turn(kind)
        return not Job.objects.exclude(state__in=sorted(ENDED)).exists()

    stage.until(all_have_ended, seconds=180)
    tasks = set(Task.objects.values_list("wave__job__name", "index"))
    stage.until(lambda: not stage.objects() and not stage.pods(), seconds=180)

    assert dict(Job.objects.values_list("name", "state")) == {name: ended for name, (_, ended) in wanted.items()}
    assert tasks == {(name, index) for name in wanted for index in range(2)}
    assert units_in_use() == 0


def test_a_pod_that_somebody_takes_away_is_made_anew(stage: Stage) -> None:
    kind, space = kinds.PYTORCH_JOB, namespace_of("nlp")
    stage.cluster.ensure_team(space, team="nlp", ceiling=None)
    operators = Operators(stage.cluster, [kind])
    body = written(kind, "kept", {"tidegate.test/forever": "1"})
    live = stage.cluster.api.ask("create", path_of(f"/apis/{kind.api}", space, kind.plural), body=body)
    pods = path_of("/api/v1", space, "pods")

    operators.turn(kind)
    first = {pod["metadata"]["uid"] for pod in stage.cluster.api.ask("list", pods)["items"]}
    stage.cluster.api.ask("delete", f"{pods}/kept-worker-0", query={"gracePeriodSeconds": "0"})
    operators.turn(kind)
    then = {pod["metadata"]["uid"] for pod in stage.cluster.api.ask("list", pods)["items"]}

    assert (len(first), len(first & then), len(then)) == (2, 1, 2)
    assert {pod["metadata"]["name"] for pod in pods_of(kind, live)} == {"kept-master-0", "kept-worker-0"}


@pytest.mark.parametrize("kind", INSTALLED, ids=lambda kind: kind.name)
def test_an_object_has_ended_when_its_leader_has_or_else_all(kind: Kind) -> None:
    live = written(kind, "one", {}) | {"metadata": {"name": "one", "uid": "u"}}
    pods = list(pods_of(kind, live))
    leads = {pod["metadata"]["name"] for pod in pods} & {"one-master-0", "one-launcher-0", "one-head-0"}

    def then(phases: dict[str, str]) -> object:
        seen = [{**pod, "status": {"phase": phases.get(pod["metadata"]["name"], "Running")}} for pod in pods]
        found = end(kind, seen, len(pods))
        return None if found is None else kinds.has_succeeded(kind, {"status": found})

    every = {pod["metadata"]["name"]: "Succeeded" for pod in pods}
    assert then({}) is None
    assert then(every) is True
    assert then(dict.fromkeys(leads, "Succeeded")) is (True if leads else None)
    assert then(dict.fromkeys(every.keys() - leads, "Succeeded")) is (None if leads else True)
    assert then({"one-node-1": "Failed", "one-worker-0": "Failed", "one-work-1": "Failed"}) is False
