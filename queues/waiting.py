"""The waiting jobs as the rules read them: the first of each user of each class."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from django.db import connection

from queues.admission.world import JobShape, Milliseconds, Waiting
from queues.models import Job

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NONE: Mapping[int, Milliseconds] = MappingProxyType({})

MOST_STEPS = 16
"""Snapshots after which it is still known what has changed since one."""

COLUMNS = (
    "id, job_class_id, user_id, wait_from, submitted_at, waiting_tasks, "
    "queue_id, shape, time_limit, ran_for, grace, evictions"
)
ORDER = "job_class_id, user_id, wait_from, submitted_at, id"
# Times as whole microseconds and lengths as whole milliseconds: numbers are read many times faster than moments.
READ = """
id, job_class_id, user_id, (extract(epoch FROM wait_from) * 1000000)::bigint,
(extract(epoch FROM submitted_at) * 1000000)::bigint, waiting_tasks, queue_id, shape,
floor(extract(epoch FROM time_limit) * 1000)::bigint, floor(extract(epoch FROM ran_for) * 1000)::bigint,
floor(extract(epoch FROM grace) * 1000)::bigint, evictions
"""

# A loose scan of the index `job_heads`: from each pair of class and user it jumps to the next, so that its cost is the
# number of pairs and not of jobs.
_FIRST = f"""
WITH RECURSIVE head AS (
    (SELECT {COLUMNS} FROM queues_job WHERE ready ORDER BY {ORDER} LIMIT 1)
    UNION ALL
    SELECT later.* FROM head CROSS JOIN LATERAL (
        SELECT {COLUMNS} FROM queues_job
        WHERE ready AND (job_class_id, user_id) > (head.job_class_id, head.user_id)
        ORDER BY {ORDER} LIMIT 1
    ) later
)
SELECT {READ} FROM head
"""  # noqa: S608  constants only

# The same for some classes only.
_FIRST_OF = f"""
WITH RECURSIVE head AS (
    SELECT few.* FROM unnest(%s::bigint[]) AS wanted (job_class) CROSS JOIN LATERAL (
        SELECT {COLUMNS} FROM queues_job WHERE ready AND job_class_id = wanted.job_class ORDER BY {ORDER} LIMIT 1
    ) few
    UNION ALL
    SELECT later.* FROM head CROSS JOIN LATERAL (
        SELECT {COLUMNS} FROM queues_job
        WHERE ready AND job_class_id = head.job_class_id AND user_id > head.user_id
        ORDER BY {ORDER} LIMIT 1
    ) later
)
SELECT {READ} FROM head
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


def milliseconds(at: datetime) -> Milliseconds:
    """Return a moment as the rules count time."""
    return span(at - EPOCH)


def moment(at: Milliseconds) -> datetime:
    """Return a time of the rules as a moment."""
    return EPOCH + timedelta(milliseconds=at)


def span(length: timedelta) -> Milliseconds:
    """Return a length of time as the rules count it."""
    return length // timedelta(milliseconds=1)


class First(NamedTuple):
    """The first waiting job of every user of every class as of a snapshot; never changed, only replaced.

    ``rows`` are those of a class by the job's id, ``waiting`` the same as the rules read them, sorted by (wait_from,
    submitted, id). ``read`` counts the rows that had to be read. ``steps`` are the last ones that led here: a mark of
    what was before each, and the classes that it changed.
    """

    rows: dict[int, dict[int, Row]]
    waiting: dict[int, tuple[Waiting, ...]]
    start_limits: Mapping[int, Milliseconds]
    read: int
    mark: object
    steps: tuple[tuple[object, frozenset[int]], ...] = ()

    def changed(self, mark: object) -> frozenset[int] | None:
        """Return the classes that have changed since an earlier mark; None: that is not known."""
        if mark is self.mark:
            return frozenset()
        place = next((place for place, (before, _) in enumerate(self.steps) if before is mark), None)
        return None if place is None else frozenset().union(*(classes for _, classes in self.steps[place:]))


def first(
    start_limits: Mapping[int, Milliseconds] = NONE, before: First | None = None, changed: Collection[int] = ()
) -> First:
    """Return the first waiting jobs: all of them anew, or after ``before`` those of the classes that ``changed``.

    ``start_limits`` tells how long a start may take, by queue.
    """
    if before is not None and not changed and before.start_limits == start_limits:
        return before._replace(read=0)
    found = read(_FIRST, ()) if before is None else read(_FIRST_OF, ([*changed],))
    fresh: dict[int, dict[int, Row]] = defaultdict(dict)
    for row in found:
        fresh[row.job_class][row.id] = row
    if before is None:
        rows = dict(fresh)
    else:
        rows = {**before.rows, **fresh}
        for gone in {*changed} - fresh.keys():
            rows.pop(gone, None)
    steps: tuple[tuple[object, frozenset[int]], ...] = ()
    if before is None or before.start_limits != start_limits:
        waiting = {pk: _sorted(heads.values(), start_limits) for pk, heads in rows.items()}
    else:
        made = {pk: _sorted(heads.values(), start_limits) for pk, heads in fresh.items()}
        waiting = {**before.waiting, **made}
        for gone in {*changed} - fresh.keys():
            waiting.pop(gone, None)
        steps = (*before.steps, (before.mark, frozenset(changed)))
    return First(rows, waiting, start_limits, len(found), object(), steps[-MOST_STEPS:])


def read(sql: str, values: Sequence[Any]) -> list[Row]:
    """Return the rows of a statement that selects ``READ``."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(map(Row._make, cursor.fetchall()))


def _sorted(rows: Iterable[Row], start_limits: Mapping[int, Milliseconds]) -> tuple[Waiting, ...]:
    heads = [waits(row, start_limits) for row in rows]
    return tuple(sorted(heads, key=lambda head: (head.wait_from, head.submitted, head.id)))


def waits(row: Row, start_limits: Mapping[int, Milliseconds], idle: Milliseconds = 0) -> Waiting:
    """Return a row as the rules read it."""
    limit = row.time_limit
    return Waiting(
        id=row.id,
        job_class=row.job_class,
        user=row.user,
        wait_from=row.wait_from // 1000,
        submitted=row.submitted // 1000,
        tasks=row.tasks,
        limit=limit if limit is None or row.shape == JobShape.INDEPENDENT else max(0, limit - row.ran_for),
        # Its units are free for sure when it has started, run and left as late as it may.
        grace=row.grace + start_limits.get(row.queue, 0),
        evictions=row.evictions,
        idle=idle,
    )


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
