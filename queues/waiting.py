"""The waiting jobs as the rules read them: the first of each user of each class at once, further ones page by page."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from django.db import connection

from queues.admission.world import JobShape, Milliseconds, Waiting
from queues.models import Job

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NONE: Mapping[int, Milliseconds] = MappingProxyType({})
FIRST_PAGE = 32
LARGEST_PAGE = 512

_COLUMNS = (
    "id, job_class_id, user_id, wait_from, submitted_at, waiting_tasks, "
    "queue_id, shape, time_limit, ran_for, grace, evictions"
)
_ORDER = "job_class_id, user_id, wait_from, submitted_at, id"
# Times as whole microseconds and lengths as whole milliseconds: numbers are read many times faster than moments.
_READ = """
id, job_class_id, user_id, (extract(epoch FROM wait_from) * 1000000)::bigint,
(extract(epoch FROM submitted_at) * 1000000)::bigint, waiting_tasks, queue_id, shape,
floor(extract(epoch FROM time_limit) * 1000)::bigint, floor(extract(epoch FROM ran_for) * 1000)::bigint,
floor(extract(epoch FROM grace) * 1000)::bigint, evictions
"""

# A loose scan of the index `job_heads`: from each pair of class and user it jumps to the next, so that its cost is the
# number of pairs and not of jobs.
_FIRST = f"""
WITH RECURSIVE head AS (
    (SELECT {_COLUMNS} FROM queues_job WHERE ready ORDER BY {_ORDER} LIMIT 1)
    UNION ALL
    SELECT later.* FROM head CROSS JOIN LATERAL (
        SELECT {_COLUMNS} FROM queues_job
        WHERE ready AND (job_class_id, user_id) > (head.job_class_id, head.user_id)
        ORDER BY {_ORDER} LIMIT 1
    ) later
)
SELECT {_READ} FROM head
"""  # noqa: S608  constants only

_FURTHER = f"""
SELECT {_READ} FROM queues_job
WHERE ready AND job_class_id = %s AND user_id = %s AND (wait_from, submitted_at, id)
    > ('epoch'::timestamptz + %s * interval '1 microsecond', 'epoch'::timestamptz + %s * interval '1 microsecond', %s)
ORDER BY {_ORDER} LIMIT %s
"""  # noqa: S608  constants only

_FIRST_FEW = f"""
SELECT {_READ} FROM unnest(%s::bigint[], %s::bigint[]) AS pair (job_class, owner) CROSS JOIN LATERAL (
    SELECT {_COLUMNS} FROM queues_job WHERE ready AND job_class_id = pair.job_class AND user_id = pair.owner
    ORDER BY {_ORDER} LIMIT %s
) few
"""  # noqa: S608  constants only


class Row(NamedTuple):
    """A waiting job as it is read: moments in microseconds, lengths in milliseconds."""

    id: int
    job_class: int
    user: int
    wait_from: int
    submitted: int
    tasks: int
    queue: int
    shape: str
    time_limit: Milliseconds | None
    ran_for: Milliseconds
    grace: Milliseconds
    evictions: int


# What was made of rows that were read before: an equal row gives an equal value.
_known: dict[int, tuple[tuple[Row, Milliseconds, Milliseconds], Waiting]] = {}
MOST_KNOWN = 500_000


def milliseconds(at: datetime) -> Milliseconds:
    """Return a moment as the rules count time."""
    return span(at - EPOCH)


def moment(at: Milliseconds) -> datetime:
    """Return a time of the rules as a moment."""
    return EPOCH + timedelta(milliseconds=at)


def span(length: timedelta) -> Milliseconds:
    """Return a length of time as the rules count it."""
    return length // timedelta(milliseconds=1)


class StoredHeads:
    """The waiting jobs of one snapshot; to be read while its transaction is open. ``rows`` counts what was read."""

    def __init__(
        self, start_limits: Mapping[int, Milliseconds] = NONE, idle: Mapping[int, Milliseconds] = NONE
    ) -> None:
        """Read the first waiting job of every user of every class.

        ``start_limits`` tells how long a start may take, by queue, ``idle`` what jobs have kept idle so far.
        ``first_rows`` are the rows that were read.
        """
        self.rows = 0
        self._start_limits = start_limits
        self._idle = idle
        self._order: dict[int, tuple[int, int]] = {}
        self.first_rows: list[Row] = []
        self._first: dict[int, list[Waiting]] = {}
        for waiting in self._read(_FIRST, ()):
            self._first.setdefault(waiting.job_class, []).append(waiting)
        for heads in self._first.values():
            heads.sort(key=lambda head: (head.wait_from, head.submitted, head.id))

    @property
    def classes(self) -> tuple[int, ...]:
        """Return the classes that have waiting jobs, by id."""
        return tuple(sorted(self._first))

    def users(self, job_class: int) -> tuple[Waiting, ...]:
        """Return the first waiting job of each user of the class, sorted by (wait_from, submitted, id)."""
        return tuple(self._first.get(job_class, ()))

    def after(self, job_class: int, user: int, last: Waiting) -> Iterator[Waiting]:
        """Yield the user's further jobs of the class behind ``last``, in the same order, reading pages as needed."""
        size = FIRST_PAGE
        while True:
            page = self._read(_FURTHER, (job_class, user, *self._order[last.id], last.id, size))
            yield from page
            if len(page) < size:
                return
            last, size = page[-1], min(2 * size, LARGEST_PAGE)

    def first(self, each: int) -> tuple[Waiting, ...]:
        """Return the first ``each`` waiting jobs of every user of every class, in one statement."""
        pairs = [(row.job_class, row.user) for rows in self._first.values() for row in rows]
        return tuple(self._read(_FIRST_FEW, ([one for one, _ in pairs], [user for _, user in pairs], each)))

    def _read(self, sql: str, values: Sequence[Any]) -> list[Waiting]:
        with connection.cursor() as cursor:
            cursor.execute(sql, values)
            rows = list(map(Row._make, cursor.fetchall()))
        self.rows += len(rows)
        self.first_rows = self.first_rows or rows
        # The rules know milliseconds; pages go on from the exact moment.
        self._order.update({row.id: (row.wait_from, row.submitted) for row in rows})
        return [self._waiting(row) for row in rows]

    def _waiting(self, row: Row) -> Waiting:
        start_limit, idle = self._start_limits.get(row.queue, 0), self._idle.get(row.id, 0)
        known = _known.get(row.id)
        if known is not None and known[0] == (row, start_limit, idle):
            return known[1]
        if len(_known) > MOST_KNOWN:
            _known.clear()
        limit = row.time_limit
        waiting = Waiting(
            id=row.id,
            job_class=row.job_class,
            user=row.user,
            wait_from=row.wait_from // 1000,
            submitted=row.submitted // 1000,
            tasks=row.tasks,
            limit=limit if limit is None or row.shape == JobShape.INDEPENDENT else max(0, limit - row.ran_for),
            # Its units are free for sure when it has started, run and left as late as it may.
            grace=row.grace + start_limit,
            evictions=row.evictions,
            idle=idle,
        )
        _known[row.id] = ((row, start_limit, idle), waiting)
        return waiting


def waiting_of(job: Job) -> Waiting:
    """Return one job as it waits, as far as bounds need to know it."""
    left = time_left(job.time_limit, job.ran_for, job.shape)
    return Waiting(
        id=job.id,
        job_class=job.job_class_id,
        user=job.user_id,
        wait_from=milliseconds(job.wait_from),
        submitted=milliseconds(job.submitted_at),
        tasks=job.waiting_tasks,
        limit=None if left is None else span(left),
        grace=span(job.grace),
        evictions=job.evictions,
    )


def time_left(limit: timedelta | None, ran_for: timedelta, shape: str) -> timedelta | None:
    """Return how long a wave may run from its start.

    A gang's attempts share the job's limit; each task of an independent job starts with all of it.
    """
    if limit is None or shape == JobShape.INDEPENDENT:
        return limit
    return max(limit - ran_for, timedelta())
