"""Following one cluster for ever: list, then watch, and list again each minute; errors end nothing.

The list alone is enough to be right; the watch makes it quick.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from queue import Empty, SimpleQueue
from threading import Event, Thread

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections, connection
from django.db.models import QuerySet, Value
from django.db.models.functions import Coalesce

from clusters.port import Change, Cluster, ClusterError, Gone, Unreachable
from queues import hints, mending, untold
from queues.lease import Lease, Lost
from queues.models import ClusterState
from queues.nodes import count_flavors
from queues.reconcile import Findings, awaits_list, follow, reconcile
from queues.topics import topics_of
from queues.view import View

log = logging.getLogger(__name__)

Clock = Callable[[], datetime]

# Changes that come within this are taken together; where many come, within twice the time that the last ones took, so
# that fewer, fuller passes follow a cluster that is busy.
WINDOW_SECONDS = 0.05
LONGEST_WINDOW_SECONDS = 0.5
# A watch is opened anew this often, so that one that fell silent, or was left, does not stay.
STREAM_SECONDS = 10.0
LOOK_SECONDS = 1.0
STAND_BY_SECONDS = 0.2
HEARD_SECONDS = 5.0
LEAST_BETWEEN_LISTS = 2.0
LONGEST_PAUSE = 30.0
LONGEST_ASKED_PAUSE = 60.0
# A cluster that does not answer for so long is not counted on; a restart of its API server is over before.
AWAY_AFTER = timedelta(seconds=30)


class Feed:
    """Changes of a watch, read by a thread of its own so that they can be waited for with a time limit."""

    def __init__(self, cluster: Cluster, view: View) -> None:
        """Start to read behind the view's position."""
        self._said: SimpleQueue[Change | Exception | None] = SimpleQueue()
        self._left = False
        self._over = False
        Thread(target=self._read, args=(cluster, view), name="feed", daemon=True).start()

    def gather(self, *, wait: float, window: float = WINDOW_SECONDS) -> list[Change] | None:
        """Return the first change within ``wait`` and what follows within ``window``; None when the watch is over."""
        found: list[Change] = []
        if self._over:
            return None
        end = time.monotonic() + wait
        while (left := end - time.monotonic()) > 0:
            try:
                said = self._said.get(timeout=left)
            except Empty:
                break
            if isinstance(said, Exception):
                raise said
            if said is None:
                self._over = True
                return found or None
            if not found:
                end = time.monotonic() + window
            found.append(said)
        return found

    def leave(self) -> None:
        """Want no more; the reader ends with its next change, or with the stream."""
        self._left = True

    def _read(self, cluster: Cluster, view: View) -> None:
        try:
            for change in cluster.watch(view.position, seconds=STREAM_SECONDS):
                if self._left:
                    return
                self._said.put(change)
            self._said.put(None)
        except Exception as error:  # noqa: BLE001  handed to whoever gathers
            self._said.put(error)


class Follower:
    """Keeps the rows of one cluster true."""

    def __init__(self, name: str, cluster: Cluster, clock: Clock) -> None:
        """Follow ``cluster``, called ``name``; nothing is asked yet."""
        self.name, self.cluster, self.clock = name, cluster, clock
        self.lease = Lease(name)
        self.lists = 0
        self._strays: set[str] = set()
        self._failures = 0
        self._version = ""
        self._row: int | None = None

    def run(self, stop: Event) -> None:
        """Follow until ``stop`` is set. Of several processes one follows and the others stand by."""
        with self.lease.sought():
            while not stop.is_set():
                close_old_connections()
                self._follow(stop)
        connection.close()

    def _follow(self, stop: Event) -> None:
        """Do one turn, where it is ours to do, and wait for as long as its outcome asks for."""
        if not self.lease.mine:
            stop.wait(STAND_BY_SECONDS)
            return
        try:
            with self.lease.needed():
                self._lead(stop)
        except Lost as lost:
            log.warning("%s: what was begun is left to whoever follows now", lost)
        except DatabaseError as error:
            log.warning("database: %s", error)
            stop.wait(self._pause())
        except Exception:  # a fault in one pass must not end the following of a cluster
            log.exception("following cluster %s failed", self.name)
            stop.wait(self._pause())

    def _lead(self, stop: Event) -> None:
        try:
            self.turn(stop)
            self._failures = 0
        except Gone:
            stop.wait(LEAST_BETWEEN_LISTS)
        except ClusterError as error:
            self._note_unreachable(error)
            stop.wait(max(self._pause(), _asked_pause(error)))

    def turn(self, stop: Event) -> None:
        """List once, then follow changes until it is time for another list."""
        view = self.list()
        end = time.monotonic() + settings.TIDEGATE_RELIST_SECONDS
        begun = looked = heard = time.monotonic()
        window = WINDOW_SECONDS
        feed = Feed(self.cluster, view)
        try:
            while self.lease.mine and not stop.is_set() and (now := time.monotonic()) < end:
                changes = feed.gather(wait=min(LOOK_SECONDS, end - now), window=window)
                if changes is None:
                    feed = Feed(self.cluster, view)
                elif changes:
                    since = time.monotonic()
                    self.take(view, changes)
                    window = min(max(WINDOW_SECONDS, 2 * (time.monotonic() - since)), LONGEST_WINDOW_SECONDS)
                # Silence says nothing; a stream that ended without an error does.
                if changes != [] and now - heard > HEARD_SECONDS:
                    heard = now
                    self._state().update(heard_at=self.clock())
                if now - looked > LOOK_SECONDS:
                    looked = now
                    if now - begun > LEAST_BETWEEN_LISTS and awaits_list(self._id(), view):
                        return
        finally:
            feed.leave()

    def list(self) -> View:
        """Bring every row in line with a full list."""
        as_of = self.clock()
        view = View(self.cluster.inventory(), as_of=as_of)
        self.lists += 1
        now = self.clock()
        back = self._note_answer(now)
        findings = reconcile(self._id(), view, now=now)
        view.settle()
        self._act(findings)
        if back:
            # What was not told meanwhile is told now, and its nodes are counted on again.
            hints.wake()
            hints.tell_clusters()
            hints.tell_pages("nodes", "jobs", "queue")
        self._stop_strays(findings)
        if mended := mending.mend(now=now):
            hints.wake()
            hints.tell_clusters()
            hints.tell_pages("jobs", "queue", *topics_of(mended))
        return view

    def take(self, view: View, changes: Sequence[Change]) -> None:
        """Bring the rows in line that changes touch."""
        for change in changes:
            view.take(change)
        if not view.touched:
            return
        findings = follow(self._id(), view, now=self.clock())
        view.settle()
        self._act(findings)

    def _act(self, findings: Findings) -> None:
        """Release gated pods to their nodes, and tell the loop and pages what moved."""
        if findings.pins:
            try:
                self.cluster.pin(findings.pins)
            except ClusterError as error:
                log.warning("pinning on cluster %s: %s; the next list tries again", self.name, error)
        for offer, text in findings.refused:
            try:
                self.cluster.refuse(offer, text)
            except ClusterError as error:
                log.warning("telling %s on cluster %s: %s; the next list tries again", offer.name, self.name, error)
        if findings.freed or findings.nodes or findings.adopted:
            hints.wake()
        if findings.wishes:
            hints.tell_clusters()
        if findings.jobs:
            hints.tell_pages("jobs", "queue", *topics_of(findings.jobs))
        if findings.nodes:
            hints.tell_pages("nodes", "teams")

    def _stop_strays(self, findings: Findings) -> None:
        """Delete objects with our label that belong to no wave, once two lists have shown them."""
        for ref in findings.strays:
            if ref.wave in self._strays:
                log.warning("cluster %s: deleting objects of wave %s, which is not known", self.name, ref.wave)
                # A job that was forgotten may come again under the same name: not beside its own pods.
                self.cluster.stop(ref, pods_first=True)
        self._strays = {ref.wave for ref in findings.strays}

    def _note_unreachable(self, error: ClusterError) -> None:
        log.warning("cluster %s: %s", self.name, error)
        now = self.clock()
        state = self._state()
        state.update(unreachable_since=Coalesce("unreachable_since", Value(now)), error=str(error)[:1000])
        if state.filter(away=False, unreachable_since__lte=now - AWAY_AFTER).update(away=True):
            count_flavors()
            hints.wake()
        hints.tell_pages("nodes")
        _take_back_untold(now)

    def _note_answer(self, now: datetime) -> bool:
        """Note that the cluster answers; return whether it did not before."""
        back = self._state().filter(unreachable_since__isnull=False)
        answers = {"unreachable_since": None, "away": False, "retired_at": None, "error": ""}
        changed = bool(back.update(**answers))
        self._state().update(listed_at=now, heard_at=now)
        if not self._version:
            self._version = self.cluster.check()
            self._state().update(kubernetes_version=self._version[:60])
        return changed

    def _pause(self) -> float:
        self._failures += 1
        return min(2.0 ** min(self._failures - 1, 5), LONGEST_PAUSE)

    def _id(self) -> int:
        if self._row is None:
            self._row = ClusterState.objects.get_or_create(name=self.name)[0].id
        return self._row

    def _state(self) -> QuerySet[ClusterState]:
        return ClusterState.objects.filter(id=self._id())


def _asked_pause(error: ClusterError) -> float:
    """Return the seconds for which the API server asked to be left alone."""
    asked = error.retry_after if isinstance(error, Unreachable) else None
    return min(asked or 0.0, LONGEST_ASKED_PAUSE)


def retire_others(names: Iterable[str], *, now: datetime) -> None:
    """Count no more on clusters that are not configured any more; their rows stay, since finished tasks name them."""
    others = ClusterState.objects.exclude(name__in=names).filter(retired_at=None)
    since = Coalesce("unreachable_since", Value(now))
    if others.update(retired_at=now, away=True, unreachable_since=since, error="It is not configured any more."):
        count_flavors()
        hints.wake()
        _take_back_untold(now)


def _take_back_untold(now: datetime) -> None:
    """Let jobs go elsewhere that were admitted to a cluster that is away, before it was told."""
    if jobs := untold.take_back(now=now):
        hints.wake()
        hints.tell_pages("jobs", "queue", *topics_of(jobs))
