"""Waiting jobs held in memory, for tests and for what runs the rules forward."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Iterator

from queues.admission.world import Waiting


def _turn(row: Waiting) -> tuple[int, int, int]:
    return (row.wait_from, row.submitted, row.id)


class SimpleHeads:
    """The ``Heads`` of a list of waiting jobs."""

    def __init__(self, rows: Iterable[Waiting]) -> None:
        """Sort the jobs by class and user."""
        self._rows: dict[int, dict[int, list[Waiting]]] = {}
        self._first: dict[int, tuple[Waiting, ...]] = {}
        self._changes: list[int] = []
        for row in rows:
            self._rows.setdefault(row.job_class, {}).setdefault(row.user, []).append(row)
        for users in self._rows.values():
            for jobs in users.values():
                jobs.sort(key=_turn)

    def add(self, row: Waiting) -> None:
        """Let one more job wait."""
        self._change(row.job_class)
        insort(self._rows.setdefault(row.job_class, {}).setdefault(row.user, []), row, key=_turn)

    def remove(self, row: Waiting) -> None:
        """Take a job out, as it was when it was added."""
        self._change(row.job_class)
        users = self._rows[row.job_class]
        jobs = users[row.user]
        del jobs[bisect_left(jobs, _turn(row), key=_turn)]
        if not jobs:
            del users[row.user]

    def _change(self, job_class: int) -> None:
        self._first.pop(job_class, None)
        self._changes.append(job_class)

    def changed(self, mark: object) -> tuple[object, Collection[int] | None]:
        """Return a mark of this moment, and the classes that have changed since an earlier one; None: unknown."""
        now = (self._changes, len(self._changes))
        if not isinstance(mark, tuple) or mark[0] is not self._changes:
            return now, None
        return now, set(self._changes[mark[1] :])

    def users(self, job_class: int) -> tuple[Waiting, ...]:
        """Return the first waiting job of each user of the class, in order."""
        first = self._first.get(job_class)
        if first is None:
            jobs = sorted((jobs[0] for jobs in self._rows.get(job_class, {}).values()), key=_turn)
            first = self._first[job_class] = tuple(jobs)
        return first

    def expect(self, heads: Iterable[Waiting]) -> None:
        """Do nothing: all is at hand."""

    def after(self, job_class: int, user: int, last: Waiting) -> Iterator[Waiting]:
        """Yield the user's further jobs of the class behind ``last``."""
        jobs = self._rows[job_class][user]
        for place in range(bisect_right(jobs, _turn(last), key=_turn), len(jobs)):
            yield jobs[place]
