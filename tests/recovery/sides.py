"""Two clusters under one loop: a follower for each, a proxy before each."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

from django.db import connections
from django.utils import timezone

from clusters.kube import KubeCluster, connect
from clusters.port import PodSeen
from queues import cycle, queries, release
from queues.models import ClusterState, Job, Wave
from queues.states import JobState
from queues.watcher import Follower
from tests.clusters.contract.ground import OWN_LABEL, Ground, Site
from tests.kubernetes.proxy import Proxy
from tests.loop.stage import Stage, state
from tests.queues.lab import Lab
from tests.recovery.scene import PAUSE

EAST, WEST = "default", "west"
NODES = 2


class Side:
    """One of the clusters: its nodes, a proxy before it, and a follower in its thread."""

    def __init__(self, name: str, ground: Ground, proxy: Proxy, folder: Path) -> None:
        self.name, self.ground, self.proxy = name, ground, proxy
        self.cluster: KubeCluster = connect(name, kubeconfig=proxy.kubeconfig(folder / name))
        self.nodes = [ground.node(labels={"gpu": "h100"}) for _ in range(NODES)]
        self.follower = Follower(name, self.cluster, timezone.now)
        self.stop = Event()
        self.thread = Thread(target=self._follow, name=f"follower-{name}")

    @property
    def row(self) -> ClusterState:
        return ClusterState.objects.get(name=self.name)

    def asked(self, method: str) -> int:
        return sum(request.method == method for request in self.proxy.requests)

    def close(self) -> None:
        self.proxy.heal()
        self.stop.set()
        if self.thread.ident is not None:
            self.thread.join(90)
        assert not self.thread.is_alive()
        self.ground.leave()
        self.cluster.close()

    def _follow(self) -> None:
        try:
            self.follower.run(self.stop)
        finally:
            connections.close_all()


class Town(Stage):
    """The loop over both sides; nodes of both have the same names and labels."""

    def __init__(self, east: Side, west: Side, key: str) -> None:
        self.east, self.west = east, west
        super().__init__(Lab(), east.cluster, **{OWN_LABEL: key})

    def open(self) -> None:
        for side in (self.east, self.west):
            side.thread.start()
        there = sorted((side.name, node) for side in (self.east, self.west) for node in side.nodes)
        seen = self.lab.h100.nodes.filter(gone_at=None, ready=True).order_by("cluster__name", "name")
        self.until(lambda: list(seen.values_list("cluster__name", "name")) == there)

    def turn(self) -> None:
        cycle.run_cycle(timezone.now)
        clusters = {side.name: side.cluster for side in (self.east, self.west)}
        release.release_due(timezone.now, clusters=clusters, fences=self.fences)
        time.sleep(PAUSE)

    def runs(self, job: Job) -> None:
        self.until(lambda: state(job) is JobState.RUNNING and not tasks(job, "pending"))

    def reason(self, job: Job) -> str:
        reason = queries.job(self.lab.ann, job.uid, now=timezone.now()).row.reason
        return "" if reason is None else reason.code


def tasks(job: Job, *states: str) -> list[tuple[str, str, str]]:
    """Return cluster of the wave, cluster of the node and state of a job's tasks."""
    columns = ("cluster__name", "tasks__node__cluster__name", "tasks__state")
    rows = Wave.objects.filter(job=job).order_by("id", "tasks__id").values_list(*columns)
    return [row for row in rows if not states or row[2] in states]


def of(side: Side, job: Job) -> list[PodSeen]:
    waves = {str(uid) for uid in job.waves.values_list("uid", flat=True)}
    return [pod for pod in side.ground.cluster.inventory().pods if pod.wave in waves]


@contextmanager
def opened(sites: Sequence[Site], prefix: str, folder: Path) -> Iterator[Town]:
    """Open a town on two sites; its nodes and namespaces carry this prefix."""
    with ExitStack() as undo:
        sides = []
        for name, site in zip((EAST, WEST), sites, strict=True):
            ground = Ground(site, key=prefix)
            ground.open()
            proxy = undo.enter_context(Proxy(site.kubeconfig))
            side = Side(name, ground, proxy, folder)
            undo.callback(side.close)
            sides.append(side)
        town = Town(sides[0], sides[1], prefix)
        town.open()
        yield town
