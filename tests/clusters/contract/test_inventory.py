import pytest

from clusters import asking
from clusters.port import PodPhase, Taint
from tests.clusters.contract.ground import GIB, GPU, Ground
from tests.clusters.waiting import until


def test_the_server_tells_its_version(ground: Ground) -> None:
    assert ground.cluster.check().startswith("v1.")


def test_a_node_shows_what_admission_needs(ground: Ground) -> None:
    taint = {"key": "dedicated", "value": "research", "effect": "NoSchedule"}

    name = ground.node(gpus=4, labels={"nvidia.com/gpu.product": "H100"}, taints=(taint,))

    seen = ground.seen_node(name)
    assert seen.ready
    assert not seen.cordoned
    assert seen.labels["nvidia.com/gpu.product"] == "H100"
    assert seen.taints == (Taint(key="dedicated", value="research", effect="NoSchedule"),)
    assert (seen.cpu, seen.memory, seen.pods) == (64_000, 512 * GIB, 110)
    assert dict(seen.counted) == dict(seen.capacity) == {GPU: 4}


def test_a_node_that_counts_no_gpu_shows_no_zero(ground: Ground) -> None:
    name = ground.node(gpus=0)

    assert dict(ground.seen_node(name).counted) == {}


def test_a_cordoned_node_says_so(ground: Ground) -> None:
    name = ground.node(cordoned=True)

    assert ground.seen_node(name).cordoned


def test_pods_of_others_are_seen_with_what_they_request(ground: Ground) -> None:
    node = ground.node()
    pods = f"/api/v1/namespaces/{ground.namespace}/pods"
    until(lambda: ground.exists(f"/api/v1/namespaces/{ground.namespace}/serviceaccounts/default"))
    main = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {GPU: "2"}}
    first = {"requests": {"cpu": "2"}}

    ground.send(
        "create",
        pods,
        body={
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "somebody", "annotations": {"tidegate.test/forever": "1"}},
            "spec": {
                "nodeName": node,
                "initContainers": [{"name": "init", "image": "registry.example/i:1", "resources": first}],
                "containers": [{"name": "main", "image": "registry.example/m:1", "resources": main}],
            },
        },
    )

    seen = until(lambda: next((pod for pod in ground.pods() if pod.phase is PodPhase.RUNNING), None))
    assert (seen.node, seen.wave, seen.index) == (node, None, None)
    assert (seen.cpu, seen.memory, dict(seen.counted)) == (2000, GIB, {GPU: 2})
    assert not seen.gated


def test_a_list_of_many_pages_is_complete(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {ground.node() for _ in range(3)}
    monkeypatch.setattr(asking, "PAGE", 1)

    seen = ground.cluster.inventory()

    assert names <= {node.name for node in seen.nodes}


def test_jobs_without_our_label_are_no_waves(ground: Ground) -> None:
    container = {"name": "main", "image": "registry.example/m:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    jobs = f"/apis/batch/v1/namespaces/{ground.namespace}/jobs"

    ground.send(
        "create",
        jobs,
        body={"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "theirs"}, "spec": {"template": template}},
    )

    assert ground.waves() == []


def test_devices_that_drivers_announce_are_counted_by_node(ground: Ground) -> None:
    node = ground.node(gpus=0)
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    before = ground.cluster.inventory().devices.get(node)

    for generation, devices in ((1, 2), (2, 3)):
        name = f"{node}-{generation}"
        spec = {
            "driver": "gpu.example.com",
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": [{"name": f"gpu-{number}"} for number in range(devices)],
        }
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
        ground.send("create", slices, body=body)
    found = ground.cluster.inventory().devices[node]
    for generation in (1, 2):
        ground.send("delete", f"{slices}/{node}-{generation}")

    assert before is None
    # Of a pool that is being replaced the new generation counts.
    assert found == {"gpu.example.com": 3}


def test_devices_that_claims_hold_are_counted_by_node(ground: Ground) -> None:
    node, api = ground.node(), "resource.k8s.io/v1"
    slices, claims = f"/apis/{api}/resourceslices", f"/apis/{api}/namespaces/{ground.namespace}/resourceclaims"
    spec = {
        "driver": "gpu.example.com",
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "nodeName": node,
        "devices": [{"name": f"gpu-{number}"} for number in range(3)],
    }
    body = {"apiVersion": api, "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}
    ground.send("create", slices, body=body)
    request = {"name": "card", "exactly": {"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": 1}}
    made = ground.send(
        "create",
        claims,
        body={
            "apiVersion": api,
            "kind": "ResourceClaim",
            "metadata": {"name": "theirs"},
            "spec": {"devices": {"requests": [request]}},
        },
    )
    before = ground.cluster.inventory().claimed.get(node)

    result = {"request": "card", "driver": "gpu.example.com", "pool": node, "device": "gpu-1"}
    made["status"] = {"allocation": {"devices": {"results": [result]}}}
    ground.send("replace", f"{claims}/theirs/status", body=made)
    found = ground.cluster.inventory().claimed.get(node)
    ground.send("delete", f"{claims}/theirs")
    ground.send("delete", f"{slices}/{node}")

    assert before is None
    assert found == {"gpu.example.com": 1}


def test_what_is_amiss_with_a_node_is_told(ground: Ground) -> None:
    name = ground.node()
    path = f"/api/v1/nodes/{name}"
    node = ground.send("get", path)
    pressed = {"type": "ExamplePressure", "status": "True", "reason": "Full", "message": "no room"}
    well = {"type": "ExampleProblem", "status": "False", "reason": "Well", "message": "none"}

    ground.send(
        "patch",
        f"{path}/status",
        body={"status": {"conditions": [*node["status"]["conditions"], pressed, well]}},
        media="application/merge-patch+json",
    )

    assert ground.seen_node(name).conditions == ("ExamplePressure",)
