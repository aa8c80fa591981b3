"""What has been committed since a snapshot, as the database noted it (``models/change.py``).

A snapshot sees a transaction or does not, and says so (``pg_visible_in_snapshot``). What the newer one sees and the
older one did not is exactly what came in between; the older one's ``xmin`` bounds where to look, since below it all had
ended. Where the two cannot be compared the answer is None: read everything.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import connection

# Notes are kept longer than this (``cleanup``).
LONGEST_SECONDS = 600.0

# Its answer is one row, for ``compare``. Another server, a server that has started again, or a table that was emptied
# or written anew: nothing can be compared.
_TABLES = ("queues_change", "queues_job", "queues_wave", "queues_task", "queues_node", "queues_jobclass")
LOOK = f"""
SELECT pg_current_snapshot()::text, concat_ws(' ', current_database(), pg_postmaster_start_time(),
    {", ".join(f"pg_relation_filenode('{table}')" for table in _TABLES)}), (
    SELECT json_object_agg(kind, ids) FROM (
        SELECT kind, json_agg(DISTINCT of) AS ids FROM queues_change
        WHERE xact >= pg_snapshot_xmin(%(before)s::pg_snapshot)::text::bigint
            AND NOT pg_visible_in_snapshot(xact::text::xid8, %(before)s::pg_snapshot)
        GROUP BY kind
    ) later
)
"""  # noqa: S608  constants only
_HORIZON = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


class Seen(NamedTuple):
    """A snapshot: which transactions it sees, of which database, and when it was taken (monotonic seconds)."""

    snapshot: str
    database: str
    at: float


class Changed(NamedTuple):
    """Ids of what changed: classes with other waiting jobs, jobs that may have waves, waves, nodes."""

    classes: frozenset[int]
    jobs: frozenset[int]
    waves: frozenset[int]
    nodes: frozenset[int]


def since(before: Seen | None, *, at: float) -> str | None:
    """Return the snapshot that ``LOOK`` compares with, where ``before`` can still be compared."""
    return before.snapshot if before is not None and at - before.at <= LONGEST_SECONDS else None


def compare(before: Seen | None, row: Sequence[Any], *, at: float) -> tuple[Seen, Changed | None]:
    """Return what the open transaction sees, and what of that ``before`` did not; None: anything may differ.

    ``row`` is the answer to ``LOOK``, asked for at ``at`` (monotonic seconds).
    """
    snapshot, database, found = row
    seen = Seen(snapshot, database, at)
    if before is None or since(before, at=at) is None or before.database != database:
        return seen, None
    ids = {kind: frozenset(some) for kind, some in (found or {}).items()}
    nothing: frozenset[int] = frozenset()
    return seen, Changed(*(ids.get(kind, nothing) for kind in ("class", "job", "wave", "node")))


def horizon() -> int:
    """Return the number below which all transactions have ended."""
    with connection.cursor() as cursor:
        cursor.execute(_HORIZON)
        return int(cursor.fetchone()[0])
