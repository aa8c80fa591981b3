"""Fair share: how much of what is borrowed a team already has, for its weight (SEMANTICS 3)."""

from dataclasses import dataclass

from queues.admission.quota import Line
from queues.admission.shapes import Needs


@dataclass(frozen=True, slots=True)
class Share:
    """The exact ratio borrowed / weight; a weight of zero that borrows is above every finite share."""

    borrowed: int
    weight: int

    def below(self, other: "Share") -> bool:
        """Whether this share is the lower one; equal shares are not below each other."""
        if not self.borrowed:
            return other.borrowed > 0
        if not self.weight:
            return False
        if not other.weight:
            return other.borrowed > 0
        return self.borrowed * other.weight < other.borrowed * self.weight

    def rank(self, scale: int) -> tuple[int, int]:
        """Return the ratio as exact numbers that sort; ``scale`` is a multiple of every weight."""
        if not self.borrowed:
            return (0, 0)
        return (0, self.borrowed * (scale // self.weight)) if self.weight else (1, 0)


def borrowed(lines: dict[int, Line], place: int) -> int:
    """Return b(n): what a team uses above all that is promised below it, by value x 1000."""
    total = 0
    for line in lines.values():
        above = line.usage[place] - line.subtree[place]
        if above > 0:
            total += line.flavor.value * above
    return total


def counted(lines: dict[int, Line], place: int, needs: Needs, node: int, *, only_needs: bool) -> int:
    """Return b(n) of a node of a leaf's path with the leaf's needs in use (``only_needs``: on their flavors only)."""
    result = 0
    for flavor, units in needs:
        line = lines[flavor]
        above = line.usage_with(place, units, node) - line.subtree[node]
        if above > 0:
            result += line.flavor.value * above
    if not only_needs and len(lines) > len(needs):
        named = [flavor for flavor, _ in needs]
        for flavor, line in lines.items():
            above = line.usage[node] - line.subtree[node]
            if above > 0 and flavor not in named:
                result += line.flavor.value * above
    return result


def fill(lines: dict[int, Line], place: int, needs: Needs) -> dict[int, Share]:
    """Return usage / S for the nodes of a leaf's path on the fullest overcommitted flavor; S = 0 is last."""
    rows = [(lines[flavor], units) for flavor, units in needs if lines[flavor].overcommitted and units]
    result: dict[int, Share] = {}
    for line, units in rows:
        usage = dict(line.after(place, units))
        for node in line.tree.path[place]:
            share = Share(usage.get(node, line.usage[node]), line.subtree[node])
            if node not in result or result[node].below(share):
                result[node] = share
    return result
