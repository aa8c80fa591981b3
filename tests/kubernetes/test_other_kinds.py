"""PyTorchJob, MPIJob, RayJob and TrainJob on a real API server; the test plays their operators."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.utils import timezone

from clusters import kinds
from clusters.asking import MERGE
from clusters.kube import connect
from queues import services
from queues.models import Job, Task
from queues.namespaces import namespace_of
from queues.soak.operators import pods_of, told
from queues.states import JobState
from tests.kubernetes import installed
from tests.kubernetes.session import RealCluster
from tests.loop.adopting import Hands
from tests.loop.stage import Stage, state, units_in_use
from tests.queues import manifests
from tests.queues.manifests import steer

# Whoever comes first waits for the definitions to be installed.
pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("operators"), pytest.mark.timeout(600)]

Make = Callable[[], dict[str, Any]]

CASES = [
    pytest.param(manifests.pytorch_job, 3, id="PyTorchJob"),
    pytest.param(manifests.mpi_job, 2, id="MPIJob"),
    pytest.param(manifests.ray_job, 2, id="RayJob"),
    pytest.param(manifests.train_job, 2, id="TrainJob"),
]


class Operator:
    """Does for one object what its operator would: pods of its parts, its status, and no pods after the end.

    Pods are ``owned`` by it, unless its version is served so newly that the garbage collector does not know it yet.
    """

    def __init__(self, real: Stage, manifest: dict[str, Any], *, owned: bool = True) -> None:
        found = kinds.kind_of(manifest)
        assert found is not None
        self.real, self.kind, self.owned = real, found, owned
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
        for pod in pods_of(self.kind, live, owned=self.owned):
            notes = pod["metadata"].setdefault("annotations", {})
            notes["tidegate.test/forever"] = "1"
            self.real.cluster.api.ask("create", self.pods, body=pod)

    def end(self, *, well: bool) -> None:
        """Write the object's end into its status, and delete its pods."""
        live = self.object()
        assert live is not None
        live["status"] = told(self.kind, well=well)
        self.real.cluster.api.ask("replace", f"{self.hands.collection}/{live['metadata']['name']}/status", body=live)
        self.real.cluster.api.ask("delete", self.pods, query={"gracePeriodSeconds": "0"})


def start(real: Stage, manifest: dict[str, Any], tasks: int, *, owned: bool = True) -> tuple[Job, Operator]:
    """Submit an object, and play its operator until all tasks that count run."""
    operator = Operator(real, manifest, owned=owned)
    job = services.submit(spec=manifest, by=real.lab.ann, now=timezone.now()).job
    real.until(lambda: operator.object() is not None, seconds=120)
    # The controllers of Job and JobSet are there.
    if not operator.kind.adopts:
        operator.make_pods()
    running = Task.objects.filter(wave__job=job, state="running")
    real.until(lambda: running.count() == tasks, seconds=120)
    return job, operator


@pytest.mark.parametrize(("make", "tasks"), CASES)
def test_each_kind_runs_on_its_witnesses_and_succeeds_as_its_status_says(real: Stage, make: Make, tasks: int) -> None:
    job, operator = start(real, make(), tasks)
    witnesses = dict(Task.objects.filter(wave__job=job).values_list("pod", "node__name"))
    everything = {pod.name: pod.node for pod in real.cluster.inventory().pods}
    in_use = units_in_use()

    operator.end(well=True)
    ended = real.until_ended(job, seconds=120)
    real.until(lambda: operator.object() is None, seconds=120)

    assert {pod: everything[pod] for pod in witnesses} == witnesses
    assert in_use == 8 * tasks
    assert ended is JobState.SUCCEEDED
    assert units_in_use() == 0


@pytest.fixture
def mpi_operator(cluster_under_test: RealCluster, operators: None) -> Iterator[None]:  # noqa: ARG001  is installed first
    """Before the stage comes: its connection remembers which versions are served."""
    cluster = connect("definitions", kubeconfig=cluster_under_test.kubeconfig)
    with installed.mpi_operator(cluster):
        yield
    cluster.close()


@pytest.mark.usefixtures("mpi_operator")
@pytest.mark.parametrize(("well", "ended"), [(True, JobState.SUCCEEDED), (False, JobState.FAILED)])
def test_an_mpi_job_of_the_mpi_operator_runs_and_ends_as_its_status_says(
    real: Stage,
    well: bool,  # noqa: FBT001  a case
    ended: JobState,
) -> None:
    manifest = manifests.mpi_job(version="v2beta1", launcherCreationPolicy="WaitForWorkersReady")
    job, operator = start(real, manifest, 2, owned=False)
    live = operator.object()

    operator.end(well=well)

    assert live is not None
    assert live["spec"]["runPolicy"]["suspend"] is False
    assert live["spec"]["launcherCreationPolicy"] == "WaitForWorkersReady"
    assert real.until_ended(job, seconds=60) is ended
    assert units_in_use() == 0
    real.until(lambda: operator.object() is None, seconds=60)


STEERED = [
    pytest.param(lambda: manifests.job(pods=2, units=8, notes=steer(forever="1")), 2, id="Job"),
    pytest.param(
        lambda: manifests.job_set(parts={"a": (2, 1, 8)}, notes=steer(forever="1")),
        2,
        id="JobSet",
    ),
    pytest.param(manifests.pytorch_job, 3, id="PyTorchJob"),
    pytest.param(manifests.mpi_job, 2, id="MPIJob"),
    pytest.param(manifests.ray_job, 2, id="RayJob"),
    pytest.param(manifests.train_job, 2, id="TrainJob"),
]


@pytest.mark.parametrize(("make", "tasks"), STEERED)
def test_each_kind_goes_free_into_its_rack_past_the_taint_that_its_gpu_type_tolerates(
    real: Stage, make: Make, tasks: int
) -> None:
    racks = furnish(real)
    manifest = make()
    manifest["metadata"] |= {
        "labels": {"kueue.x-k8s.io/priority-class": "high"},
        "annotations": {"tidegate.io/topology": "required=rack"},
    }

    start(real, manifest, tasks)

    found = real.cluster.api.ask("list", f"/api/v1/namespaces/{namespace_of('nlp')}/pods")["items"]
    counting = [pod for pod in found if pod["spec"]["containers"][0]["resources"]["limits"].get(manifests.GPU)]
    assert len(counting) == tasks
    assert {racks[pod["spec"]["nodeName"]] for pod in counting} == {"big"}
    if manifest["kind"] != "TrainJob":
        assert {pod["spec"]["priorityClassName"] for pod in found} == {"tidegate-high-1"}
        assert {(pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]) for pod in found} == {(1, "Never")}


def furnish(real: Stage) -> dict[str, str]:
    """Taint all nodes, let the GPU type bear it unpinned, and put three nodes into one rack; return the racks."""
    real.lab.h100.tolerations = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    real.lab.h100.placement = "free"
    real.lab.h100.save()
    names = [node.name for node in real.cluster.inventory().nodes if node.labels.items() >= own(real).items()]
    racks = dict(zip(sorted(names), ("small", "big", "big", "big"), strict=True))
    taints = [{"key": "gpu", "effect": "NoSchedule"}]
    for name, rack in racks.items():
        body = {"metadata": {"labels": {"tidegate.io/rack": rack}}, "spec": {"taints": taints}}
        real.cluster.api.ask("patch", f"/api/v1/nodes/{name}", body=body, media=MERGE)
    real.look()
    return racks


def own(real: Stage) -> dict[str, str]:
    """Return the labels by which the stage's nodes are told from others."""
    found: dict[str, str] = real.lab.h100.node_labels
    return found


@pytest.mark.parametrize(("make", "tasks"), CASES)
def test_each_kind_fails_as_its_status_says(real: Stage, make: Make, tasks: int) -> None:
    job, operator = start(real, make(), tasks)

    operator.end(well=False)
    ended = real.until_ended(job, seconds=120)

    assert ended is JobState.FAILED
    assert units_in_use() == 0
    assert state(job) is JobState.FAILED
    real.until(lambda: operator.object() is None, seconds=120)
