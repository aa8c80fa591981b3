"""The adapter's watch against a server that misbehaves."""

import threading
import time
from itertools import islice
from pathlib import Path

import pytest

from clusters import verbs
from clusters.port import Gone, Unreachable
from clusters.verbs import KubeCluster
from tests.clusters.faulty import SILENT_SECONDS, Faulty, answer, failure, silence, stream
from tests.clusters.waiting import until

POSITION = {"nodes": "5", "pods": "5", "jobs": "5"}
NOTHING = {"items": [], "metadata": {"resourceVersion": "5"}}
NODES, PODS, JOBS = "/api/v1/nodes", "/api/v1/pods", "/apis/batch/v1/jobs"


def node_event(name: str, version: int, kind: str = "MODIFIED") -> dict[str, object]:
    return {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": str(version)}}}


def _own_threads() -> int:
    return sum(thread.name.startswith("watch-") for thread in threading.enumerate())


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_silent_watch_ends_in_time(cluster: KubeCluster, server: Faulty) -> None:
    for path in (NODES, PODS, JOBS):
        server.tell("GET", path, stream(then="silence"))
    begun = time.monotonic()

    assert list(cluster.watch(POSITION, seconds=0.5)) == []

    assert 0.4 < time.monotonic() - begun < SILENT_SECONDS
    assert len(server.requests) <= 3


def test_a_watch_that_is_never_answered_is_unreachable_in_time(
    cluster: KubeCluster, server: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs, "OPEN_SECONDS", 0.2)
    for path in (NODES, PODS, JOBS):
        server.tell("GET", path, silence)
    begun = time.monotonic()

    with pytest.raises(Unreachable, match=r"[Tt]imed out"):
        list(cluster.watch(POSITION, seconds=2 * SILENT_SECONDS))

    assert time.monotonic() - begun < SILENT_SECONDS


def test_many_silent_watches_leave_neither_threads_nor_connections(cluster: KubeCluster, server: Faulty) -> None:
    for path in (NODES, PODS, JOBS):
        server.tell("GET", path, stream(then="silence"))
    list(cluster.watch(POSITION, seconds=0.05))
    threads, files = _own_threads(), _open_files()

    for _ in range(30):
        list(cluster.watch(POSITION, seconds=0.05))

    until(lambda: _own_threads() <= threads)
    # The server's ends live in this process too, until their threads notice.
    server.ending.set()
    until(lambda: _open_files() <= files + 3)


def test_a_watch_that_is_cut_goes_on_where_it_was(cluster: KubeCluster, server: Faulty) -> None:
    for path in (PODS, JOBS):
        server.tell("GET", path, stream(then="silence"))
    server.tell(
        "GET",
        NODES,
        stream(node_event("a", 6), b'{"type": "MODIFIED", "obj', then="drop"),
        stream(node_event("b", 7), node_event("x", 9, "BOOKMARK")),
        stream(node_event("c", 10), then="silence"),
    )

    watch = cluster.watch(POSITION, seconds=60)
    seen = [(getattr(change.seen, "name", ""), change.position["nodes"]) for change in islice(watch, 3)]
    watch.close()  # type: ignore[attr-defined]

    assert seen == [("a", "6"), ("b", "7"), ("c", "10")]
    asked = [request.query for request in server.requests if request.path == NODES]
    assert [query["resourceVersion"] for query in asked] == ["5", "6", "9"]
    assert all(query["allowWatchBookmarks"] == "true" and int(query["timeoutSeconds"]) >= 1 for query in asked)


def test_watches_that_end_as_soon_as_they_open_are_no_watch(cluster: KubeCluster, server: Faulty) -> None:
    for path in (NODES, PODS, JOBS):
        server.tell("GET", path, stream())

    with pytest.raises(Unreachable, match="as soon as"):
        list(cluster.watch(POSITION, seconds=60))

    assert len(server.requests) <= 3


@pytest.mark.parametrize(
    "end",
    [
        failure(410, "too old"),
        stream({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}),
    ],
    ids=["as an answer", "as an event"],
)
def test_a_position_that_is_too_old_is_gone(cluster: KubeCluster, server: Faulty, end: object) -> None:
    for path in (NODES, JOBS):
        server.tell("GET", path, stream(then="silence"))
    server.tell("GET", PODS, end)  # type: ignore[arg-type]

    with pytest.raises(Gone, match="too old"):
        list(cluster.watch(POSITION, seconds=60))


@pytest.mark.parametrize(
    "end",
    [
        failure(503, "etcd is away"),
        stream({"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd is away"}}),
        stream(b"{etcd is away\n"),
        stream({"type": "ADDED", "object": {"etcd is away": 1}}),
    ],
    ids=["an answer", "an event", "no JSON", "no object"],
)
def test_a_watch_that_fails_is_unreachable(cluster: KubeCluster, server: Faulty, end: object) -> None:
    for path in (NODES, JOBS):
        server.tell("GET", path, stream(then="silence"))
    server.tell("GET", PODS, end)  # type: ignore[arg-type]

    with pytest.raises(Unreachable):
        list(cluster.watch(POSITION, seconds=60))


def test_slices_that_may_not_be_watched_silence_nothing_else(cluster: KubeCluster, server: Faulty) -> None:
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    server.tell("GET", "/apis/resource.k8s.io", answer({"versions": [{"version": "v1"}]}))
    server.tell("GET", slices, answer(NOTHING), failure(403, "forbidden"))
    for path in (PODS, JOBS):
        server.tell("GET", path, answer(NOTHING), stream(then="silence"))
    server.tell("GET", NODES, answer(NOTHING), stream(node_event("a", 6), then="silence"))
    position = cluster.inventory().position

    watch = cluster.watch(position, seconds=60)
    first = next(watch)
    until(lambda: any(each.watches and each.path == slices for each in server.requests))
    watch.close()  # type: ignore[attr-defined]

    assert position["resourceslices"] == "5"
    assert first.position == {**position, "nodes": "6"}
