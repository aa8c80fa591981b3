"""Whose turn it is: a tournament down the team tree, then users and time inside a team (SEMANTICS 4).

A team is asked for its first candidate only once its turn may have come: until then it stands with the lowest share
that any candidate of it could have. A step asks again only where it may have changed the answer (``Watch``).
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from heapq import heapify, heappop, heapreplace

from queues.admission.board import Board
from queues.admission.lanes import Candidate, Choose, Entrants, Lane, Over
from queues.admission.plans import Case
from queues.admission.quota import ROOT
from queues.admission.shares import Share, counted, fill
from queues.admission.watch import Watch

Place = tuple[tuple[int, int], tuple[int, ...]]
"""By what children of a node compare: the share with the candidate, then the candidate's own key."""


class Tournament:
    """Whose turn it is in the whole tree, candidate counted, step by step."""

    def __init__(
        self,
        board: Board,
        entrants: Mapping[int, Entrants],
        choose: Choose,
        *,
        guaranteed: bool,
        user_limits: bool = True,
        over: Over | None = None,
    ) -> None:
        """Let teams compete; ``guaranteed`` is pass 1, where shares count the candidate's flavors only."""
        self._board = board
        self._choose = choose
        self._guaranteed = guaranteed
        self._by_fill = guaranteed and any(line.overcommitted for line in board.hard.values())
        self._lanes = {
            place: Lane(board, place, rows, choose, user_limits=user_limits, over=over)
            for place, rows in entrants.items()
        }
        self._best: dict[int, Candidate] = {}
        self._alive: dict[int, dict[int, Standing | None]] = {}
        self._stale = set(self._lanes)
        self._doubtful: set[int] = set()
        self._first_of_all = [place for place, rows in entrants.items() if rows.first]
        self._watch = Watch(board)
        self._doubt(self._lanes)

    def drop(self, case: Case) -> None:
        """Take a case out of the competition."""
        lane = self._lanes.get(case.place)
        if lane is not None:
            lane.drop(case)
        self.touch(case.place)

    def touch(self, place: int) -> None:
        """Ask again who is first in a team, in all above it, and where the same users' limits are counted."""
        tree = self._board.tree
        again = {place}
        for node in tree.counting[place][1:]:
            again.update(other for other in self._lanes if node in tree.path[other])
        self._stale |= again
        self._doubt(again)

    def winner(self) -> Candidate | None:
        """Return whose turn it is now, or None when nobody is left."""
        places = self._watch.look()
        self._doubt(self._lanes if places is None else places)
        for place in self._first_of_all:
            self._ask(place)
        self._first_of_all.clear()
        if self._by_fill:
            self.ask_all()
        return self._first(ROOT)

    def ask_all(self) -> None:
        """Ask in all teams, as before a step after which somebody may find room who had none before it."""
        for place in sorted(self._doubtful):
            self._ask(place)

    def _doubt(self, places: Iterable[int]) -> None:
        """Let it be unknown who is first in some teams and in all above them, until somebody has to know."""
        tree = self._board.tree
        for place in places:
            if place in self._lanes:
                self._doubtful.add(place)
                self._alive.setdefault(tree.parent[place], {})[place] = None
            for node in tree.path[place][1:]:
                self._alive.setdefault(tree.parent[node], {})[node] = None

    def _ask(self, place: int) -> None:
        """Ask in a team whether its first candidate is what it was, else who is."""
        self._doubtful.discard(place)
        best = self._best.get(place)
        if place in self._stale or best is None or self._choose(best.stream) is not best.option:
            self._stale.discard(place)
            lane = self._lanes[place]
            best = None if lane.over() else lane.best()
        if best is None:
            del self._lanes[place]
            self._best.pop(place, None)
        else:
            self._best[place] = best
            self._watch.wish(best)

    def _first(self, node: int) -> Candidate | None:
        """Return the candidate of the child that is first among those of a node; only who may be that is asked."""
        alive = self._alive.get(node)
        if not alive:
            return None
        if self._by_fill:
            return self._first_by_fill(list(alive))
        line = [(self._least(child) if row is None else row.key, child) for child, row in alive.items()]
        heapify(line)
        while line:
            child = line[0][1]
            row = alive[child]
            if row is not None:
                return row.candidate
            row = self._stand(child)
            if row is None:
                heappop(line)
            else:
                heapreplace(line, (row.key, child))
        return None

    def _first_by_fill(self, children: list[int]) -> Candidate | None:
        """Return the first where guarantees are compared by how far they are used: all of them have to be asked."""
        rows = [row for row in (self._stand(child) for child in sorted(children)) if row is not None]
        if len(rows) > 1 and any(row.fill is not None for row in rows):
            return reduce(lambda best, row: row if row.before(best) else best, rows).candidate
        return min(rows, key=_by_share).candidate if rows else None

    def _stand(self, node: int) -> "Standing | None":
        """Let a node stand among its siblings with its candidate, or leave it out."""
        tree = self._board.tree
        siblings = self._alive[tree.parent[node]]
        row = siblings[node]
        if row is None:
            if node in self._doubtful:
                self._ask(node)
            candidate = self._first(node) if tree.children[node] else self._best.get(node)
            if candidate is None:
                del siblings[node]
            else:
                row = siblings[node] = Standing(self._board, node, candidate, only_needs=self._guaranteed)
        return row

    def _least(self, node: int) -> Place:
        """Return a key that no candidate of a node goes before."""
        board, lane = self._board, self._lanes.get(node)
        asks = [()] if lane is None else [((flavor, units),) for flavor, units in lane.entrants.least.items()]
        value = min(counted(board.hard, node, needs, node, only_needs=self._guaranteed) for needs in asks)
        return Share(value, board.tree.weight[node]).rank(board.tree.scale), ()


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
        self.key: Place = (self.share.rank(board.tree.scale), candidate.key)

    def before(self, other: "Standing") -> bool:
        """Whether this child's candidate goes first."""
        if self.fill is not None and other.fill is not None:
            if self.fill.below(other.fill):
                return True
            if other.fill.below(self.fill):
                return False
        return self.key < other.key


def _by_share(row: Standing) -> Place:
    return row.key
