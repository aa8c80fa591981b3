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


def borrowed(lines: dict[int, Line], place: int) -> int:
    """Return b(n): what a team uses above all that is promised below it, by value x 1000."""
    total = 0
    for line in lines.values():
        above = line.usage[place] - line.subtree[place]
        if above > 0:
            total += line.flavor.value * above
    return total


def counted(lines: dict[int, Line], place: int, needs: Needs, *, only_needs: bool) -> dict[int, int]:
    """Return b(n) for the nodes of a leaf's path with the needs in use (``only_needs``: on their flavors only)."""
    path = lines[needs[0][0]].tree.path[place] if needs else ()
    result = dict.fromkeys(path, 0)
    named = dict(needs)
    for flavor, line in lines.items():
        units = named.get(flavor)
        if units is None and only_needs:
            continue
        usage = dict(line.after(place, units)) if units else {}
        for node in path:
            above = usage.get(node, line.usage[node]) - line.subtree[node]
            if above > 0:
                result[node] += line.flavor.value * above
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
