"""The candidates of one team: by user where users share fairly, in one line where a queue says fifo (SEMANTICS 4)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from queues.admission.board import Board
from queues.admission.order import Key, Stream
from queues.admission.plans import Case
from queues.admission.shapes import Option
from queues.admission.world import QueueOrder


@dataclass(frozen=True, slots=True)
class Candidate:
    """Whose turn it is in a team, and what it would take."""

    stream: Stream
    option: Option
    key: Key

    @property
    def place(self) -> int:
        """Return the team's number in the tree."""
        return self.stream.case.place


Choose = Callable[[Stream], Option | None]
Over = Callable[[Stream], bool]
"""Whether it is sure without asking that a stream's class cannot take part any more."""


@dataclass(frozen=True, slots=True)
class Entrants:
    """Who of a team may take part; nobody of them is read before the team's turn may come.

    Each takes at least as much as ``least`` says on one of its flavors. ``over`` tells without reading that nobody can
    take part any more (None: cannot be told). ``first``: they have to be read before any turn is taken.
    """

    least: Mapping[int, int]
    streams: Iterable[Stream]
    over: Callable[[], bool] | None = None
    first: bool = False


class Lane:
    """The candidates of one leaf."""

    def __init__(
        self, board: Board, place: int, entrants: Entrants, choose: Choose, *, user_limits: bool, over: Over | None
    ) -> None:
        """Begin with nobody read."""
        self.entrants = entrants
        self._user_limits = user_limits
        self._over = over
        self._board = board
        self._place = place
        self._choose = choose
        self._read = False
        self._fair: dict[int, list[tuple[Key, Stream]]] = {}
        self._fifo: list[tuple[Key, Stream]] = []

    def over(self) -> bool:
        """Whether it is sure, and nobody had to be read for it, that nobody can take part any more."""
        return not self._read and self.entrants.over is not None and self.entrants.over()

    def _begin(self) -> None:
        """Read who may take part, and put them in order."""
        self._read = True
        for stream in self.entrants.streams:
            fifo = stream.queue.order is QueueOrder.FIFO
            rows = self._fifo if fifo else self._fair.setdefault(stream.user, [])
            rows.append((stream.key, stream))
        for rows in self._rows():
            heapify(rows)

    def best(self) -> Candidate | None:
        """Return whose turn it is; streams whose class cannot take part any more are dropped for good."""
        if not self._read:
            self._begin()
        if self._over is not None and all(self._over(row[1]) for rows in self._rows() for row in rows):
            return None
        in_line = self._top(self._fifo)
        best: tuple[tuple[int, int, int, int, int], Candidate] | None = None
        for user in list(self._fair):
            candidate = self._top(self._fair[user])
            if candidate is None:
                del self._fair[user]
                continue
            priority, *rest = candidate.key
            key = (priority, self._board.used_value.get((self._place, user), 0), rest[0], rest[1], rest[2])
            if best is None or key < best[0]:
                best = (key, candidate)
        if best is None or (in_line is not None and in_line.key < best[1].key):
            return in_line
        return best[1]

    def _top(self, rows: list[tuple[Key, Stream]]) -> Candidate | None:
        while rows:
            key, stream = rows[0]
            if stream.head is None or stream.key != key:
                heappop(rows)
                if stream.head is not None:
                    heappush(rows, (stream.key, stream))
                continue
            option = self._choose(stream)
            if stream.key != key or stream.head is None:
                continue  # who asked lets those behind go first
            if option is not None and (not self._user_limits or self._user_has_room(stream, option)):
                return Candidate(stream, option, key)
            if option is None or not self._plans_keep_room(stream, option) or not stream.pass_over():
                heappop(rows)
        return None

    def _user_has_room(self, stream: Stream, option: Option) -> bool:
        """Whether the user's limits leave room, for planned starts of theirs as well."""
        room = self._board.hard_room(stream.queue, stream.user)
        if room is None:
            return True
        if room < option.units:
            return False
        return not self._board.planned_for_user(stream.asker(), option, stream.queue, stream.user)

    def _plans_keep_room(self, stream: Stream, option: Option) -> bool:
        """Whether only planned starts of the user stand against the job, which others of theirs may pass."""
        room = self._board.hard_room(stream.queue, stream.user)
        return room is not None and room >= option.units

    def _rows(self) -> Iterable[list[tuple[Key, Stream]]]:
        return (self._fifo, *self._fair.values())

    def drop(self, case: Case) -> None:
        """Take a case out of the competition."""
        for rows in self._rows():
            rows[:] = [row for row in rows if row[1].case != case]
            heapify(rows)
