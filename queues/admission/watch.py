"""What the steps of a tournament may have changed for others than those who took them."""

from queues.admission.board import Board
from queues.admission.lanes import Candidate
from queues.admission.nodes import Ground
from queues.admission.placement import fits
from queues.admission.quota import ROOT
from queues.admission.shapes import Needs, Option

Wish = tuple[Ground, Option]
"""What a first candidate wants, where it finds room."""


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
        self._wishes: dict[Wish, set[int]] = {}
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

    def look(self) -> set[int] | None:
        """Return in which teams somebody else may be first than at the last look; None: in all."""
        board = self._board
        moves = board.moves[self._seen :]
        self._seen = len(board.moves)
        if self._turn != board.turn:
            self._turn, self._tight, self._squeezed = board.turn, board.tight, board.squeezed
            self._wishes.clear()
            return None
        moved = set(moves)
        lost = [wish for wish in self._wishes if moves and not fits(*wish)]
        places = moved.union(*[self._wishes.pop(wish) for wish in lost])
        if self._tight != board.tight:
            self._tight = board.tight
            return None
        for top in {board.tree.path[place][-1] for place in moved}:
            places |= self._pooled.get(top, set())
        for (parent, flavor), most in self._most.items() if moves else ():
            if board.lines[flavor].available(parent) < most:
                places |= self._below[parent]
        if self._squeezed != board.squeezed:
            self._squeezed = board.squeezed
            places |= self._squeezed_out()
        return places

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
