"""Named sets of units, as near to free as possible: what keeps and holds without a time stand on (SEMANTICS 7)."""

from collections.abc import Iterable

from queues.admission.board import Board
from queues.admission.nodes import Ground, survey
from queues.admission.placement import witness
from queues.admission.rooms import NOTHING, negative, rooms
from queues.admission.shapes import Option
from queues.admission.world import Placed


class NamedSets:
    """Finds sets on the board as it is now."""

    def __init__(self, board: Board) -> None:
        """No node has been looked at yet."""
        self._board = board
        self._empty: Ground | None = None

    def nearest(self, option: Option, avoid: Iterable[int] = (), *, beside: bool = True) -> tuple[Placed, ...] | None:
        """Return a set of nodes for the option, as near to free as possible; ``beside`` keeps off other keeps."""
        board = self._board
        free = board.ground.copy()
        for node in avoid:
            if node in free.where:
                free.set(node, NOTHING)
        if beside:
            for node, room in board.kept.items():
                free.shift(node, negative(room))
        found = witness(free, option)
        if found is not None:
            return found
        empty = self.emptied(avoid)
        if beside:
            for node, room in board.kept.items():
                empty.shift(node, negative(room))
        if len(option.patterns) > 1 or option.together or option.topologies[0]:
            return witness(empty, option)
        return _near(free, empty, option)

    def emptied(self, avoid: Iterable[int]) -> Ground:
        """Return the room of usable nodes with none of our attempts on them, some nodes left out."""
        if self._empty is None:
            self._empty = survey(self._board.world, attempts=())
        ground = self._empty.copy()
        for node in avoid:
            if node in ground.where:
                ground.set(node, NOTHING)
        return ground

    def lacking(self, option: Option, placed: tuple[Placed, ...]) -> set[int]:
        """Return the nodes of a set on which something of it is not free now."""
        where = self._board.ground.where
        found = set()
        for node, room in rooms(option, placed).items():
            kind = where.get(node)
            if kind is None or any(
                have < need for have, need in zip((kind.units, kind.cpu, kind.memory, kind.pods), room, strict=True)
            ):
                found.add(node)
        return found

    def not_free(self, option: Option, placed: tuple[Placed, ...]) -> int:
        """Return the counted units of a set that are not free now."""
        total = 0
        for node, room in rooms(option, placed).items():
            kind = self._board.ground.where.get(node)
            total += room[0] - min(room[0], max(0, kind.units)) if kind is not None else room[0]
        return total


def _near(free: Ground, empty: Ground, option: Option) -> tuple[Placed, ...] | None:
    """Name free room first, then the nodes of which most is free; of clusters that where the fewest units are not."""
    pattern, tasks = option.patterns[0], option.tasks[0]
    best: tuple[int, tuple[Placed, ...]] | None = None
    for cluster, room in sorted(empty.rooms(pattern).items()):
        if room < tasks:
            continue
        nodes = [node for nodes in empty.within((cluster,), pattern).values() for node in nodes]
        now = {node: free.where[node].tasks(pattern) for node in nodes}
        result: dict[int, int] = {}
        left = tasks
        for node in sorted(nodes, key=lambda node: (-now[node], node)):
            part = min(left, now[node])
            if part:
                result[node] = part
                left -= part
        for node in sorted(nodes, key=lambda node: (-free.where[node].units, node)):
            part = min(left, empty.where[node].tasks(pattern) - result.get(node, 0))
            if part > 0:
                result[node] = result.get(node, 0) + part
                left -= part
        placed = tuple(Placed(group=0, node=node, tasks=count) for node, count in sorted(result.items()))
        missing = sum(max(0, n * pattern.units - max(0, free.where[node].units)) for node, n in result.items())
        if left == 0 and (best is None or missing < best[0]):
            best = (missing, placed)
    return None if best is None else best[1]
