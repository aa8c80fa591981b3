"""Rows kept between snapshots: PostgreSQL says which versions there are, and only what changed is read again.

A version is ``xmin`` and ``ctid`` of the row: no update of whatever kind, by whoever, keeps both. So nobody has to tell
that something changed, and what is kept is never older than the snapshot that asks.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from django.db import connection

Value = TypeVar("Value")
Version = tuple[int, str]

# ``xmin`` of rows of one table; both columns are in every row of PostgreSQL.
VERSION = "xmin::text || ctid::text"


class Warm(Generic[Value]):
    """Values by id and version; safe in several threads, as each read checks every version."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._known: dict[int, tuple[str, Value]] = {}
        self._key: object = None

    def forget(self) -> None:
        """Know nothing any more: the next read is a cold one."""
        self._known, self._key = {}, None

    def read(
        self, versions: Iterable[Version], load: Callable[[list[int]], Iterable[tuple[int, Value]]], key: object = None
    ) -> tuple[Value, ...]:
        """Return the values of these versions in their order; ``load`` reads those that are not known.

        ``key`` is what values depend on beside their rows: another one forgets all.
        """
        versions = tuple(versions)
        known = self._known if key == self._key else {}
        missing = [pk for pk, version in versions if pk not in known or known[pk][0] != version]
        loaded = dict(load(missing)) if missing else {}
        found = {pk: (version, loaded[pk] if pk in loaded else known[pk][1]) for pk, version in versions}
        self._known, self._key = found, key
        return tuple(value for _, value in found.values())


def versions(sql: str, values: Any = None) -> list[Version]:  # noqa: ANN401  parameters of a statement
    """Return what a statement selects: ids and ``VERSION``."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [(pk, version) for pk, version in cursor.fetchall()]
