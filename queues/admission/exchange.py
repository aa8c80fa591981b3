"""What a claim leaves to others: where it gives nobody but its own teams anything, these alone are asked again."""

from queues.admission.board import Board
from queues.admission.nodes import Room
from queues.admission.plans import Grip, Plan
from queues.admission.quota import ROOT, Line

Known = tuple[Plan, dict[int, Room], dict[int, list[int]], Grip]
"""A planned start, and what it left to others."""


class Exchange:
    """Compares the board before and after units went from some teams to another."""

    def __init__(self, board: Board) -> None:
        """Remember the board as it is now."""
        self._board = board
        self._turn = board.turn
        self._lines = [(line, list(line.usage), list(line.firm), line.subtree[ROOT]) for line in _lines(board)]
        self._plans = [(plan, dict(plan.spare), _usage(plan), plan.grip()) for plan in board.plans]
        self._pledges = _pledges(board)
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

    def within(self, places: set[int]) -> int | None:
        """Return the top of the tree outside of which all is as it was, the only one of these teams; else None.

        Nobody elsewhere could have units back from it either, where it was and is within its promise.
        """
        board, path = self._board, self._board.tree.path
        (top, *others) = {path[place][-1] for place in places}
        if others or board.with_surplus or _pledges(board) != self._pledges:
            return None
        if any(
            _material(board, node, _room(board, node)) != _material(board, node, room)
            for node, room in self._rooms.items()
        ):
            return None
        if len(self._plans) != len(board.plans) or len(self._lines) != len(_lines(board)):
            return None
        for line, usage, firm, root in self._lines:
            if line.subtree[ROOT] != root or max(line.usage[top], usage[top]) > line.subtree[top]:
                return None
            if _moved(line.usage, usage, path, top) or _moved(line.firm, firm, path, top):
                return None
        stand = (self._stands(row, plan, top) for row, plan in zip(self._plans, board.plans, strict=True))
        return top if all(stand) else None

    def _stands(self, before: "Known", plan: Plan, top: int) -> bool:
        """Whether a planned start is what it was to all outside of a top of the tree."""
        known, spare, usage, grip = before
        path = self._board.tree.path
        if known is not plan or plan.grip() != grip or plan.spare != spare:
            return False
        if path[plan.case.place][-1] == top:
            return _usage(plan) == usage
        return not any(_moved(line.usage, usage[flavor], path, top) for flavor, line in plan.lines.items())

    def _gained(self, places: set[int]) -> bool:
        board = self._board
        if len(self._plans) != len(board.plans) or len(self._lines) != len(_lines(board)):
            return True
        for node, before in self._rooms.items():
            now, then = _material(board, node, _room(board, node)), _material(board, node, before)
            if any(have > had for have, had in zip(now, then, strict=True)):
                return True
        for line, usage, firm, root in self._lines:
            if line.subtree[ROOT] > root or _less(line.usage, usage, places) or _less(line.firm, firm, places):
                return True
        return any(_freer(row, plan, places) for row, plan in zip(self._plans, board.plans, strict=True))


def _freer(before: Known, plan: Plan, places: set[int]) -> bool:
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


def _moved(now: list[int], before: list[int], path: list[tuple[int, ...]], top: int) -> bool:
    """Whether any number is another than before outside of a top of the tree."""
    if now == before:
        return False
    numbers = enumerate(zip(now, before, strict=True))
    return any(after != number and (not path[place] or path[place][-1] != top) for place, (after, number) in numbers)


def _room(board: Board, node: int) -> Room:
    kind = board.ground.where[node]
    return (kind.units, kind.cpu, kind.memory, kind.pods)


def _material(board: Board, node: int, room: Room) -> Room:
    """Return a room without pods beyond what a node could ever take: a task that waits wants a unit at least."""
    most = board.ground.where[node].host.units
    return (*room[:3], most) if room[3] > most and board.wants_units() else room


def _pledges(board: Board) -> tuple[object, ...]:
    """Return what claims keep and what leaves."""
    pending = [number for number, count in board.pending.items() if count]
    return (tuple(board.claims), len(board.leaving_until), pending)
