"""The best set of victims of a claim: all sets compared where they are few, else cheap ones in turn (SEMANTICS 8)."""

from collections.abc import Iterator
from math import lcm
from operator import le

from queues.admission.costs import Costs, Key
from queues.admission.quota import Line
from queues.admission.trial import Candidate, Trial
from queues.admission.victims import Victims, firm

MOST_SETS = 1 << 16
MOST_MERGED = 16
FEW = 64
"""So many of the cheapest candidates are compared again after each step of the greedy search, then the next so many."""


class Choice:
    """Finds whom a claim evicts; the trial is left as it was."""

    def __init__(self, trial: Trial, victims: Victims, *, any_set: bool) -> None:
        """``any_set``: whether there is a set is all that is asked."""
        self._trial = trial
        self._victims = victims
        self._any_set = any_set
        self._costs = Costs(trial.board, trial.place, trial.option, trial.lines)

    def best(self) -> tuple[list[Candidate] | None, bool]:
        """Return who goes, None where nobody's going lets the claim succeed; and whether all sets were compared."""
        candidates = self._victims.candidates()
        self._trial.put(candidates)
        possible = self._trial.succeeds()
        self._trial.put(candidates, -1)
        if not candidates or not possible:
            return None, True
        groups = self._merged(candidates)
        sets = 1
        for group in groups:
            sets *= len(group) + 1
        if len(groups) <= MOST_MERGED and sets <= MOST_SETS:
            return self._exact(groups), True
        return self._greedy(candidates), False

    def _merged(self, candidates: list[Candidate]) -> list[list[Candidate]]:
        """Merge candidates that cost and free the same, the newest first."""
        result: dict[object, list[Candidate]] = {}
        plain = self._plain()
        for candidate in candidates:
            attempt = candidate.attempt
            where = None if plain and self._trial.frees_alike(candidate) else candidate.rows
            size = tuple((row.tasks, attempt.groups[row.group].units) for row in candidate.rows)
            key = (
                candidate.place,
                where,
                size,
                tuple(candidate.needs.items()),
                self._costs.cost(candidate),
                candidate.own,
                firm(candidate.attempt),
            )
            result.setdefault(key, []).append(candidate)
        for group in result.values():
            group.sort(key=lambda row: (-row.attempt.number, -row.attempt.id))
        return list(result.values())

    def _plain(self) -> bool:
        """Whether it does not matter on which nodes units are freed: one unit a task, nothing else asked for."""
        option, world = self._trial.option, self._trial.board.world
        return all(
            pattern.units == 1 and not pattern.cpu and not pattern.memory and not pattern.labels
            for pattern in option.patterns
        ) and not (option.together or any(option.topologies) or len({n.cluster for n in world.nodes}) > 1)

    def _exact(self, groups: list[list[Candidate]]) -> list[Candidate] | None:
        """Compare every set that succeeds and has no member that could stay; small sets first.

        A set of which one removal is not allowed has no larger set that is, so that what grows from it is left out.
        Where all that is wrong is that the claimant would leave its side, only victims on that side may mend it: in
        a larger set with others these could stay.
        """
        deficits = self._trial.deficits()
        best: tuple[Key, list[Candidate]] | None = None
        enough: list[tuple[int, tuple[int, ...]]] = []
        level = [((0,) * len(groups), 0)]
        while level:
            grown: list[tuple[tuple[int, ...], int]] = []
            for vector, last in level:
                groups_of = _members(vector)
                if any(not known & ~groups_of and all(map(le, less, vector)) for known, less in enough):
                    continue
                chosen = [row for group, count in zip(groups, vector, strict=True) for row in group[:count]]
                if not self._victims.removable(chosen, self._trial.lines):
                    continue
                freed_enough = all(_freed(chosen, flavor) >= missing for flavor, missing in deficits.items())
                outside = self._outside(chosen) if chosen and freed_enough else None
                if outside is not None and not outside:
                    if self._any_set:
                        return chosen
                    enough.append((groups_of, vector))
                    key = self._costs.key(chosen)
                    if best is None or key < best[0]:
                        best = (key, chosen)
                    continue
                useful = [outside is None or self._victims.lowers(group[0], outside) for group in groups]
                grown += _grown(groups, vector, last, deficits, useful)
            level = sorted(grown)
        return None if best is None else best[1]

    def _outside(self, chosen: list[Candidate]) -> set[int | None] | None:
        """Return the nodes of its side that the claimant leaves with the chosen gone; None: it finds no room either."""
        self._trial.put(chosen)
        try:
            return self._victims.beyond(chosen) if self._trial.succeeds() else None
        finally:
            self._trial.put(chosen, -1)

    def _greedy(self, candidates: list[Candidate]) -> list[Candidate] | None:
        """Take what costs least per unit that still lacks until the claim succeeds, then drop what is not needed.

        What may not be removed beside the chosen may not be later either, since these only become more.
        """
        chosen: list[Candidate] = []
        trial, lacking = self._trial, self._victims.lacking
        deficits, before = trial.deficits(), {flavor: trial.lines[flavor].copy() for flavor in lacking}
        costs = {candidate: self._costs.of_one(candidate) for candidate in candidates}
        left = sorted(candidates, key=lambda row: costs[row])
        barred: set[Candidate] = set()
        try:
            while not (chosen and _enough(chosen, deficits) and trial.succeeds()):
                missing = {flavor: max(0, deficits.get(flavor, 0) - _freed(chosen, flavor)) for flavor in lacking}
                best = self._cheapest(left, chosen, costs, missing, barred, before)
                if best is None:
                    return None
                left.remove(best)
                chosen.append(best)
                trial.put([best])
            for candidate in sorted(chosen, key=lambda row: costs[row], reverse=True):
                rest = [row for row in chosen if row is not candidate]
                trial.put([candidate], -1)
                if _enough(rest, deficits) and self._victims.stays_inside(rest) and trial.succeeds():
                    chosen = rest
                else:
                    trial.put([candidate])
        finally:
            trial.put(chosen, -1)
        return chosen

    def _cheapest(
        self,
        left: list[Candidate],
        chosen: list[Candidate],
        costs: dict[Candidate, Key],
        missing: dict[int, int],
        barred: set[Candidate],
        before: dict[int, Line],
    ) -> Candidate | None:
        """Return the cheapest by unit that lacks that may go beside the chosen, which have gone.

        Who has no more to give is barred, and left out for good once nobody among the cheapest may go.
        """
        first = 0
        while first < len(left):
            few = left[first : first + FEW]
            for candidate in _ranked(few, costs, missing):
                if candidate not in barred and self._victims.stays_inside_without(chosen, candidate):
                    if self._victims.removable_too(chosen, candidate, before):
                        return candidate
                    barred.add(candidate)
            kept = [row for row in few if row not in barred and self._victims.removable_too(chosen, row, before)]
            left[first : first + FEW] = kept
            first += len(kept)
        return None


def _freed(chosen: list[Candidate], flavor: int) -> int:
    return sum(row.needs.get(flavor, 0) for row in chosen)


def _grown(
    groups: list[list[Candidate]],
    vector: tuple[int, ...],
    last: int,
    deficits: dict[int, int],
    useful: list[bool],
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the sets with one more member of the last useful groups, where these and those behind can free enough."""
    counts = [*vector[:last], *(len(group) for group in groups[last:])]
    for place in range(last, len(groups)):
        if any(_all_freed(groups, counts, flavor) < missing for flavor, missing in deficits.items()):
            return
        if useful[place] and vector[place] < len(groups[place]):
            yield (*vector[:place], vector[place] + 1, *vector[place + 1 :]), place
        counts[place] = vector[place]


def _members(vector: tuple[int, ...]) -> int:
    """Return the groups of which a set has members, as bits."""
    return sum(1 << place for place, count in enumerate(vector) if count)


def _all_freed(groups: list[list[Candidate]], counts: list[int], flavor: int) -> int:
    return sum(count * group[0].needs.get(flavor, 0) for group, count in zip(groups, counts, strict=True) if count)


def _enough(chosen: list[Candidate], deficits: dict[int, int]) -> bool:
    """Whether what lacks for sure would be freed."""
    return all(sum(row.everything.get(flavor, 0) for row in chosen) >= short for flavor, short in deficits.items())


def _ranked(rows: list[Candidate], costs: dict[Candidate, Key], missing: dict[int, int]) -> list[Candidate]:
    """Sort candidates, cheapest first, by the cost per unit that still lacks; what frees none of them comes last."""
    useful = [sum(min(units, missing.get(flavor, 0)) for flavor, units in row.needs.items()) for row in rows]
    if len(set(useful)) == 1:
        return rows
    whole = lcm(*(max(1, units) for units in useful))
    worth = [
        (not units, *(part * (whole // max(1, units)) if isinstance(part, int) else part for part in costs[row]), place)
        for place, (row, units) in enumerate(zip(rows, useful, strict=True))
    ]
    return [row for _, row in sorted(zip(worth, rows, strict=True), key=lambda pair: pair[0])]
