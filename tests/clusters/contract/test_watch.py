import threading
import time
from collections.abc import Mapping

import pytest

from clusters.port import Change, DevicesSeen, Gone, Launch, NodeSeen, PodPhase, PodSeen, Unreachable, WaveSeen
from tests.clusters.contract.ground import Ground, ref
from tests.clusters.waiting import until

_MERGE = "application/merge-patch+json"
WATCH_SECONDS = 120


def readers() -> set[threading.Thread]:
    """Return the threads that read watches."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("watch-")}


def test_a_watch_tells_a_wave_from_its_launch_to_its_end(ground: Ground) -> None:
    node = ground.node()
    position = ground.cluster.inventory().position
    launch = ground.launch(ground.group(node, steer={"run-for": "100ms"}))
    ground.cluster.launch(launch)

    changes = _until_complete(ground, launch, position)

    waves = [change.seen for change in changes if isinstance(change.seen, WaveSeen)]
    pods = [change.seen for change in changes if isinstance(change.seen, PodSeen)]
    assert waves[0].name == waves[-1].name
    assert not waves[0].complete
    phases = [pod.phase for pod in pods]
    assert phases == sorted(phases, key=list(PodPhase).index)
    assert {PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED} <= set(phases)


def test_a_watch_goes_on_from_any_change_without_loss(ground: Ground) -> None:
    node = ground.node()
    position = ground.cluster.inventory().position
    launch = ground.launch(ground.group(node, steer={"run-for": "100ms"}))
    ground.cluster.launch(launch)
    whole = _until_complete(ground, launch, position)
    middle = len(whole) // 2

    missing = {_sight(change) for change in whole[middle + 1 :]}
    told = {_sight(change) for change in whole[: middle + 1]}
    for change in ground.cluster.watch(whole[middle].position, seconds=60):
        assert _sight(change) not in told
        missing.discard(_sight(change))
        if not missing:
            break

    assert not missing


def test_deletions_are_told(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer={"forever": "1"}))
    ground.cluster.launch(launch)
    ground.running(launch)
    position = ground.cluster.inventory().position

    ground.cluster.stop(ref(launch))

    gone: set[type] = set()
    for change in ground.cluster.watch(position, seconds=60):
        if change.deleted and getattr(change.seen, "wave", None) == launch.wave:
            gone.add(type(change.seen))
        if gone == {PodSeen, WaveSeen}:
            break
    assert gone == {PodSeen, WaveSeen}


def test_changes_of_nodes_are_told(ground: Ground) -> None:
    name = ground.node()
    position = ground.cluster.inventory().position

    ground.send(
        "patch",
        f"/api/v1/nodes/{name}",
        body={"spec": {"unschedulable": True}},
        media="application/merge-patch+json",
    )

    cordoned = (
        change.seen
        for change in ground.cluster.watch(position, seconds=60)
        if isinstance(change.seen, NodeSeen) and change.seen.name == name and change.seen.cordoned
    )
    assert next(cordoned).cordoned


def test_a_watch_ends_in_time_when_nothing_happens(ground: Ground) -> None:
    position = ground.cluster.inventory().position
    begun = time.monotonic()

    list(ground.cluster.watch(position, seconds=1))

    assert 0.9 <= time.monotonic() - begun < 60


def test_a_watch_that_is_left_leaves_no_thread_behind(ground: Ground) -> None:
    name = ground.node()
    position = ground.cluster.inventory().position
    ground.send("patch", f"/api/v1/nodes/{name}", body={"metadata": {"labels": {"x": "y"}}}, media=_MERGE)
    before = readers()
    watch = ground.cluster.watch(position, seconds=WATCH_SECONDS)
    next(watch)
    begun = time.monotonic()

    watch.close()  # type: ignore[attr-defined]

    # Those of earlier tests may end meanwhile.
    until(lambda: readers() <= before)
    assert time.monotonic() - begun < WATCH_SECONDS / 2


def test_a_position_that_is_too_old_is_gone(ground: Ground) -> None:
    if ground.site.forget is None:
        pytest.skip("this cluster's history is not ours to drop")
    position = ground.cluster.inventory().position
    name = ground.node()
    ground.send("patch", f"/api/v1/nodes/{name}", body={"metadata": {"labels": {"x": "y"}}}, media=_MERGE)
    ground.site.forget()

    def is_gone() -> bool:
        try:
            list(ground.cluster.watch(position, seconds=10))
        except Gone:
            return True
        except Unreachable:  # a server that has just come back may ask for a pause
            return False
        raise AssertionError("a watch went on from a position that the server had dropped")

    def goes_on() -> bool:
        try:
            list(ground.cluster.watch(ground.cluster.inventory().position, seconds=0.2))
        except Unreachable:
            return False
        return True

    until(is_gone)
    until(goes_on)


def test_a_watch_from_nowhere_asks_for_a_list(ground: Ground) -> None:
    with pytest.raises(Gone, match="list first"):
        list(ground.cluster.watch({}, seconds=1))


def _until_complete(ground: Ground, launch: Launch, position: Mapping[str, str]) -> list[Change]:
    """Collect the changes of a wave of one task until both its Job and its pod have ended, in whichever order."""
    changes: list[Change] = []
    for change in ground.cluster.watch(position, seconds=60):
        if getattr(change.seen, "wave", None) == launch.wave:
            changes.append(change)
        if {type(change.seen) for change in changes if _is_end(change)} == {PodSeen, WaveSeen}:
            return changes
    raise AssertionError("the wave's end was not told")


def _is_end(change: Change) -> bool:
    match change.seen:
        case PodSeen(phase=phase):
            return phase is PodPhase.SUCCEEDED
        case WaveSeen(complete=complete):
            return complete
        case _:
            return False


def _sight(change: Change) -> tuple[type, str, str]:
    """Tell one sight of an object from another: its kind, its name and the position of its kind."""
    kinds = {NodeSeen: "nodes", PodSeen: "pods", WaveSeen: "jobs", DevicesSeen: "resourceslices"}
    return type(change.seen), getattr(change.seen, "name", ""), change.position[kinds[type(change.seen)]]
