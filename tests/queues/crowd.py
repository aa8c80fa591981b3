"""Many waiting jobs at once, copied from one by the database itself."""

from django.db import connection

from queues.models import Job

_COPY = """
INSERT INTO queues_job ({columns})
SELECT {values} FROM queues_job job, generate_series(1, %(count)s) AS number
WHERE job.id = %(job)s
"""


def copy(job: Job, count: int) -> None:
    """Let ``count`` further jobs wait that are like ``job``, each a second later."""
    columns = [str(field.column) for field in Job._meta.concrete_fields if field.column != "id"]  # noqa: SLF001
    changed = {
        "uid": "gen_random_uuid()",
        "external_id": "NULL",
        "submitted_at": "job.submitted_at + number * interval '1 second'",
        "wait_from": "job.wait_from + number * interval '1 second'",
    }
    sql = _COPY.format(columns=", ".join(columns), values=", ".join(changed.get(c, f"job.{c}") for c in columns))
    with connection.cursor() as cursor:
        cursor.execute(sql, {"count": count, "job": job.id})
        cursor.execute("ANALYZE queues_job")
