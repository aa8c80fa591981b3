"""The watcher against a cluster that falls silent, forgets, is away, and comes back."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from threading import Event, Thread

import pytest
from django.core.management import CommandError
from django.db import OperationalError, connections
from django.utils import timezone
from pytest_django import Settings

from clusters.port import Change, Gone, Inventory, NodeSeen, Pin, PodPhase, Unreachable, WaveRef
from queues import fleet, lease, watcher
from queues.lease import Lease
from queues.management.commands import watch_clusters
from queues.models import ClusterState, Job, Node, Wave
from queues.watcher import Follower
from tests.queues.cluster import RUNNING, SUCCEEDED, Cluster, machine, object_of, pod_of
from tests.queues.lab import Lab

LIMIT = 60.0


class Scripted:
    """A cluster that shows what a test puts there, and whose watch says what the test scripts."""

    def __init__(self, stage: Cluster) -> None:
        self.stage = stage
        self.lists = 0
        self.error: Exception | None = None
        self.watches: list[list[Change | Exception | Event]] = []
        self.pinned: list[Pin] = []
        self.stopped: list[WaveRef] = []
        self.silent = Event()

    def check(self) -> str:
        return "v1.37.2"

    def inventory(self) -> Inventory:
        self.lists += 1
        if self.error is not None:
            raise self.error
        nodes, pods, waves = self.stage.nodes, self.stage.pods, self.stage.objects
        return Inventory(nodes=tuple(nodes.values()), pods=tuple(pods.values()), waves=tuple(waves.values()))

    def watch(self, position: Mapping[str, str], *, seconds: float) -> Iterator[Change]:
        assert position is not None
        for said in self.watches.pop(0) if self.watches else []:
            if isinstance(said, Exception):
                raise said
            if isinstance(said, Event):
                said.wait(LIMIT)
            else:
                yield said
        self.silent.wait(seconds)

    def pin(self, pins: Sequence[Pin]) -> None:
        self.pinned += pins

    def stop(self, ref: WaveRef, *, grace_seconds: int | None = None, pods_first: bool = False) -> None:
        # What nobody knows keeps its name until its pods have gone.
        assert (grace_seconds, pods_first) == (None, True)
        self.stopped.append(ref)


class Watched:
    """A follower that runs in a thread until the test is over."""

    def __init__(self, stage: Cluster) -> None:
        self.cluster = Scripted(stage)
        self.follower = Follower("default", self.cluster, timezone.now)  # type: ignore[arg-type]
        self.stop = Event()
        self.thread = Thread(target=self.follower.run, args=(self.stop,))

    def start(self) -> None:
        self.thread.start()

    def close(self) -> None:
        self.stop.set()
        self.cluster.silent.set()
        self.thread.join(LIMIT)
        assert not self.thread.is_alive()


def until(condition: Callable[[], bool], *, seconds: float = LIMIT) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def stage(transactional_db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Cluster:  # noqa: ARG001
    settings.TIDEGATE_RELIST_SECONDS = 0.5
    monkeypatch.setattr(watcher, "STREAM_SECONDS", 0.3)
    monkeypatch.setattr(watcher, "LEAST_BETWEEN_LISTS", 0.1)
    monkeypatch.setattr(watcher, "LONGEST_PAUSE", 0.1)
    # Nobody loses the lease because the machine stands still for a while.
    monkeypatch.setattr(lease, "LASTS_SECONDS", 600.0)
    return Cluster(Lab())


@pytest.fixture
def watched(stage: Cluster) -> Iterator[Watched]:
    watched = Watched(stage)
    yield watched
    if watched.thread.ident is not None:
        watched.close()
    connections.close_all()


def running(stage: Cluster) -> tuple[Job, Wave]:
    job = stage.lab.submit()
    wave = stage.lab.start(job, running=False)
    stage.run(wave, RUNNING)
    return job, wave


def state(job: Job) -> str:
    job.refresh_from_db()
    return job.state


def row() -> ClusterState:
    return ClusterState.objects.get(name="default")


def test_a_watch_that_falls_silent_is_made_up_for_by_the_next_list(stage: Cluster, watched: Watched) -> None:
    job, wave = running(stage)
    watched.start()
    until(lambda: state(job) == "running")

    stage.run(wave, SUCCEEDED)

    until(lambda: state(job) == "succeeded")


def test_a_change_that_is_heard_moves_the_job_without_a_list(
    stage: Cluster, watched: Watched, settings: Settings
) -> None:
    settings.TIDEGATE_RELIST_SECONDS = 600
    job, wave = running(stage)
    watched.cluster.watches = [[Change(seen=pod_of(wave.tasks.get(), PodPhase.SUCCEEDED))]]

    watched.start()
    until(lambda: state(job) == "succeeded")

    assert watched.cluster.lists == 1


def test_a_stream_that_ends_with_its_last_change_is_followed_by_another(
    stage: Cluster, watched: Watched, settings: Settings
) -> None:
    settings.TIDEGATE_RELIST_SECONDS = 600
    job, wave = running(stage)
    pod = pod_of(wave.tasks.get(), PodPhase.SUCCEEDED)
    watched.cluster.watches = [[Change(seen=machine("h9"))], [Change(seen=pod)]]
    watched.cluster.silent.set()

    watched.start()
    until(lambda: state(job) == "succeeded")

    assert watched.cluster.lists == 1


def test_a_position_that_is_too_old_leads_to_one_list(stage: Cluster, watched: Watched, settings: Settings) -> None:
    settings.TIDEGATE_RELIST_SECONDS = 600
    job, wave = running(stage)
    go_on = Event()
    watched.cluster.watches = [[go_on, Gone("410")], []]

    watched.start()
    until(lambda: state(job) == "running")
    stage.run(wave, SUCCEEDED)
    go_on.set()
    until(lambda: state(job) == "succeeded")

    assert watched.cluster.lists == 2


def test_a_cluster_that_does_not_answer_fails_nothing_and_is_followed_again(stage: Cluster, watched: Watched) -> None:
    job, wave = running(stage)
    watched.start()
    until(lambda: state(job) == "running")

    watched.cluster.error = Unreachable("503 from the server")
    until(lambda: row().unreachable_since is not None)
    away = (state(job), row().error)
    stage.run(wave, SUCCEEDED)
    watched.cluster.error = None
    until(lambda: state(job) == "succeeded")

    assert away == ("running", "503 from the server")
    assert (row().unreachable_since, row().error) == (None, "")


def test_a_cluster_counts_as_away_from_when_it_fell_silent(watched: Watched) -> None:
    watched.cluster.error = Unreachable("503")
    watched.start()
    until(lambda: row().unreachable_since is not None)
    since, lists = row().unreachable_since, watched.cluster.lists

    until(lambda: watched.cluster.lists >= lists + 3)

    assert row().unreachable_since == since


def test_what_a_cluster_was_not_told_of_when_it_went_away_queues_again(
    stage: Cluster, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "AWAY_AFTER", timedelta(0))
    wave = stage.lab.start(job := stage.lab.submit(), running=False)
    Wave.objects.filter(id=wave.id).update(launched_at=None, wish_due_at=timezone.now())
    watched.cluster.error = Unreachable("503")

    watched.start()

    until(lambda: state(job) == "queued")


def test_many_streams_leave_no_threads_behind(watched: Watched) -> None:
    watched.start()
    until(lambda: watched.cluster.lists >= 2)

    until(lambda: watched.cluster.lists >= 8)

    # One follows, and the one before it may still be ending.
    until(lambda: sum(thread.name == "feed" for thread in threading.enumerate()) <= 2)


def test_a_fault_in_one_pass_does_not_end_the_following(
    stage: Cluster, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, _ = running(stage)
    failed: list[int] = []

    def fail_once(self: Follower) -> int:
        if not failed:
            failed.append(1)
            raise ValueError("a fault of ours")
        return ClusterState.objects.get(name=self.name).id

    monkeypatch.setattr(Follower, "_id", fail_once)
    watched.start()

    until(lambda: state(job) == "running")


@pytest.mark.parametrize("where", [(Lease, "needed"), (Follower, "_note_unreachable"), (Follower, "turn")])
def test_a_database_that_takes_no_connections_for_a_while_does_not_end_the_following(
    stage: Cluster, watched: Watched, monkeypatch: pytest.MonkeyPatch, where: tuple[type, str]
) -> None:
    job, _ = running(stage)
    watched.cluster.error = Unreachable("503 from the server")
    works, refused = getattr(*where), Event()

    def refuse_first(*given: object) -> object:
        if refused.is_set():
            return works(*given)
        refused.set()
        raise OperationalError("connection refused")

    monkeypatch.setattr(*where, refuse_first)
    watched.start()
    until(refused.is_set)
    watched.cluster.error = None

    until(lambda: state(job) == "running" or not watched.thread.is_alive())

    assert state(job) == "running"


def test_units_that_a_queued_job_holds_by_a_fault_are_given_back_with_the_next_list(
    stage: Cluster, watched: Watched
) -> None:
    job, wave = running(stage)
    watched.start()
    until(lambda: state(job) == "running")

    Job.objects.filter(id=job.id).update(state="queued")

    until(lambda: Wave.objects.get(id=wave.id).state == "evicting")


def test_gated_pods_are_released_to_their_nodes(stage: Cluster, watched: Watched) -> None:
    wave = stage.lab.start(stage.lab.submit(), running=False)
    stage.run(wave, PodPhase.PENDING, gated=True, node=None)

    watched.start()
    until(lambda: bool(watched.cluster.pinned))

    assert watched.cluster.pinned[0].node == "h0"


def test_objects_without_a_wave_are_deleted_after_two_lists(stage: Cluster, watched: Watched) -> None:
    _, wave = running(stage)
    Wave.objects.all().delete()
    stage.objects["w"] = object_of(wave)
    follower = watched.follower

    follower.list()
    after_one = list(watched.cluster.stopped)
    follower.list()

    assert after_one == []
    assert [ref.wave for ref in watched.cluster.stopped] == [str(wave.uid)]


def test_a_stop_of_a_wave_without_pods_is_followed_by_an_early_list(
    stage: Cluster, watched: Watched, settings: Settings
) -> None:
    settings.TIDEGATE_RELIST_SECONDS = 600
    job = stage.lab.submit(shape="gang")
    wave = stage.lab.start(job, running=False)
    watched.start()
    until(lambda: watched.cluster.lists >= 1)
    Wave.objects.filter(id=wave.id).update(state="evicting", wish="stop", stopped_at=timezone.now())
    wave.tasks.update(state="leaving")
    Job.objects.filter(id=job.id).update(state="evicting", next_state="cancelled")

    until(lambda: state(job) == "cancelled")


def test_of_two_watchers_one_follows_and_the_other_takes_over(stage: Cluster, watched: Watched) -> None:
    second = Watched(stage)
    watched.start()
    until(lambda: watched.cluster.lists >= 1)
    second.start()
    try:
        lists = watched.cluster.lists
        until(lambda: watched.cluster.lists >= lists + 2)
        standing_by = second.cluster.lists
        watched.close()
        until(lambda: second.cluster.lists >= 1)
    finally:
        second.close()

    assert standing_by == 0


def test_a_new_node_is_there_for_the_loop_as_soon_as_it_is_heard_of(watched: Watched, settings: Settings) -> None:
    settings.TIDEGATE_RELIST_SECONDS = 600
    seen: NodeSeen = machine("h9")
    watched.cluster.watches = [[Change(seen=seen)]]

    watched.start()

    until(lambda: Node.objects.filter(name="h9", units=8).exists())


def test_where_one_of_two_clusters_is_followed_no_more_the_process_ends_and_says_so(
    db: None,  # noqa: ARG001  asks for the database
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def follow(self: Follower, stop: Event) -> None:
        if self.name == "east":
            stop.wait(LIMIT)

    monkeypatch.setattr(fleet, "clusters", lambda: {"east": None, "west": None})
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(Follower, "run", follow)

    with pytest.raises(CommandError, match="cluster west has ended"):
        watch_clusters.Command().handle()
