"""Two witnesses that see for themselves, past all faults: what is created in the cluster, and how full nodes are."""

import threading
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from django.db import connection, connections

from clusters.kube import KubeCluster
from clusters.port import ClusterError, WaveSeen
from queues.models import Wave

WATCH_SECONDS = 30.0
LOOK_SECONDS = 0.5
NOTHING: Mapping[str, Sequence[object]] = {}

# Nodes on which tasks hold more than there is, and jobs of which a task holds twice.
_OVERFULL = """
SELECT node.name FROM queues_task task JOIN queues_node node ON node.id = task.node_id
WHERE task.state IN ('pending', 'running', 'leaving') GROUP BY node.id HAVING sum(task.units) > node.units
"""
_TWICE = """
SELECT job.name || ' task ' || task.index FROM queues_task task JOIN queues_wave wave ON wave.id = task.wave_id
JOIN queues_job job ON job.id = wave.job_id WHERE task.state IN ('pending', 'running', 'leaving')
GROUP BY job.id, task.index HAVING count(*) > 1
"""


class Creations:
    """Watches the cluster's Jobs: each group of a wave may be created once, ever."""

    def __init__(self, cluster: KubeCluster) -> None:
        """Watch from now on."""
        self.seen: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._cluster, self._stop = cluster, threading.Event()
        self._thread = threading.Thread(target=self._watch, name="creations", daemon=True)
        self._position = cluster.inventory().position
        self._thread.start()

    def twice(
        self, *, deleted: Collection[tuple[str, int]], passed: Mapping[str, Sequence[object]] = NOTHING
    ) -> list[str]:
        """Return what was created more than once, but for what others ``deleted``, with what ``passed`` the proxy.

        A create whose answer is lost is rightly said again, and makes the object anew where it was deleted meanwhile.
        """
        return [
            f"wave {wave} group {group} was created {len(uids)} times: {_times(wave)}; "
            + "; ".join(str(each) for each in passed.get(wave, ()))
            for (wave, group), uids in self.seen.items()
            if len(uids) > 1 and (wave, group) not in deleted
        ]

    def stop(self) -> None:
        """Watch no more."""
        self._stop.set()

    def _watch(self) -> None:
        while not self._stop.is_set():
            try:
                for change in self._cluster.watch(self._position, seconds=WATCH_SECONDS):
                    self._position = change.position
                    self._note(change.seen)
                    if self._stop.is_set():
                        return
            except ClusterError:
                time.sleep(1)
                self._list()

    def _list(self) -> None:
        try:
            there = self._cluster.inventory()
        except ClusterError:
            return
        self._position = there.position
        for seen in there.waves:
            self._note(seen)

    def _note(self, seen: object) -> None:
        if isinstance(seen, WaveSeen):
            self.seen[seen.wave, seen.group].add(seen.uid)


def _times(wave: str) -> str:
    rows = Wave.objects.filter(uid=wave).values("admitted_at", "launched_at", "seen_at", "stopped_at", "ended_at")
    return ", ".join(f"{word} {at:%H:%M:%S.%f}"[:-3] for row in rows for word, at in row.items() if at)


class Meter:
    """Looks again and again whether a node holds more than it has, or a task holds twice; keeps what it found."""

    def __init__(self) -> None:
        """Start to look."""
        self.wrong: set[str] = set()
        self.looks = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="meter", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join(10)

    def _look(self) -> None:
        try:
            while not self._stop.wait(LOOK_SECONDS):
                with connection.cursor() as cursor:
                    for what, sql in (("overfull node", _OVERFULL), ("held twice", _TWICE)):
                        cursor.execute(sql)
                        self.wrong |= {f"{what} {name}" for (name,) in cursor.fetchall()}
                self.looks += 1
        finally:
            connections.close_all()
