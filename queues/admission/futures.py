"""The world at later times, as far as sure ends tell: what is free then, and whose quota is left (SEMANTICS 7)."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from operator import attrgetter
from typing import Generic, TypeVar

from queues.admission.board import Board
from queues.admission.ends import End
from queues.admission.nodes import Ground, Room
from queues.admission.plans import Case
from queues.admission.quota import Line, Tree, units_of
from queues.admission.rooms import negative, plus, rooms, rooms_of
from queues.admission.shapes import Needs, Option
from queues.admission.usage import copies
from queues.admission.world import Attempt, Milliseconds, Placed, Standing


class Given:
    """What has come back of quotas and limits by a time."""

    def __init__(self, lines: dict[int, Line]) -> None:
        """Start with nothing given back and this usage."""
        self.lines = lines
        self.ended: dict[tuple[int, int], int] = {}
        self.ended_of_user: dict[tuple[int, int], int] = {}

    def copy(self) -> "Given":
        """Return the same, to go its own way."""
        other = Given(copies(self.lines))
        other.ended, other.ended_of_user = self.ended.copy(), self.ended_of_user.copy()
        return other

    def end(self, ends: list[End]) -> None:
        """Let some give back what they use; sums by team first, since teams are few."""
        units_of_team: Counter[tuple[int, int]] = Counter()
        firm: Counter[tuple[int, int]] = Counter()
        elsewhere: Counter[int] = Counter()
        ended_of_user = self.ended_of_user
        for end in ends:
            for flavor, units in end.units.items():
                units_of_team[end.place, flavor] += units
                if end.firm:
                    firm[end.place, flavor] += units
                for node in end.limited:
                    ended_of_user[node, end.user] = ended_of_user.get((node, end.user), 0) + units
            if end.elsewhere:
                elsewhere.update(end.elsewhere)
        for (place, flavor), units in units_of_team.items():
            self.lines[flavor].take(place, -units)
            self.ended[place, flavor] = self.ended.get((place, flavor), 0) + units
        for (place, flavor), units in firm.items():
            self.lines[flavor].take_firm(place, -units)
        for flavor, units in elsewhere.items():
            self.lines[flavor].install(-units)


class Space:
    """What has become free on nodes by a time; ``freed`` are the nodes on which something has ended."""

    def __init__(self, ground: Ground, freed: set[int]) -> None:
        """Start with this room."""
        self.ground = ground
        self.freed = freed

    def copy(self) -> "Space":
        """Return the same, to go its own way."""
        return Space(self.ground.copy(), self.freed.copy())

    def end(self, ends: list[End]) -> None:
        """Let some leave their nodes; sums by node first."""
        sums: dict[int, Room] = {}
        for end in ends:
            for node, room in end.rooms.items():
                sums[node] = plus(sums[node], room) if node in sums else room
            if end.frees:
                self.freed.update(end.rooms)
        for node, room in sums.items():
            self.ground.shift(node, room)


State = TypeVar("State", Given, Space)


class Steps(Generic[State]):
    """States after the first so many ends, each made from the one before it that is known already."""

    def __init__(self, ends: list[End], start: State) -> None:
        """Know the state before all ends."""
        self._ends = ends
        self._counts = [0]
        self._states: list[State] = [start]

    def after(self, count: int) -> State:
        """Return the state after so many ends; the caller leaves it as it is."""
        index = bisect_right(self._counts, count)
        state = self._states[index - 1]
        done = self._counts[index - 1]
        if done < count:
            state = state.copy()
            state.end(self._ends[done:count])
            self._counts.insert(index, count)
            self._states.insert(index, state)
        return state


class Future:
    """The world at one time: all attempts that surely end by then have ended, and surplus is taken back."""

    def __init__(self, tree: Tree, now: dict[int, Line], given: Given, spaces: Steps[Space], count: int) -> None:
        """``now`` is the usage without surplus before anything ends; room is looked at when it is asked for."""
        self._tree = tree
        self._now = now
        self._spaces = spaces
        self._count = count
        self._standings: dict[tuple[int, Needs], tuple[Standing, int | None]] = {}
        self.lines = given.lines
        self.ended = given.ended
        self.ended_of_user = given.ended_of_user

    @cached_property
    def space(self) -> Space:
        """Return the room then; the caller leaves it as it is."""
        return self._spaces.after(self._count)

    def standing(self, place: int, needs: Needs) -> tuple[Standing, int | None]:
        """Return what a job rests on once its own team's attempts have ended, and the highest node within which."""
        known = self._standings.get((place, needs))
        if known is None:
            known = self._standings[place, needs] = standing_of(self._tree, self._now, place, needs, self.ended)
        return known


def standing_of(
    tree: Tree, lines: dict[int, Line], place: int, needs: Needs, gone: dict[tuple[int, int], int]
) -> tuple[Standing, int | None]:
    """Return what a job rests on without units of its team that are gone, and the highest node within which it is."""
    nodes = []
    for flavor, units in needs:
        line, own = lines[flavor], gone.get((place, flavor), 0)
        line.take(place, -own)
        nodes.append(line.within(place, units))
        line.take(place, own)
    known = [node for node in nodes if node is not None]
    if len(known) < len(nodes):
        return Standing.BORROWER, None
    return Standing.GUARANTEED, min(known, key=lambda node: len(tree.path[node]), default=place)


class Futures:
    """Futures of a board that does not change meanwhile, each worked out once."""

    def __init__(self, board: Board) -> None:
        """Look at the board as it is now."""
        self._board = board
        self._known: dict[int, Future] = {}

    @cached_property
    def without_surplus(self) -> dict[int, Line]:
        """Return the quota lines with all surplus taken back."""
        board = self._board
        lines = copies(board.lines)
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

    @cached_property
    def last(self) -> Future:
        """Return the world when all that surely ends has ended."""
        return self.at(self.times[-1])

    def at(self, at: Milliseconds) -> Future:
        """Return the world at a time."""
        count = bisect_right(self._times_of_ends, at)
        known = self._known.get(count)
        if known is None:
            given = self._givens.after(count)
            known = self._known[count] = Future(self._board.tree, self.without_surplus, given, self._spaces, count)
        return known

    @cached_property
    def _ends(self) -> list[End]:
        return sorted(_ends(self._board), key=_at)

    @cached_property
    def _times_of_ends(self) -> list[Milliseconds]:
        return [end.at for end in self._ends]

    @cached_property
    def _givens(self) -> Steps[Given]:
        return Steps(self._ends, Given(copies(self.without_surplus)))

    @cached_property
    def _spaces(self) -> Steps[Space]:
        board = self._board
        ground = board.later()
        for _, room_of in board.leaving_until:
            for node, room in room_of.items():
                ground.shift(node, negative(room))
        for attempt in board.running.values() if board.with_surplus else ():
            for node, room in rooms_of(attempt, attempt.surplus).items():
                ground.shift(node, room)
        return Steps(self._ends, Space(ground, set()))


_at = attrgetter("at")


def _ends(board: Board) -> Iterator[End]:
    """Yield what surely ends of all that runs, leaves, is claimed, and was admitted in this cycle."""
    for until, room_of in board.leaving_until:
        yield End(at=until, rooms=room_of)
    for attempt in board.leaving:
        yield _end_of(board, attempt, board.world.now if attempt.ends_by is None else attempt.ends_by)
    yield from _ends_of_running(board)
    for claim in board.claims.values():
        ends = board.claim_ends[claim.id]
        if ends is not None:
            # The claimant has started and ended; who has yet to go for it had gone from the first.
            case = board.case(board.classes[claim.job_class])
            yield _start_ends(board, case, board.option_of(claim), claim.placed, claim.user, ends)
    for entry in board.log:
        if entry.ends is not None:
            yield _start_ends(board, entry.case, entry.option, entry.placed, entry.user, entry.ends)


def _ends_of_running(board: Board) -> Iterator[End]:
    """Yield the ends of what runs, those that were known at the last decision as they were."""
    rows: list[tuple[Attempt, End]] = []
    for attempt in board.running.values():
        if attempt.ends_by is None:
            continue
        left = board.staying(attempt)
        if left is not attempt:
            yield _end_of(board, left, attempt.ends_by, rooms_of(left, left.placed))
            continue
        end = board.frame.ends.of(attempt) or _end_of(
            board, attempt, attempt.ends_by, rooms_of(attempt, attempt.placed)
        )
        rows.append((attempt, end))
        yield end
    board.frame.ends.keep(rows)


def _end_of(board: Board, attempt: Attempt, at: Milliseconds, room_of: dict[int, Room] | None = None) -> End:
    """Return an attempt's end, with its room or without."""
    place = board.tree.number[attempt.team]
    return End(
        at=at,
        rooms=room_of or {},
        frees=room_of is not None,
        place=place,
        limited=board.tree.counting[place] if board.frame.limits_users else (),
        user=attempt.user,
        units=units_of(attempt, attempt.placed),
        elsewhere=board.elsewhere(attempt, attempt.placed),
        firm=not (attempt.borrow and attempt.preemptible),
    )


def _start_ends(
    board: Board, case: Case, option: Option, placed: tuple[Placed, ...], user: int, at: Milliseconds
) -> End:
    """Return the end of what starts now or will have."""
    return End(
        at=at,
        rooms=rooms(option, placed),
        frees=True,
        place=case.place,
        limited=board.tree.counting[case.place] if board.frame.limits_users else (),
        user=user,
        units=dict(option.needs),
        firm=case.shape.firm,
    )
