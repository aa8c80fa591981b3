"""The objects, their versions, and the changes that watches replay."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from clusters.emulator.kinds import KINDS, Kind

Object = dict[str, Any]
OLDEST_KEPT = 2000


class Version:
    """One version of one object; nobody changes ``body``, whoever wants another puts another."""

    __slots__ = ("_raw", "body", "number")

    def __init__(self, body: Object, number: int) -> None:
        """Wrap a body that carries ``number`` as its resourceVersion."""
        self.body = body
        self.number = number
        self._raw: bytes | None = None

    @property
    def raw(self) -> bytes:
        """Return the body as JSON, written once."""
        if self._raw is None:
            self._raw = json.dumps(self.body, separators=(",", ":")).encode()
        return self._raw


class Change:
    """A step of one object: ``old`` is missing at its birth, ``deleted`` marks its end (``new`` is the last sight)."""

    __slots__ = ("deleted", "kind", "new", "number", "old")

    def __init__(self, kind: Kind, old: Version | None, new: Version, *, deleted: bool = False) -> None:
        """Tie the two versions together."""
        self.kind = kind
        self.old = old
        self.new = new
        self.deleted = deleted
        self.number = new.number


class Feed:
    """What one watch has not sent yet."""

    def __init__(self) -> None:
        """Start empty."""
        self.pending: deque[Change] = deque()
        self._news = asyncio.Event()

    def offer(self, change: Change) -> None:
        """Queue a change and wake the watch."""
        self.pending.append(change)
        self._news.set()

    async def wait(self, seconds: float) -> None:
        """Return as soon as something is pending, or after ``seconds``."""
        self._news.clear()
        if self.pending:
            return
        handle = asyncio.get_running_loop().call_later(seconds, self._news.set)
        try:
            await self._news.wait()
        finally:
            handle.cancel()


class Store:
    """All objects by kind, namespace and name; one counter numbers every change, as etcd does."""

    def __init__(self, *, keep: int = OLDEST_KEPT) -> None:
        """Start empty; each kind remembers its last ``keep`` changes."""
        self.version = 1
        self._keep = keep
        self._tables: dict[Kind, dict[str, dict[str, Version]]] = {kind: {} for kind in KINDS}
        self._history: dict[Kind, deque[Change]] = {kind: deque() for kind in KINDS}
        self._floor = dict.fromkeys(KINDS, 0)
        self._feeds: dict[Kind, set[Feed]] = {kind: set() for kind in KINDS}
        self._owned: dict[str, dict[tuple[Kind, str, str], None]] = {}
        self._listeners: list[Callable[[Change], None]] = []

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call ``listener`` after each change, in the order of registration."""
        self._listeners.append(listener)

    def find(self, kind: Kind, namespace: str, name: str) -> Version | None:
        """Return the object's current version; ``namespace`` is empty for kinds without one."""
        return self._tables[kind].get(namespace, {}).get(name)

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Return the object's body."""
        found = self.find(kind, namespace, name)
        return found.body if found else None

    def versions(self, kind: Kind, namespace: str | None = None) -> Iterator[Version]:
        """Yield the objects of a kind by namespace and name; ``None`` means every namespace."""
        table = self._tables[kind]
        for space in sorted(table) if namespace is None else [namespace]:
            rows = table.get(space, {})
            for name in sorted(rows):
                yield rows[name]

    def bodies(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        """Return the bodies of a kind in no particular order."""
        table = self._tables[kind]
        spaces = table.values() if namespace is None else [table.get(namespace, {})]
        return [version.body for rows in spaces for version in rows.values()]

    def count(self, kind: Kind, namespace: str) -> int:
        """Return how many objects of a kind a namespace holds."""
        return len(self._tables[kind].get(namespace, ()))

    def owned(self, uid: str) -> list[tuple[Kind, Object]]:
        """Return the objects that name ``uid`` among their owners, oldest first."""
        found = []
        for kind, namespace, name in self._owned.get(uid, ()):
            body = self.get(kind, namespace, name)
            if body is not None:
                found.append((kind, body))
        return found

    def put(self, kind: Kind, body: Object) -> Object:
        """Store a new version and return it with its resourceVersion."""
        self.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        version = Version({**body, "metadata": metadata}, self.version)
        rows = self._tables[kind].setdefault(metadata.get("namespace", ""), {})
        old = rows.get(metadata["name"])
        rows[metadata["name"]] = version
        self._index(kind, old.body if old else None, version.body)
        self._tell(Change(kind, old, version))
        return version.body

    def remove(self, kind: Kind, namespace: str, name: str) -> Object:
        """Take the object out and return its last sight, numbered like any other change."""
        self.version += 1
        old = self._tables[kind][namespace].pop(name)
        if not self._tables[kind][namespace]:
            del self._tables[kind][namespace]
        metadata = {**old.body["metadata"], "resourceVersion": str(self.version)}
        last = Version({**old.body, "metadata": metadata}, self.version)
        self._index(kind, old.body, None)
        self._tell(Change(kind, old, last, deleted=True))
        return last.body

    def load(self, kind: Kind, body: Object) -> None:
        """Put back a stored version as it was, telling nobody."""
        metadata = body["metadata"]
        number = int(metadata["resourceVersion"])
        rows = self._tables[kind].setdefault(metadata.get("namespace", ""), {})
        rows[metadata["name"]] = Version(body, number)
        self._index(kind, None, body)

    def forget(self) -> None:
        """Drop the history, so that every older position is gone (410)."""
        for kind in KINDS:
            self._history[kind].clear()
            self._floor[kind] = self.version

    def floor(self, kind: Kind) -> int:
        """Return the oldest position from which a watch of ``kind`` can go on."""
        return self._floor[kind]

    def since(self, kind: Kind, number: int) -> list[Change]:
        """Return the changes behind a position that is not below the floor."""
        return [change for change in self._history[kind] if change.number > number]

    def follow(self, kind: Kind) -> Feed:
        """Open a feed of what happens from now on."""
        feed = Feed()
        self._feeds[kind].add(feed)
        return feed

    def unfollow(self, kind: Kind, feed: Feed) -> None:
        """Close a feed."""
        self._feeds[kind].discard(feed)

    def _tell(self, change: Change) -> None:
        history = self._history[change.kind]
        history.append(change)
        if len(history) > self._keep:
            self._floor[change.kind] = history.popleft().number
        for feed in self._feeds[change.kind]:
            feed.offer(change)
        for listener in self._listeners:
            listener(change)

    def _index(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        """Keep the list of owned objects up to date."""
        before = _owners(old)
        after = _owners(new)
        if before == after:
            return
        metadata = (new or old or {})["metadata"]
        key = (kind, metadata.get("namespace", ""), metadata["name"])
        for uid in before:
            mine = self._owned.get(uid, {})
            mine.pop(key, None)
            if not mine:
                self._owned.pop(uid, None)
        for uid in after:
            self._owned.setdefault(uid, {})[key] = None


def _owners(body: Object | None) -> list[str]:
    if body is None:
        return []
    return [owner["uid"] for owner in body["metadata"].get("ownerReferences") or ()]
