"""How pods and waves end, and why they do not begin."""

from clusters.port import PodPhase
from tests.clusters.contract.ground import GPU, Ground
from tests.clusters.waiting import until


def test_a_failed_task_shows_its_exit_code_and_ends_its_gang(ground: Ground) -> None:
    node = ground.node()
    good = ground.group(node, steer={"forever": "1"})
    bad = ground.group(node, first=1, steer={"run-for": "100ms", "exit-code": "137"})
    launch = ground.launch(good, bad)

    ground.cluster.launch(launch)

    wave = ground.ended(launch)
    assert (wave.group, wave.complete) == (1, False)
    assert wave.message.startswith("BackoffLimitExceeded")
    pod = next(pod for pod in ground.pods(launch) if pod.group == 1)
    assert (pod.phase, pod.exit_code, pod.end_reason) == (PodPhase.FAILED, 137, "Error")


def test_of_a_gangs_equal_tasks_one_failure_ends_all(ground: Ground) -> None:
    first, second = ground.node(), ground.node()
    steer = {"run-for": "100ms", "exit-code": "1"}
    launch = ground.launch(ground.group(first, second, steer=steer))
    ground.cluster.launch(launch)
    pins = ground.gated(launch)

    ground.cluster.pin(pins[:1])

    assert ground.ended(launch).failed
    until(lambda: not [pod for pod in ground.pods(launch) if pod.gated])


def test_of_independent_tasks_one_failure_ends_only_itself(ground: Ground) -> None:
    first, second = ground.node(), ground.node()
    launch = ground.launch(ground.group(first, second, steer={"run-for": "100ms", "exit-code": "3"}), gang=False)
    ground.cluster.launch(launch)
    pins = ground.gated(launch)
    ground.cluster.pin(pins[:1])
    until(lambda: [pod for pod in ground.pods(launch) if pod.exit_code == 3])

    ground.cluster.pin(pins[1:])

    until(lambda: len([pod for pod in ground.pods(launch) if pod.exit_code == 3]) == 2)
    assert ground.ended(launch).failed


def test_a_task_that_fits_nowhere_says_what_the_scheduler_says(ground: Ground) -> None:
    node = ground.node(gpus=2)
    launch = ground.launch(ground.group(node, units=3))

    ground.cluster.launch(launch)

    pod = until(lambda: next((pod for pod in ground.pods(launch) if pod.waiting_reason == "Unschedulable"), None))
    assert f"Insufficient {GPU}" in pod.message
    assert (pod.phase, pod.node) == (PodPhase.PENDING, None)


def test_a_container_that_cannot_start_says_why(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer={"never-start": "ErrImagePull"}))

    ground.cluster.launch(launch)

    pod = until(lambda: next((pod for pod in ground.pods(launch) if pod.waiting_reason == "ErrImagePull"), None))
    assert (pod.phase, pod.node, pod.started_at) == (PodPhase.PENDING, node, None)


def test_the_fence_of_a_time_limit_ends_a_wave(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer={"forever": "1"}), fence_seconds=1)

    ground.cluster.launch(launch)

    wave = ground.ended(launch)
    assert wave.message.startswith("DeadlineExceeded")


def test_a_taint_that_evicts_is_named_on_the_pod(ground: Ground) -> None:
    node = ground.node()
    steer = {"forever": "1", "ignore-term": "1"}
    launch = ground.launch(ground.group(node, steer=steer), grace_seconds=120)
    ground.cluster.launch(launch)
    ground.running(launch)

    ground.send(
        "patch",
        f"/api/v1/nodes/{node}",
        body={"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}},
        media="application/merge-patch+json",
    )

    pod = until(lambda: next((pod for pod in ground.pods(launch) if pod.leaving), None))
    assert pod.end_reason == "DeletionByTaintManager"
