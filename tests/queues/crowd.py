"""Many waiting jobs at once, copied from one by the database itself."""

from collections.abc import Iterable

from django.db import connection

from queues.models import Job

_COPY = """
INSERT INTO queues_job ({columns})
SELECT {values} FROM queues_job job, generate_series(1, %(count)s) AS number
WHERE job.id = ANY(%(jobs)s)
"""


def copy(job: Job, count: int) -> None:
    """Let ``count`` further jobs wait that are like ``job``, each a second later."""
    copy_each([job], count)


def copy_each(jobs: Iterable[Job], count: int) -> None:
    """Let ``count`` further jobs wait that are like each of ``jobs``."""
    columns = [str(field.column) for field in Job._meta.concrete_fields if field.column != "id"]  # noqa: SLF001
    changed = {
        "uid": "gen_random_uuid()",
        "external_id": "NULL",
        "submitted_at": "job.submitted_at + number * interval '1 second'",
        "wait_from": "job.wait_from + number * interval '1 second'",
    }
    sql = _COPY.format(columns=", ".join(columns), values=", ".join(changed.get(c, f"job.{c}") for c in columns))
    with connection.cursor() as cursor:
        cursor.execute(sql, {"count": count, "jobs": [job.id for job in jobs]})
        cursor.execute("ANALYZE queues_job")
