"""Who may go for a claim, in what portions, and how far (SEMANTICS 8)."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from queues.admission.board import Board
from queues.admission.quota import ROOT, Line, Tree, units_of
from queues.admission.trial import Candidate, Trial
from queues.admission.world import Attempt, JobShape, Placed


def portions(attempt: Attempt) -> Iterator[tuple[Placed, ...]]:
    """Yield what goes together: of an independent job one task, else everything."""
    if attempt.shape is not JobShape.INDEPENDENT:
        yield attempt.placed
        return
    for row in attempt.placed:
        for _ in range(row.tasks):
            yield (replace(row, tasks=1),)


def firm(attempt: Attempt) -> bool:
    """Whether an attempt may not be recalled as long as guarantees cover it."""
    return not (attempt.borrow and attempt.preemptible)


def beyond_cover(board: Board) -> dict[int, dict[int, int]]:
    """Return the firm units that guarantees and pools no longer cover, by attempt and flavor: the newest admissions."""
    tops = board.tree.children[ROOT]
    short = {
        flavor: line
        for flavor, line in board.lines.items()
        if any(line.firm[top] > line.guaranteed[top] for top in tops)
    }
    result: dict[int, dict[int, int]] = {}
    if not short:
        return result
    room = {flavor: list(line.guaranteed) for flavor, line in short.items()}
    for attempt in sorted(board.running.values(), key=lambda row: (row.number, row.id)):
        for flavor, units in units_of(attempt, attempt.placed).items() if firm(attempt) else ():
            left = units
            for node in board.tree.path[board.tree.number[attempt.team]] if flavor in room else ():
                part = min(left, room[flavor][node])
                room[flavor][node] -= part
                left -= part
            if left and flavor in room:
                result.setdefault(attempt.id, {})[flavor] = left
    return result


def dispute(tree: Tree, claimant: int, place: int) -> tuple[list[int], int | None]:
    """Return a leaf's path below the common ancestor, and the claimant's node just below that (None: own team)."""
    mine = tree.path[claimant]
    path: list[int] = []
    for node in tree.path[place]:
        if node in mine:
            return path, mine[mine.index(node) - 1] if mine.index(node) else None
        path.append(node)
    return path, mine[-1]


class Victims:
    """What may go for one claim: of attempts old enough, not covered firm work, of teams above their S in its trial."""

    def __init__(self, trial: Trial, *, base: int | None, young: bool, only_own: bool) -> None:
        """``base``: own attempts of lower class priority may go; ``young``: so may tasks in their minimum run time.

        ``only_own``: those of others may only go beside own ones, where these leave the claimant within its side.
        """
        self._trial = trial
        self._board = trial.board
        self._base = base
        self._young = young
        self._only_own = only_own
        self.lacking = [flavor for flavor, _ in trial.option.needs]
        self._disputes: dict[int, tuple[list[int], int | None]] = {}

    def attempts(self) -> Iterator[Attempt]:
        """Yield the attempts of which something may go; those of others are looked at once own ones are there."""
        return self._attempts(only_own=self._only_own)

    def _attempts(self, *, only_own: bool) -> Iterator[Attempt]:
        board, own_place = self._board, self._trial.place
        now, pending = board.world.now, board.pending
        places = [] if self._base is None else [own_place]
        for place in places if only_own else [*places, *self._above_promise()]:
            for attempt in board.running_of(place):
                if place == own_place and self._base is not None and attempt.priority >= self._base:
                    continue
                if attempt.job == self._trial.asker.job or not attempt.placed:
                    continue
                if firm(attempt) and (place == own_place or attempt.id not in self._bare):
                    continue
                if (attempt.safe_until <= now or self._young) and not (pending and pending[attempt.id]):
                    yield attempt

    def _above_promise(self) -> list[int]:
        """Return the other teams above their S on a flavor that lacks, and so all above them below common ancestors."""
        tree, mine = self._board.tree, self._trial.place
        found: set[int] = set()
        for flavor in self.lacking:
            line = self._trial.lines[flavor]
            left = [child for node in (*tree.path[mine], ROOT) for child in tree.children[node]]
            while left:
                place = left.pop()
                if line.usage[place] > line.subtree[place] and place not in tree.path[mine]:
                    found.add(place)
                    left += tree.children[place]
        return sorted(found)

    def candidates(self) -> list[Candidate]:
        """Return what may go and frees something that lacks, the oldest admission first."""
        found = list(self._candidates(only_own=self._only_own))
        return list(self._candidates(only_own=False)) if self._only_own and self._fits_its_side(found) else found

    def _fits_its_side(self, own: list[Candidate]) -> bool:
        """Whether the claimant is within a node of its path with its own victims gone, so that others may go too."""
        self._trial.put(own)
        fits = any(self._within(node) for node in self._board.tree.path[self._trial.place])
        self._trial.put(own, -1)
        return fits

    def _candidates(self, *, only_own: bool) -> Iterator[Candidate]:
        number, own_place = self._board.tree.number, self._trial.place
        for attempt in sorted(self._attempts(only_own=only_own), key=_admitted):
            place = number[attempt.team]
            own = place == own_place
            for rows in self._exposed(attempt):
                everything = units_of(attempt, rows)
                needs = {flavor: units for flavor, units in everything.items() if flavor in self.lacking}
                if needs and (own or self._above(place, needs)):
                    yield Candidate(attempt, rows, place, needs, own=own, everything=everything)

    def removable(self, chosen: list[Candidate], lines: dict[int, Line]) -> bool:
        """Whether removals, own victims first and smallest first, find every node above its S; ``lines``: before any.

        Where they do not, they do not either with more victims.
        """
        gone: list[Candidate] = []
        try:
            for candidate in sorted(chosen, key=_removal):
                if not candidate.own and not self._above(candidate.place, candidate.needs, lines):
                    return False
                _take(lines, candidate, -1)
                gone.append(candidate)
            return True
        finally:
            for candidate in gone:
                _take(lines, candidate, 1)

    def removable_too(self, chosen: list[Candidate], candidate: Candidate, lines: dict[int, Line]) -> bool:
        """Whether one more may be removed beside the chosen, who may: only those below the same side are in its way."""
        side = self._side(candidate)
        return self.removable([*(row for row in chosen if self._side(row) == side), candidate], lines)

    def _side(self, candidate: Candidate) -> int | None:
        """Return the node of a victim's path just below the common ancestor; None: the claimant's own team."""
        path, _ = self._dispute(candidate.place)
        return path[-1] if path else None

    def stays_inside(self, chosen: list[Candidate]) -> bool:
        """Whether the claimant stays within its side of each dispute, where the chosen have gone in the trial."""
        return not self.beyond(chosen)

    def beyond(self, chosen: list[Candidate]) -> set[int | None]:
        """Return the nodes of the claimant's path of which fewer units would have to be used for it to stay inside."""
        below = {self._dispute(other)[1] for other in {row.place for row in chosen if not row.own}}
        found = {node for node in below if node is None or not self._within(node)}
        if below and self._only_own and not any(row.own for row in chosen):
            found.add(self._trial.place)
        return found

    def lowers(self, candidate: Candidate, nodes: set[int | None]) -> bool:
        """Whether less of any of these nodes is used once a candidate has gone."""
        return not nodes.isdisjoint(self._board.tree.path[candidate.place])

    def _within(self, node: int) -> bool:
        """Whether the claimant stays within a node of its path on the flavors that lack."""
        lines, place = self._trial.lines, self._trial.place
        lacking = [(lines[flavor], units) for flavor, units in self._trial.option.needs if flavor in self.lacking]
        return all(line.usage_with(place, units, node) <= line.subtree[node] for line, units in lacking)

    def stays_inside_without(self, chosen: list[Candidate], candidate: Candidate) -> bool:
        """Whether the claimant stays on its side with the chosen, which have gone, and one more gone."""
        lines = self._trial.lines
        _take(lines, candidate, -1)
        stays = self.stays_inside([*chosen, candidate])
        _take(lines, candidate, 1)
        return stays

    @cached_property
    def _bare(self) -> dict[int, dict[int, int]]:
        """Return the firm units that no guarantee covers, by attempt and flavor: after a cut the newest."""
        return beyond_cover(self._board)

    def _exposed(self, attempt: Attempt) -> Iterator[tuple[Placed, ...]]:
        """Yield what may go of an attempt; of firm tasks that start alone only as many as nothing covers."""
        if not firm(attempt):
            yield from portions(attempt)
            return
        left = dict(self._bare[attempt.id])
        for rows in portions(attempt):
            if not any(left.get(flavor, 0) > 0 for flavor in units_of(attempt, rows)):
                continue
            for flavor, units in units_of(attempt, rows).items():
                left[flavor] = left.get(flavor, 0) - units
            yield rows

    def _above(self, place: int, needs: dict[int, int], lines: dict[int, Line] | None = None) -> bool:
        path, _ = self._dispute(place)
        for flavor in needs:
            line = (lines or self._trial.lines)[flavor]
            usage, subtree = line.usage, line.subtree
            for node in path:
                if usage[node] <= subtree[node]:
                    return False
        return True

    def _dispute(self, place: int) -> tuple[list[int], int | None]:
        known = self._disputes.get(place)
        if known is None:
            known = self._disputes[place] = dispute(self._board.tree, self._trial.place, place)
        return known


def _take(lines: dict[int, Line], candidate: Candidate, sign: int) -> None:
    for flavor, units in candidate.needs.items():
        lines[flavor].take(candidate.place, sign * units)


def _admitted(attempt: Attempt) -> tuple[int, int]:
    return (attempt.number, attempt.id)


def _removal(candidate: Candidate) -> tuple[bool, int, int, int]:
    attempt = candidate.attempt
    return (not candidate.own, sum(candidate.needs.values()), attempt.number, attempt.id)
