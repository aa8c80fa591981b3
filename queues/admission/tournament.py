"""Whose turn it is: a tournament down the team tree, then users and time inside a team (SEMANTICS 4).

A step asks again only where it may have changed the answer: in the departments whose quota it moved, and everywhere if
the wish of some first candidate has lost its room. What else a step does is seen by the turn of the board.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from queues.admission.board import Board
from queues.admission.nodes import Ground
from queues.admission.order import Key, Stream
from queues.admission.placement import fits
from queues.admission.plans import Case
from queues.admission.quota import ROOT
from queues.admission.shapes import Needs, Option
from queues.admission.shares import Share, counted, fill
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


class Lane:
    """The candidates of one leaf: by user where users share fairly, in one line where a queue says fifo."""

    def __init__(self, board: Board, place: int, choose: Choose, *, user_limits: bool, over: Over | None) -> None:
        """Begin with nobody."""
        self._user_limits = user_limits
        self._over = over
        self._board = board
        self._place = place
        self._choose = choose
        self._fair: dict[int, list[tuple[Key, Stream]]] = {}
        self._fifo: list[tuple[Key, Stream]] = []

    def add(self, stream: Stream) -> None:
        """Let a stream with a head compete."""
        rows = self._fifo if stream.queue.order is QueueOrder.FIFO else self._fair.setdefault(stream.user, [])
        rows.append((stream.key, stream))

    def begin(self) -> None:
        """Put in order who has been added."""
        for rows in self._rows():
            heapify(rows)

    def best(self) -> Candidate | None:
        """Return whose turn it is; streams whose class cannot take part any more are dropped for good."""
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
        return room >= option.units and self._board.leaves_user(stream.asker(), option, stream.queue, stream.user)

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


class Tournament:
    """Whose turn it is in the whole tree, candidate counted, step by step."""

    def __init__(
        self,
        board: Board,
        streams: Iterable[Stream],
        choose: Choose,
        *,
        guaranteed: bool,
        user_limits: bool = True,
        over: Over | None = None,
    ) -> None:
        """Let the streams compete; ``guaranteed`` is pass 1, where shares count the candidate's flavors only."""
        self._board = board
        self._choose = choose
        self._guaranteed = guaranteed
        self._lanes: dict[int, Lane] = {}
        self._best: dict[int, Candidate] = {}
        self._alive: dict[int, dict[int, Standing]] = {}
        self._stale: set[int] = set()
        self._watch = Watch(board)
        for stream in streams:
            place = stream.case.place
            lane = self._lanes.get(place)
            if lane is None:
                lane = Lane(board, place, choose, user_limits=user_limits, over=over)
                self._lanes[place] = lane
            lane.add(stream)
        for lane in self._lanes.values():
            lane.begin()
        self._stale.update(self._lanes)

    def drop(self, case: Case) -> None:
        """Take a case out of the competition."""
        lane = self._lanes.get(case.place)
        if lane is not None:
            lane.drop(case)
        self.touch(case.place)

    def touch(self, place: int) -> None:
        """Ask again who is first in a team, in all above it, and where the same users' limits are counted."""
        self._stale.add(place)
        tree = self._board.tree
        for node in tree.counting[place][1:]:
            self._stale.update(other for other in self._lanes if node in tree.path[other])

    def winner(self) -> Candidate | None:
        """Return whose turn it is now, or None when nobody is left."""
        tree = self._board.tree
        again: set[int] = set()
        seen = self._watch.look()
        if seen.turned:
            again.update(place for places in self._alive.values() for place in places)
        asked: Iterable[int] = list(self._lanes)
        if seen.places is not None:
            asked = seen.places | self._stale
        for place in seen.moved:
            again.update(tree.path[place])
        for place in asked:
            if place in self._lanes and self._ask(place):
                again.update(tree.path[place])
        self._stale.clear()
        for node in sorted(again, key=lambda node: -len(tree.path[node])):
            self._stand(node)
        return self._first(ROOT)

    def _ask(self, place: int) -> bool:
        """Ask in a team whether its first candidate is what it was, else who is; return whether it is another."""
        best = self._best.get(place)
        if place not in self._stale and (best is None or self._choose(best.stream) is best.option):
            if best is not None:
                self._watch.wish(best)
            return False
        new = self._lanes[place].best()
        if new is None:
            del self._lanes[place]
            self._best.pop(place, None)
        else:
            self._best[place] = new
            self._watch.wish(new)
        return True

    def _stand(self, node: int) -> None:
        """Let a node stand among its siblings with its candidate, or leave it out."""
        tree = self._board.tree
        candidate = self._first(node) if tree.children[node] else self._best.get(node)
        siblings = self._alive.setdefault(tree.parent[node], {})
        if candidate is None:
            siblings.pop(node, None)
        else:
            siblings[node] = Standing(self._board, node, candidate, only_needs=self._guaranteed)

    def _first(self, node: int) -> Candidate | None:
        """Return the candidate of the child that is first among the children of a node."""
        standings = self._alive.get(node)
        if not standings:
            return None
        if len(standings) == 1 or all(row.fill is None for row in standings.values()):
            return min(standings.values(), key=_by_share).candidate
        best: Standing | None = None
        for child in sorted(standings):
            if best is None or standings[child].before(best):
                best = standings[child]
        return None if best is None else best.candidate


@dataclass(frozen=True, slots=True)
class Seen:
    """Whether everything may be different, which teams took something, and in which teams to ask again (None: all)."""

    turned: bool
    moved: set[int]
    places: set[int] | None


class Watch:
    """Notices what the steps of a tournament may have changed for others than those who took them.

    A team's first candidate stands while its department has as much available as it wants, its own guarantee is what it
    is inside of (else: while nobody takes from the departments above), and its wish has room.
    """

    def __init__(self, board: Board) -> None:
        """Look at the board as it is now."""
        self._board = board
        self._turn = -1
        self._tight = board.tight
        self._squeezed = board.squeezed
        self._seen = len(board.moves)
        self._wishes: dict[tuple[Ground, Option], set[int]] = {}
        self._needs: dict[int, Needs] = {}
        self._most: dict[tuple[int, int], int] = {}
        self._below: dict[int, set[int]] = {}
        self._pooled: dict[int, set[int]] = {}

    def wish(self, candidate: Candidate) -> None:
        """Remember what a first candidate wants, so that its end is noticed."""
        board, place, option = self._board, candidate.place, candidate.option
        ground = self._ground(candidate)
        if (ground, option) in self._wishes:
            self._wishes[ground, option].add(place)
        elif fits(ground, option):
            self._wishes[ground, option] = {place}
        self._needs[place] = option.needs
        parent = board.tree.parent[place]
        self._below.setdefault(parent, set()).add(place)
        for flavor, units in option.needs:
            self._most[parent, flavor] = max(units, self._most.get((parent, flavor), 0))
            if board.hard[flavor].within(place, units) not in {None, place}:
                self._pooled.setdefault(board.tree.path[place][-1], set()).add(place)

    def _ground(self, candidate: Candidate) -> Ground:
        board = self._board
        if not board.plans and not board.kept:
            return board.ground
        return board.view(candidate.stream.asker(), candidate.option)

    def look(self) -> Seen:
        """Return what has happened since the last look."""
        board = self._board
        moves = board.moves[self._seen :]
        self._seen = len(board.moves)
        if self._turn != board.turn:
            self._turn, self._tight, self._squeezed = board.turn, board.tight, board.squeezed
            self._wishes.clear()
            return Seen(turned=True, moved=set(moves), places=None)
        moved = set(moves)
        lost = [wish for wish in self._wishes if moves and not fits(*wish)]
        places = moved.union(*[self._wishes.pop(wish) for wish in lost])
        if self._tight != board.tight:
            self._tight = board.tight
            return Seen(turned=False, moved=moved, places=None)
        for top in {board.tree.path[place][-1] for place in moved}:
            places |= self._pooled.get(top, set())
        for (parent, flavor), most in self._most.items() if moves else ():
            if board.lines[flavor].available(parent) < most:
                places |= self._below[parent]
        if self._squeezed != board.squeezed:
            self._squeezed = board.squeezed
            places |= self._squeezed_out()
        return Seen(turned=False, moved=moved, places=places)

    def _squeezed_out(self) -> set[int]:
        """Return the teams whose first candidate takes more than some planned start can spare of its quota."""
        slack: dict[tuple[int, int], int] = {}
        for plan in self._board.plans:
            for flavor, line in plan.lines.items():
                for node, most in plan.most(flavor).items():
                    left = most - line.usage[node]
                    slack[flavor, node] = min(left, slack.get((flavor, node), left))
        path = self._board.tree.path
        return {
            place
            for place, needs in self._needs.items()
            for flavor, units in needs
            if any(units > slack.get((flavor, node), units) for node in (*path[place], ROOT))
        }


class Standing:
    """A child in the comparison with its siblings, its candidate counted."""

    __slots__ = ("candidate", "fill", "key", "share")

    def __init__(self, board: Board, child: int, candidate: Candidate, *, only_needs: bool) -> None:
        """Count the candidate in."""
        self.candidate = candidate
        needs = candidate.option.needs
        value = counted(board.hard, candidate.place, needs, child, only_needs=only_needs)
        self.share = Share(value, board.tree.weight[child])
        self.fill = fill(board.hard, candidate.place, needs).get(child) if only_needs else None
        self.key = (self.share.rank(board.tree.scale), candidate.key)

    def before(self, other: "Standing") -> bool:
        """Whether this child's candidate goes first."""
        if self.fill is not None and other.fill is not None:
            if self.fill.below(other.fill):
                return True
            if other.fill.below(self.fill):
                return False
        return self.key < other.key


def _by_share(row: Standing) -> tuple[tuple[int, int], Key]:
    return row.key
