"""The best set of victims of a claim: all sets compared where they are few, else cheap ones in turn (SEMANTICS 8)."""

from math import lcm, prod

from queues.admission.costs import Costs, Key
from queues.admission.quota import Line
from queues.admission.sets import Sets
from queues.admission.trial import Candidate, Trial
from queues.admission.usage import copies
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
        self._scaled: dict[tuple[Candidate, int], Key] = {}
        self._costs = Costs(trial.board, trial.place, trial.option, copies(trial.lines))

    def best(self) -> tuple[list[Candidate] | None, bool]:
        """Return who goes, None where nobody's going lets the claim succeed; and whether all sets were compared."""
        candidates = self._victims.candidates()
        self._trial.put(candidates)
        possible = self._trial.succeeds()
        self._trial.put(candidates, -1)
        if not candidates or not possible:
            return None, True
        groups = self._merged(candidates)
        if groups is not None and prod(len(group) + 1 for group in groups) <= MOST_SETS:
            sets_of = Sets(self._trial, self._victims, self._costs, groups, any_set=self._any_set)
            return sets_of.best(), True
        return self._greedy(candidates), False

    def _merged(self, candidates: list[Candidate]) -> list[list[Candidate]] | None:
        """Merge candidates that cost and free the same, the newest first; None: these are too many."""
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
            if len(result) > MOST_MERGED:
                return None
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
            for candidate in self._ranked(few, costs, missing):
                if candidate not in barred and self._victims.stays_inside_without(chosen, candidate):
                    if self._victims.removable_too(chosen, candidate, before):
                        return candidate
                    barred.add(candidate)
            kept = [row for row in few if row not in barred and self._victims.removable_too(chosen, row, before)]
            left[first : first + FEW] = kept
            first += len(kept)
        return None

    def _ranked(self, rows: list[Candidate], costs: dict[Candidate, Key], missing: dict[int, int]) -> list[Candidate]:
        """Sort candidates, cheapest first, by the cost per unit that still lacks; what frees none comes last."""
        useful = [sum(min(units, missing.get(flavor, 0)) for flavor, units in row.needs.items()) for row in rows]
        if len(set(useful)) == 1:
            return rows
        whole = lcm(*(max(1, units) for units in useful))
        worth = []
        for place, (row, units) in enumerate(zip(rows, useful, strict=True)):
            times = whole // max(1, units)
            scaled = self._scaled.get((row, times))
            if scaled is None:
                scaled = tuple([part * times if isinstance(part, int) else part for part in costs[row]])
                self._scaled[row, times] = scaled
            worth.append((not units, scaled, place))
        return [rows[place] for _, _, place in sorted(worth)]


def _freed(chosen: list[Candidate], flavor: int) -> int:
    return sum(row.needs.get(flavor, 0) for row in chosen)


def _enough(chosen: list[Candidate], deficits: dict[int, int]) -> bool:
    """Whether what lacks for sure would be freed."""
    return all(sum(row.everything.get(flavor, 0) for row in chosen) >= short for flavor, short in deficits.items())
