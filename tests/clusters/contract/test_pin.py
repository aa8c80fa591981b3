from dataclasses import replace

from clusters import names
from clusters.port import Pin, Placement
from tests.clusters.contract.ground import Ground
from tests.clusters.waiting import until

FOREVER = {"forever": "1"}


def test_a_pod_that_is_gone_is_passed_over(ground: Ground) -> None:
    ground.cluster.pin([Pin(namespace=ground.namespace, pod="nobody", node="nowhere", task=0)])


def test_a_pod_that_is_free_already_keeps_its_node(ground: Ground) -> None:
    first, second = ground.node(), ground.node()
    launch = ground.launch(ground.group(first, second, steer=FOREVER))
    ground.cluster.launch(launch)
    pins = ground.gated(launch)
    ground.cluster.pin(pins)
    ground.placed(launch)

    ground.cluster.pin(pins)
    ground.cluster.pin([replace(pin, node=first) for pin in pins])

    assert [pod.node for pod in ground.pods(launch)] == [first, second]


def test_a_preferring_pin_leaves_a_node_that_is_full(ground: Ground) -> None:
    free, full = ground.node(), ground.node(gpus=0)
    own = (("tidegate.test/ground", ground.key),)
    launch = ground.launch(ground.group(free, full, steer=FOREVER, node_labels=own), placement=Placement.PREFER)
    ground.cluster.launch(launch)
    pins = ground.gated(launch)

    ground.cluster.pin([replace(pin, placement=Placement.PREFER) for pin in pins])

    ground.running(launch)
    assert [pod.node for pod in ground.pods(launch)] == [free, free]


def test_a_free_pin_tells_only_the_index(ground: Ground) -> None:
    node = ground.node()
    own = (("tidegate.test/ground", ground.key),)
    tasks = ground.group(node, node, first=5, steer=FOREVER, node_labels=own)
    launch = ground.launch(tasks, gang=False, placement=Placement.FREE)
    ground.cluster.launch(launch)
    pins = ground.gated(launch)

    ground.cluster.pin([replace(pin, placement=Placement.FREE) for pin in pins])

    pods = ground.placed(launch)
    whole = ground.send("get", f"/api/v1/namespaces/{ground.namespace}/pods/{pods[1].name}")
    assert whole["metadata"]["annotations"][names.ANNOTATION_TASK] == "6"
    assert "affinity" not in whole["spec"]


def test_gates_of_others_stay(ground: Ground) -> None:
    node = ground.node()
    until(lambda: ground.exists(f"/api/v1/namespaces/{ground.namespace}/serviceaccounts/default"))
    container = {"name": "main", "image": "registry.example/m:1"}
    gates = [{"name": "example.com/theirs"}, {"name": names.GATE}]
    ground.send(
        "create",
        f"/api/v1/namespaces/{ground.namespace}/pods",
        body={
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "twice-gated"},
            "spec": {"schedulingGates": gates, "containers": [container]},
        },
    )

    ground.cluster.pin([Pin(namespace=ground.namespace, pod="twice-gated", node=node, task=0)])

    spec = ground.send("get", f"/api/v1/namespaces/{ground.namespace}/pods/twice-gated")["spec"]
    assert spec["schedulingGates"] == [{"name": "example.com/theirs"}]
