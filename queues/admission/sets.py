"""All sets of victims of a claim compared, small ones first (SEMANTICS 8)."""

from collections.abc import Iterator
from operator import le

from queues.admission.costs import Costs, Key
from queues.admission.trial import Candidate, Trial
from queues.admission.victims import Victims

Vector = tuple[int, ...]
"""A set: how many of each group, the first ones, belong to it."""


class Sets:
    """Compares every set that succeeds and has no member that could stay; the trial is left as it was.

    A set of which one removal is not allowed has no larger set that is, so that what grows from it is left out.
    Where all that is wrong is that the claimant would leave its side, only victims on that side may mend it: in
    a larger set with others these could stay.
    """

    def __init__(
        self, trial: Trial, victims: Victims, costs: Costs, groups: list[list[Candidate]], *, any_set: bool
    ) -> None:
        """Take groups of those who cost and free the same; ``any_set``: whether there is a set is all that is asked."""
        self._trial = trial
        self._victims = victims
        self._costs = costs
        self._groups = groups
        self._any_set = any_set
        self._gone: Vector = (0,) * len(groups)
        self._lines = {flavor: trial.lines[flavor].copy() for flavor in victims.lacking}
        self._others = [place for place, group in enumerate(groups) if not group[0].own]
        self._removable: dict[Vector, bool] = {}
        self._useful: dict[frozenset[int | None], list[bool]] = {}
        self._enough: list[tuple[int, Vector]] = []
        self._deficits = [
            (missing, [group[0].needs.get(flavor, 0) for group in groups])
            for flavor, missing in trial.deficits().items()
        ]
        self._from = [_sums_behind(units, groups) for _, units in self._deficits]

    def best(self) -> list[Candidate] | None:
        """Return the cheapest set."""
        best: tuple[Key, list[Candidate]] | None = None
        level = [(self._gone, 0)]
        try:
            while level:
                grown: list[tuple[Vector, int]] = []
                for vector, last in level:
                    if self._could_stay(vector) or not self._may_go(vector):
                        continue
                    outside = self._outside(vector) if any(vector) and self._frees_enough(vector) else None
                    if outside is None or outside:
                        grown += self._grown(vector, last, outside)
                        continue
                    chosen = self._members(vector)
                    if self._any_set:
                        return chosen
                    self._enough.append((_bits(vector), vector))
                    key = self._costs.key(chosen)
                    if best is None or key < best[0]:
                        best = (key, chosen)
                level = sorted(grown)
        finally:
            self._let_go((0,) * len(self._groups))
        return None if best is None else best[1]

    def _members(self, vector: Vector) -> list[Candidate]:
        return [row for group, count in zip(self._groups, vector, strict=True) if count for row in group[:count]]

    def _could_stay(self, vector: Vector) -> bool:
        """Whether a smaller set is enough."""
        bits = ~_bits(vector)
        return any(not known & bits and all(map(le, less, vector)) for known, less in self._enough)

    def _may_go(self, vector: Vector) -> bool:
        """Whether all of a set may be removed; own victims are in no other's way."""
        key = tuple([vector[place] for place in self._others])
        known = self._removable.get(key)
        if known is None:
            others = [row for place in self._others for row in self._groups[place][: vector[place]]]
            known = self._removable[key] = self._victims.removable(others, self._lines)
        return known

    def _frees_enough(self, vector: Vector) -> bool:
        return all(_sum(vector, units) >= missing for missing, units in self._deficits)

    def _outside(self, vector: Vector) -> set[int | None] | None:
        """Return the nodes of its side that the claimant leaves with a set gone; None: it finds no room either."""
        self._let_go(vector)
        return self._victims.beyond(self._members(vector)) if self._trial.succeeds() else None

    def _let_go(self, vector: Vector) -> None:
        """Let just these be gone in the trial: sets that follow each other differ in a few members."""
        back: list[Candidate] = []
        out: list[Candidate] = []
        for group, before, after in zip(self._groups, self._gone, vector, strict=True):
            back += group[after:before]
            out += group[before:after]
        self._gone = vector
        if back:
            self._trial.put(back, -1)
        if out:
            self._trial.put(out)

    def _grown(self, vector: Vector, last: int, outside: set[int | None] | None) -> Iterator[tuple[Vector, int]]:
        """Yield the sets with one more member of the last useful groups, where all from these on can free enough."""
        useful = None if outside is None else self._lowering(frozenset(outside))
        for place in range(last, len(self._groups)):
            for (missing, units), behind in zip(self._deficits, self._from, strict=True):
                if _sum(vector[:place], units) + behind[place] < missing:
                    return
            if (useful is None or useful[place]) and vector[place] < len(self._groups[place]):
                yield (*vector[:place], vector[place] + 1, *vector[place + 1 :]), place

    def _lowering(self, outside: frozenset[int | None]) -> list[bool]:
        """Return of which groups a member more would lower what is used at some of these nodes."""
        known = self._useful.get(outside)
        if known is None:
            known = self._useful[outside] = [self._victims.lowers(group[0], set(outside)) for group in self._groups]
        return known


def _sum(vector: Vector, units: list[int]) -> int:
    return sum(map(int.__mul__, vector, units))


def _sums_behind(units: list[int], groups: list[list[Candidate]]) -> list[int]:
    """Return what all members from each group on free."""
    sums = [0]
    for part, group in zip(reversed(units), reversed(groups), strict=True):
        sums.append(sums[-1] + part * len(group))
    return sums[::-1]


def _bits(vector: Vector) -> int:
    """Return the groups of which a set has members, as bits."""
    return sum(1 << place for place, count in enumerate(vector) if count)
