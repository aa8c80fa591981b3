"""The nodes of a claim's trial: as they will be once some have gone, less what planned starts need there."""

from queues.admission.board import Board
from queues.admission.nodes import Ground, Room
from queues.admission.plans import Plan
from queues.admission.rooms import least, minus, plus
from queues.admission.world import Milliseconds


class Nodes:
    """The ground of one trial; what ends before a planned start gives room until then, and none beside it."""

    def __init__(self, board: Board, binding: list[Plan]) -> None:
        """Begin with all gone that leaves and with the planned starts that bind the claimant."""
        self.ground: Ground = board.later()
        self._plans = [(plan, dict(plan.spare)) for plan in binding]
        self._rooms: dict[int, Room] = {}
        for node in sorted({node for plan in binding for node in plan.needs}):
            kind = self.ground.where.get(node)
            if kind is not None:
                self._rooms[node] = (kind.units, kind.cpu, kind.memory, kind.pods)
                self._look(node)

    def shift(self, node: int, room: Room, *, ends: Milliseconds | None = 0) -> None:
        """Add the room (negative: take it) of what ends then anyway (None: nobody knows when)."""
        known = self._rooms.get(node)
        if known is None:
            self.ground.shift(node, room)
            return
        self._rooms[node] = plus(known, room)
        for plan, spare in self._plans:
            if node in spare and plan.outlasted_by(ends):
                spare[node] = plus(spare[node], room)
        self._look(node)

    def _look(self, node: int) -> None:
        room = self._rooms[node]
        for plan, spare in self._plans:
            if node in plan.needs:
                room = least(room, spare[node]) if node in spare else minus(room, plan.needs[node])
        self.ground.set(node, room)
