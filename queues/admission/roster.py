"""The waiting classes by team: who can be a candidate at all, found without looking at every class."""

from collections.abc import Callable, Iterable, Iterator

from queues.admission.board import Board
from queues.admission.order import Stream
from queues.admission.plans import Case
from queues.admission.world import Heads, JobClass, Milliseconds, Waiting

Room = Callable[[int, int], int]
"""The most units on a flavor (second) with which a team (first, its number) can be a candidate."""


class Lines:
    """The waiting classes of one team: its cases with their classes, and the least that any of them takes."""

    __slots__ = ("cases", "least")

    def __init__(self) -> None:
        """Begin with none."""
        self.cases: dict[Case, list[JobClass]] = {}
        self.least: dict[int, int] = {}

    def add(self, job_class: JobClass, case: Case) -> None:
        """Add a class."""
        rows = self.cases.get(case)
        if rows is not None:
            rows.append(job_class)
            return
        self.cases[case] = [job_class]
        for option in case.shape.options:
            for flavor, units in option.needs:
                if units < self.least.get(flavor, units + 1):
                    self.least[flavor] = units

    def above(self, place: int, room: Room) -> bool:
        """Whether every case takes more than the team has room for."""
        return all(units > room(place, flavor) for flavor, units in self.least.items())


class Roster:
    """The classes that take part in a cycle; waiting jobs are read only where their class matters."""

    def __init__(self, board: Board, heads: Heads, classes: Iterable[JobClass]) -> None:
        """Sort the classes by team; nobody is read yet."""
        self._board = board
        self._heads = heads
        self._streams: dict[int, list[Stream]] = {}
        self.lines: dict[int, Lines] = {}
        for job_class in classes:
            case = board.case(job_class)
            lines = self.lines.get(case.place)
            if lines is None:
                lines = self.lines[case.place] = Lines()
            lines.add(job_class, case)

    def streams(self, job_class: JobClass, case: Case) -> list[Stream]:
        """Return the streams of a class, one for each of its users."""
        streams = self._streams.get(job_class.id)
        if streams is None:
            queue = self._board.queues[job_class.queue]
            streams = self._streams[job_class.id] = [
                Stream(self._board, self._heads, case, queue, job_class, head)
                for head in self._heads.users(job_class.id)
            ]
        return streams

    def of_team(self, place: int) -> Iterator[tuple[JobClass, Case]]:
        """Yield the classes of a team."""
        lines = self.lines.get(place)
        for case, rows in lines.cases.items() if lines is not None else ():
            for job_class in rows:
                yield job_class, case

    def able(self, room: Room | None, may: Callable[[Case], bool], everything: set[int]) -> Iterator[Stream]:
        """Yield streams of classes that may take part: in teams with room for their least, and in ``everything``."""
        for place, lines in self.lines.items():
            if room is not None and place not in everything and lines.above(place, room):
                continue
            for case, rows in lines.cases.items():
                if may(case):
                    for job_class in rows:
                        yield from (stream for stream in self.streams(job_class, case) if stream.head is not None)

    def is_left(self, job_class: JobClass) -> bool:
        """Whether jobs of a class are left in line; a class of which no job was read has some."""
        streams = self._streams.get(job_class.id)
        return streams is None or any(stream.head for stream in streams)

    def read(self) -> set[int]:
        """Return the classes of which jobs were read and are left."""
        return {number for number, streams in self._streams.items() if any(stream.head for stream in streams)}

    def first(self, job_class: JobClass, case: Case) -> list[Waiting]:
        """Return the job that is first now of each user of a class."""
        streams = self._streams.get(job_class.id)
        if streams is not None:
            return [stream.head for stream in streams if stream.head is not None]
        spoken = self._board.spoken_for
        users = self._heads.users(job_class.id)
        if not spoken or all(job.id not in spoken for job in users):
            return list(users)
        return [stream.head for stream in self.streams(job_class, case) if stream.head is not None]

    def notable(self, waiting_since: dict[int, Milliseconds], evictions: int) -> Iterator[tuple[JobClass, Case]]:
        """Yield the classes whose first job of some user waits since a time (by queue) or was evicted so often."""
        users, read = self._heads.users, self._streams
        spoken = self._board.spoken_for
        for lines in self.lines.values():
            for case, rows in lines.cases.items():
                for job_class in rows:
                    since, number = waiting_since[job_class.queue], job_class.id
                    jobs = self.first(job_class, case) if spoken or number in read else users(number)
                    for job in jobs:
                        if job.wait_from <= since or job.evictions >= evictions:
                            yield job_class, case
                            break
