"""What all attempts together hold, moved on from one decision to the next by those that came, changed and went."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import compress
from operator import attrgetter, is_not
from typing import TypeVar

from queues.admission.nodes import Ground, Room, survey
from queues.admission.quota import Line, Tree
from queues.admission.rooms import NOTHING, minus, plus, rooms_of
from queues.admission.world import Attempt, JobShape, Labels, NodeState, World

MOST_KINDS = 20_000
"""Kinds of nodes remembered before all is counted anew."""

Tasks = tuple[int, int, int, int, Labels]
"""What tasks are like: flavor, units, CPU, memory and labels."""


Key = TypeVar("Key")
Row = TypeVar("Row")
_number = attrgetter("id")


class Settled:
    """Rooms, quota and users with nothing decided yet; a board copies them."""

    def __init__(self, world: World, tree: Tree, lines: dict[int, Line]) -> None:
        """Begin with empty nodes and the quota lines with nothing in use, on unusable nodes neither."""
        self._tree = tree
        self._unusable = {node.id for node in world.nodes if node.state is not NodeState.READY}
        self._known: dict[int, Attempt] = {}
        self._moved: dict[int, Room] = {}
        self._rows: Counter[tuple[int, int]] = Counter()
        self._values = {flavor.id: flavor.value for flavor in world.flavors}
        self._world = world
        self.ground: Ground = survey(world, attempts=())
        self.lines = {flavor: line.copy() for flavor, line in lines.items()}
        self.hard = {flavor: line.copy() for flavor, line in lines.items()}
        self.used_value: Counter[tuple[int, int]] = Counter()
        self.used_in_team: Counter[tuple[int, int]] = Counter()
        self.used_in_queue: Counter[tuple[int, int]] = Counter()
        self.soft_in_team: Counter[tuple[int, int]] = Counter()
        self.soft_in_queue: Counter[tuple[int, int]] = Counter()
        self.running_in: Counter[int] = Counter()
        self.running: dict[int, Attempt] = {}
        self.leaving: dict[int, Attempt] = {}
        self.with_surplus = 0
        self.soft = 0
        self.elastic = 0
        self.shapes: Counter[Tasks] = Counter()

    def move(self, world: World) -> bool:
        """Count the attempts of another world; return whether that was possible: it needs one id for each."""
        fresh = dict(zip(map(_number, world.attempts), world.attempts, strict=True))
        if len(fresh) < len(world.attempts) or len(self.ground.kinds) > MOST_KINDS + len(world.nodes):
            return False
        known, self._world = self._known, world
        for number in others(fresh, known):
            before, attempt = known.get(number), fresh[number]
            if before == attempt:
                continue
            if before is not None:
                self._count(before, -1)
            self._count(attempt, 1)
        for number in known.keys() - fresh.keys():
            self._count(known[number], -1)
        # Each node once: what it is between two attempts is no kind of nodes to remember.
        for node, room in self._moved.items():
            self.ground.shift(node, room)
        self._moved.clear()
        self._known = fresh
        return True

    def of(self, world: World) -> bool:
        """Whether this very world is what was counted last."""
        return self._world is world

    def _count(self, attempt: Attempt, sign: int) -> None:
        place = self._tree.number[attempt.team]
        for node, room in rooms_of(attempt, (*attempt.placed, *attempt.surplus)).items():
            self._moved[node] = (minus if sign > 0 else plus)(self._moved.get(node, NOTHING), room)
        for row in attempt.placed:
            group = attempt.groups[row.group]
            shape = (attempt.flavors[row.group], group.units, group.cpu, group.memory, group.labels)
            _add(self.shapes, shape, sign * row.tasks)
        self.soft += sign * bool(attempt.surplus)
        if attempt.leaving:
            _put(self.leaving, attempt, sign)
        elif attempt.placed or attempt.surplus:
            _put(self.running, attempt, sign)
            self.running_in[place] += sign
            self.elastic += sign * (attempt.shape is JobShape.ELASTIC)
            self.with_surplus += sign * bool(attempt.surplus)
        if not attempt.claimed:
            self._use(attempt, place, sign)

    def _use(self, attempt: Attempt, place: int, sign: int) -> None:
        firm = not (attempt.borrow and attempt.preemptible)
        user, queue = (place, attempt.user), attempt.queue
        counting = self._tree.counting[place]
        for soft, placed in ((False, attempt.placed), (True, attempt.surplus)):
            for row in placed:
                flavor = attempt.flavors[row.group]
                units = sign * row.tasks * attempt.groups[row.group].units
                self.lines[flavor].take(place, units)
                if not soft:
                    self.hard[flavor].take(place, units)
                if row.node in self._unusable:
                    self.lines[flavor].install(units)
                    self.hard[flavor].install(units)
                if firm and not soft:
                    self.lines[flavor].take_firm(place, units)
                # What leaves already cannot be taken back for the user's next job.
                still = soft and not attempt.leaving
                self.used_value[user] += 0 if still else units * self._values[flavor]
                self._use_of_user(counting, attempt.user, queue, units, soft=still)
                for node in counting:
                    self._rows[node, attempt.user] += sign
        for node in counting:
            if not self._rows[node, attempt.user]:
                self._rows.pop((node, attempt.user), None)
                self.used_in_team.pop((node, attempt.user), None)

    def _use_of_user(self, counting: tuple[int, ...], user: int, queue: int | None, units: int, *, soft: bool) -> None:
        for node in counting:
            self.used_in_team[node, user] += units
            if soft:
                self.soft_in_team[node, user] += units
        if queue is not None:
            self.used_in_queue[queue, user] += units
            if soft:
                self.soft_in_queue[queue, user] += units


def others(now: dict[Key, Row], before: dict[Key, Row]) -> Iterator[Key]:
    """Yield the keys under which another object lies than before; only identity is compared, in no loop of ours."""
    return compress(now, map(is_not, now.values(), map(before.get, now)))


def _put(rows: dict[int, Attempt], attempt: Attempt, sign: int) -> None:
    if sign > 0:
        rows[attempt.id] = attempt
    else:
        del rows[attempt.id]


def _add(counts: Counter[Tasks], key: Tasks, number: int) -> None:
    counts[key] += number
    if not counts[key]:
        del counts[key]


def shapes_of(attempts: Iterable[Attempt]) -> Counter[Tasks]:
    """Count the running tasks of each shape."""
    counts: Counter[Tasks] = Counter()
    for attempt in attempts:
        for row in attempt.placed:
            group = attempt.groups[row.group]
            counts[attempt.flavors[row.group], group.units, group.cpu, group.memory, group.labels] += row.tasks
    return counts
