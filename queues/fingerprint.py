"""Fingerprints of many values that stay mostly the same: only what is new is hashed."""

import hashlib
from collections.abc import Hashable, Iterable
from itertools import chain

from queues.admission.settled import others


class Marks:
    """Sums of the marks of values; one that is the same object as last time keeps its mark, and no loop meets it."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._known: dict[Hashable, object] = {}
        self._marks: dict[Hashable, int] = {}
        self._sum = 0

    def total(self, values: Iterable[tuple[Hashable, object]]) -> int:
        """Return a number that is the same for equal values by equal keys, in whatever order they come."""
        known, fresh = self._known, dict(values)
        changed = list(others(fresh, known))
        for key in chain(changed, known.keys() - fresh.keys()):
            self._sum -= self._marks.pop(key, 0)
        for key in changed:
            self._marks[key] = _mark(key, fresh[key])
            self._sum += self._marks[key]
        self._known = fresh
        return self._sum


def _mark(key: Hashable, value: object) -> int:
    return int.from_bytes(hashlib.sha256(repr((key, value)).encode()).digest())
