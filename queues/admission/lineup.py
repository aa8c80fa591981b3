"""The waiting classes by team, moved on from one decision to the next by those that came and went."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from queues.admission.plans import Case
from queues.admission.settled import Tasks
from queues.admission.shapes import Shape
from queues.admission.world import JobClass, Milliseconds, Waiting

Room = Callable[[int, int], int]
"""The most units on a flavor (second) with which a team (first, its number) can be a candidate."""

Users = tuple[Waiting, ...]


class Lines:
    """The waiting classes of one team: its cases with their classes, and the least that any of them takes."""

    __slots__ = ("_least", "cases")

    def __init__(self) -> None:
        """Begin with none."""
        self.cases: dict[Case, dict[int, JobClass]] = {}
        self._least: dict[int, int] | None = None

    def add(self, job_class: JobClass, case: Case) -> None:
        """Add a class."""
        if case not in self.cases:
            self.cases[case] = {}
            self._least = None
        self.cases[case][job_class.id] = job_class

    def remove(self, job_class: JobClass, case: Case) -> None:
        """Take a class out."""
        rows = self.cases[case]
        del rows[job_class.id]
        if not rows:
            del self.cases[case]
            self._least = None

    def above(self, place: int, room: Room) -> bool:
        """Whether every case takes more than the team has room for."""
        if self._least is None:
            self._least = {}
            needs = (need for case in self.cases for option in case.shape.options for need in option.needs)
            for flavor, units in needs:
                self._least[flavor] = min(units, self._least.get(flavor, units))
        return all(units > room(place, flavor) for flavor, units in self._least.items())


@dataclass(frozen=True, slots=True)
class Entrant:
    """A waiting class, and whether it takes turns."""

    job_class: JobClass
    case: Case
    turns: bool


class Lineup:
    """The classes that take turns, by team."""

    def __init__(self) -> None:
        """Begin with none."""
        self.teams: dict[int, Lines] = {}
        self.wishes: Counter[Tasks] = Counter()
        self._classes: dict[int, JobClass] = {}
        self._known: dict[int, Entrant] = {}
        self._users: dict[int, tuple[Users, Milliseconds, int]] = {}

    def move(
        self, classes: dict[int, JobClass], case: Callable[[JobClass], Case], takes_turns: Callable[[JobClass], bool]
    ) -> None:
        """Take the classes of another world; ``takes_turns`` is asked only of those that were not there before."""
        known, self._classes = self._known, classes
        gone = known.keys() - classes.keys()
        for number, row in classes.items():
            before = known.get(number)
            if before is not None:
                if before.job_class is row:
                    continue
                if before.job_class == row:
                    known[number] = replace(before, job_class=row)
                    continue
                self._remove(before)
            known[number] = Entrant(row, case(row), takes_turns(row))
            self._add(known[number])
        for number in gone:
            self._remove(known.pop(number))
            self._users.pop(number, None)

    def of(self, classes: dict[int, JobClass]) -> bool:
        """Whether these very classes were taken last."""
        return self._classes is classes

    def _add(self, row: Entrant) -> None:
        for tasks in wishes_of(row.case.shape):
            self.wishes[tasks] += 1
        if row.turns:
            self.teams.setdefault(row.case.place, Lines()).add(row.job_class, row.case)

    def _remove(self, row: Entrant) -> None:
        for tasks in wishes_of(row.case.shape):
            self.wishes[tasks] -= 1
            if not self.wishes[tasks]:
                del self.wishes[tasks]
        if row.turns:
            lines = self.teams[row.case.place]
            lines.remove(row.job_class, row.case)
            if not lines.cases:
                del self.teams[row.case.place]

    def long_waiting(
        self, users: Callable[[int], Users], since: dict[int, Milliseconds], evictions: int
    ) -> Iterator[tuple[JobClass, Case]]:
        """Yield the classes of which the first job of some user waits since a time (by queue) or was evicted so often.

        Classes whose first jobs are the same as last time are not looked into.
        """
        seen = self._users
        for lines in self.teams.values():
            for case, rows in lines.cases.items():
                for number, job_class in rows.items():
                    jobs = users(number)
                    known = seen.get(number)
                    if known is None or known[0] is not jobs:
                        known = seen[number] = (jobs, *_longest(jobs))
                    if known[1] <= since[job_class.queue] or known[2] >= evictions:
                        yield job_class, case


def _longest(users: Users) -> tuple[Milliseconds, int]:
    """Return since when the first of the jobs waits, and the most evictions that one of them had."""
    never: Milliseconds = 1 << 62
    return min((row.wait_from for row in users), default=never), max((row.evictions for row in users), default=-1)


def wishes_of(shape: Shape) -> list[Tasks]:
    """Return what the tasks of a shape are like, one of each group, on the flavors that it wants first."""
    return [
        (pattern.flavor, pattern.units, pattern.cpu, pattern.memory, pattern.labels)
        for pattern in shape.options[0].patterns
    ]
