import pytest

from clusters.port import PodPhase, PodSeen, Refused
from tests.clusters.contract.ground import Ground
from tests.clusters.waiting import until


def test_a_pods_log_is_read_to_its_end(ground: Ground) -> None:
    pod = _ended_pod(ground)

    log = b"".join(ground.cluster.logs(ground.namespace, pod.name))

    assert len(log.splitlines()) >= 2


def test_only_the_last_lines_are_read_where_asked(ground: Ground) -> None:
    pod = _ended_pod(ground)
    whole = b"".join(ground.cluster.logs(ground.namespace, pod.name)).splitlines()

    last = b"".join(ground.cluster.logs(ground.namespace, pod.name, tail=1)).splitlines()

    assert last == whole[-1:]


def test_a_followed_log_gives_what_is_there_and_can_be_left(ground: Ground) -> None:
    pod = _ended_pod(ground)
    whole = b"".join(ground.cluster.logs(ground.namespace, pod.name))
    followed = ground.cluster.logs(ground.namespace, pod.name, follow=True)

    first = next(followed)

    assert whole.startswith(first)
    followed.close()  # type: ignore[attr-defined]


def test_lines_carry_their_time_where_asked(ground: Ground) -> None:
    pod = _ended_pod(ground)

    log = b"".join(ground.cluster.logs(ground.namespace, pod.name, timestamps=True))

    assert log.startswith(b"20")


def test_the_log_of_a_pod_that_is_gone_is_refused(ground: Ground) -> None:
    with pytest.raises(Refused, match="not found"):
        ground.cluster.logs(ground.namespace, "nobody")


def _ended_pod(ground: Ground) -> PodSeen:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer={"run-for": "100ms"}))
    ground.cluster.launch(launch)
    return until(lambda: next((pod for pod in ground.pods(launch) if pod.phase is PodPhase.SUCCEEDED), None))
