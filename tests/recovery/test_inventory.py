"""The GPUs that are shown are those that are there: pods of others, cordons, cards that fail."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from clusters.asking import Failure
from queues import hints
from queues.states import JobState
from tests.clusters.contract.ground import GPU
from tests.loop.stage import state
from tests.recovery.scene import Scene

THREE_NODES: dict[str, Any] = {"shape": "gang", "tasks": 3, "gpus": "h100:8"}


@pytest.fixture
def others(scene: Scene) -> Iterator[str]:
    """Run a pod of somebody else on the scene's first node: two GPUs; return its path."""
    name = f"notebook-{scene.ground.key}"
    container = {"name": "main", "image": "registry.example/lab:1", "resources": {"limits": {GPU: "2"}}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": scene.names[0], "containers": [container], "terminationGracePeriodSeconds": 0},
    }
    pods = "/api/v1/namespaces/default/pods"
    scene.ground.send("create", pods, body=body)
    yield f"{pods}/{name}"
    with suppress(Failure):
        scene.ground.send("delete", f"{pods}/{name}", query={"gracePeriodSeconds": "0"})


def test_a_pod_of_others_is_shown_on_its_node_and_when_it_has_gone_who_waited_for_its_units_starts(
    scene: Scene, others: str
) -> None:
    scene.until(lambda: scene.node(scene.names[0])["node"]["outside"] == 2)
    shown = scene.node(scene.names[0])
    job = scene.submit(forever="1", **THREE_NODES)
    scene.until(lambda: scene.reason(job).get("code") not in {None, "NOT_DECIDED"})
    waits, woken = scene.reason(job), hints.version()

    scene.ground.send("delete", others, query={"gracePeriodSeconds": "0"})
    scene.until(lambda: scene.running(job) == 3)

    assert (shown["node"]["free"], shown["node"]["usable"]) == (6, True)
    assert [(pod["name"], pod["units"]) for pod in shown["others"]] == [(others.rsplit("/", 1)[1], 2)]
    assert (waits["code"], waits["details"]["outside"]) == ("NO_FREE_CAPACITY", 2)
    assert waits["summary"].endswith("22 are free. Pods of others, outside Tidegate, use 2.")
    assert hints.version() > woken


def test_a_cordoned_node_says_so_and_who_waits_for_it_starts_when_it_is_uncordoned(scene: Scene) -> None:
    node = scene.names[2]

    scene.patch_node(node, {"spec": {"unschedulable": True}})
    scene.until(lambda: not scene.node(node)["node"]["usable"])
    shown = scene.node(node)
    job = scene.submit(forever="1", **THREE_NODES)
    scene.until(lambda: scene.reason(job).get("code") not in {None, "NOT_DECIDED"})
    waits, created = scene.reason(job), scene.created()
    scene.patch_node(node, {"spec": {"unschedulable": None}})
    scene.until(lambda: scene.running(job) == 3)

    assert (shown["node"]["state"], shown["node"]["free"]) == ("cordoned", 0)
    assert "cordoned" in shown["summary"].lower()
    assert (waits["code"], created) == ("CAPACITY_REDUCED", {})
    assert state(job) is JobState.RUNNING


def test_a_card_that_fails_is_drift_on_the_node_in_the_inventory_and_in_the_metrics_until_it_is_back(
    scene: Scene,
) -> None:
    node = scene.names[1]

    scene.patch_node(f"{node}/status", {"status": {"allocatable": {GPU: "7"}}})
    scene.until(lambda: scene.node(node)["node"]["units"] == 7)
    shown, told, alarm = scene.node(node), scene.get("/api/v1/inventory")["drift"], scene.drift()
    scene.patch_node(f"{node}/status", {"status": {"allocatable": {GPU: "8"}}})
    scene.until(lambda: scene.node(node)["node"]["units"] == 8)

    assert shown["drift"] == ["1 of its 8 GPUs are not offered: sick, or the plugin is down."]
    assert ("missing_units", node) in {(each["kind"], each["node"]) for each in told}
    assert alarm == {"missing_units": 1.0}
    assert (scene.node(node)["drift"], scene.drift()) == ([], {})
