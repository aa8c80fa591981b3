"""The waiting jobs as the rules read them: the first of each user of each class at once, further ones page by page."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from queues.admission.world import Milliseconds, Waiting

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_PAGE = 32
LARGEST_PAGE = 512

_COLUMNS = "id, job_class_id, user_id, wait_from, submitted_at, waiting_tasks"
_ORDER = "job_class_id, user_id, wait_from, submitted_at, id"

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
SELECT * FROM head
"""  # noqa: S608  constants only

_FURTHER = f"""
SELECT {_COLUMNS} FROM queues_job
WHERE ready AND job_class_id = %s AND user_id = %s AND (wait_from, submitted_at, id) > (%s, %s, %s)
ORDER BY {_ORDER} LIMIT %s
"""  # noqa: S608  constants only

_FIRST_FEW = f"""
SELECT few.* FROM unnest(%s::bigint[], %s::bigint[]) AS pair (job_class, owner) CROSS JOIN LATERAL (
    SELECT {_COLUMNS} FROM queues_job WHERE ready AND job_class_id = pair.job_class AND user_id = pair.owner
    ORDER BY {_ORDER} LIMIT %s
) few
"""  # noqa: S608  constants only

Row = tuple[int, int, int, datetime, datetime, int]


def milliseconds(at: datetime) -> Milliseconds:
    """Return a moment as the rules count time."""
    return span(at - EPOCH)


def span(length: timedelta) -> Milliseconds:
    """Return a length of time as the rules count it."""
    return length // timedelta(milliseconds=1)


class StoredHeads:
    """The waiting jobs of one snapshot; to be read while its transaction is open. ``rows`` counts what was read."""

    def __init__(self) -> None:
        """Read the first waiting job of every user of every class."""
        self.rows = 0
        self._order: dict[int, tuple[datetime, datetime]] = {}
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
            rows: list[Row] = cursor.fetchall()
        self.rows += len(rows)
        # The rules know milliseconds; pages go on from the exact moment.
        self._order.update({row[0]: (row[3], row[4]) for row in rows})
        return [_waiting(row) for row in rows]


def _waiting(row: Row) -> Waiting:
    job, job_class, user, wait_from, submitted, tasks = row
    return Waiting(
        id=job,
        job_class=job_class,
        user=user,
        wait_from=milliseconds(wait_from),
        submitted=milliseconds(submitted),
        tasks=tasks,
    )
