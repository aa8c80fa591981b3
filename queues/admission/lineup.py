"""The waiting classes by team, moved on from one decision to the next by those that came and went."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from queues.admission.plans import Case
from queues.admission.settled import Tasks, others
from queues.admission.shapes import Shape
from queues.admission.waits import Waits
from queues.admission.world import Heads, JobClass, Milliseconds

Room = Callable[[int, int], int]
"""The most units on a flavor (second) with which a team (first, its number) can be a candidate."""


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

    @property
    def least(self) -> dict[int, int]:
        """Return on each flavor the least that any case with it takes."""
        if self._least is None:
            self._least = least_of(self.cases)
        return self._least

    def above(self, place: int, room: Room) -> bool:
        """Whether every case takes more than the team has room for."""
        return all(units > room(place, flavor) for flavor, units in self.least.items())


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
        self._waits = Waits()

    def move(
        self, classes: dict[int, JobClass], case: Callable[[JobClass], Case], takes_turns: Callable[[JobClass], bool]
    ) -> None:
        """Take the classes of another world; ``takes_turns`` is asked only of those that were not there before."""
        known, old = self._known, self._classes
        if classes is old:
            return
        self._classes = classes
        for number in list(others(classes, old)):
            before, row = known.get(number), classes[number]
            if before is not None:
                if before.job_class == row:
                    known[number] = replace(before, job_class=row)
                    continue
                self._remove(before)
            known[number] = Entrant(row, case(row), takes_turns(row))
            self._add(known[number])
        for number in old.keys() - classes.keys():
            self._remove(known.pop(number))

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

    def look(self, heads: Heads, now: Milliseconds, waited: dict[int, Milliseconds], evictions: int) -> None:
        """Find whose first jobs have waited so long (by queue) or were evicted so often."""
        self._waits.look(self._classes, heads, now, waited, evictions)

    def notable(self) -> Iterator[tuple[JobClass, Case]]:
        """Yield the classes of which the first job of some user waited so long or was evicted so often."""
        return self._taking_turns(self._waits.long | self._waits.often)

    def often_evicted(self) -> Iterator[tuple[JobClass, Case]]:
        """Yield the classes of which the first job of some user was evicted so often."""
        return self._taking_turns(self._waits.often)

    def _taking_turns(self, numbers: set[int]) -> Iterator[tuple[JobClass, Case]]:
        for number in sorted(numbers):
            row = self._known[number]
            if row.turns:
                yield row.job_class, row.case


def least_of(cases: Iterable[Case]) -> dict[int, int]:
    """Return on each flavor the least that any case with it takes."""
    least: dict[int, int] = {}
    for flavor, units in (need for case in cases for option in case.shape.options for need in option.needs):
        least[flavor] = min(units, least.get(flavor, units))
    return least


def wishes_of(shape: Shape) -> list[Tasks]:
    """Return what the tasks of a shape are like, one of each group, on the flavors that it wants first."""
    return [
        (pattern.flavor, pattern.units, pattern.cpu, pattern.memory, pattern.labels)
        for pattern in shape.options[0].patterns
    ]
