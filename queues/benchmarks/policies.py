"""Reference policies in little code: jobs on equal nodes, played from event to event.

With one node they count a pool of units that knows no fragments, as published figures do; with as many nodes as ours
has they place by best fit, and the comparison is fair.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush

Milliseconds = int
Rooms = Sequence[int]
"""Free units on each node."""

NODE = 8
"""Jobs above so many units are several tasks, of whole nodes or else of halves."""


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


def pieces(units: int) -> tuple[int, int]:
    """Return a job's tasks, and the units of each."""
    if units <= NODE:
        return 1, units
    return (units // NODE, NODE) if units % NODE == 0 else (units // 4, 4)


def fits(rooms: Rooms, units: int) -> bool:
    """Whether a job's tasks find room."""
    tasks, size = pieces(units)
    return sum(left // size for left in rooms) >= tasks


def place(rooms: Rooms, units: int) -> list[tuple[int, int]]:
    """Return units by node where the least is left over; the job fits."""
    tasks, size = pieces(units)
    found: list[tuple[int, int]] = []
    for left, node in sorted((left, node) for node, left in enumerate(rooms) if left >= size):
        if tasks:
            count = min(tasks, left // size)
            found.append((node, count * size))
            tasks -= count
    return found


Seen = Callable[[Milliseconds, "Pool"], None]


@dataclass(slots=True)
class Pool:
    """Free units by node, and jobs that wait, first come first."""

    rooms: list[int]
    guaranteed: Mapping[str, int]
    used: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    waiting: dict[int, Request] = field(default_factory=dict)
    running: dict[int, tuple[Milliseconds, Request]] = field(default_factory=dict)
    placed: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    sizes: dict[tuple[str, int], deque[Request]] = field(default_factory=lambda: defaultdict(deque))
    asked: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def arrive(self, row: Request) -> None:
        """Let a job wait."""
        self.waiting[row.id] = row
        self.sizes[row.team, row.units].append(row)
        self.asked[row.team] += row.units

    def start(self, row: Request, now: Milliseconds, rooms: Rooms) -> None:
        """Give a job its units, of those that ``rooms`` leave it."""
        del self.waiting[row.id]
        line = self.sizes[row.team, row.units]
        if line[0] is row:
            line.popleft()
        else:
            line.remove(row)
        self.asked[row.team] -= row.units
        self.placed[row.id] = place(rooms, row.units)
        for node, units in self.placed[row.id]:
            self.rooms[node] -= units
        self.used[row.team] += row.units
        self.running[row.id] = (now + row.limit, row)

    def end(self, row: Request) -> None:
        """Take a job's units back."""
        del self.running[row.id]
        for node, units in self.placed.pop(row.id):
            self.rooms[node] += units
        self.used[row.team] -= row.units


def play(
    requests: list[Request],
    units: int,
    policy: Policy,
    guaranteed: Mapping[str, int],
    *,
    nodes: int = 1,
    seen: Seen | None = None,
) -> dict[int, Milliseconds]:
    """Play all jobs; return when each has started. ``seen`` looks at the pool after every event."""
    pool = Pool(rooms=[units // nodes] * nodes, guaranteed=guaranteed)
    starts: dict[int, Milliseconds] = {}
    ends: list[tuple[Milliseconds, int, Request]] = []
    arrived = 0
    while ends or arrived < len(requests):
        now = min([row.at for row in requests[arrived : arrived + 1]] + [row[0] for row in ends[:1]])
        while ends and ends[0][0] <= now:
            pool.end(heappop(ends)[2])
        while arrived < len(requests) and requests[arrived].at <= now:
            pool.arrive(requests[arrived])
            arrived += 1
        for row in list(_starts(pool, policy, now)):
            starts[row.id] = now
            heappush(ends, (now + row.runs, row.id, row))
        if seen is not None:
            seen(now, pool)
    return starts


def _starts(pool: Pool, policy: Policy, now: Milliseconds) -> Iterator[Request]:
    """Start and yield the jobs whose turn it is and that fit."""
    choose = {Policy.FIFO: _fifo, Policy.GREEDY: _greedy, Policy.EASY: _easy, Policy.FAIR: _fair}[policy]
    while any(pool.rooms) and (found := choose(pool, now)) is not None:
        row, rooms = found
        pool.start(row, now, rooms)
        yield row


Choice = tuple[Request, Rooms] | None
"""A job, and the units that it may take."""


def _fifo(pool: Pool, _: Milliseconds) -> Choice:
    head = next(iter(pool.waiting.values()), None)
    return (head, pool.rooms) if head is not None and fits(pool.rooms, head.units) else None


def _fitting(pool: Pool) -> Iterator[Request]:
    """Yield the first job of each team and size that fits."""
    known: dict[int, bool] = {}
    for (_, units), line in pool.sizes.items():
        if line:
            if units not in known:
                known[units] = fits(pool.rooms, units)
            if known[units]:
                yield line[0]


def _greedy(pool: Pool, _: Milliseconds) -> Choice:
    row = min(_fitting(pool), key=lambda row: row.id, default=None)
    return None if row is None else (row, pool.rooms)


def _fair(pool: Pool, _: Milliseconds) -> Choice:
    """Choose the team with the least in use for its weight, its guarantee being the weight."""
    row = min(
        _fitting(pool),
        key=lambda row: (pool.used[row.team] / max(pool.guaranteed.get(row.team, 0), 0.001), row.id),
        default=None,
    )
    return None if row is None else (row, pool.rooms)


def _easy(pool: Pool, now: Milliseconds) -> Choice:
    """Choose the head where it fits, else the first that does not delay the head's planned start."""
    head = _fifo(pool, now)
    if head is not None or not pool.waiting:
        return head
    first = next(iter(pool.waiting.values()))
    at, spare = _shadow(pool, first.units)
    beside = [min(pair) for pair in zip(pool.rooms, spare, strict=True)]
    now_fit: dict[int, bool] = {}
    beside_fit: dict[int, bool] = {}
    for row in pool.waiting.values():
        units = row.units
        if units not in now_fit:
            now_fit[units], beside_fit[units] = fits(pool.rooms, units), fits(beside, units)
        if beside_fit[units]:
            return row, beside
        if now_fit[units] and now + row.limit <= at:
            return row, pool.rooms
    return None


def _shadow(pool: Pool, units: int) -> tuple[Milliseconds, Rooms]:
    """Return when the head can surely start, and what is left beside it on each node then."""
    rooms = list(pool.rooms)
    for at, row in sorted(pool.running.values(), key=lambda row: (row[0], row[1].id)):
        for node, count in pool.placed[row.id]:
            rooms[node] += count
        if fits(rooms, units):
            for node, count in place(rooms, units):
                rooms[node] -= count
            return at, rooms
    raise ValueError("the head asks for more than the nodes have")
