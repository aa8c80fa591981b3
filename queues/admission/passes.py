"""The two passes of a cycle: guaranteed demand first, then borrowers (SEMANTICS 4)."""

from collections.abc import Iterator
from dataclasses import dataclass

from queues.admission.board import Board, Case
from queues.admission.order import Candidate, Choose, Stream, Tournament
from queues.admission.shapes import Option
from queues.admission.world import Heads, JobClass, Placed


@dataclass(frozen=True, slots=True)
class Start:
    """One step of a pass: a job, or one task of an independent job, that starts."""

    job: int
    job_class: int
    option: Option
    placed: tuple[Placed, ...]
    borrowed: bool


@dataclass(frozen=True, slots=True)
class Sent:
    """A job that goes to the head of the second pass; until then it counts as usage of its guaranteed flavors."""

    stream: Stream
    job: int
    instead: Option


class Passes:
    """Runs the passes over the classes that may take turns."""

    def __init__(self, board: Board, heads: Heads, classes: list[JobClass]) -> None:
        """Prepare; no waiting job is read before its class is known to fit."""
        self._board = board
        self._heads = heads
        self._classes = [(job_class, board.case(job_class)) for job_class in classes]
        self._streams: dict[int, list[Stream]] = {}
        self._unfinished: set[int] = set()
        self.starts: list[Start] = []

    def run(self) -> None:
        """Make both passes."""
        sent = self._guaranteed()
        for row in sent:
            self._start_elsewhere(row)
        self._borrowers()

    def waits(self, job_class: JobClass) -> bool:
        """Whether jobs of the class are left; a class of which no job was read has some."""
        streams = self._streams.get(job_class.id)
        return streams is None or job_class.id in self._unfinished or any(stream.head for stream in streams)

    def _guaranteed(self) -> list[Sent]:
        board = self._board
        sent: list[Sent] = []
        tournament = Tournament(board, self._able(board.guaranteed_option), board.guaranteed_option, guaranteed=True)
        while candidate := tournament.winner():
            if board.admissible(candidate.stream.case, candidate.option):
                self._start(candidate.stream, candidate.option)
            elif self._may_send(candidate):
                sent.append(self._send(candidate))
            else:
                tournament.drop(candidate.stream.case)
            tournament.touch(candidate.place)
        for row in sent:
            for flavor, units in row.instead.needs:
                board.lines[flavor].take(row.stream.case.place, -units)
        return sent

    def _borrowers(self) -> None:
        board = self._board
        tournament = Tournament(board, self._able(board.borrowed_option), board.borrowed_option, guaranteed=False)
        while candidate := tournament.winner():
            self._start(candidate.stream, candidate.option)
            tournament.touch(candidate.place)

    def _able(self, choose: Choose) -> Iterator[Stream]:
        """Yield the streams of classes that could take part in a pass now."""
        chosen: dict[Case, Option | None] = {}
        for job_class, case in self._classes:
            if case not in chosen:
                chosen[case] = choose(case)
            if chosen[case] is not None:
                yield from (stream for stream in self._read(job_class, case) if stream.head is not None)

    def _read(self, job_class: JobClass, case: Case) -> list[Stream]:
        streams = self._streams.get(job_class.id)
        if streams is None:
            queue = self._board.queues[job_class.queue]
            streams = self._streams[job_class.id] = [
                Stream(self._board.world, self._heads, case, queue, job_class, head)
                for head in self._heads.users(job_class.id)
            ]
        return streams

    def _start(self, stream: Stream, option: Option) -> None:
        if stream.head is None:
            return
        job = stream.head.id
        stream.advance()
        self._admit(stream, job, option)

    def _admit(self, stream: Stream, job: int, option: Option) -> None:
        board, case = self._board, stream.case
        borrowed = not board.inside(case, option)
        placed = board.place(case, option)
        board.admit(case, option, placed, stream.queue.id, stream.user)
        self.starts.append(
            Start(job=job, job_class=stream.job_class.id, option=option, placed=placed, borrowed=borrowed)
        )

    def _may_send(self, candidate: Candidate) -> bool:
        """Whether no job of the team with higher effective priority could take that flavor in the second pass."""
        board, case = self._board, candidate.stream.case
        option = board.borrowed_option(case)
        if option is None:
            return False
        taken = {flavor for flavor, _ in option.needs}
        for job_class, other in self._classes:
            if other.place != case.place or board.guaranteed_option(other) is not None:
                continue
            wish = board.borrowed_option(other)
            if wish is None or taken.isdisjoint(flavor for flavor, _ in wish.needs):
                continue
            streams = self._read(job_class, other)
            if any(stream.head is not None and stream.key[0] < candidate.key[0] for stream in streams):
                return False
        return True

    def _send(self, candidate: Candidate) -> Sent:
        """Count the job as usage of its guaranteed flavor for the rest of the pass."""
        stream = candidate.stream
        row = Sent(stream=stream, job=candidate.key[3], instead=candidate.option)
        for flavor, units in candidate.option.needs:
            self._board.lines[flavor].take(stream.case.place, units)
        stream.advance()
        return row

    def _start_elsewhere(self, row: Sent) -> None:
        option = self._board.borrowed_option(row.stream.case)
        room = self._board.user_room(row.stream.case.place, row.stream.queue, row.stream.user)
        if option is not None and (room is None or room >= option.units):
            self._admit(row.stream, row.job, option)
        else:
            self._unfinished.add(row.stream.job_class.id)
