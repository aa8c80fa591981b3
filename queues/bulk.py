"""Many new rows of a table in one COPY: what differs is given row by row, all else is as a new model says."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection, models


def copy_in(model: type[models.Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows of these columns (``job_id``, not ``job``); JSON as text. Ids come from the database unless given."""
    fields = [field for field in model._meta.concrete_fields if not field.primary_key and field.attname not in columns]  # noqa: SLF001  Django's public way
    same = tuple(field.get_db_prep_save(field.get_default(), connection) for field in fields)
    names = ", ".join(f'"{name}"' for name in (*columns, *(field.column for field in fields)))
    with (
        connection.cursor() as cursor,
        cursor.copy(f'COPY "{model._meta.db_table}" ({names}) FROM STDIN') as copy,  # noqa: SLF001  Django's public way
    ):
        for row in rows:
            copy.write_row((*row, *same))


def new_ids(model: type[models.Model], count: int) -> list[int]:
    """Return so many ids that nobody else gets, rising."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)",
            [model._meta.db_table, count],  # noqa: SLF001  Django's public way
        )
        return sorted(pk for (pk,) in cursor.fetchall())
