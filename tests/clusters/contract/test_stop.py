from dataclasses import replace

import pytest

from clusters.port import NameTaken, PodPhase
from tests.clusters.contract.ground import Ground, ref
from tests.clusters.waiting import until

FOREVER = {"forever": "1"}
STUBBORN = {"forever": "1", "ignore-term": "1"}


def test_a_stopped_wave_and_its_pods_go_and_another_stays(ground: Ground) -> None:
    node = ground.node()
    stopped = ground.launch(ground.group(node, steer=FOREVER), ground.group(node, first=1, steer=FOREVER))
    other = ground.launch(ground.group(node, steer=FOREVER))
    ground.cluster.launch(stopped)
    ground.cluster.launch(other)
    until(lambda: len([pod for pod in ground.pods() if pod.phase is PodPhase.RUNNING]) == 3)

    ground.cluster.stop(ref(stopped))

    until(lambda: not ground.pods(stopped) and not ground.waves(stopped))
    assert [(pod.phase, pod.leaving) for pod in ground.pods(other)] == [(PodPhase.RUNNING, False)]


def test_stopping_what_is_gone_changes_nothing(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer=FOREVER))

    ground.cluster.stop(ref(launch))
    ground.cluster.launch(launch)
    ground.cluster.stop(ref(launch))
    ground.cluster.stop(ref(launch), grace_seconds=0)

    until(lambda: not ground.pods(launch) and not ground.waves(launch))
    ground.cluster.stop(ref(launch))


def test_a_pod_in_its_grace_is_leaving_and_still_counts(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer=STUBBORN), grace_seconds=60)
    ground.cluster.launch(launch)
    ground.running(launch)

    ground.cluster.stop(ref(launch))

    pod = until(lambda: next((pod for pod in ground.pods(launch) if pod.leaving), None))
    assert (pod.phase, pod.node, pod.wave) == (PodPhase.RUNNING, node, launch.wave)


def test_a_shorter_grace_replaces_a_longer_one(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer=STUBBORN), grace_seconds=600)
    ground.cluster.launch(launch)
    ground.running(launch)
    ground.cluster.stop(ref(launch))
    until(lambda: [pod for pod in ground.pods(launch) if pod.leaving])

    ground.cluster.stop(ref(launch), grace_seconds=1)

    until(lambda: not ground.pods(launch))


def test_a_name_stays_taken_until_the_pods_have_gone_where_that_is_asked(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer=STUBBORN), grace_seconds=60)
    ground.cluster.launch(launch)
    ground.running(launch)

    ground.cluster.stop(ref(launch), pods_first=True)

    until(lambda: [pod for pod in ground.pods(launch) if pod.leaving])
    with pytest.raises(NameTaken) as caught:
        ground.cluster.launch(replace(launch, wave="0197a2b0-0000-7000-8000-000000000000"))
    assert caught.value.leaving
    ground.cluster.stop(ref(launch), grace_seconds=0)
    until(lambda: not ground.pods(launch) and not ground.waves(launch))


def test_gated_pods_are_stopped_too(ground: Ground) -> None:
    first, second = ground.node(), ground.node()
    launch = ground.launch(ground.group(first, second, steer=FOREVER))
    ground.cluster.launch(launch)
    until(lambda: len(ground.pods(launch)) == 2)

    ground.cluster.stop(ref(launch))

    until(lambda: not ground.pods(launch) and not ground.waves(launch))


def test_single_pods_go_and_are_not_made_again_while_the_rest_of_the_wave_runs_on(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(ground.group(node, node, node, steer=FOREVER), gang=False)
    ground.cluster.launch(launch)
    running = ground.running(launch)
    going = next(pod for pod in running if pod.index == 1)

    ground.cluster.stop_pods(going.namespace, {going.name: going.uid, "gone-already": going.uid})

    until(lambda: [pod.index for pod in ground.pods(launch)] in ([0, 2], [2, 0]))
    assert {pod.phase for pod in ground.pods(launch)} == {PodPhase.RUNNING}
    assert [seen.failed for seen in ground.waves(launch)] == [False]


def test_a_pod_that_has_a_stopped_ones_name_by_now_stays(ground: Ground) -> None:
    path = f"/api/v1/namespaces/{ground.namespace}/pods"
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "worker-0"},
        "spec": {"containers": [{"name": "main", "image": "registry.example/train:1"}], "nodeSelector": {"no": "node"}},
    }
    first = ground.send("create", path, body=body)["metadata"]["uid"]
    ground.send("delete", f"{path}/worker-0", query={"gracePeriodSeconds": "0"})
    second = ground.send("create", path, body=body)["metadata"]["uid"]

    ground.cluster.stop_pods(ground.namespace, {"worker-0": first}, grace_seconds=0)
    stayed = [(pod.uid, pod.leaving) for pod in ground.pods()]
    ground.cluster.stop_pods(ground.namespace, {"worker-0": second}, grace_seconds=0)

    assert stayed == [(second, False)]
    until(lambda: not ground.pods())
