"""Who has what of each GPU type: the numbers of a flavor, and a bar for each team."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from queues.admission.loans import Part, between_teams
from queues.admission.quota import ROOT, Line, Tree, demand, in_use, ledger
from queues.admission.world import NodeState, World
from queues.queries.estate import estate, one_moment
from queues.queries.loans import across, loans_with_jobs
from queues.queries.room import free_blocks, held
from queues.queries.rows.shares import FlavorNumbers, TeamBar, TeamLoans
from queues.queries.waits import Waits, waiting
from tenants.models import Team
from tenants.permissions import Actor, Permission, joined, teams_seen
from tenants.queries import kinds

Waiting = Mapping[tuple[int, int], Waits]


def team_bars(by: Actor, *, now: datetime, team: str = "", flavor: str = "") -> tuple[TeamBar, ...]:
    """Return a bar for each visible team (or one) and flavor that it has or may use, most starved first."""
    del now  # the bars are of this moment
    with one_moment():
        return tuple(bars_of(estate(), waiting(), by, team=team, flavor=flavor))


def team_use(by: Actor, team: str) -> tuple[tuple[TeamBar, ...], tuple[TeamLoans, ...]]:
    """Return the bars and the loans of one visible team, from one moment."""
    with one_moment():
        world, waits = estate(by_wave=True), waiting()
        loans = loans_with_jobs(world, by)
    return tuple(bars_of(world, waits, by, team=team)), tuple(row for row in loans if row.team == team)


def numbers_of(world: World, waits: Waiting) -> tuple[FlavorNumbers, ...]:
    """Return the numbers of each flavor: installed = in use + free + not usable + outside, unless over-used."""
    titles = {kind.id: kind.title for kind in kinds()}
    used: dict[int, int] = defaultdict(int)
    for attempt in world.attempts:
        for of_flavor, units in demand(attempt).items():
            used[of_flavor] += units
    on_node = held(world)
    _, lines = in_use(world)
    found = []
    for flavor in world.flavors:
        nodes = [node for node in world.nodes if node.flavor == flavor.id]
        outside = sum(node.outside_units for node in nodes if node.state is NodeState.READY)
        unusable = [node for node in nodes if node.state is not NodeState.READY]
        waits_here = [row for (_, of_flavor), row in waits.items() if of_flavor == flavor.id]
        found.append(
            FlavorNumbers(
                flavor=flavor.name,
                title=titles.get(flavor.id, ""),
                installed=sum(node.units for node in nodes),
                in_use=used[flavor.id],
                free=sum(free_blocks(world, flavor.id)),
                not_usable=sum(max(0, node.units - on_node.get(node.id, 0)) for node in unusable),
                outside=outside,
                waiting_units=sum(row.units for row in waits_here),
                waiting_jobs=sum(row.jobs for row in waits_here),
                guaranteed=lines[flavor.id].promised,
                unassigned=lines[flavor.id].guaranteed[ROOT],
            )
        )
    return tuple(found)


def bars_of(world: World, waits: Waiting, by: Actor, *, team: str = "", flavor: str = "") -> list[TeamBar]:
    """Return the bars of the visible teams from one world."""
    tree, lines = in_use(world)
    parts = between_teams(ledger(world, (tree, lines)))
    visible = {row.id: row for row in teams_seen(by, Permission.VIEW_QUOTA)}
    mine = joined(by)
    found = [
        bar
        for line in lines.values()
        if not flavor or line.flavor.name == flavor
        for bar in _of_flavor(_Facts(world, tree, line, parts, waits), visible, mine, team)
    ]
    return sorted(found, key=_most_starved_first)


def _most_starved_first(bar: TeamBar) -> tuple[int, bool, int, str, str]:
    owed = min(bar.waiting, max(0, bar.guaranteed - bar.used))
    return (-owed, bar.department, -bar.waiting, bar.team, bar.flavor)


class _Facts:
    """All numbers of one flavor by team."""

    def __init__(self, world: World, tree: Tree, line: Line, parts: Iterable[Part], waits: Waiting) -> None:
        self.tree = tree
        self.line = line
        flavor = line.flavor.id
        comes, goes = across(tree, (part for part in parts if part.flavor == flavor))
        self.guaranteed = self._summed(dict(enumerate(line.guaranteed)))
        self.used = self._summed(dict.fromkeys(range(len(tree.parent)), 0) | self._used(world, flavor))
        self.waiting = self._summed({tree.number[team]: row.units for (team, of), row in waits.items() if of == flavor})
        # Of a department what crosses its border, as in the list of loans.
        self.lent = {place: sum(part.units for part in some) for place, some in goes.items()}
        self.borrowed = {place: sum(part.units for part in some) for place, some in comes.items()}

    def _used(self, world: World, flavor: int) -> dict[int, int]:
        used: dict[int, int] = defaultdict(int)
        for attempt in world.attempts:
            used[self.tree.number[attempt.team]] += demand(attempt).get(flavor, 0)
        return used

    def _summed(self, own: Mapping[int, int]) -> dict[int, int]:
        """Return for each place what it and all below it have."""
        total: dict[int, int] = defaultdict(int)
        for place, units in own.items():
            for node in self.tree.path[place]:
                total[node] += units
        return total


def _of_flavor(facts: _Facts, visible: Mapping[int, Team], mine: frozenset[int], team: str) -> Iterator[TeamBar]:
    tree, line = facts.tree, facts.line
    for place in range(1, len(tree.parent)):
        row = visible.get(tree.ids[place])
        if row is None or (team and row.name != team):
            continue
        used, waits = facts.used[place], facts.waiting[place]
        department = bool(tree.children[place])
        # Also what its teams keep back by their lend limits, as what is used counts that too.
        guaranteed = facts.guaranteed[place] if department else line.guaranteed[place]
        if not (guaranteed or used or waits) and line.borrow[place] is None:
            continue
        above = facts.borrowed.get(place, 0)
        parent = tree.parent[place]
        yield TeamBar(
            team=row.name,
            title=row.title,
            parent=tree.teams[parent - 1].name if parent and tree.ids[parent] in visible else None,
            depth=len(tree.path[place]) - 1,
            department=department,
            flavor=line.flavor.name,
            guaranteed=guaranteed,
            borrow_limit=line.borrow[place],
            lend_limit=line.lend[place],
            used=used,
            inside=used - above,
            borrowed=above,
            lent=facts.lent.get(place, 0),
            waiting=waits,
            mine=row.id in mine,
            starved=bool(waits) and used < guaranteed,
        )
