"""Bytes of a container's log as lines with their times: pure, bounded in memory whatever arrives."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

# A line that is longer comes in pieces of this size.
LONGEST_LINE = 64 * 2**10
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Stamp:
    """When a line was written, to the nanosecond."""

    seconds: int
    nanos: int

    @classmethod
    def read(cls, text: str) -> "tuple[Stamp, str] | None":
        """Return the time at a text's start and what follows it; None where there is none."""
        found = _STAMP.match(text)
        if found is None:
            return None
        whole = datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00"))
        nanos = int((found[2] or "0").ljust(9, "0"))
        return cls(seconds=int(whole.timestamp()), nanos=nanos), text[found.end() :]

    @property
    def moment(self) -> datetime:
        """Return its whole second."""
        return datetime.fromtimestamp(self.seconds, tz=UTC)

    def __str__(self) -> str:
        """Return it as Kubernetes writes times."""
        return f"{self.moment:%Y-%m-%dT%H:%M:%S}.{self.nanos:09d}Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line without its end; ``at`` is None for the rest of a line that was too long."""

    text: str
    at: Stamp | None = None

    def render(self, *, timestamps: bool) -> str:
        """Return the line, with its time before it where asked."""
        return f"{self.at} {self.text}" if timestamps and self.at else self.text


class Lines:
    """Cuts chunks into lines, and passes over what is not newer than ``after``."""

    def __init__(self, *, after: Stamp | None = None) -> None:
        """Start behind a time."""
        self.last = after
        self._after = after
        self._rest = b""
        self._passing = False

    def feed(self, chunk: bytes) -> list[Line]:
        """Return the lines that a chunk ends."""
        *whole, rest = (self._rest + chunk).split(b"\n")
        while len(rest) > LONGEST_LINE:
            whole.append(rest[:LONGEST_LINE])
            rest = rest[LONGEST_LINE:]
        self._rest = rest
        return self._lines(whole)

    def end(self) -> list[Line]:
        """Return what stands behind the last line end."""
        rest, self._rest = self._rest, b""
        return self._lines([rest] if rest else [])

    def _lines(self, raw: list[bytes]) -> list[Line]:
        found = (self._line(each.decode("utf-8", "replace")) for each in raw)
        return [line for line in found if line is not None]

    def _line(self, text: str) -> Line | None:
        stamped = Stamp.read(text)
        if stamped is None:
            return None if self._passing else Line(text=text)
        at, words = stamped
        self._passing = self._after is not None and at <= self._after
        if self._passing:
            return None
        self.last = at
        return Line(text=words, at=at)
