"""Watches: what happened since a position, then what happens, as a stream of lines."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from clusters.emulator.errors import expired
from clusters.emulator.kinds import Kind
from clusters.emulator.selectors import Test
from clusters.emulator.store import Change, Feed, Store, Version

BOOKMARK_EVERY = 60.0
INITIAL_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What a watch asks for; ``since`` None means: first all that is there."""

    kind: Kind
    namespace: str | None
    test: Test
    since: int | None
    seconds: float
    bookmarks: bool = False
    mark_initial: bool = False


async def watch(store: Store, wish: Watch, monotonic: Callable[[], float]) -> AsyncIterator[bytes]:
    """Yield events in batches until the time is over."""
    if wish.since is not None and wish.since < store.floor(wish.kind):
        yield too_old(wish.since, store.floor(wish.kind))
        return
    end = monotonic() + wish.seconds
    feed = store.follow(wish.kind)
    try:
        yield _backlog(store, wish)
        next_bookmark = monotonic() + BOOKMARK_EVERY
        while (left := end - monotonic()) > 0:
            await feed.wait(min(left, max(next_bookmark - monotonic(), 0.0)) if wish.bookmarks else left)
            batch = b"".join(told(wish, change) for change in _drain(feed))
            if wish.bookmarks and monotonic() >= min(next_bookmark, end):
                next_bookmark = monotonic() + BOOKMARK_EVERY
                batch += bookmark(wish.kind, store.version)
            if batch:
                yield batch
    finally:
        store.unfollow(wish.kind, feed)


def _drain(feed: Feed) -> Iterator[Change]:
    while feed.pending:
        yield feed.pending.popleft()


def _backlog(store: Store, wish: Watch) -> bytes:
    """Return what the watcher missed, or all that is there."""
    if wish.since is not None:
        return b"".join(told(wish, change) for change in store.since(wish.kind, wish.since))
    there = b"".join(
        _line("ADDED", version) for version in store.versions(wish.kind, wish.namespace) if wish.test(version.body)
    )
    return there + bookmark(wish.kind, store.version, initial=True) if wish.mark_initial else there


def _line(kind: str, version: Version) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), version.raw)


def told(wish: Watch, change: Change) -> bytes:
    """Return the event that a watch gets of a change: nothing when it neither sees nor saw the object."""
    body = change.new.body
    if wish.namespace is not None and body["metadata"].get("namespace", "") != wish.namespace:
        return b""
    saw = change.old is not None and wish.test(change.old.body)
    if change.deleted:
        return _line("DELETED", change.new) if saw else b""
    if wish.test(body):
        return _line("MODIFIED" if saw else "ADDED", change.new)
    return _line("DELETED", change.new) if saw else b""


def bookmark(kind: Kind, number: int, *, initial: bool = False) -> bytes:
    """Return the event that only moves the watcher's position."""
    metadata: dict[str, object] = {"resourceVersion": str(number)}
    if initial:
        metadata["annotations"] = {INITIAL_END: "true"}
    body = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    return json.dumps({"type": "BOOKMARK", "object": body}).encode() + b"\n"


def too_old(since: int, floor: int) -> bytes:
    """Return the event that sends the watcher back to list."""
    refusal = expired(f"too old resource version: {since} ({floor})")
    return json.dumps({"type": "ERROR", "object": refusal.status()}).encode() + b"\n"
