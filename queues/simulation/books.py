"""Quota counted anew from what runs: the formulas of SEMANTICS 2 word for word, apart from the rules."""

from collections import Counter
from collections.abc import Iterable, Iterator

from queues.admission.world import Node, NodeState, Quota, Team


class Book:
    """The quota tree of one flavor; ``used`` and ``firm`` are the units of the leaves."""

    def __init__(self, flavor: int, teams: dict[int, Team], nodes: Iterable[Node], elsewhere: int) -> None:
        """``elsewhere`` are units that our tasks, victims of claims left out, hold on nodes that are not usable."""
        self.used: Counter[int] = Counter()
        self.firm: Counter[int] = Counter()
        self._parent = {team.id: team.parent for team in teams.values()}
        self._below: dict[int | None, list[int]] = {}
        for team in teams.values():
            self._below.setdefault(team.parent, []).append(team.id)
        rows = {team.id: quota for team in teams.values() for quota in team.quotas if quota.flavor == flavor}
        self.quota = {team: rows.get(team, Quota(flavor=flavor)) for team in teams}
        ready = [node for node in nodes if node.flavor == flavor and node.state is NodeState.READY]
        total = sum(node.units - node.outside_units for node in ready) + elsewhere
        self.unassigned = max(0, total - sum(row.guaranteed for row in self.quota.values()))
        self._local: dict[int, int] = {}
        self._subtree: dict[int | None, int] = {}

    def path(self, team: int | None) -> Iterator[int]:
        """Yield a team and those above it."""
        while team is not None:
            yield team
            team = self._parent[team]

    def leaf(self, team: int) -> bool:
        """Whether jobs may belong to the team."""
        return not self._below.get(team)

    def subtree(self, team: int | None) -> int:
        """Return S: the own guarantee and what the teams below do not keep back."""
        if team not in self._subtree:
            own = self.unassigned if team is None else self.quota[team].guaranteed
            rows = self._below.get(team, [])
            self._subtree[team] = own + sum(self.subtree(child) - self.local(child) for child in rows)
        return self._subtree[team]

    def local(self, team: int) -> int:
        """Return what a team keeps back."""
        if team not in self._local:
            lends = self.quota[team].lend_limit
            self._local[team] = 0 if lends is None else max(0, self.subtree(team) - lends)
        return self._local[team]

    def usage(self, team: int | None) -> int:
        """Return what a node uses of what it shares with its siblings."""
        if team is not None and self.leaf(team):
            return self.used[team]
        return sum(max(0, self.usage(child) - self.local(child)) for child in self._below.get(team, []))

    def limit(self, team: int | None) -> int | None:
        """Return S + B; None: no limit. The root may use what there is."""
        if team is None:
            return self.subtree(None)
        borrows = self.quota[team].borrow_limit
        return None if borrows is None else self.subtree(team) + borrows

    def available(self, team: int | None) -> int:
        """Return what a team could take now."""
        if team is None:
            return max(0, self.subtree(None) - self.usage(None))
        kept, used, borrows = self.local(team), self.usage(team), self.quota[team].borrow_limit
        above = self.available(self._parent[team])
        if borrows is not None:
            above = min(above, self.subtree(team) - kept - max(0, used - kept) + borrows)
        return max(0, max(0, kept - used) + above)

    def inside(self, team: int, units: int) -> bool:
        """Whether the ask leaves some node of the path within its guarantee."""
        self.used[team] += units
        found = any(self.usage(node) <= self.subtree(node) for node in self.path(team))
        self.used[team] -= units
        return found

    def uncovered(self, team: int, more: int = 0) -> int:
        """Return the firm units below the team's top that no guarantee covers, with ``more`` of the team's."""
        self.firm[team] += more
        *_, top = self.path(team)
        found = self._overflow(top)
        self.firm[team] -= more
        return found

    def _overflow(self, team: int) -> int:
        rows = self._below.get(team, [])
        firm = sum(self._overflow(child) for child in rows) if rows else self.firm[team]
        return max(0, firm - self.quota[team].guaranteed)

    def borrowed(self) -> dict[int, int]:
        """Return what each leaf that borrows uses above its own guarantee."""
        rows = {team: self.used[team] - quota.guaranteed for team, quota in self.quota.items() if self.leaf(team)}
        return {team: units for team, units in rows.items() if units > 0}

    def lendable(self) -> int:
        """Return the idle units that leaves, pools and what is promised to nobody have to lend."""
        total = self.unassigned
        for team, quota in self.quota.items():
            busy = max(self.used[team], self.local(team)) if self.leaf(team) else 0
            total += max(0, quota.guaranteed - busy)
        return total
