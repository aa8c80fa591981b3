"""What a claim leaves to others: where it gives nobody but its own teams anything, these alone are asked again."""

from queues.admission.board import Board
from queues.admission.nodes import Room
from queues.admission.plans import Grip, Plan
from queues.admission.quota import ROOT, Line


class Exchange:
    """Compares the board before and after units went from some teams to another."""

    def __init__(self, board: Board) -> None:
        """Remember the board as it is now."""
        self._board = board
        self._turn = board.turn
        self._lines = [(line, list(line.usage), list(line.firm), line.subtree[ROOT]) for line in _lines(board)]
        self._plans = [(plan, dict(plan.spare), _usage(plan), plan.grip()) for plan in board.plans]
        self._rooms: dict[int, Room] = {}
        board.touched = self._rooms

    def close(self, places: set[int]) -> None:
        """Let only these teams be asked anew as those who gained, unless others may have gained as well."""
        board = self._board
        board.touched = None
        if board.with_surplus or self._gained(places):
            return
        board.turn = self._turn
        board.tight += 1
        for place in places:
            board.turns[place] += 1
            board.moves.append(place)

    def _gained(self, places: set[int]) -> bool:
        board = self._board
        if len(self._plans) != len(board.plans) or len(self._lines) != len(_lines(board)):
            return True
        for node, before in self._rooms.items():
            kind = board.ground.where[node]
            if kind.units > before[0] or kind.cpu > before[1] or kind.memory > before[2] or kind.pods > before[3]:
                return True
        for line, usage, firm, root in self._lines:
            if line.subtree[ROOT] > root or _less(line.usage, usage, places) or _less(line.firm, firm, places):
                return True
        return any(_freer(row, plan, places) for row, plan in zip(self._plans, board.plans, strict=True))


def _freer(before: tuple[Plan, dict[int, Room], dict[int, list[int]], Grip], plan: Plan, places: set[int]) -> bool:
    """Whether a planned start leaves more to others than before, or binds nobody any more."""
    known, spare, usage, grip = before
    if known is not plan or plan.grip() != grip:
        return True
    more = (have > had for node, room in plan.spare.items() for have, had in zip(room, spare[node], strict=True))
    return any(more) or any(_less(line.usage, usage[flavor], places) for flavor, line in plan.lines.items())


def _less(now: list[int], before: list[int], places: set[int]) -> bool:
    """Whether any number has become less, those of some places left out."""
    if now == before:
        return False
    return any(
        after < number
        for place, (after, number) in enumerate(zip(now, before, strict=True))
        if after != number and place not in places
    )


def _usage(plan: Plan) -> dict[int, list[int]]:
    return {flavor: list(line.usage) for flavor, line in plan.lines.items()}


def _lines(board: Board) -> list[Line]:
    lines = list(board.lines.values())
    return lines if board.hard is board.lines else [*lines, *board.hard.values()]
