"""What changed of what the loop reads: noted by the database itself, whoever writes.

Statement triggers on jobs, waves, tasks and nodes note ids together with the number of the transaction. A reader that
knows the snapshot that it saw last finds what has been committed since: what its last snapshot could not see yet. So a
transaction that commits late, with a number long past, is found as well, and nobody has to tell that he wrote.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class Change(models.Model):
    """Something changed in transaction ``xact``: of a ``kind``, the row ``of``.

    A ``mark`` notes below which number all transactions had ended at ``at``: what is older may go when readers have
    gone on.
    """

    class Kind(models.TextChoices):
        """A class whose waiting jobs changed, a job that may have waves, a wave or its tasks, a node."""

        CLASS = "class"
        JOB = "job"
        WAVE = "wave"
        NODE = "node"
        MARK = "mark"

    xact = models.BigIntegerField()
    kind = models.CharField(max_length=5, choices=Kind)
    of = models.BigIntegerField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        """Read by transaction."""

        indexes: ClassVar = [models.Index(name="change_by_transaction", fields=["xact"])]

    def __str__(self) -> str:
        """Return kind and id."""
        return f"{self.kind} {self.of}"


_INSERT, _UPDATE, _DELETE = "NEW TABLE AS fresh", "OLD TABLE AS stale NEW TABLE AS fresh", "OLD TABLE AS stale"
_REFERENCING = {"INSERT": _INSERT, "UPDATE": _UPDATE, "DELETE": _DELETE}
_TABLES = {"INSERT": ("fresh",), "UPDATE": ("stale", "fresh"), "DELETE": ("stale",)}

_NOTE = """
CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queues_change (xact, kind, of)
    SELECT pg_current_xact_id()::text::bigint, kind, of FROM ({rows}) AS found (kind, of);
    RETURN NULL;
END $$;
CREATE TRIGGER {name} AFTER {event} ON {table} REFERENCING {referencing}
    FOR EACH STATEMENT EXECUTE FUNCTION {name}();
"""
_FORGET = "DROP FUNCTION {name}() CASCADE;\n"

# Kind, column, which rows, and whether new rows count as well: of a new job there are no waves.
_ROWS = {
    "queues_job": (("class", "job_class_id", "ready", True), ("job", "id", "true", False)),
    "queues_wave": (("wave", "id", "true", True),),
    "queues_task": (("wave", "wave_id", "true", True),),
    "queues_node": (("node", "id", "true", True),),
}


def triggers() -> str:
    """Return what makes the database note changes; for a migration."""
    return "".join(
        _NOTE.format(
            name=f"{table}_{event.lower()}_noted",
            event=event,
            table=table,
            referencing=_REFERENCING[event],
            rows=_rows(table, event),
        )
        for table in _ROWS
        for event in _TABLES
    )


def no_triggers() -> str:
    """Return what takes the triggers away."""
    return "".join(_FORGET.format(name=f"{table}_{event.lower()}_noted") for table in _ROWS for event in _TABLES)


def _rows(table: str, event: str) -> str:
    return " UNION ".join(
        f"SELECT '{kind}', {column} FROM {source} WHERE {which}"  # noqa: S608  constants only
        for kind, column, which, new in _ROWS[table]
        for source in _TABLES[event]
        if new or event != "INSERT"
    )
