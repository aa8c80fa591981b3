"""Two watchers of one cluster at once: the one that leads freezes past its lease, and wakes while the other leads."""

from collections.abc import Callable, Iterator, Mapping
from threading import Event, Thread
from typing import Any

import pytest
from django.db import OperationalError, connection, connections
from django.utils import timezone
from pytest_django import Settings

from clusters.port import Inventory, Unreachable
from queues import cycle, lease, watcher
from queues.lease import Lease
from queues.models import ClusterState, Job, JobEvent, Node, Task
from queues.watcher import Follower
from tests.clusters.waiting import until
from tests.loop.adopting import Hands
from tests.loop.stage import GPU, Stage, events, finish, units_in_use
from tests.queues import manifests
from tests.queues.manifests import steer

LIMIT = 60.0


class Frozen:
    """A cluster whose next list stands still as its reader freezes, and comes back when it wakes: whole, or broken."""

    def __init__(self, stage: Stage) -> None:
        self.real = stage.cluster
        self.freezing, self.frozen, self.waking = Event(), Event(), Event()
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the cluster has
        return getattr(self.real, name)

    def inventory(self) -> Inventory:
        listed = self.real.inventory()
        if self.freezing.is_set() and not self.waking.is_set():
            self.frozen.set()
            assert self.waking.wait(LIMIT)
            if self.error is not None:
                raise self.error
        return listed


class Watching:
    """A follower that runs in a thread, with what it has written to the database since it woke."""

    def __init__(self, cluster: Any) -> None:  # noqa: ANN401  a cluster, or one that freezes
        self.cluster = cluster
        self.follower = Follower("default", cluster, timezone.now)
        self.written: list[str] = []
        self.stop = Event()
        self.thread = Thread(target=self._run)

    def _run(self) -> None:
        with connection.execute_wrapper(self._note):
            self.follower.run(self.stop)

    def _note(self, execute: Callable[..., Any], sql: str, *more: Any) -> Any:  # noqa: ANN401  as Django calls wrappers
        done = execute(sql, *more)
        if isinstance(self.cluster, Frozen) and self.cluster.waking.is_set() and not sql.startswith(("SELECT", "SET")):
            self.written.append(sql)
        return done

    def end(self) -> None:
        self.stop.set()
        if isinstance(self.cluster, Frozen):
            self.cluster.waking.set()
        if self.thread.ident is not None:
            self.thread.join(LIMIT)
            assert not self.thread.is_alive()

    @property
    def leads(self) -> bool:
        return ClusterState.objects.filter(name="default", leader=self.follower.lease.holder).exists()


@pytest.fixture
def pair(stage: Stage, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Watching, Watching]]:
    settings.TIDEGATE_RELIST_SECONDS = 0.5
    monkeypatch.setattr(watcher, "STREAM_SECONDS", 0.5)
    monkeypatch.setattr(lease, "LASTS_SECONDS", 2.0)
    pair = Watching(Frozen(stage)), Watching(stage.cluster)
    yield pair
    for each in pair:
        each.end()
    connections.close_all()


def freeze(first: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a leader's process stand still: it holds a list in its hand, and renews its lease no more."""

    def stands_still(self: Lease) -> bool:
        if self is first.follower.lease:
            raise OperationalError("frozen")
        return renew(self)

    first.cluster.freezing.set()
    assert first.cluster.frozen.wait(LIMIT)
    renew = Lease.renew
    monkeypatch.setattr(Lease, "renew", stands_still)


def wake(first: Watching, error: Exception | None) -> None:
    """Let it go on with what it had in its hand, to the end of its turn."""
    first.cluster.error = error
    first.end()


def machine(name: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"gpu": "h100", "kubernetes.io/hostname": name}},
        "status": {"capacity": GPU, "allocatable": GPU},
    }


def state_of(name: str) -> str | None:
    return Job.objects.filter(name=name).values_list("state", flat=True).first()


@pytest.mark.parametrize(
    "error", [None, Unreachable("its connections had died")], ids=["a list", "a broken connection"]
)
def test_a_leader_that_wakes_while_another_leads_writes_nothing_and_nothing_is_doubled_or_lost(
    stage: Stage, pair: tuple[Watching, Watching], monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    first, second = pair
    runs = stage.submit(name="runs", gpus="h100:8", forever="1")
    first.thread.start()
    until(lambda: first.leads)
    cycle.run_cycle(timezone.now)
    stage.release()
    until(lambda: state_of("runs") == "running")
    freeze(first, monkeypatch)
    second.thread.start()
    until(lambda: second.leads)
    # None of this is in the list that the first one has in its hand.
    finish(stage.cluster, runs)
    stage.cluster.api.ask("create", "/api/v1/nodes", body=dict(machine("h9")))
    Hands(stage).make(manifests.job("made", notes=steer(forever="1")))
    until(lambda: state_of("runs") == "succeeded" and state_of("made") == "queued")
    until(lambda: Node.objects.filter(name="h9", units=8, ready=True).exists())

    wake(first, error)

    row = ClusterState.objects.get(name="default")
    assert first.written == []
    assert (row.leader, row.unreachable_since) == (second.follower.lease.holder, None)
    assert (state_of("runs"), state_of("made")) == ("succeeded", "queued")
    assert Node.objects.get(name="h9").gone_at is None
    cycle.run_cycle(timezone.now)
    stage.release()
    made = Job.objects.get(name="made")
    until(lambda: Task.objects.filter(wave__job=made, state="running").count() == 1)
    finish(stage.cluster, made)
    until(lambda: state_of("made") == "succeeded")
    once = ["submitted", "admitted", "launched", "started", "succeeded"]
    assert [events(runs), events(made)] == [once, once]
    assert [runs.waves.count(), made.waves.count(), units_in_use()] == [1, 1, 0]
    assert JobEvent.objects.count() == 2 * len(once)
