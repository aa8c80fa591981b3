"""Machines whose GPUs only dynamic resource allocation (DRA) announces, as the stage's l40s."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from queues.models import Job, Task
from queues.namespaces import namespace_of
from queues.states import JobState
from tests.clusters.contract.ground import OWN_LABEL, Ground, Site
from tests.loop.stage import Stage, events, state, units_in_use

API = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.example.com"


class Cards:
    """Nodes with devices of a class of their own, which is what the stage's l40s counts from now on."""

    def __init__(self, stage: Stage, *, nodes: int, each: int, halves: bool = False) -> None:
        self.stage, self.cluster = stage, stage.cluster
        self.ground = Ground(Site(cluster=stage.cluster, kubeconfig=Path(), forget=None))
        key = self.ground.key
        self.slices: list[str] = []
        self.name = f"gpu-{key}.example.com"
        selector = {"cel": {"expression": f"device.attributes['{DRIVER}'].key == '{key}'"}}
        self._create("deviceclasses", "DeviceClass", self.name, {"selectors": [selector]})
        for _ in range(nodes):
            node = self.ground.node(gpus=0)
            devices = [device(f"gpu-{at}", key, **({"card": at, "memory": 80} if halves else {})) for at in range(each)]
            parts: list[dict[str, Any]] = [{"devices": devices}]
            if halves:
                devices += [
                    device(f"half-{at}-{part}", f"{key}-half", card=at, memory=40)
                    for at in range(each)
                    for part in range(2)
                ]
                sets = [{"name": f"card-{at}", "counters": {"memory": {"value": "80Gi"}}} for at in range(each)]
                parts.append({"sharedCounters": sets})
            pool = {"name": node, "generation": 1, "resourceSliceCount": len(parts)}
            for number, part in enumerate(parts):
                spec = {"driver": DRIVER, "nodeName": node, "pool": pool, **part}
                self.slices.append(f"{node}-{number}")
                self._create("resourceslices", "ResourceSlice", self.slices[-1], spec)
        flavor = stage.lab.l40s
        flavor.resource, flavor.node_labels = f"deviceclass.resource.kubernetes.io/{self.name}", {OWN_LABEL: key}
        flavor.save()
        stage.look()

    def held(self) -> dict[str, int]:
        """Return how many devices the claims of our pods hold on each node."""
        counts: dict[str, int] = {}
        for claim in self._list("resourceclaims"):
            for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
                if result["pool"] in self.ground.nodes:
                    counts[result["pool"]] = counts.get(result["pool"], 0) + 1
        return counts

    def left(self, job: Job) -> int:
        """Return how many claims and templates of claims there are of a job."""
        return sum(
            found["metadata"].get("labels", {}).get("tidegate.io/job") == str(job.uid)
            for plural in ("resourceclaims", "resourceclaimtemplates")
            for found in self._list(plural)
        )

    def leave(self) -> None:
        """Take them away."""
        for name in self.slices:
            self.ground.send("delete", f"{API}/resourceslices/{name}")
        for node in self.ground.nodes:
            self.ground.send("delete", f"/api/v1/nodes/{node}")
        self.ground.send("delete", f"{API}/deviceclasses/{self.name}")

    def _list(self, plural: str) -> list[dict[str, Any]]:
        return list(self.ground.send("list", f"{API}/{plural}")["items"])

    def _create(self, plural: str, kind: str, name: str, spec: Mapping[str, object]) -> None:
        body = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.ground.send("create", f"{API}/{plural}", body=body)


def device(name: str, key: str, *, card: int = 0, memory: int = 0) -> dict[str, Any]:
    """Return a device that a class finds by its key; with ``memory`` it takes so much (Gi) of a card's."""
    found: dict[str, Any] = {"name": name, "attributes": {"key": {"string": key}}}
    if memory:
        counters = {"memory": {"value": f"{memory}Gi"}}
        found["consumesCounters"] = [{"counterSet": f"card-{card}", "counters": counters}]
    return found


def walk(stage: Stage, *, seconds: float = 60) -> None:
    """Let a gang claim all devices of two nodes, another one follow it there, and see everything given back."""
    cards = Cards(stage, nodes=2, each=4)
    first = stage.submit(shape="gang", tasks=2, gpus="l40s:4", forever="1")
    stage.until(lambda: Task.objects.filter(wave__job=first, state="running").count() == 2, seconds=seconds)
    second = stage.submit(shape="gang", tasks=2, gpus="l40s:3", forever="1")
    stage.turn()
    held, waits, in_use = cards.held(), state(second), units_in_use()

    stage.finish(first)
    ended = stage.until_ended(first, seconds=seconds)
    stage.until(lambda: Task.objects.filter(wave__job=second, state="running").count() == 2, seconds=seconds)
    then = cards.held()
    stage.finish(second)
    stage.until_ended(second, seconds=seconds)
    stage.until(lambda: not stage.objects() and not cards.left(first) and not cards.left(second), seconds=seconds)

    assert held == dict.fromkeys(cards.ground.nodes, 4)
    assert (waits, in_use) == (JobState.QUEUED, 8)
    assert ended is JobState.SUCCEEDED
    assert then == dict.fromkeys(cards.ground.nodes, 3)
    assert units_in_use() == 0
    cards.leave()


def refused(stage: Stage, *, seconds: float = 60) -> None:
    """Let a quota of others refuse a gang's claims, and see it leave whole and name the quota."""
    cards = Cards(stage, nodes=2, each=4)
    namespace = namespace_of(stage.lab.nlp.name)
    stage.cluster.ensure_team(namespace, team="nlp", ceiling=None)
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    hard = {f"{cards.name}.deviceclass.resource.k8s.io/devices": "4"}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "theirs"}, "spec": {"hard": hard}}
    cards.ground.send("create", quotas, body=body)
    stage.until(
        lambda: bool(cards.ground.send("get", f"{quotas}/theirs").get("status", {}).get("hard")), seconds=seconds
    )

    job = stage.submit(shape="gang", tasks=2, gpus="l40s:4", forever="1")
    stage.until(lambda: "start_failed" in events(job) and state(job) is JobState.QUEUED, seconds=seconds)
    stage.until(lambda: not stage.objects() and not stage.pods() and not cards.left(job), seconds=seconds)
    job.refresh_from_db()

    assert (job.failures, job.start_failures, units_in_use()) == (0, 0, 0)
    assert "exceeded quota: theirs" in str(list(job.events.filter(type="start_failed").values()))
    cards.ground.send("delete", f"{quotas}/theirs")
    cards.leave()
