"""The quota tree: what each team may use now, what it is promised, and who lends what to whom (SEMANTICS 2)."""

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from math import lcm
from typing import TypeVar

from queues.admission.world import Attempt, Flavor, NodeState, Placed, Quota, World

ROOT = 0
Lender = TypeVar("Lender")
NO_QUOTA = Quota(flavor=0)


class Tree:
    """The teams as dense numbers: 0 is the root, the others follow in order of id."""

    def __init__(self, world: World) -> None:
        """Number the teams and remember each one's path from itself to just below the root."""
        teams = sorted(world.teams, key=lambda team: team.id)
        self.teams = teams
        self.number = {team.id: place for place, team in enumerate(teams, start=1)}
        self.parent = [ROOT, *(ROOT if team.parent is None else self.number[team.parent] for team in teams)]
        self.weight = [1000, *(team.weight for team in teams)]
        self.scale = lcm(*{weight for weight in self.weight if weight})
        self.ids = [0, *(team.id for team in teams)]
        self.children: list[list[int]] = [[] for _ in self.parent]
        for place in range(1, len(self.parent)):
            self.children[self.parent[place]].append(place)
        self.path = [tuple(self._climb(place)) for place in range(len(self.parent))]
        self.counting = [self._counting(path) for path in self.path]
        self.upward = sorted(range(1, len(self.parent)), key=lambda place: (-len(self.path[place]), place))

    def _counting(self, path: tuple[int, ...]) -> tuple[int, ...]:
        """Return where what a user has in a team is counted: there, and in the departments above that limit it."""
        return tuple(node for node in path if node == path[0] or self.teams[node - 1].per_user_limit is not None)

    def _climb(self, place: int) -> Iterator[int]:
        while place != ROOT:
            yield place
            place = self.parent[place]


class Line:
    """Quota and usage of all teams on one flavor; numbers are counted units."""

    def __init__(
        self, tree: Tree, flavor: Flavor, quotas: dict[int, Quota], installed: int, promised_base: int
    ) -> None:
        """Take the quotas by team number, the units of all nodes, and what the root may promise (SEMANTICS 2)."""
        size = len(tree.parent)
        self.tree = tree
        self.flavor = flavor
        self.installed = installed
        rows = [quotas.get(place, NO_QUOTA) for place in range(size)]
        self.guaranteed = [row.guaranteed for row in rows]
        self.borrow = [row.borrow_limit for row in rows]
        self.lend = [row.lend_limit for row in rows]
        self.promised = sum(self.guaranteed[1:])
        self._base = promised_base
        self.guaranteed[ROOT] = max(0, promised_base - self.promised)
        self.overcommitted = False
        self.subtree = list(self.guaranteed)
        self.local = [0] * size
        for place in tree.upward:
            limit = self.lend[place]
            self.local[place] = 0 if limit is None else max(0, self.subtree[place] - limit)
            self.subtree[tree.parent[place]] += self.subtree[place] - self.local[place]
        self.start([0] * size, [0] * size)
        self._most: dict[int, int] = {}
        self._limits: dict[int, bool] = {}

    def take(self, place: int, units: int) -> None:
        """Add units (negative: give them back) to the usage of a team and of what lies above it."""
        usage, local, parent = self.usage, self.local, self.tree.parent
        while units:
            before = usage[place]
            after = usage[place] = before + units
            if place == ROOT:
                break
            kept = local[place]
            units = (after - kept if after > kept else 0) - (before - kept if before > kept else 0)
            place = parent[place]
        self._available_now.clear()
        self._promised_now.clear()

    def install(self, units: int) -> None:
        """Let the root promise units more (negative: less), where what our tasks hold on unusable nodes changes."""
        self._base += units
        root = max(0, self._base - self.promised)
        more = root - self.guaranteed[ROOT]
        if more:
            self.guaranteed = [root, *self.guaranteed[1:]]
            self.subtree = [self.subtree[ROOT] + more, *self.subtree[1:]]
            self._available_now.clear()

    def after(self, place: int, units: int) -> list[tuple[int, int]]:
        """Return the usage after the ask of each node that it changes, from the team up to the root."""
        usage, local, parent = self.usage, self.local, self.tree.parent
        changed = []
        while units:
            before = usage[place]
            after = before + units
            changed.append((place, after))
            if place == ROOT:
                break
            kept = local[place]
            units = (after - kept if after > kept else 0) - (before - kept if before > kept else 0)
            place = parent[place]
        return changed

    def usage_with(self, place: int, units: int, node: int) -> int:
        """Return the usage of a node of a team's path with the team's ask in use."""
        usage, local, parent = self.usage, self.local, self.tree.parent
        while units:
            before = usage[place]
            after = before + units
            if place == node:
                return after
            if place == ROOT:
                break
            kept = local[place]
            units = (after - kept if after > kept else 0) - (before - kept if before > kept else 0)
            place = parent[place]
        return usage[node]

    def within(self, place: int, units: int) -> int | None:
        """Return the lowest node of the path that the ask leaves at or under its promise; None: it borrows."""
        if not units:
            return place
        usage, local, parent, subtree = self.usage, self.local, self.tree.parent, self.subtree
        while place != ROOT:
            before = usage[place]
            after = before + units
            if after <= subtree[place]:
                return place
            kept = local[place]
            units = (after - kept if after > kept else 0) - (before - kept if before > kept else 0)
            place = parent[place]
        return None

    def promised_room(self, place: int) -> int:
        """Return the largest ask with which the team stays within some node of its path; below zero: none."""
        known = self._promised_now.get(place)
        if known is None:
            absorbed, rooms = 0, []
            for node in self.tree.path[place]:
                rooms.append(self.subtree[node] - self.usage[node] + absorbed)
                absorbed += max(0, self.local[node] - self.usage[node])
            known = self._promised_now[place] = max(rooms)
        return known

    def available(self, place: int) -> int:
        """Return how many units the team could take now, whoever they belong to; never below zero."""
        known = self._available_now.get(place)
        if known is None:
            known = self._available_now[place] = max(0, self._available(place, self.usage, self.subtree[ROOT]))
        return known

    def most(self, place: int) -> int:
        """Return what the tree could give the team on all installed nodes with everybody else idle."""
        known = self._most.get(place)
        if known is None:
            whole = self.subtree[ROOT] - self.guaranteed[ROOT] + max(0, self.installed - self.promised)
            known = self._most[place] = max(0, self._available(place, [0] * len(self.usage), whole))
        return known

    def _available(self, place: int, usage: list[int], root: int) -> int:
        room = root - usage[ROOT]
        for node in reversed(self.tree.path[place]):
            kept, used = self.local[node], usage[node]
            room = max(0, room)
            limit = self.borrow[node]
            if limit is not None:
                room = min(room, self.subtree[node] - kept - max(0, used - kept) + limit)
            room += max(0, kept - used)
        return room

    def limited_by(self, place: int, units: int, *, alone: bool = False) -> int | None:
        """Return the lowest node whose guarantee plus borrow limit the ask would pass (``alone``: nothing in use).

        Limits bind what borrows: at the node within whose guarantee the ask is, and above it, siblings may over-use,
        and the ask may claim from them.
        """
        if not self._bounded(place):
            return None
        rows = self._alone(place, units) if alone else self.after(place, units)
        promised = None if alone else self.within(place, units)
        for node, after in rows:
            if node == promised:
                return None
            limit = self.borrow[node]
            if node != ROOT and limit is not None and after > self.subtree[node] + limit:
                return node
        return None

    def _bounded(self, place: int) -> bool:
        known = self._limits.get(place)
        if known is None:
            known = self._limits[place] = any(self.borrow[node] is not None for node in self.tree.path[place])
        return known

    def _alone(self, place: int, units: int) -> list[tuple[int, int]]:
        rows = []
        for node in self.tree.path[place]:
            rows.append((node, units))
            units = max(0, units - self.local[node])
        return rows

    def covers(self, place: int, units: int, *, alone: bool = False) -> bool:
        """Whether firm use, the ask included, stays within the team's guarantee and the pools above it."""
        for node in self.tree.path[place]:
            own = self.guaranteed[node]
            before = 0 if alone else self.firm[node]
            units = max(0, before + units - own) - max(0, before - own)
            if not units:
                return True
        return not units

    def copy(self) -> "Line":
        """Return a line with the same quotas whose usage goes its own way."""
        other = copy(self)
        other.start(list(self.usage), list(self.firm))
        return other

    def start(self, usage: list[int], firm: list[int]) -> None:
        """Begin with this usage; what was worked out before is forgotten."""
        self.usage = usage
        self.firm = firm
        self._available_now: dict[int, int] = {}
        self._promised_now: dict[int, int] = {}

    def take_firm(self, place: int, units: int) -> None:
        """Add firm units to a team; what passes its guarantee counts in the pool above."""
        for node in self.tree.path[place]:
            own, before = self.guaranteed[node], self.firm[node]
            self.firm[node] = before + units
            units = max(0, before + units - own) - max(0, before - own)


def demand(attempt: Attempt, *, surplus: bool = True) -> dict[int, int]:
    """Return the units that a wave still holds, by flavor id, with or without its soft ones."""
    return units_of(attempt, attempt.placed + attempt.surplus if surplus else attempt.placed)


def units_of(attempt: Attempt, placed: tuple[Placed, ...]) -> dict[int, int]:
    """Return the units of some tasks of a wave, by flavor id."""
    units: dict[int, int] = {}
    for row in placed:
        flavor = attempt.flavors[row.group]
        units[flavor] = units.get(flavor, 0) + row.tasks * attempt.groups[row.group].units
    return units


def lines(world: World, tree: Tree, *, count_lost: bool = False) -> dict[int, Line]:
    """Return the quota line of each flavor with nothing in use yet; ``count_lost`` takes every node as usable."""
    usable = dict.fromkeys((flavor.id for flavor in world.flavors), 0)
    ready = dict(usable)
    installed = dict(usable)
    elsewhere = set()
    for node in world.nodes:
        installed[node.flavor] += node.units
        if count_lost or node.state is NodeState.READY:
            usable[node.flavor] += node.units - node.outside_units
            ready[node.flavor] += node.units - node.outside_units
        else:
            elsewhere.add(node.id)
    if elsewhere:
        for attempt in world.attempts:
            for row in () if attempt.claimed else attempt.placed + attempt.surplus:
                if row.node in elsewhere:
                    usable[attempt.flavors[row.group]] += row.tasks * attempt.groups[row.group].units
    rows: dict[int, dict[int, Quota]] = {flavor: {} for flavor in usable}
    for team in world.teams:
        for quota in team.quotas:
            rows[quota.flavor][tree.number[team.id]] = quota
    result = {}
    for flavor in sorted(world.flavors, key=lambda flavor: flavor.id):
        line = Line(tree, flavor, rows[flavor.id], installed[flavor.id], usable[flavor.id])
        line.overcommitted = line.promised > ready[flavor.id]
        result[flavor.id] = line
    return result


def in_use(world: World, *, count_lost: bool = False, leaving: bool = True) -> tuple[Tree, dict[int, Line]]:
    """Return the team tree and, per flavor, its quota line with all that holds units (flags as in ``survey``)."""
    tree = Tree(world)
    result = lines(world, tree, count_lost=count_lost)
    for attempt in world.attempts:
        if attempt.leaving and not leaving:
            continue
        place = tree.number[attempt.team]
        firm = not (attempt.borrow and attempt.preemptible)
        for flavor, units in demand(attempt).items():
            result[flavor].take(place, units)
        for flavor, units in demand(attempt, surplus=False).items() if firm else ():
            result[flavor].take_firm(place, units)
    return tree, result


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """What one flavor's borrowers use and whose idle units those are; lender None is what is promised to nobody."""

    flavor: int
    borrowed: tuple[tuple[int, int], ...] = ()
    lent: tuple[tuple[int | None, int], ...] = ()
    over_lending: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Who borrows and who lends. ``attempts`` gives (attempt, flavor, borrowed units) where any are."""

    loans: tuple[Loan, ...] = ()
    attempts: tuple[tuple[int, int, int], ...] = ()


def ledger(world: World, counted: tuple[Tree, dict[int, Line]] | None = None) -> Ledger:
    """Describe the loans of this moment; it never decides. Every borrowed unit is lent by somebody or over lending.

    ``counted`` is what ``in_use`` says of the world, where it is known already.
    """
    tree, rows = counted or in_use(world)
    waves: dict[tuple[int, int], list[tuple[bool, int, int, int]]] = {}
    for attempt in world.attempts:
        firm = not (attempt.borrow and attempt.preemptible)
        for flavor, units in demand(attempt).items():
            row = (not firm, attempt.number, attempt.id, units)
            waves.setdefault((flavor, tree.number[attempt.team]), []).append(row)
    loans, attempts = [], []
    for flavor, line in rows.items():
        borrowed = []
        for place in range(1, len(tree.parent)):
            if tree.children[place] or line.usage[place] <= line.guaranteed[place]:
                continue
            borrowed.append((tree.ids[place], line.usage[place] - line.guaranteed[place]))
            left = line.guaranteed[place]
            for _, _, attempt_id, units in sorted(waves[flavor, place]):
                above = units - min(units, left)
                left -= units - above
                if above:
                    attempts.append((attempt_id, flavor, above))
        total = sum(units for _, units in borrowed)
        lent = pro_rata(total, list(_idle(tree, line)))
        over = total - sum(units for _, units in lent)
        loans.append(Loan(flavor=flavor, borrowed=tuple(borrowed), lent=lent, over_lending=over))
    return Ledger(loans=tuple(loans), attempts=tuple(sorted(attempts)))


def _idle(tree: Tree, line: Line) -> Iterator[tuple[int | None, int]]:
    """Yield the idle lendable units of leaves, pools and, last, of what is promised to nobody."""
    for place in range(1, len(tree.parent)):
        own = line.guaranteed[place]
        if not tree.children[place]:
            own = max(0, own - max(line.usage[place], line.local[place]))
        yield tree.ids[place], own
    yield None, line.guaranteed[ROOT]


def pro_rata(total: int, idle: Iterable[tuple[Lender, int]]) -> tuple[tuple[Lender, int], ...]:
    """Spread the total over the lenders in proportion to what they have idle, largest remainder first, then order."""
    rows = [(lender, units) for lender, units in idle if units > 0]
    whole = sum(units for _, units in rows)
    total = min(total, whole)
    if not total:
        return ()
    parts = [total * units // whole for _, units in rows]
    by_remainder = sorted(range(len(rows)), key=lambda row: (-(total * rows[row][1] % whole), row))
    for row in by_remainder[: total - sum(parts)]:
        parts[row] += 1
    return tuple((lender, part) for (lender, _), part in zip(rows, parts, strict=True) if part)
