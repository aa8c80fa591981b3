"""The waiting jobs of one snapshot: the first of each line at once, further ones as they are asked for.

A line is what one user has waiting in one class. Who goes through many lines says so first (``expect``); then each
statement reads on in many of them, so that the number of statements does not grow with the number of lines.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice

from queues.admission.world import Milliseconds, Waiting
from queues.waiting import COLUMNS, NONE, ORDER, READ, First, Row, read, waits

# A line that nobody expected is read in pages, each twice as long as the one before.
FIRST_PAGE = 32
LARGEST_PAGE = 512
# Of lines that are expected so many jobs are read at once, in all and of each at least; in all twice as many each time.
FIRST_LOT = 512
LEAST_EACH = 4

Key = tuple[int, int]
"""Class and user."""

_FURTHER = f"""
SELECT {READ} FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
    AS line (job_class, owner, since, submitted, last)
CROSS JOIN LATERAL (
    SELECT {COLUMNS} FROM queues_job
    WHERE ready AND job_class_id = line.job_class AND user_id = line.owner AND (wait_from, submitted_at, id) > (
        'epoch'::timestamptz + line.since * interval '1 microsecond',
        'epoch'::timestamptz + line.submitted * interval '1 microsecond', line.last)
    ORDER BY {ORDER} LIMIT %s
) few
"""  # noqa: S608  constants only

_FIRST_FEW = f"""
SELECT {READ} FROM unnest(%s::bigint[], %s::bigint[]) AS line (job_class, owner) CROSS JOIN LATERAL (
    SELECT {COLUMNS} FROM queues_job WHERE ready AND job_class_id = line.job_class AND user_id = line.owner
    ORDER BY {ORDER} LIMIT %s
) few
"""  # noqa: S608  constants only


class _Line:
    """What has been read of a line behind its first job."""

    __slots__ = ("jobs", "last", "page", "whole")

    def __init__(self, head: Row) -> None:
        self.last = head
        self.jobs: list[Waiting] = []
        self.page = FIRST_PAGE
        self.whole = False


class StoredHeads:
    """The waiting jobs of one snapshot; to be read while its transaction is open. ``rows`` counts what was read."""

    def __init__(self, found: First, idle: Mapping[int, Milliseconds] = NONE) -> None:
        """Take the first waiting jobs; ``idle`` tells what jobs have kept idle so far."""
        self.rows = found.read
        self._found = found
        self._idle = idle
        self._kept_idle: dict[int, tuple[Waiting, ...]] = {}
        self._firsts: dict[int, dict[int, Row]] = {}
        self._lines: dict[Key, _Line] = {}
        self._expected: tuple[Waiting, ...] = ()
        self._place: dict[Key, int] = {}
        self._lot = FIRST_LOT

    @property
    def classes(self) -> tuple[int, ...]:
        """Return the classes that have waiting jobs, by id."""
        return tuple(sorted(self._found.waiting))

    def users(self, job_class: int) -> tuple[Waiting, ...]:
        """Return the first waiting job of each user of the class, sorted by (wait_from, submitted, id)."""
        heads = self._found.waiting.get(job_class, ())
        if not self._idle or self._idle.keys().isdisjoint(self._found.rows.get(job_class, ())):
            return heads
        if job_class not in self._kept_idle:
            self._kept_idle[job_class] = tuple(replace(head, idle=self._idle.get(head.id, 0)) for head in heads)
        return self._kept_idle[job_class]

    def changed(self, mark: object) -> tuple[object, frozenset[int] | None]:
        """Return a mark of who is first now, and the classes that differ from an earlier mark; None: unknown."""
        return self._found.mark, self._found.changed(mark)

    def expect(self, heads: Iterable[Waiting]) -> None:
        """Be told behind which first jobs further ones may be asked for, likeliest first."""
        self._expected = tuple(heads)
        self._place = {(head.job_class, head.user): place for place, head in enumerate(self._expected)}
        self._lot = FIRST_LOT

    def after(self, job_class: int, user: int, last: Waiting) -> Iterator[Waiting]:
        """Yield the user's further jobs of the class behind ``last``, in the same order, reading on as needed.

        ``last`` is the user's first job, or one that was found here.
        """
        line = self._line(job_class, user)
        place = next((place for place, job in enumerate(line.jobs, 1) if job.id == last.id), 0)
        while True:
            while place < len(line.jobs):
                yield line.jobs[place]
                place += 1
            if line.whole:
                return
            self._read_on((job_class, user))

    def first(self, each: int) -> tuple[Waiting, ...]:
        """Return the first ``each`` waiting jobs of every user of every class, in one statement."""
        pairs = [(row.job_class, row.user) for rows in self._found.rows.values() for row in rows.values()]
        rows = read(_FIRST_FEW, ([one for one, _ in pairs], [user for _, user in pairs], each))
        self.rows += len(rows)
        return tuple(map(self._waiting, rows))

    def _line(self, job_class: int, user: int) -> _Line:
        line = self._lines.get((job_class, user))
        if line is None:
            if job_class not in self._firsts:
                self._firsts[job_class] = {row.user: row for row in self._found.rows[job_class].values()}
            line = self._lines[job_class, user] = _Line(self._firsts[job_class][user])
        return line

    def _read_on(self, key: Key) -> None:
        """Read on in a line, and in those that are expected after it as far as they are known no further."""
        if key in self._place:
            self._read_lot(key)
            return
        line = self._lines[key]
        self._read([line], line.page)
        line.page = min(2 * line.page, LARGEST_PAGE)

    def _read_lot(self, key: Key) -> None:
        known = len(self._lines[key].jobs)
        each = max(LEAST_EACH, 2 * known)
        place = self._place[key]
        turn = chain(islice(self._expected, place, None), islice(self._expected, place))
        lines = (self._line(head.job_class, head.user) for head in turn)
        short = list(islice((line for line in lines if not line.whole and len(line.jobs) <= known), self._lot // each))
        short = short or [self._lines[key]]
        self._read(short, min(max(each, self._lot // len(short)), LARGEST_PAGE))
        self._lot *= 2

    def _read(self, lines: list[_Line], each: int) -> None:
        """Read up to ``each`` further jobs of some lines, in one statement."""
        ends = [line.last for line in lines]
        rows = read(
            _FURTHER,
            (
                [row.job_class for row in ends],
                [row.user for row in ends],
                [row.wait_from for row in ends],
                [row.submitted for row in ends],
                [row.id for row in ends],
                each,
            ),
        )
        self.rows += len(rows)
        counts = dict.fromkeys(((row.job_class, row.user) for row in ends), 0)
        for row in rows:
            key = row.job_class, row.user
            line = self._lines[key]
            line.jobs.append(self._waiting(row))
            line.last = row
            counts[key] += 1
        for key, count in counts.items():
            self._lines[key].whole = count < each

    def _waiting(self, row: Row) -> Waiting:
        return waits(row, self._found.start_limits, self._idle.get(row.id, 0))
