"""Reference policies in little code: jobs on a pool of equal units, played from event to event.

A pool knows units only: no nodes, no fragments. Ours has real nodes, so the comparison is not in its favour.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush

Milliseconds = int


class Policy(StrEnum):
    """Which waiting job starts next."""

    FIFO = "fifo"
    GREEDY = "greedy"
    EASY = "easy"
    FAIR = "weighted fair"


@dataclass(frozen=True, slots=True)
class Request:
    """A job: its number in order of arrival, team, units, real run time and the limit that schedulers know."""

    id: int
    team: str
    at: Milliseconds
    units: int
    runs: Milliseconds
    limit: Milliseconds


Seen = Callable[[Milliseconds, "Pool"], None]


@dataclass(slots=True)
class Pool:
    """Units in use and jobs that wait, first come first."""

    units: int
    guaranteed: Mapping[str, int]
    free: int = 0
    used: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    waiting: dict[int, Request] = field(default_factory=dict)
    running: dict[int, tuple[Milliseconds, Request]] = field(default_factory=dict)
    sizes: dict[tuple[str, int], deque[Request]] = field(default_factory=lambda: defaultdict(deque))
    asked: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def arrive(self, row: Request) -> None:
        """Let a job wait."""
        self.waiting[row.id] = row
        self.sizes[row.team, row.units].append(row)
        self.asked[row.team] += row.units

    def start(self, row: Request, now: Milliseconds) -> None:
        """Give a job its units."""
        del self.waiting[row.id]
        line = self.sizes[row.team, row.units]
        if line[0] is row:
            line.popleft()
        else:
            line.remove(row)
        self.asked[row.team] -= row.units
        self.free -= row.units
        self.used[row.team] += row.units
        self.running[row.id] = (now + row.limit, row)

    def end(self, row: Request) -> None:
        """Take a job's units back."""
        del self.running[row.id]
        self.free += row.units
        self.used[row.team] -= row.units


def play(
    requests: list[Request], units: int, policy: Policy, guaranteed: Mapping[str, int], *, seen: Seen | None = None
) -> dict[int, Milliseconds]:
    """Play all jobs; return when each has started. ``seen`` looks at the pool after every event."""
    pool = Pool(units=units, guaranteed=guaranteed, free=units)
    starts: dict[int, Milliseconds] = {}
    ends: list[tuple[Milliseconds, int, Request]] = []
    place = 0
    while ends or place < len(requests):
        now = min([row.at for row in requests[place : place + 1]] + [row[0] for row in ends[:1]])
        while ends and ends[0][0] <= now:
            pool.end(heappop(ends)[2])
        while place < len(requests) and requests[place].at <= now:
            pool.arrive(requests[place])
            place += 1
        for row in list(_starts(pool, policy, now)):
            starts[row.id] = now
            heappush(ends, (now + row.runs, row.id, row))
        if seen is not None:
            seen(now, pool)
    return starts


def _starts(pool: Pool, policy: Policy, now: Milliseconds) -> Iterator[Request]:
    """Start and yield the jobs whose turn it is and that fit."""
    choose = {Policy.FIFO: _fifo, Policy.GREEDY: _greedy, Policy.EASY: _easy, Policy.FAIR: _fair}[policy]
    while pool.free and (row := choose(pool, now)) is not None:
        pool.start(row, now)
        yield row


def _fifo(pool: Pool, _: Milliseconds) -> Request | None:
    head = next(iter(pool.waiting.values()), None)
    return head if head is not None and head.units <= pool.free else None


def _fitting(pool: Pool) -> Iterator[Request]:
    """Yield the first job of each team and size that fits."""
    return (line[0] for (_, units), line in pool.sizes.items() if line and units <= pool.free)


def _greedy(pool: Pool, _: Milliseconds) -> Request | None:
    return min(_fitting(pool), key=lambda row: row.id, default=None)


def _fair(pool: Pool, _: Milliseconds) -> Request | None:
    """Choose the team with the least in use for its weight, its guarantee being the weight."""
    return min(
        _fitting(pool),
        key=lambda row: (pool.used[row.team] / max(pool.guaranteed.get(row.team, 0), 0.001), row.id),
        default=None,
    )


def _easy(pool: Pool, now: Milliseconds) -> Request | None:
    """Choose the head where it fits, else the first that does not delay the head's planned start."""
    head = _fifo(pool, now)
    if head is not None or not pool.waiting:
        return head
    first = next(iter(pool.waiting.values()))
    at, spare = _shadow(pool, first.units)
    for row in pool.waiting.values():
        if row.units <= pool.free and (now + row.limit <= at or row.units <= spare):
            return row
    return None


def _shadow(pool: Pool, units: int) -> tuple[Milliseconds, int]:
    """Return when the head can surely start, and how many units are left beside it then."""
    free = pool.free
    for at, row in sorted(pool.running.values(), key=lambda row: (row[0], row[1].id)):
        free += row.units
        if free >= units:
            return at, free - units
    raise ValueError("the head asks for more than the pool has")
