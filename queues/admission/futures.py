"""The world at later times, as far as sure ends tell: what is free then, and whose quota is left (SEMANTICS 7)."""

from collections.abc import Iterable
from functools import cached_property

from queues.admission.board import Board
from queues.admission.nodes import Ground
from queues.admission.quota import Line, units_of
from queues.admission.rooms import NOTHING, negative, rooms, rooms_of
from queues.admission.world import Attempt, Claim, Milliseconds


class Future:
    """The world at one time: all attempts that surely end by then have ended, and surplus is taken back."""

    def __init__(self, board: Board, at: Milliseconds, ground: Ground, lines: dict[int, Line]) -> None:
        """``ground`` is the room when all that leaves has gone, ``lines`` the usage without surplus."""
        self._board = board
        self.ended: dict[tuple[int, int], int] = {}
        self.ended_of_user: dict[tuple[int, int], int] = {}
        self.freed: set[int] = set()
        self.lines = lines
        self._ground = ground
        self._shown: Ground | None = None
        self._avoided: frozenset[int] = frozenset()
        for until, room_of in board.leaving_until:
            if until > at:
                for node, room in room_of.items():
                    ground.shift(node, negative(room))
        for attempt in board.running.values():
            if attempt.surplus:
                for node, room in rooms_of(attempt, attempt.surplus).items():
                    ground.shift(node, room)
            if attempt.ends_by is None or attempt.ends_by > at:
                continue
            left = board.staying(attempt)
            for node, room in rooms_of(left, left.placed).items():
                ground.shift(node, room)
                self.freed.add(node)
            self.give_back(left)
        for claim in board.claims.values():
            ends = board.claim_ends[claim.id]
            if ends is not None and ends <= at:
                self._end_claim(claim)
        for entry in board.log:
            if entry.ends is not None and entry.ends <= at:
                for node, room in rooms(entry.option, entry.placed).items():
                    ground.shift(node, room)
                    self.freed.add(node)
                for flavor, units in entry.option.needs:
                    self._end(entry.case.place, flavor, entry.user, units, firm=entry.case.shape.firm)

    def _end_claim(self, claim: Claim) -> None:
        """Let a claimant have started and ended; who has yet to go for it had gone from the first."""
        board, option = self._board, self._board.option_of(claim)
        job_class = board.classes[claim.job_class]
        case = board.case(job_class)
        for node, room in rooms(option, claim.placed).items():
            self._ground.shift(node, room)
            self.freed.add(node)
        for flavor, units in option.needs:
            self._end(case.place, flavor, claim.user, units, firm=case.shape.firm)

    def _end(self, place: int, flavor: int, user: int, units: int, *, firm: bool) -> None:
        self.lines[flavor].take(place, -units)
        if firm:
            self.lines[flavor].take_firm(place, -units)
        self.ended[place, flavor] = self.ended.get((place, flavor), 0) + units
        for node in self._board.tree.counting[place]:
            self.ended_of_user[node, user] = self.ended_of_user.get((node, user), 0) + units

    def give_back(self, attempt: Attempt) -> None:
        """Let an attempt give back what it uses of quotas and limits."""
        board, firm = self._board, not (attempt.borrow and attempt.preemptible)
        place = board.tree.number[attempt.team]
        for flavor, units in units_of(attempt, attempt.placed).items():
            self._end(place, flavor, attempt.user, units, firm=firm)
        for flavor, units in board.elsewhere(attempt, attempt.placed).items():
            self.lines[flavor].install(-units)

    def as_free_before(self) -> set[int]:
        """Return the nodes on which nothing ends until then."""
        return set(self._ground.where) - self.freed

    def ground(self, avoid: Iterable[int]) -> Ground:
        """Return the room without some nodes; the caller leaves it as it is."""
        wanted = frozenset(avoid)
        if self._shown is None or not self._avoided <= wanted:
            self._shown, self._avoided = self._ground.copy(), frozenset()
        for node in wanted - self._avoided:
            if node in self._shown.where:
                self._shown.set(node, NOTHING)
        self._avoided = wanted
        return self._shown


class Futures:
    """Futures of a board that does not change meanwhile, each worked out once."""

    def __init__(self, board: Board) -> None:
        """Look at the board as it is now."""
        self._board = board
        self._known: dict[Milliseconds, Future] = {}

    @cached_property
    def without_surplus(self) -> dict[int, Line]:
        """Return the quota lines with all surplus taken back."""
        board = self._board
        lines = {flavor: line.copy() for flavor, line in board.lines.items()}
        for attempt in board.running.values() if board.with_surplus else ():
            if attempt.surplus:
                for flavor, units in units_of(attempt, attempt.surplus).items():
                    lines[flavor].take(board.tree.number[attempt.team], -units)
                for flavor, units in board.elsewhere(attempt, attempt.surplus).items():
                    lines[flavor].install(-units)
        return lines

    @cached_property
    def times(self) -> list[Milliseconds]:
        """Return now and all times at which something surely ends."""
        board, now = self._board, self._board.world.now
        ends = {attempt.ends_by for attempt in board.running.values() if attempt.ends_by is not None}
        ends |= {entry.ends for entry in board.log if entry.ends is not None}
        ends |= {until for until, _ in board.leaving_until}
        ends |= {at for at in board.claim_ends.values() if at is not None}
        return sorted({now, *(at for at in ends if at > now)})

    def at(self, at: Milliseconds) -> Future:
        """Return the world at a time."""
        known = self._known.get(at)
        if known is None:
            board = self._board
            gone = [row for row in board.leaving if row.ends_by is None or row.ends_by <= at]
            lines = {flavor: line.copy() for flavor, line in self.without_surplus.items()}
            known = self._known[at] = Future(board, at, board.later(), lines)
            for attempt in gone:
                known.give_back(attempt)
        return known
