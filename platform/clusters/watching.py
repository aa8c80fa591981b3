"""Several watches of the Kubernetes API as one iterator of changes, bounded in time whatever the network does."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Protocol, TypeAlias

from clusters import answers
from clusters.port import Change, ClusterError, DevicesSeen, Gone, NodeSeen, Offer, PodSeen, Unreachable, WaveSeen

# What an object that is not shaped as Kubernetes shapes it raises when it is read.
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError)

# A stream that ends sooner than this without a word is a fault, not the server's time-out.
_SHORTEST_STREAM = 1.0
# Readers that do not wake up in this time end by their own time-outs.
_JOIN_SECONDS = 2.0

Seen: TypeAlias = NodeSeen | PodSeen | WaveSeen | Offer | DevicesSeen
Meaning: TypeAlias = Callable[[bool], Seen]
"""What an event means, once it is said whether it is a deletion."""
Parse: TypeAlias = Callable[[Mapping[str, Any]], "Seen | Meaning | None"]
"""Reads an object; None where it is none of our business."""


class Stream(Protocol):
    """An open watch."""

    def lines(self) -> Iterator[bytes]:
        """Yield whole lines until the stream ends; raise Unreachable where it breaks."""
        ...

    def shut(self) -> None:
        """End the stream from another thread: its lines end soon."""
        ...


class Silence:
    """The stream of what may not be watched: it says nothing until it is shut."""

    def __init__(self) -> None:
        """Say nothing."""
        self._over = Event()

    def lines(self) -> Iterator[bytes]:
        """Wait for the end."""
        self._over.wait()
        yield from ()

    def shut(self) -> None:
        """End it."""
        self._over.set()


Open: TypeAlias = Callable[[str, str, float], Stream]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """What one stream says: a position, with a change unless it is a bookmark."""

    kind: str
    version: str
    seen: Seen | None
    deleted: bool


_Said: TypeAlias = "_Word | ClusterError"


@dataclass(slots=True, kw_only=True)
class _Hub:
    """What readers and the merged iterator share."""

    said: SimpleQueue[_Said] = field(default_factory=SimpleQueue)
    ending: Event = field(default_factory=Event)
    lock: Lock = field(default_factory=Lock)
    streams: dict[str, Stream] = field(default_factory=dict)

    def admit(self, kind: str, stream: Stream) -> None:
        """Remember an open stream; one that comes too late is shut at once."""
        with self.lock:
            self.streams[kind] = stream
        if self.ending.is_set():
            stream.shut()

    def end(self) -> None:
        """Ask every reader to stop."""
        self.ending.set()
        with self.lock:
            streams = tuple(self.streams.values())
        for stream in streams:
            stream.shut()


def changes(
    open_stream: Open, kinds: Mapping[str, Parse], position: Mapping[str, str], *, seconds: float
) -> Iterator[Change]:
    """Yield what happens to all kinds behind a position for at most so many seconds; raise Gone or Unreachable."""
    missing = sorted(kind for kind in kinds if not position.get(kind))
    if missing:
        raise Gone(f"the position lacks {', '.join(missing)}: list first")
    deadline = time.monotonic() + seconds
    hub = _Hub()
    readers = [
        Thread(
            target=_read,
            args=(hub, open_stream, kind, parse, position[kind], deadline),
            name=f"watch-{kind}",
            daemon=True,
        )
        for kind, parse in kinds.items()
    ]
    for reader in readers:
        reader.start()
    try:
        yield from _merge(hub, dict(position), deadline)
    finally:
        hub.end()
        patience = time.monotonic() + _JOIN_SECONDS
        for reader in readers:
            reader.join(max(0.0, patience - time.monotonic()))


def _merge(hub: _Hub, position: dict[str, str], deadline: float) -> Iterator[Change]:
    while (left := deadline - time.monotonic()) > 0:
        try:
            said = hub.said.get(timeout=left)
        except Empty:
            return
        if isinstance(said, ClusterError):
            raise said
        position[said.kind] = said.version
        if said.seen is not None:
            yield Change(seen=said.seen, deleted=said.deleted, position=dict(position))


def _read(hub: _Hub, open_stream: Open, kind: str, parse: Parse, version: str, deadline: float) -> None:
    """Follow one kind in its own thread, over as many streams as the time takes."""
    try:
        while (left := deadline - time.monotonic()) > 0 and not hub.ending.is_set():
            version = _read_stream(hub, open_stream, kind, parse, version, left)
    except ClusterError as error:
        hub.said.put(error)
    except UNREADABLE as error:
        hub.said.put(Unreachable(f"the watch of {kind} sent something that cannot be read: {error}"))


def _read_stream(hub: _Hub, open_stream: Open, kind: str, parse: Parse, version: str, left: float) -> str:
    """Read one stream to its end and return the position that it reached."""
    opened, heard = time.monotonic(), False
    stream = open_stream(kind, version, left)
    hub.admit(kind, stream)
    try:
        for line in stream.lines():
            word = _word(kind, parse, line)
            version, heard = word.version, True
            hub.said.put(word)
    except Unreachable:
        # Cut in the middle: go on from where it was, unless that happens every time.
        if not _was_of_use(opened, heard=heard):
            raise
    if not hub.ending.is_set() and not _was_of_use(opened, heard=heard):
        raise Unreachable(f"the watch of {kind} ends as soon as it is opened")
    return version


def _was_of_use(opened: float, *, heard: bool) -> bool:
    return heard or time.monotonic() - opened >= _SHORTEST_STREAM


def _word(kind: str, parse: Parse, line: bytes) -> _Word:
    event = json.loads(line)
    thing, deleted = event["object"], event["type"] == "DELETED"
    match event["type"]:
        case "ERROR":
            raise answers.error(int(thing.get("code") or 0), json.dumps(thing).encode(), {})
        case "BOOKMARK":
            seen = None
        case _:
            found = parse(thing)
            seen = found(deleted) if callable(found) else found
    return _Word(kind=kind, version=thing["metadata"]["resourceVersion"], seen=seen, deleted=deleted)
