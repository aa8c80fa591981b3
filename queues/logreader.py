"""One container's log as pieces of lines, read with blocking calls that another thread can end at any moment."""

from collections import deque
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from clusters.port import Cluster, ClusterError, Log, Silent
from queues.logtext import Line, Lines, Stamp
from queues.queries.logs import LogSource

OPEN_SECONDS = 10.0
# A followed log that is silent is asked for anew after this, so that whoever left it does not hold it for longer.
SILENT_SECONDS = 15.0
# Of a tail no more is kept in memory.
TAIL_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What of a log is wanted: the last ``tail`` lines (None: all), or what came ``after`` a moment."""

    tail: int | None = 500
    after: Stamp | None = None
    follow: bool = False
    previous: bool = False
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Lines that came together; ``cut``: older ones are left out before them."""

    lines: tuple[Line, ...] = ()
    cut: bool = False


class LogReader:
    """Reads the tail of a log, then follows it where asked, over as many connections as that takes."""

    def __init__(self, cluster: Cluster, source: LogSource, wanted: Wanted) -> None:
        """Ask for nothing yet."""
        self._cluster, self._source, self._wanted = cluster, source, wanted
        self._lock = Lock()
        self._left = False
        self._log: Log | None = None
        self._last = wanted.after
        self._pieces = self._all()

    def read(self) -> Piece | None:
        """Wait for the next piece; None when the log has ended. Raises the port's errors."""
        return next(self._pieces, None)

    def leave(self) -> None:
        """Want no more: a read in another thread ends soon, and the connection with it."""
        with self._lock:
            self._left = True
            log = self._log
        if log is not None:
            log.shut()
        # Where nobody is inside, this closes the connection; where somebody is, the read's end does.
        with suppress(ValueError):
            self._pieces.close()

    def _all(self) -> Generator[Piece]:
        wanted = self._wanted
        if wanted.tail is None or wanted.after is not None:
            yield from self._read(follow=False)
        else:
            yield self._tail(wanted.tail)
        while wanted.follow and not self._left:
            try:
                yield from self._read(follow=True)
            except Silent:
                yield Piece()
            else:
                return

    def _tail(self, most: int) -> Piece:
        """Return the last lines, one more being asked for to know whether there are older ones."""
        found: deque[Line] = deque()
        size, cut = 0, False
        for piece in self._read(follow=False, tail=most + 1):
            for line in piece.lines:
                found.append(line)
                size += len(line.text)
                while len(found) > most or size > TAIL_BYTES:
                    size -= len(found.popleft().text)
                    cut = True
        return Piece(lines=tuple(found), cut=cut)

    def _read(self, *, follow: bool, tail: int | None = None) -> Generator[Piece]:
        lines = Lines(after=self._last)
        log = self._open(follow=follow, tail=tail)
        try:
            for chunk in log.chunks():
                found = lines.feed(chunk)
                self._last = lines.last
                if found:
                    yield Piece(lines=tuple(found))
        except ClusterError:
            if not self._left:
                raise
        rest = lines.end()
        self._last = lines.last
        if rest:
            yield Piece(lines=tuple(rest))

    def _open(self, *, follow: bool, tail: int | None) -> Log:
        log = self._cluster.logs(
            self._source.namespace,
            self._source.pod,
            container=self._wanted.container or self._source.container,
            tail=tail,
            since=self._last.moment if self._last else None,
            follow=follow,
            previous=self._wanted.previous,
            timestamps=True,
            patience=SILENT_SECONDS if follow else OPEN_SECONDS,
        )
        with self._lock:
            self._log = log
            left = self._left
        if left:
            log.shut()
        return log
