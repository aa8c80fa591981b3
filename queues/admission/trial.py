"""A claim's trial: usage and nodes as they will be once some have gone, less what planned starts need (SEMANTICS 8)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from queues.admission.board import Board
from queues.admission.nodes import Ground, Room
from queues.admission.placement import fits, witness
from queues.admission.plans import Asker, Case, Plan
from queues.admission.quota import units_of
from queues.admission.rooms import least, minus, negative, plus, rooms_of
from queues.admission.shapes import Option
from queues.admission.shares import borrowed
from queues.admission.world import Attempt, Milliseconds, Placed, Queue


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Tasks that go together: a whole attempt, of an independent job one task. ``needs`` is on lacking flavors only."""

    attempt: Attempt
    rows: tuple[Placed, ...]
    place: int
    needs: dict[int, int]
    own: bool
    everything: dict[int, int]


class Nodes:
    """The nodes of one trial; what ends before a planned start gives room until then, and none beside it."""

    def __init__(self, board: Board, binding: list[Plan]) -> None:
        """Begin with all gone that leaves and with the planned starts that bind the claimant."""
        self.ground: Ground = board.later()
        self._plans_on: dict[int, list[tuple[Plan, dict[int, Room]]]] = {}
        for plan in binding:
            spare = dict(plan.spare)
            for node in plan.needs:
                self._plans_on.setdefault(node, []).append((plan, spare))
        self._rooms: dict[int, Room] = {}
        self.planned = self._plans_on.keys()
        for node in sorted(self.planned):
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
        for plan, spare in self._plans_on[node]:
            if node in spare and plan.outlasted_by(ends):
                spare[node] = plus(spare[node], room)
        self._look(node)

    def _look(self, node: int) -> None:
        room = self._rooms[node]
        for plan, spare in self._plans_on[node]:
            room = least(room, spare[node]) if node in spare else minus(room, plan.needs[node])
        self.ground.set(node, room)


class Trial:
    """The board as it would be for one claimant: without what leaves, without surplus, and then without the chosen.

    ``lines`` is usage by flavor, ``surplus`` what is taken back first, in order; ``binding`` are the planned starts
    that bind the claimant.
    """

    def __init__(self, board: Board, asker: Asker, option: Option, *, queue: Queue, user: int) -> None:
        """Take out of usage and of the nodes what goes anyway."""
        self.board = board
        self.asker = asker
        self.option = option
        self.place = asker.case.place
        self.lines = {flavor: board.lines[flavor].copy() for flavor in board.lines}
        self.binding: list[Plan] = board.binding(asker, option)
        self.surplus = surplus_order(board, self.place) if board.with_surplus else []
        self._queue = queue
        self._user = user
        self._gone: set[Candidate] = set()
        self._freed: dict[Candidate, tuple[dict[int, Room], dict[int, int]]] = {}
        self._given_back: Counter[int | None] = Counter()
        for attempt, row in self.surplus:
            self._give_back(attempt, row, 1)
        for attempt in board.running.values() if board.with_surplus else ():
            self._use(attempt, attempt.surplus, -1)
        for attempt in board.leaving:
            self._use(attempt, attempt.placed, -1)

    @property
    def case(self) -> Case:
        """Return what the claimant asks for, as a team's."""
        return self.asker.case

    @cached_property
    def nodes(self) -> Nodes:
        """Return the nodes as they will be, less what binds the claimant, with all surplus gone."""
        nodes = Nodes(self.board, self.binding)
        if self.board.kept and self.board.minds_keeps(self.asker, self.option):
            for node, room in self.board.kept.items():
                nodes.shift(node, negative(room))
        for attempt, row in self.surplus:
            for node, room in rooms_of(attempt, (row,)).items():
                nodes.shift(node, room)
        return nodes

    def put(self, chosen: Iterable[Candidate], sign: int = 1) -> None:
        """Let candidates be gone (``sign`` -1: be there again)."""
        units: dict[tuple[int, int], int] = {}
        lost: dict[int, int] = {}
        rooms: dict[tuple[int, Milliseconds | None], Room] = {}
        for candidate in chosen:
            (self._gone.add if sign > 0 else self._gone.discard)(candidate)
            freed, elsewhere = self._freed_by(candidate)
            for flavor, count in candidate.needs.items():
                key = (candidate.place, flavor)
                units[key] = units.get(key, 0) + count
                if elsewhere:
                    lost[flavor] = lost.get(flavor, 0) + elsewhere.get(flavor, 0)
            ends = candidate.attempt.ends_by if self.binding else 0
            for node, room in freed.items():
                rooms[node, ends] = plus(rooms[node, ends], room) if (node, ends) in rooms else room
        for (place, flavor), count in units.items():
            self.lines[flavor].take(place, -count * sign)
        for flavor, count in lost.items():
            if count:
                self.lines[flavor].install(-count * sign)
        for (node, ends), room in rooms.items():
            self.nodes.shift(node, room if sign > 0 else negative(room), ends=ends)

    def frees_alike(self, candidate: Candidate) -> bool:
        """Whether each unit that goes with a candidate is one more for the claimant, whichever nodes it is on.

        It is not on a node that is not usable, of which more is taken than is there, or that a start is planned on.
        """
        nodes, places = self.nodes, {row.node for row in candidate.rows}
        kinds = [nodes.ground.where.get(node) for node in places if node not in nodes.planned]
        return len(kinds) == len(places) and all(kind is not None and kind.units >= 0 for kind in kinds)

    def fewest_surplus(self, chosen: Iterable[Candidate] = ()) -> list[tuple[Attempt, Placed]]:
        """Put surplus back where the claim succeeds beside it, the last in order first; return what has to go."""
        evicted = {candidate.attempt.id for candidate in chosen}
        needed = [row for row in self.surplus if row[0].id not in evicted]
        for attempt, row in list(reversed(needed)):
            self._leave(attempt, row, -1)
            if self.succeeds():
                needed.remove((attempt, row))
            else:
                self._leave(attempt, row, 1)
        return needed

    def succeeds(self) -> bool:
        """Return whether the claimant could start as it is."""
        return self._user_has_room() and self._has_quota() and fits(self.nodes.ground, self.option)

    def witness(self) -> tuple[Placed, ...] | None:
        """Return where the claimant would be; None where it finds no place."""
        return witness(self.nodes.ground, self.option, self.board.mix(self.option.patterns[0].flavor))

    def inside(self) -> bool:
        """Return whether the claimant would be inside its guarantee."""
        return all(self.lines[flavor].within(self.place, units) is not None for flavor, units in self.option.needs)

    def lacking(self) -> list[int]:
        """Return the flavors on which there is no quota or no room for a group; where only all together fail, all."""
        option = self.option
        result = {flavor for flavor, units in option.needs if self.lines[flavor].available(self.place) < units}
        for pattern, tasks in zip(option.patterns, option.tasks, strict=True):
            if all(room < tasks for room in self.nodes.ground.rooms(pattern).values()):
                result.add(pattern.flavor)
        return sorted(result) or [flavor for flavor, _ in option.needs]

    def deficits(self) -> dict[int, int]:
        """Return what is lacking for sure on each flavor, in units."""
        result = {}
        for flavor, units in self.option.needs:
            short = units - min(self.lines[flavor].available(self.place), self.nodes.ground.free(flavor))
            if short > 0:
                result[flavor] = short
        return result

    def _leave(self, attempt: Attempt, row: Placed, sign: int) -> None:
        """Let a task of the surplus go (``sign`` -1: be there again)."""
        self._give_back(attempt, row, sign)
        for node, room in rooms_of(attempt, (row,)).items():
            self.nodes.shift(node, room if sign > 0 else negative(room))
        self._use(attempt, (row,), -sign)

    def _use(self, attempt: Attempt, placed: tuple[Placed, ...], sign: int) -> None:
        """Count tasks (``sign`` -1: out); what is held on unusable nodes comes and goes with them."""
        place = self.board.tree.number[attempt.team]
        elsewhere = self.board.elsewhere(attempt, placed)
        for flavor, units in units_of(attempt, placed).items():
            self.lines[flavor].take(place, sign * units)
            if flavor in elsewhere:
                self.lines[flavor].install(sign * elsewhere[flavor])

    def _give_back(self, attempt: Attempt, row: Placed, sign: int) -> None:
        """Count surplus of the claimant's user that goes, in its team, above that, and in its queue."""
        if attempt.user != self._user:
            return
        tree, units = self.board.tree, sign * row.tasks * attempt.groups[row.group].units
        for node in tree.counting[tree.number[attempt.team]]:
            self._given_back[node] += units
        if attempt.queue == self._queue.id:
            self._given_back[None] += units

    def _freed_by(self, candidate: Candidate) -> tuple[dict[int, Room], dict[int, int]]:
        """Return the room by node, and the units on unusable nodes by flavor, of what goes with a candidate."""
        known = self._freed.get(candidate)
        if known is None:
            attempt, rows = candidate.attempt, candidate.rows
            known = self._freed[candidate] = (rooms_of(attempt, rows), self.board.elsewhere(attempt, rows))
        return known

    def _user_has_room(self) -> bool:
        """Whether the user's limits leave room, asked only where surplus may fill them: else it has been asked."""
        if not self.board.with_surplus:
            return True
        room = self.board.user_room(self._queue, self._user, self._given_back)
        return room is None or room >= self.option.units

    def _has_quota(self) -> bool:
        if not self._leaves_quota() and not self._leaves_quota_once_gone():
            return False
        firm = self.case.shape.firm
        for flavor, units in self.option.needs:
            line = self.lines[flavor]
            if line.available(self.place) < units or (firm and not line.covers(self.place, units)):
                return False
        return True

    def _leaves_quota(self) -> bool:
        return self.board.leaves_quota(self.asker, self.option, self.binding)

    def _leaves_quota_once_gone(self) -> bool:
        """Whether planned starts find their quota beside the claimant where they no longer count its victims.

        Those that lack it now are asked first: where one of them still does, the others need not be.
        """
        sums: dict[Milliseconds | None, dict[int, Counter[int]]] = {}
        for plan in sorted(self.binding, key=self._spares):
            if plan.at not in sums:
                sums[plan.at] = self._gone_then(plan)
            for place, units in sums[plan.at].items():
                plan.change(place, units, -1)
            leaves = self._spares(plan)
            for place, units in sums[plan.at].items():
                plan.change(place, units, 1)
            if not leaves:
                return False
        return any(sums.values())

    def _spares(self, plan: Plan) -> bool:
        return self.board.leaves_quota(self.asker, self.option, [plan])

    def _gone_then(self, plan: Plan) -> dict[int, Counter[int]]:
        """Return the units by team and flavor that a planned start no longer counts."""
        sums: dict[int, Counter[int]] = {}
        for row in self._gone:
            if plan.outlasted_by(row.attempt.ends_by):
                sums.setdefault(row.place, Counter()).update(row.everything)
        return sums


def surplus_order(board: Board, place: int) -> list[tuple[Attempt, Placed]]:
    """Return all surplus tasks in the order in which an admission of a team takes them back.

    The team's own first, then those of the highest share with surplus counted; of an attempt the newest task first.
    """
    rows = []
    for attempt in board.running.values():
        if not attempt.surplus:
            continue
        team = board.tree.number[attempt.team]
        top = board.tree.path[team][-1]
        above, weight = borrowed(board.lines, top), board.tree.weight[top]
        share = (1, Fraction(0)) if above and not weight else (0, Fraction(above, weight or 1))
        for number, row in enumerate(reversed(attempt.surplus)):
            one = Placed(group=row.group, node=row.node, tasks=1)
            rows.append(((team != place, -share[0], -share[1], number, -attempt.number, -attempt.id), attempt, one))
    rows.sort(key=lambda row: row[0])
    return [(attempt, row) for _, attempt, row in rows]
