from contextlib import suppress
from datetime import UTC, datetime
from threading import Event, Thread

import pytest

from clusters.port import Log, NotThere, PodPhase, PodSeen, Refused, Unreachable
from tests.clusters.contract.ground import Ground
from tests.clusters.waiting import until


def test_a_pods_log_is_read_to_its_end(ground: Ground) -> None:
    pod = _ended_pod(ground)

    log = _whole(ground.cluster.logs(ground.namespace, pod.name))

    assert len(log.splitlines()) >= 2


def test_only_the_last_lines_are_read_where_asked(ground: Ground) -> None:
    pod = _ended_pod(ground)
    whole = _whole(ground.cluster.logs(ground.namespace, pod.name)).splitlines()

    last = _whole(ground.cluster.logs(ground.namespace, pod.name, tail=1)).splitlines()

    assert last == whole[-1:]


def test_a_followed_log_gives_what_is_there_and_can_be_left(ground: Ground) -> None:
    pod = _ended_pod(ground)
    whole = _whole(ground.cluster.logs(ground.namespace, pod.name))
    followed = ground.cluster.logs(ground.namespace, pod.name, follow=True)

    first = next(iter(followed.chunks()))

    assert whole.startswith(first)
    followed.shut()


def test_lines_carry_their_time_where_asked(ground: Ground) -> None:
    pod = _ended_pod(ground)

    log = _whole(ground.cluster.logs(ground.namespace, pod.name, timestamps=True))

    assert log.startswith(b"20")


def test_the_log_of_a_pod_that_is_gone_is_refused(ground: Ground) -> None:
    with pytest.raises(NotThere, match="not found"):
        ground.cluster.logs(ground.namespace, "nobody")


def test_a_container_that_the_pod_has_not_is_refused(ground: Ground) -> None:
    pod = _ended_pod(ground)

    with pytest.raises(Refused, match="other") as refusal:
        _whole(ground.cluster.logs(ground.namespace, pod.name, container="other"))

    assert not isinstance(refusal.value, NotThere)


def test_the_log_of_a_pod_without_a_node_is_empty(ground: Ground) -> None:
    launch = ground.launch(ground.group(ground.node(gpus=1), units=2))
    ground.cluster.launch(launch)
    pod = until(lambda: next(iter(ground.pods(launch)), None))

    assert _whole(ground.cluster.logs(ground.namespace, pod.name)) == b""


def test_a_followed_log_that_is_shut_wakes_its_reader(ground: Ground) -> None:
    launch = ground.launch(ground.group(ground.node(), steer={"forever": "1"}))
    ground.cluster.launch(launch)
    (pod,) = ground.running(launch)
    followed = ground.cluster.logs(ground.namespace, pod.name, follow=True)
    chunks = followed.chunks()
    next(chunks)
    ended = Event()

    def read() -> None:
        with suppress(Unreachable):
            for _ in chunks:
                pass
        ended.set()

    Thread(target=read, daemon=True).start()
    followed.shut()

    assert ended.wait(60)


def test_what_was_written_before_a_moment_can_be_left_out(ground: Ground) -> None:
    pod = _ended_pod(ground)

    assert _whole(ground.cluster.logs(ground.namespace, pod.name, since=datetime(2100, 1, 1, tzinfo=UTC))) == b""


def _whole(log: Log) -> bytes:
    return b"".join(log.chunks())


def _ended_pod(ground: Ground) -> PodSeen:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer={"run-for": "100ms"}))
    ground.cluster.launch(launch)
    return until(lambda: next((pod for pod in ground.pods(launch) if pod.phase is PodPhase.SUCCEEDED), None))
