"""Events: what controllers tell people, capped so that they never fill the memory."""

from collections import deque
from uuid import uuid4

from clusters.emulator.core import Core
from clusters.emulator.kinds import EVENTS, Kind
from clusters.emulator.store import Change, Object

MOST_KEPT = 2000


class Recorder:
    """Writes events; the same message about the same object raises the count of the one event."""

    def __init__(self, core: Core) -> None:
        """Start with what the store holds."""
        self._core = core
        self._order: deque[tuple[str, str]] = deque()
        self._known: dict[tuple[str, str, str], tuple[str, str]] = {}
        core.store.listen(self._heed)

    def note(self, about: Object, kind: Kind, reason: str, message: str, *, source: str, warning: bool = False) -> None:
        """Tell of something that happened to ``about``."""
        store, stamp = self._core.store, self._core.stamp()
        metadata = about["metadata"]
        same = (metadata.get("uid", ""), reason, message)
        key = self._known.get(same)
        before = store.get(EVENTS, *key) if key else None
        if before:
            store.put(EVENTS, {**before, "count": before["count"] + 1, "lastTimestamp": stamp})
            return
        namespace = metadata.get("namespace", "default")
        name = f"{metadata['name'][:200]}.{uuid4().hex[:16]}"
        self._known[same] = (namespace, name)
        reference = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        if kind.namespaced:
            reference["namespace"] = namespace
        store.put(
            EVENTS,
            {
                "kind": "Event",
                "apiVersion": "v1",
                "metadata": {"name": name, "namespace": namespace, "uid": str(uuid4()), "creationTimestamp": stamp},
                "involvedObject": reference,
                "reason": reason,
                "message": message,
                "source": {"component": source},
                "firstTimestamp": stamp,
                "lastTimestamp": stamp,
                "count": 1,
                "type": "Warning" if warning else "Normal",
                "eventTime": None,
                "reportingComponent": source,
                "reportingInstance": "",
            },
        )

    def _heed(self, change: Change) -> None:
        """Let the oldest go when there are too many."""
        if change.kind is not EVENTS:
            return
        body = change.new.body
        if change.deleted:
            about = body.get("involvedObject") or {}
            self._known.pop((about.get("uid", ""), body.get("reason", ""), body.get("message", "")), None)
        elif change.old is None:
            self._order.append((body["metadata"]["namespace"], body["metadata"]["name"]))
            if len(self._order) > MOST_KEPT:
                self._core.agenda.soon("event cap", self._trim)

    def _trim(self) -> None:
        while len(self._order) > MOST_KEPT:
            namespace, name = self._order.popleft()
            if self._core.store.find(EVENTS, namespace, name):
                self._core.store.remove(EVENTS, namespace, name)
