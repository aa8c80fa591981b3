"""PyTorchJob, MPIJob, RayJob and TrainJob on a real API server; the test plays their operators."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.utils import timezone

from clusters import kinds
from queues import services
from queues.models import Job, Task
from queues.states import JobState
from tests.loop.adopting import Hands
from tests.loop.stage import Stage, state, units_in_use
from tests.queues import manifests

# Whoever comes first waits for the definitions to be installed.
pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("operators"), pytest.mark.timeout(600)]

Make = Callable[[], dict[str, Any]]

TRUE = {"status": "True", "reason": "Played", "message": "as the test says"}
TIMES = {"lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}


def conditions(kind: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401  fields of a status
    return {"conditions": [{"type": kind, **TRUE, **TIMES}], **more}


CASES = [
    pytest.param(
        manifests.pytorch_job, 3, conditions("Succeeded", replicaStatuses={}), conditions("Failed", replicaStatuses={})
    ),
    pytest.param(
        manifests.mpi_job, 2, conditions("Succeeded", replicaStatuses={}), conditions("Failed", replicaStatuses={})
    ),
    pytest.param(
        manifests.ray_job,
        2,
        {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"},
        {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed", "message": "as the test says"},
    ),
    pytest.param(manifests.train_job, 2, conditions("Complete"), conditions("Failed")),
]


class Operator:
    """Does for one object what its operator would: pods of its parts, its status, and no pods after the end."""

    def __init__(self, real: Stage, manifest: dict[str, Any]) -> None:
        found = kinds.kind_of(manifest)
        assert found is not None
        self.real, self.kind = real, found
        self.hands = Hands(real, f"/apis/{found.api}", found.plural)
        self.pods = f"/api/v1/namespaces/{self.hands.namespace}/pods"

    def object(self) -> dict[str, Any] | None:
        """Return the object that was released, if it is there."""
        items = self.real.cluster.api.ask("list", self.hands.collection)["items"]
        return items[0] if items else None

    def make_pods(self) -> None:
        """Make all pods that the object asks for."""
        live = self.object()
        assert live is not None
        for number, pod in enumerate(self._wanted(live)):
            meta = pod.setdefault("metadata", {})
            owner = {key: live["metadata"][key] for key in ("name", "uid")}
            meta["name"] = f"{live['metadata']['name']}-{number}"
            meta["ownerReferences"] = [{"apiVersion": self.kind.api, "kind": self.kind.name, **owner}]
            self.real.cluster.api.ask("create", self.pods, body={"apiVersion": "v1", "kind": "Pod", **pod})

    def end(self, status: dict[str, Any]) -> None:
        """Write the object's status, and delete its pods."""
        live = self.object()
        assert live is not None
        live["status"] = status
        self.real.cluster.api.ask("replace", f"{self.hands.collection}/{live['metadata']['name']}/status", body=live)
        self.real.cluster.api.ask("delete", self.pods, query={"gracePeriodSeconds": "0"})

    def _wanted(self, live: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for part in kinds.parts(self.kind, live):
            for index in range(part.pods):
                if self.kind.overrides:
                    yield self._of_runtime(live, part.spec, index)
                    continue
                labels = {**part.template["metadata"]["labels"]}
                if self.kind.index:
                    labels[self.kind.index] = str(index)
                yield {"metadata": {"labels": labels}, "spec": {**part.spec}}

    def _of_runtime(self, live: dict[str, Any], spec: Any, index: int) -> dict[str, Any]:  # noqa: ANN401  a pod's spec
        (changed,) = live["spec"]["podSpecOverrides"]
        assert changed["targetJobs"] == [{"name": "node"}]
        own = {key: value for key, value in changed.items() if key != "targetJobs"}
        containers = [{"name": "node", "image": "a", "resources": spec["containers"][0]["resources"]}]
        labels = {self.kind.family: live["metadata"]["name"]}
        notes = {self.kind.index: str(index)}
        return {"metadata": {"labels": labels, "annotations": notes}, "spec": {"containers": containers, **own}}


def start(real: Stage, manifest: dict[str, Any], tasks: int) -> tuple[Job, Operator]:
    """Submit an object, and play its operator until all tasks that count run."""
    operator = Operator(real, manifest)
    job = services.submit(spec=manifest, by=real.lab.ann, now=timezone.now()).job
    real.until(lambda: operator.object() is not None, seconds=120)
    operator.make_pods()
    running = Task.objects.filter(wave__job=job, state="running")
    real.until(lambda: running.count() == tasks, seconds=120)
    return job, operator


@pytest.mark.parametrize(("make", "tasks", "good", "bad"), CASES)
def test_each_kind_runs_on_its_witnesses_and_succeeds_as_its_status_says(
    real: Stage,
    make: Make,
    tasks: int,
    good: dict[str, Any],
    bad: dict[str, Any],  # noqa: ARG001  of another test
) -> None:
    job, operator = start(real, make(), tasks)
    witnesses = dict(Task.objects.filter(wave__job=job).values_list("pod", "node__name"))
    everything = {pod.name: pod.node for pod in real.cluster.inventory().pods}
    in_use = units_in_use()

    operator.end(good)
    ended = real.until_ended(job, seconds=120)
    real.until(lambda: operator.object() is None, seconds=120)

    assert {pod: everything[pod] for pod in witnesses} == witnesses
    assert in_use == 8 * tasks
    assert ended is JobState.SUCCEEDED
    assert units_in_use() == 0


@pytest.mark.parametrize(("make", "tasks", "good", "bad"), CASES)
def test_each_kind_fails_as_its_status_says(
    real: Stage,
    make: Make,
    tasks: int,
    good: dict[str, Any],  # noqa: ARG001  of another test
    bad: dict[str, Any],
) -> None:
    job, operator = start(real, make(), tasks)

    operator.end(bad)
    ended = real.until_ended(job, seconds=120)

    assert ended is JobState.FAILED
    assert units_in_use() == 0
    assert state(job) is JobState.FAILED
    real.until(lambda: operator.object() is None, seconds=120)
