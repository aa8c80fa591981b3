"""Fingerprints of many values that stay mostly the same: only what is new is hashed."""

import hashlib
from collections.abc import Hashable, Iterable


class Marks:
    """Sums of the marks of values; a value that is the same object as last time keeps its mark."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._known: dict[Hashable, tuple[object, int]] = {}

    def total(self, values: Iterable[tuple[Hashable, object]]) -> int:
        """Return a number that is the same for equal values by equal keys, in whatever order they come."""
        known, fresh = self._known, {}
        for key, value in values:
            last = known.get(key)
            fresh[key] = last if last is not None and last[0] is value else (value, _mark(key, value))
        self._known = fresh
        return sum(mark for _, mark in fresh.values())


def _mark(key: Hashable, value: object) -> int:
    return int.from_bytes(hashlib.sha256(repr((key, value)).encode()).digest())
