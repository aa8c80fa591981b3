"""The database notes what changes of what the loop reads (queues/models/change.py says why)."""

from typing import ClassVar

from django.db import migrations

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
    """Return what makes the database note changes."""
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


class Migration(migrations.Migration):
    """Twelve triggers: three events of four tables."""

    dependencies: ClassVar = [("queues", "0002_initial")]
    operations: ClassVar = [migrations.RunSQL(triggers(), no_triggers())]
