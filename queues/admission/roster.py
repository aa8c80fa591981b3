"""The waiting classes by team: who can be a candidate at all, found without looking at every class."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from queues.admission.board import Board
from queues.admission.lanes import Entrants
from queues.admission.lineup import Lines, Lineup, Room
from queues.admission.order import Stream
from queues.admission.plans import Case
from queues.admission.world import Heads, JobClass, Milliseconds, Waiting


class Roster:
    """The classes that take part in a cycle; waiting jobs are read only where their class matters."""

    def __init__(self, board: Board, heads: Heads, lineup: Lineup) -> None:
        """Take the classes that take turns; nobody is read yet."""
        self._board = board
        self._heads = heads
        self._lineup = lineup
        self._waited = {number: queue.hold_after for number, queue in board.queues.items()}
        self._evictions = board.world.policy.max_evictions
        lineup.look(heads, board.world.now, self._waited, self._evictions)
        self._streams: dict[int, list[Stream]] = {}

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

    def go_back(self) -> None:
        """Put all lines in order again in which jobs were passed over."""
        for streams in self._streams.values():
            for stream in streams:
                stream.go_back()

    def waiting(self, job_class: JobClass, user: int, job: int) -> Waiting | None:
        """Return one waiting job of a user, as the snapshot has it."""
        first = next((row for row in self._heads.users(job_class.id) if row.user == user), None)
        if first is None or first.id == job:
            return first
        return next((row for row in self._heads.after(job_class.id, user, first) if row.id == job), None)

    def of_team(self, place: int) -> Iterator[tuple[JobClass, Case]]:
        """Yield the classes of a team."""
        lines = self._lineup.teams.get(place)
        for case, rows in lines.cases.items() if lines is not None else ():
            for job_class in rows.values():
                yield job_class, case

    def able(self, room: Room | None, may: Callable[[Case], bool], everything: set[int]) -> dict[int, Entrants]:
        """Return, by team, who may take part: in teams with room for their least, and in ``everything``.

        Where jobs may back off, or are spoken for, all are read at once: whether they do has to be known.
        """
        at_once = everything | {case.place for _, case in self._lineup.often_evicted()}
        for claim in self._board.claims.values():
            at_once.add(self._board.case(self._board.classes[claim.job_class]).place)
        able = {}
        for place, lines in self._lineup.teams.items():
            above = None if room is None or place in everything else partial(lines.above, place, room)
            if above is None or not above():
                first = place in at_once
                streams = self._able(lines, may)
                able[place] = Entrants(lines.least, streams, over=None if first else above, first=first)
        return able

    def _able(self, lines: Lines, may: Callable[[Case], bool]) -> Iterator[Stream]:
        for case, rows in lines.cases.items():
            if may(case):
                for job_class in rows.values():
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

    def first_beside(self, job_class: JobClass, case: Case, seen: set[int], since: Milliseconds) -> Iterator[Waiting]:
        """Yield of each user of a class the first job that is not ``seen``, where it waits ``since`` then or longer."""
        streams = self._streams.get(job_class.id)
        if streams is None:
            for head in self._heads.users(job_class.id):
                yield from islice(self._beside(case, head, seen, since), 1)
        for stream in streams or ():
            while stream.head is not None and stream.head.wait_from <= since:
                if stream.head.id not in seen:
                    yield stream.head
                    break
                stream.skip()

    def _beside(self, case: Case, head: Waiting, seen: set[int], since: Milliseconds) -> Iterator[Waiting]:
        """Yield the jobs not ``seen`` of a line of which nobody had a turn, as far as they wait so long."""
        spoken = self._board.spoken_for
        for job in _line(self._heads, head):
            if job.wait_from > since:
                return
            if job.id not in seen and spoken.get(job.id, 0) < (job.tasks if case.shape.independent else 1):
                yield job

    def notable(self) -> Iterator[tuple[JobClass, Case]]:
        """Yield the classes whose first job of some user may hold, or was evicted so often that it may back off."""
        read, spoken, now, evictions = self._streams, self._board.spoken_for, self._board.world.now, self._evictions
        for job_class, case in self._lineup.notable():
            if spoken or job_class.id in read:
                since, first = now - self._waited[job_class.queue], self.first(job_class, case)
                if not any(job.wait_from <= since or job.evictions >= evictions for job in first):
                    continue
            yield job_class, case

    def may_back_off(self) -> Iterator[tuple[JobClass, Case]]:
        """Yield those of the notable classes of which a job that is first now may have been evicted so often."""
        often = {job_class.id for job_class, _ in self._lineup.often_evicted()}
        for job_class, case in self._lineup.notable():
            if job_class.id in often or job_class.id in self._streams:
                yield job_class, case


def _line(heads: Heads, head: Waiting) -> Iterator[Waiting]:
    """Yield a first job, then those behind it."""
    yield head
    yield from heads.after(head.job_class, head.user, head)
