"""What victims cost: the keys by which sets of them are compared (SEMANTICS 8)."""

from queues.admission.board import Board
from queues.admission.quota import Line
from queues.admission.shapes import Option
from queues.admission.shares import Share, borrowed
from queues.admission.trial import Candidate
from queues.admission.victims import dispute, firm
from queues.admission.world import HOUR

MOST_UNSAVED = 4 * HOUR
Key = tuple[object, ...]


class Costs:
    """What victims cost on the board of one claim; ``lines`` is usage before anybody goes."""

    def __init__(self, board: Board, place: int, option: Option, lines: dict[int, Line]) -> None:
        """Remember whose claim it is."""
        self._board = board
        self._place = place
        self._option = option
        self._lines = lines
        self._alike: dict[object, tuple[int, int]] = {}
        self._known: dict[Candidate, int] = {}
        self._shares: dict[int, tuple[int, int]] = {}
        self._of_place: dict[object, tuple[int, int]] = {}

    def key(self, chosen: list[Candidate]) -> Key:
        """Return the costs in the order in which they count; the smallest key wins."""
        roots = sorted((self._share(row) for row in chosen), reverse=True)
        newest = sorted((row.attempt.number for row in chosen), reverse=True)
        return (
            sum(self._firm(row) for row in chosen),
            self._would_claim(chosen),
            self._shortfall(chosen),
            sum(self.cost(row) for row in chosen),
            len({(row.attempt.job, row.attempt.id) for row in chosen}),
            tuple((-infinite, -share) for infinite, share in roots),
            tuple(-number for number in newest),
            tuple(sorted(-row.attempt.id for row in chosen)),
        )

    def of_one(self, candidate: Candidate) -> Key:
        """Return the costs of a candidate alone; what is the same for all of its size in teams alike is found once."""
        attempt, place = candidate.attempt, candidate.place
        size = (place, candidate.own, tuple(candidate.everything.items()))
        known = self._of_place.get(size)
        if known is None:
            known = self._of_place[size] = self._of_size(candidate)
        infinite, share = self._share(candidate)
        shares = ((-infinite, -share),)
        return (
            self._firm(candidate),
            known[0],
            known[1],
            self.cost(candidate),
            1,
            shares,
            (-attempt.number,),
            (-attempt.id,),
        )

    def _of_size(self, candidate: Candidate) -> tuple[int, int]:
        place = candidate.place
        lines = [self._line(flavor) for flavor in candidate.everything]
        state = tuple([(line.usage[place], line.subtree[place], line.local[place]) for line in lines])
        alike = (self._board.tree.parent[place], candidate.own, tuple(candidate.everything.items()), state)
        known = self._alike.get(alike)
        if known is None:
            one = [candidate]
            known = self._alike[alike] = (self._would_claim(one), self._shortfall(one))
        return known

    def _firm(self, candidate: Candidate) -> int:
        """Return the worth of firm units, which go last."""
        return self._value(candidate.everything) if firm(candidate.attempt) else 0

    def _value(self, needs: dict[int, int]) -> int:
        return sum(self._board.flavors[flavor].value * units for flavor, units in needs.items())

    def _line(self, flavor: int) -> Line:
        return self._lines.get(flavor, self._board.hard[flavor])

    def _take(self, chosen: list[Candidate], sign: int) -> None:
        for row in chosen:
            for flavor, units in row.everything.items():
                self._line(flavor).take(row.place, -units * sign)

    def _would_claim(self, chosen: list[Candidate]) -> int:
        """Return the worth of victims that would be inside their guarantee once the claim is done."""
        self._take(chosen, 1)
        for flavor, units in self._option.needs:
            self._line(flavor).take(self._place, units)
        total = 0
        for row in chosen:
            needs = row.everything
            if all(self._line(flavor).within(row.place, units) is not None for flavor, units in needs.items()):
                total += self._value(needs)
        for flavor, units in self._option.needs:
            self._line(flavor).take(self._place, -units)
        self._take(chosen, -1)
        return total

    def _shortfall(self, chosen: list[Candidate]) -> int:
        """Return by how much nodes on the victims' paths would be pushed below what they are promised."""
        total = 0
        others = [row for row in chosen if not row.own]
        for flavor in sorted({flavor for row in others for flavor in row.everything}):
            line = self._line(flavor)
            rows = [(row, row.everything.get(flavor, 0)) for row in others]
            nodes = {
                node for row, units in rows if units for node in dispute(self._board.tree, self._place, row.place)[0]
            }
            promised = {node: min(line.subtree[node], line.usage[node]) for node in nodes}
            for row, units in rows:
                line.take(row.place, -units)
            short = {node: max(0, promised[node] - line.usage[node]) for node in nodes}
            for row, units in rows:
                line.take(row.place, units)
            for node in nodes:
                if short[node]:
                    below = sum(short.get(child, 0) for child in line.tree.children[node])
                    total += line.flavor.value * max(0, short[node] - below)
        return total

    def cost(self, candidate: Candidate) -> int:
        """Return what is lost: value x units x (restart cost + unsaved work), dearer for those evicted before."""
        known = self._known.get(candidate)
        if known is not None:
            return known
        attempt, policy = candidate.attempt, self._board.world.policy
        saved = attempt.since if attempt.saved is None else max(attempt.since, attempt.saved)
        unsaved = min(MOST_UNSAVED, max(0, self._board.world.now - saved))
        worth = self._value(candidate.everything)
        known = self._known[candidate] = worth * (policy.restart_cost + unsaved) * (1 + attempt.evictions)
        return known

    def _share(self, candidate: Candidate) -> tuple[int, int]:
        """Return borrowed / weight of the victim's side as exact numbers that sort."""
        known = self._shares.get(candidate.place)
        if known is None:
            tree = self._board.tree
            path, _ = dispute(tree, self._place, candidate.place)
            node = path[-1] if path else candidate.place
            known = Share(borrowed(self._board.hard, node), tree.weight[node]).rank(tree.scale)
            self._shares[candidate.place] = known
        return known
