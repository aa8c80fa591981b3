"""Claims: who may have units back, from whom, and which victims cost least (SEMANTICS 8)."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm
from operator import le

from queues.admission.board import Board
from queues.admission.nodes import Room
from queues.admission.placement import witness
from queues.admission.plans import Asker, Plan
from queues.admission.quota import Line, units_of
from queues.admission.rooms import negative, plus, rooms_of
from queues.admission.shapes import Option
from queues.admission.trial import Nodes
from queues.admission.victims import Candidate, Costs, Key, beyond_cover, dispute, firm, portions, surplus_order
from queues.admission.world import Attempt, Claim, Milliseconds, Placed, Queue, Standing, Victim

MOST_SETS = 1 << 16
MOST_MERGED = 16
FEW = 64
"""So many of the cheapest candidates are compared again after each step of the greedy search, then the next so many."""


@dataclass(frozen=True, slots=True)
class Recall:
    """A claim that succeeds: who goes, where the claimant will be, whose reservations it takes over.

    ``inside`` tells whether it will be inside its guarantee once they have gone.
    """

    victims: tuple[Victim, ...]
    placed: tuple[Placed, ...]
    taken_over: tuple[Claim, ...] = ()
    rule: str = "guarantee"
    exact: bool = True
    inside: bool = False


class Claimant:
    """One job that looks for units on one option, on the board as it is now."""

    def __init__(
        self, board: Board, asker: Asker, option: Option, queue: Queue, base: int, *, user: int, young: bool
    ) -> None:
        """``base`` is the job's class priority; ``young`` also counts tasks within their minimum run time."""
        self._board = board
        self._asker = replace(asker, ends=board.ends_after_grace(asker.ends)) if board.plans else asker
        self._case = asker.case
        self._option = option
        self._queue = queue
        self._base = base
        self._user = user
        self._given_back: Counter[int | None] = Counter()
        self._freed: dict[Candidate, tuple[dict[int, Room], dict[int, int]]] = {}
        self._young = young
        self._lines: dict[int, Line] = {}
        self._nodes: Nodes | None = None
        self._surplus: list[tuple[Attempt, Placed]] = []
        self._costs = Costs(board, asker.case.place, option, self._lines)
        self._binding: list[Plan] = []
        self._gone: set[Candidate] = set()
        self._lacks: list[int] = []
        self._disputes: dict[int, tuple[list[int], int | None]] = {}

    def from_surplus(self) -> Recall | None:
        """Return what an admission takes back of the surplus of elastic jobs; None where that is not enough."""
        self._set_up()
        if not self._surplus or not self._succeeds():
            return None
        return self._recall(self._fewest_soft(), [], exact=True)

    def within_team(self) -> Recall | None:
        """Return the claim of a job that is not inside: own victims of lower priority, and what could be borrowed."""
        return self._find(only_own=True) if self._queue.preempt_within_team else None

    def guaranteed(self) -> Recall | None:
        """Return the claim of a job inside its guarantee, reservations of lower standing taken over first."""
        board = self._board
        found = self._find(only_own=False)
        if found is not None and not found.victims:
            return found
        released = [claim for claim in sorted(board.claims.values(), key=lambda row: -row.id) if self._may_take(claim)]
        if not released:
            return found
        for claim in released:
            board.release(claim)
        after = self._find(only_own=False)
        kept: list[Claim] = []
        for claim in reversed(released):
            board.reserve(claim)
            again = self._find(only_own=False) if after is not None else None
            if again is not None and _as_good(again, after):
                kept.append(claim)
            else:
                board.release(claim)
        over = tuple(claim for claim in released if claim not in kept)
        final = self._find(only_own=False) if after is not None else None
        for claim in reversed(over):
            board.reserve(claim)
        if final is None or (found is not None and len(found.victims) <= len(final.victims)):
            return found
        return replace(final, taken_over=over)

    def _may_take(self, claim: Claim) -> bool:
        """Whether a reservation stands below this claim."""
        board = self._board
        if claim.job == self._asker.job:
            return False
        if claim.standing is Standing.BORROWER:
            return True
        other = board.option_of(claim)
        case = board.case(board.classes[claim.job_class])
        board.release(claim)
        theirs = board.inside_at(case, other)
        board.reserve(claim)
        mine = board.inside_at(self._case, self._option)
        return theirs is not None and mine is not None and theirs != mine and theirs in board.tree.path[mine]

    # --- the search

    def _set_up(self) -> None:
        """Begin a trial: usage without surplus and without what leaves, nodes as they will be."""
        board = self._board
        self._lines = {flavor: board.lines[flavor].copy() for flavor in board.lines}
        self._nodes = None
        self._gone = set()
        self._costs = Costs(board, self._case.place, self._option, self._lines)
        self._binding = board.binding(self._asker, self._option)
        self._surplus = surplus_order(board, self._case.place) if board.with_surplus else []
        self._given_back = Counter()
        for attempt, row in self._surplus:
            self._give_back(attempt, row, 1)
        for attempt in board.running.values() if board.with_surplus else ():
            self._discount(attempt, attempt.surplus)
        for attempt in board.leaving:
            self._discount(attempt, attempt.placed)

    def _discount(self, attempt: Attempt, placed: tuple[Placed, ...]) -> None:
        """Take out of usage what goes anyway."""
        self._use(attempt, placed, units_of(attempt, placed), -1)

    def _use(self, attempt: Attempt, placed: tuple[Placed, ...], needs: dict[int, int], sign: int) -> None:
        """Count tasks in the trial (``sign`` -1: out); what is held on unusable nodes comes and goes with them."""
        place = self._board.tree.number[attempt.team]
        elsewhere = self._board.elsewhere(attempt, placed)
        for flavor, units in needs.items():
            self._lines[flavor].take(place, sign * units)
            if flavor in elsewhere:
                self._lines[flavor].install(sign * elsewhere[flavor])

    def _emptied(self) -> Nodes:
        """Return the nodes as they will be, less what binds the claimant, with all surplus gone."""
        nodes = Nodes(self._board, self._binding)
        if not self._board.inside(self._case, self._option):
            for node, room in self._board.kept.items():
                nodes.shift(node, negative(room))
        for attempt, row in self._surplus:
            for node, room in rooms_of(attempt, (row,)).items():
                nodes.shift(node, room)
        return nodes

    def _find(self, *, only_own: bool) -> Recall | None:
        self._set_up()
        if self._succeeds():
            return self._recall(self._fewest_soft(), [], exact=True)
        if not any(True for _ in self._touchable([flavor for flavor, _ in self._option.needs], only_own=only_own)):
            return None
        lacking = self._lacking()
        chosen, exact = self._choose(list(self._candidates(lacking, only_own=only_own)), lacking)
        if chosen is None:
            return None
        self._put(chosen)
        return self._recall(self._fewest_soft(chosen), chosen, exact=exact)

    def _give_back(self, attempt: Attempt, row: Placed, sign: int) -> None:
        """Count surplus of the claimant's user that goes in the trial, in its team, above that, and in its queue."""
        if attempt.user != self._user:
            return
        tree, units = self._board.tree, sign * row.tasks * attempt.groups[row.group].units
        for node in tree.counting[tree.number[attempt.team]]:
            self._given_back[node] += units
        if attempt.queue == self._queue.id:
            self._given_back[None] += units

    def _user_has_room(self) -> bool:
        """Whether the user's limits leave room, asked only where surplus may fill them: else it has been asked."""
        if not self._board.with_surplus:
            return True
        room = self._board.user_room(self._queue, self._user, self._given_back)
        return room is None or room >= self._option.units

    @property
    def _trial(self) -> Nodes:
        if self._nodes is None:
            self._nodes = self._emptied()
        return self._nodes

    def _fewest_soft(self, chosen: list[Candidate] | None = None) -> list[tuple[Attempt, Placed]]:
        """Leave surplus in place where the claim succeeds without taking it back; the last in order first."""
        evicted = {candidate.attempt.id for candidate in chosen or []}
        needed = [row for row in self._surplus if row[0].id not in evicted]
        for attempt, row in list(reversed(needed)):
            freed = rooms_of(attempt, (row,))
            units = units_of(attempt, (row,))
            self._give_back(attempt, row, -1)
            for node, room in freed.items():
                self._trial.shift(node, negative(room))
            self._use(attempt, (row,), units, 1)
            if self._succeeds():
                needed.remove((attempt, row))
                continue
            self._give_back(attempt, row, 1)
            for node, room in freed.items():
                self._trial.shift(node, room)
            self._use(attempt, (row,), units, -1)
        return needed

    def _recall(self, soft: list[tuple[Attempt, Placed]], chosen: list[Candidate], *, exact: bool) -> Recall:
        board = self._board
        placed = witness(
            board.view(self._asker, self._option), self._option, board.mix(self._option.patterns[0].flavor)
        )
        placed = placed or self._witness()
        if placed is None:
            raise AssertionError("a claim that succeeds has a witness")
        by_attempt: dict[int, list[Placed]] = {}
        for attempt in {row.attempt.id: row.attempt for row in chosen if row.attempt.surplus}.values():
            by_attempt[attempt.id] = list(attempt.surplus)
        for attempt, row in soft:
            by_attempt.setdefault(attempt.id, []).append(row)
        victims = [
            Victim(attempt=number, placed=tuple(rows), surplus=True) for number, rows in sorted(by_attempt.items())
        ]
        victims += [
            Victim(attempt=row.attempt.id, placed=row.rows)
            for row in sorted(chosen, key=lambda row: (-row.attempt.number, -row.attempt.id))
        ]
        rule = "within team" if chosen and all(row.own for row in chosen) else "guarantee"
        lines, place = self._lines, self._case.place
        inside = all(lines[flavor].within(place, units) is not None for flavor, units in self._option.needs)
        return Recall(tuple(victims), placed, (), rule, exact, inside)

    def _lacking(self) -> list[int]:
        """Return the flavors on which there is no quota or no room for a group; where only all together fail, all."""
        option, place = self._option, self._case.place
        result = {flavor for flavor, units in option.needs if self._lines[flavor].available(place) < units}
        for pattern, tasks in zip(option.patterns, option.tasks, strict=True):
            if all(room < tasks for room in self._trial.ground.rooms(pattern).values()):
                result.add(pattern.flavor)
        self._lacks = sorted(result) or [flavor for flavor, _ in option.needs]
        return self._lacks

    def _touchable(self, lacking: list[int], *, only_own: bool) -> Iterator[Attempt]:
        """Yield the attempts that may be victims: old enough, not covered firm work, of teams above their S."""
        board, own_place = self._board, self._case.place
        now, number, pending = board.world.now, board.tree.number, board.pending
        base = self._base if self._queue.preempt_within_team else None
        over: dict[int, bool] = {}
        for attempt in board.running_of(own_place) if only_own else board.running.values():
            place = number[attempt.team]
            if place == own_place:
                if base is None or attempt.priority >= base:
                    continue
            else:
                above = over.get(place)
                if above is None:
                    above = over[place] = any(self._above(place, {flavor: 1}) for flavor in lacking)
                if not above:
                    continue
            if attempt.job == self._asker.job or not attempt.placed:
                continue
            if firm(attempt) and (place == own_place or attempt.id not in self._bare):
                continue
            if (attempt.safe_until <= now or self._young) and not (pending and pending[attempt.id]):
                yield attempt

    def _candidates(self, lacking: list[int], *, only_own: bool) -> Iterator[Candidate]:
        number, own_place = self._board.tree.number, self._case.place
        for attempt in sorted(self._touchable(lacking, only_own=only_own), key=_admitted):
            place = number[attempt.team]
            own = place == own_place
            for rows in self._exposed(attempt):
                everything = units_of(attempt, rows)
                needs = {flavor: units for flavor, units in everything.items() if flavor in lacking}
                if needs and (own or self._above(place, needs)):
                    yield Candidate(attempt, rows, place, needs, own=own, everything=everything)

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
            line = (lines or self._lines)[flavor]
            usage, subtree = line.usage, line.subtree
            for node in path:
                if usage[node] <= subtree[node]:
                    return False
        return True

    def _dispute(self, place: int) -> tuple[list[int], int | None]:
        known = self._disputes.get(place)
        if known is None:
            known = self._disputes[place] = dispute(self._board.tree, self._case.place, place)
        return known

    # --- what is legal, what succeeds

    def _put(self, chosen: Iterable[Candidate], sign: int = 1) -> None:
        """Let candidates be gone in the trial (``sign`` -1: be there again)."""
        units: Counter[tuple[int, int]] = Counter()
        lost: Counter[int] = Counter()
        rooms: dict[tuple[int, Milliseconds | None], Room] = {}
        for candidate in chosen:
            (self._gone.add if sign > 0 else self._gone.discard)(candidate)
            freed, elsewhere = self._freed_by(candidate)
            for flavor, count in candidate.needs.items():
                units[candidate.place, flavor] += count
                lost[flavor] += elsewhere.get(flavor, 0)
            ends = candidate.attempt.ends_by if self._binding else 0
            for node, room in freed.items():
                rooms[node, ends] = plus(rooms[node, ends], room) if (node, ends) in rooms else room
        for (place, flavor), count in units.items():
            self._lines[flavor].take(place, -count * sign)
        for flavor, count in lost.items():
            if count:
                self._lines[flavor].install(-count * sign)
        for (node, ends), room in rooms.items():
            self._trial.shift(node, room if sign > 0 else negative(room), ends=ends)

    def _freed_by(self, candidate: Candidate) -> tuple[dict[int, Room], dict[int, int]]:
        """Return the room by node, and the units on unusable nodes by flavor, of what goes with a candidate."""
        known = self._freed.get(candidate)
        if known is None:
            attempt, rows = candidate.attempt, candidate.rows
            known = self._freed[candidate] = (rooms_of(attempt, rows), self._board.elsewhere(attempt, rows))
        return known

    def _removable(self, chosen: list[Candidate], lines: dict[int, Line]) -> bool:
        """Whether removals, own victims first and smallest first, find every node above its S; ``lines``: before any.

        Where they do not, they do not either with more victims.
        """
        lines = {flavor: lines[flavor].copy() for flavor in self._lacks}
        for candidate in sorted(chosen, key=_removal):
            if not candidate.own and not self._above(candidate.place, candidate.needs, lines):
                return False
            for flavor, units in candidate.needs.items():
                lines[flavor].take(candidate.place, -units)
        return True

    def _works(self, chosen: list[Candidate]) -> bool:
        """Whether the claimant stays on its side and the claim succeeds, once the chosen are gone."""
        self._put(chosen)
        try:
            return self._stays_inside(chosen) and self._succeeds()
        finally:
            self._put(chosen, -1)

    def _stays_inside(self, chosen: list[Candidate]) -> bool:
        """Whether the claimant stays within its side of each dispute, with the victims gone."""
        place = self._case.place
        below = {self._dispute(other)[1] for other in {row.place for row in chosen if not row.own}}
        for node in below:
            if node is None:
                return False
            for flavor, units in self._option.needs:
                line = self._lines[flavor]
                if flavor in self._lacks and line.usage_with(place, units, node) > line.subtree[node]:
                    return False
        return True

    def _succeeds(self) -> bool:
        """Whether the claimant could start in the trial as it is."""
        return self._user_has_room() and self._has_quota() and self._witness() is not None

    def _has_quota(self) -> bool:
        place, firm = self._case.place, self._case.shape.firm
        if not self._leaves_quota() and not self._leaves_quota_once_gone():
            return False
        for flavor, units in self._option.needs:
            line = self._lines[flavor]
            if line.available(place) < units or (firm and not line.covers(place, units)):
                return False
        return True

    def _leaves_quota(self) -> bool:
        return self._board.leaves_quota(self._asker, self._option, self._binding)

    def _leaves_quota_once_gone(self) -> bool:
        """Whether planned starts find their quota beside the claimant where they no longer count its victims."""
        gone = [(plan, row) for plan in self._binding for row in self._gone if plan.outlasted_by(row.attempt.ends_by)]
        for plan, row in gone:
            plan.change(row.place, row.everything, -1)
        leaves = bool(gone) and self._leaves_quota()
        for plan, row in gone:
            plan.change(row.place, row.everything, 1)
        return leaves

    def _witness(self) -> tuple[Placed, ...] | None:
        """Return where the claimant would be."""
        return witness(self._trial.ground, self._option, self._board.mix(self._option.patterns[0].flavor))

    # --- the best set

    def _choose(self, candidates: list[Candidate], lacking: list[int]) -> tuple[list[Candidate] | None, bool]:
        self._put(candidates)
        possible = self._succeeds()
        self._put(candidates, -1)
        if not candidates or not possible:
            return None, True
        groups = self._merged(candidates)
        sets = 1
        for group in groups:
            sets *= len(group) + 1
        if len(groups) <= MOST_MERGED and sets <= MOST_SETS:
            return self._exact(groups), True
        return self._greedy(candidates, lacking), False

    def _merged(self, candidates: list[Candidate]) -> list[list[Candidate]]:
        """Merge candidates that cost and free the same, the newest first."""
        result: dict[object, list[Candidate]] = {}
        plain = self._plain()
        for candidate in candidates:
            attempt = candidate.attempt
            where = None if plain else candidate.rows
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
        board = self._board
        return all(
            pattern.units == 1 and not pattern.cpu and not pattern.memory and not pattern.labels
            for pattern in self._option.patterns
        ) and not (
            self._option.together or any(self._option.topologies) or len({n.cluster for n in board.world.nodes}) > 1
        )

    def _exact(self, groups: list[list[Candidate]]) -> list[Candidate] | None:
        """Compare every set that succeeds and has no member that could stay; small sets first.

        A set of which one removal is not allowed has no larger set that is, so that what grows from it is left out.
        Where the young are counted nobody goes yet: whether there is a set is all that is asked.
        """
        deficits = self._deficits()
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
                if not self._removable(chosen, self._lines):
                    continue
                freed_enough = all(_freed(chosen, flavor) >= missing for flavor, missing in deficits.items())
                if chosen and freed_enough and self._works(chosen):
                    if self._young:
                        return chosen
                    enough.append((groups_of, vector))
                    key = self._costs.key(chosen)
                    if best is None or key < best[0]:
                        best = (key, chosen)
                    continue
                grown += _grown(groups, vector, last, deficits)
            level = sorted(grown)
        return None if best is None else best[1]

    def _deficits(self) -> dict[int, int]:
        """Return what is lacking for sure on each flavor, in units."""
        result = {}
        for flavor, units in self._option.needs:
            short = units - min(self._lines[flavor].available(self._case.place), self._trial.ground.free(flavor))
            if short > 0:
                result[flavor] = short
        return result

    def _greedy(self, candidates: list[Candidate], lacking: list[int]) -> list[Candidate] | None:
        """Take what costs least per unit that still lacks until the claim succeeds, then drop what is not needed.

        What may not be removed beside the chosen may not be later either, since these only become more.
        """
        chosen: list[Candidate] = []
        deficits, before = self._deficits(), {flavor: self._lines[flavor].copy() for flavor in lacking}
        costs = {candidate: self._costs.of_one(candidate) for candidate in candidates}
        left = sorted(candidates, key=lambda row: costs[row])
        barred: set[Candidate] = set()
        try:
            while not (chosen and _enough(chosen, deficits) and self._succeeds()):
                missing = {flavor: max(0, deficits.get(flavor, 0) - _freed(chosen, flavor)) for flavor in lacking}
                best = self._cheapest(left, chosen, costs, missing, barred, before)
                if best is None:
                    return None
                left.remove(best)
                chosen.append(best)
                self._put([best])
            for candidate in sorted(chosen, key=lambda row: costs[row], reverse=True):
                rest = [row for row in chosen if row is not candidate]
                self._put([candidate], -1)
                if _enough(rest, deficits) and self._stays_inside(rest) and self._succeeds():
                    chosen = rest
                else:
                    self._put([candidate])
        finally:
            self._put(chosen, -1)
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
                if candidate not in barred and self._stays_inside_without(chosen, candidate):
                    if self._removable([*chosen, candidate], before):
                        return candidate
                    barred.add(candidate)
            kept = [row for row in few if row not in barred and self._removable([*chosen, row], before)]
            left[first : first + FEW] = kept
            first += len(kept)
        return None

    def _stays_inside_without(self, chosen: list[Candidate], candidate: Candidate) -> bool:
        """Whether the claimant stays on its side with the chosen, which have gone, and one more gone."""
        for flavor, units in candidate.needs.items():
            self._lines[flavor].take(candidate.place, -units)
        stays = self._stays_inside([*chosen, candidate])
        for flavor, units in candidate.needs.items():
            self._lines[flavor].take(candidate.place, units)
        return stays


def _freed(chosen: list[Candidate], flavor: int) -> int:
    return sum(row.needs.get(flavor, 0) for row in chosen)


def _grown(
    groups: list[list[Candidate]], vector: tuple[int, ...], last: int, deficits: dict[int, int]
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the sets with one more member of the last group or of one behind it, where these can free enough."""
    counts = [*vector[:last], *(len(group) for group in groups[last:])]
    for place in range(last, len(groups)):
        if any(_all_freed(groups, counts, flavor) < missing for flavor, missing in deficits.items()):
            return
        if vector[place] < len(groups[place]):
            yield (*vector[:place], vector[place] + 1, *vector[place + 1 :]), place
        counts[place] = vector[place]


def _members(vector: tuple[int, ...]) -> int:
    """Return the groups of which a set has members, as bits."""
    return sum(1 << place for place, count in enumerate(vector) if count)


def _all_freed(groups: list[list[Candidate]], counts: list[int], flavor: int) -> int:
    return sum(count * group[0].needs.get(flavor, 0) for group, count in zip(groups, counts, strict=True) if count)


def _admitted(attempt: Attempt) -> tuple[int, int]:
    return (attempt.number, attempt.id)


def _removal(candidate: Candidate) -> tuple[bool, int, int, int]:
    attempt = candidate.attempt
    return (not candidate.own, sum(candidate.needs.values()), attempt.number, attempt.id)


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


def _as_good(one: Recall, other: Recall | None) -> bool:
    return other is not None and len(one.victims) <= len(other.victims)
