"""A namespace and nodes of a test's own on some cluster, and launches that fit there."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

from clusters.asking import Failure, Query
from clusters.kube import KubeCluster
from clusters.port import (
    GroupSpec,
    Launch,
    NodeSeen,
    Pin,
    Placement,
    PodPhase,
    PodSeen,
    TaskSpec,
    Toleration,
    WaveRef,
    WaveSeen,
)
from tests.clusters.waiting import until

T = TypeVar("T")

GPU = "nvidia.com/gpu"
GIB = 2**30
OWN_LABEL = "tidegate.test/ground"


class Request(TypedDict, total=False):
    query: Query
    body: dict[str, Any]
    media: str


class GroupFields(TypedDict, total=False):
    units: int
    image: str
    env: tuple[tuple[str, str], ...]
    node_labels: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]


class LaunchFields(TypedDict, total=False):
    number: int
    job_name: str
    team: str
    queue: str
    namespace: str
    gang: bool
    priority_class: str
    priority_value: int
    placement: Placement
    grace_seconds: int
    fence_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A cluster under contract; ``forget`` makes every older position too old, None where that may not be done."""

    cluster: KubeCluster
    kubeconfig: Path
    forget: Callable[[], None] | None


@dataclass(slots=True)
class Ground:
    """What one test sees of a cluster."""

    site: Site
    key: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    nodes: list[str] = field(default_factory=list)

    @property
    def cluster(self) -> KubeCluster:
        return self.site.cluster

    @property
    def namespace(self) -> str:
        return f"team-{self.key}"

    def open(self) -> None:
        self.cluster.ensure_team(self.namespace, team="Night shift", ceiling=None)

    def leave(self) -> None:
        """Delete everything at once; the namespace goes in its own time."""
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self.send(
            "delete", f"/apis/batch/v1/namespaces/{self.namespace}/jobs", query={"propagationPolicy": "Background"}
        )
        self.send("delete", pods, query={"gracePeriodSeconds": "0"})
        until(lambda: not self.send("list", pods)["items"])
        for node in self.nodes:
            self.send("delete", f"/api/v1/nodes/{node}")
        self.send("delete", f"/api/v1/namespaces/{self.namespace}")

    def send(self, verb: str, path: str, **request: Unpack[Request]) -> dict[str, Any]:
        """Make one request behind the port's back."""
        return self.cluster.api.ask(verb, path, **request)

    def exists(self, path: str) -> bool:
        try:
            self.send("get", path)
        except Failure as failure:
            if failure.status != 404:
                raise
            return False
        return True

    def node(
        self,
        *,
        gpus: int = 8,
        labels: Mapping[str, str] | None = None,
        taints: tuple[dict[str, str], ...] = (),
        cordoned: bool = False,
    ) -> str:
        """Add a node and wait until it is ready."""
        name = f"node-{self.key}-{len(self.nodes)}"
        resources = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
        own = {OWN_LABEL: self.key, "kubernetes.io/hostname": name}
        self.send(
            "create",
            "/api/v1/nodes",
            body={
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {**own, **(labels or {})}},
                "spec": {"taints": list(taints), "unschedulable": cordoned},
                "status": {"capacity": resources, "allocatable": resources},
            },
        )
        self.nodes.append(name)
        until(lambda: self.seen_node(name).ready and len(self.seen_node(name).taints) <= len(taints) + cordoned)
        return name

    def seen_node(self, name: str) -> NodeSeen:
        return next(node for node in self.cluster.inventory().nodes if node.name == name)

    def pods(self, launch: Launch | None = None) -> list[PodSeen]:
        """List this test's pods, of one wave or all, by group and index."""
        seen = [pod for pod in self.cluster.inventory().pods if pod.namespace == self.namespace]
        mine = [pod for pod in seen if launch is None or pod.wave == launch.wave]
        return sorted(mine, key=lambda pod: (pod.group, pod.index or 0, pod.name))

    def waves(self, launch: Launch | None = None) -> list[WaveSeen]:
        seen = [wave for wave in self.cluster.inventory().waves if wave.namespace == self.namespace]
        return sorted(
            (wave for wave in seen if launch is None or wave.wave == launch.wave), key=lambda wave: wave.group
        )

    def job(self, name: str) -> dict[str, Any]:
        return self.send("get", f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{name}")

    def group(
        self, *nodes: str, first: int = 0, steer: Mapping[str, str] | None = None, **more: Unpack[GroupFields]
    ) -> GroupSpec:
        """Describe equal tasks of one GPU, one for each node named; ``first`` is the job-level index of the first."""
        annotations = tuple((f"tidegate.test/{key}", value) for key, value in (steer or {}).items())
        plain = GroupSpec(
            group=0,
            tasks=tuple(TaskSpec(index=i, task=first + i, node=node) for i, node in enumerate(nodes)),
            resource=GPU,
            units=1,
            cpu=1000,
            memory=GIB,
            image="registry.example/train:1",
            annotations=annotations,
        )
        return replace(plain, **more)

    def launch(self, *groups: GroupSpec, **more: Unpack[LaunchFields]) -> Launch:
        """Describe a wave of a gang; nothing is created."""
        numbered = tuple(replace(group, group=number) for number, group in enumerate(groups))
        plain = Launch(
            wave=str(uuid.uuid4()),
            job=str(uuid.uuid4()),
            job_name="train",
            number=1,
            attempt=1,
            team="Night shift",
            queue="default",
            namespace=self.namespace,
            gang=True,
            groups=numbered,
            priority_class="normal",
            priority_value=100,
        )
        return replace(plain, **more)

    def start(self, launch: Launch) -> Launch:
        """Launch, pin gated pods to their witness nodes, and wait until every task has one."""
        self.cluster.launch(launch)
        self.cluster.pin(self.gated(launch))
        self.placed(launch)
        return launch

    def gated(self, launch: Launch) -> list[Pin]:
        """Wait until every task waits for its pin, and return the pins."""
        return until(lambda: _all(launch, self.pins(launch)))

    def placed(self, launch: Launch) -> list[PodSeen]:
        """Wait until every task has a node."""
        return until(lambda: _all(launch, [pod for pod in self.pods(launch) if pod.node]))

    def running(self, launch: Launch) -> list[PodSeen]:
        """Wait until every task runs."""
        return until(lambda: _all(launch, [pod for pod in self.pods(launch) if pod.phase is PodPhase.RUNNING]))

    def ended(self, launch: Launch) -> WaveSeen:
        """Wait until a wave is complete or failed."""
        return until(lambda: next((wave for wave in self.waves(launch) if wave.complete or wave.failed), None))

    def pins(self, launch: Launch) -> list[Pin]:
        return [
            Pin(namespace=pod.namespace, pod=pod.name, node=task.node, task=task.task, placement=Placement.PIN)
            for pod in self.pods(launch)
            if pod.gated
            for task in launch.groups[pod.group].tasks
            if task.index == pod.index
        ]


def _all(launch: Launch, found: list[T]) -> list[T] | None:
    """Return what was found if it is one for each task."""
    return found if len(found) == sum(len(group.tasks) for group in launch.groups) else None


def ref(launch: Launch) -> WaveRef:
    return WaveRef(
        wave=launch.wave,
        job=launch.job,
        number=launch.number,
        namespace=launch.namespace,
        groups=len(launch.groups),
    )
