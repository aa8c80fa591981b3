"""The nodes as the rules count them: equal nodes are one kind, and a kind answers for all its members."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Set

from queues.admission.shapes import Pattern
from queues.admission.world import Attempt, Labels, Node, NodeState, World

Room = tuple[int, int, int, int]
"""Counted units, CPU, memory and pods."""

Path = tuple[int | str | None, ...]
"""A domain: cluster, then the names of its levels, outermost first."""


class Host:
    """What never changes of a node while a decision is made; equal nodes share one."""

    __slots__ = ("cluster", "cpu", "flavor", "labels", "memory", "pods", "units")

    def __init__(self, node: Node) -> None:
        """Copy what counts."""
        self.cluster = node.cluster
        self.flavor = node.flavor
        self.labels: frozenset[tuple[str, str]] = frozenset(node.labels)
        self.units = node.units
        self.cpu = node.cpu
        self.memory = node.memory
        self.pods = node.pods

    def matches(self, labels: Labels) -> bool:
        """Whether the node carries all labels asked for."""
        return not labels or self.labels.issuperset(labels)


class Kind:
    """Nodes of equal hosts with equal free room. Room below zero (an over-used node) takes nobody."""

    __slots__ = ("_tasks", "_usable", "cpu", "host", "memory", "pods", "units")

    def __init__(self, host: Host, units: int, cpu: int, memory: int, pods: int) -> None:
        """Name the free room of one such node."""
        self.host = host
        self.units = units
        self.cpu = cpu
        self.memory = memory
        self.pods = pods
        self._tasks: dict[Pattern, int] = {}
        self._usable: dict[Pattern, int] = {}

    @property
    def whole(self) -> bool:
        """Whether no counted unit of the node is in use."""
        return self.units == self.host.units

    def tasks(self, pattern: Pattern) -> int:
        """Return how many tasks of the pattern fit on one such node."""
        known = self._tasks.get(pattern)
        if known is None:
            known = self._tasks[pattern] = self._count(pattern)
        return known

    def _count(self, pattern: Pattern) -> int:
        if pattern.flavor != self.host.flavor or not self.host.matches(pattern.labels):
            return 0
        room = self.pods
        for free, ask in ((self.units, pattern.units), (self.cpu, pattern.cpu), (self.memory, pattern.memory)):
            if ask:
                room = min(room, free // ask)
        return max(0, room)

    def usable(self, pattern: Pattern) -> int:
        """Return the free units that tasks of the pattern could use; CPU and memory count in parts of a task."""
        known = self._usable.get(pattern)
        if known is None:
            room = self.units // pattern.units * pattern.units if pattern.units else 0
            for free, ask in ((self.cpu, pattern.cpu), (self.memory, pattern.memory), (self.pods, 1)):
                if ask:
                    room = min(room, free * pattern.units // ask)
            known = self._usable[pattern] = max(0, room)
        return known


Members = dict[Kind, list[int]]
"""The usable nodes of each kind, ids ascending."""


class Ground:
    """The free room of all usable nodes during one decision."""

    def __init__(self) -> None:
        """Start without nodes."""
        self.version = 0
        self.members: dict[int, Members] = {}
        self.where: dict[int, Kind] = {}
        self.first: dict[tuple[int, int], int] = {}
        self.hosts: dict[Host, list[int]] = {}
        self.paths: dict[int, Path] = {}
        self.levels = 1
        self.kinds: dict[tuple[int, int, int, int, int], Kind] = {}
        self._hosts: dict[Host, int] = {}
        self._rooms: dict[int, dict[Pattern, dict[int, int]]] = {}

    def kind(self, host: Host, units: int, cpu: int, memory: int, pods: int) -> Kind:
        """Return the one kind with this host and free room."""
        number = self._hosts.setdefault(host, len(self._hosts))
        key = (number, units, cpu, memory, pods)
        kind = self.kinds.get(key)
        if kind is None:
            kind = self.kinds[key] = Kind(host, units, cpu, memory, pods)
        return kind

    def rooms(self, pattern: Pattern) -> dict[int, int]:
        """Return, per cluster, how many tasks of the pattern fit; kept up to date from the first question on."""
        known = self._rooms.setdefault(pattern.flavor, {})
        rooms = known.get(pattern)
        if rooms is None:
            rooms = known[pattern] = {}
            for kind, nodes in self.members.get(pattern.flavor, {}).items():
                fit = kind.tasks(pattern)
                if fit:
                    rooms[kind.host.cluster] = rooms.get(kind.host.cluster, 0) + fit * len(nodes)
        return rooms

    def take(self, node: int, pattern: Pattern, tasks: int) -> None:
        """Place tasks on a node (negative: take them away)."""
        self.shift(node, (-tasks * pattern.units, -tasks * pattern.cpu, -tasks * pattern.memory, -tasks))

    def shift(self, node: int, room: Room) -> None:
        """Add free room to a node (negative: take it)."""
        old = self.where.get(node)
        if old is not None:
            self.set(node, (old.units + room[0], old.cpu + room[1], old.memory + room[2], old.pods + room[3]))

    def set(self, node: int, room: Room) -> None:
        """Say how much is free on a usable node."""
        old = self.where[node]
        new = self.kind(old.host, *room)
        if new is old:
            return
        flavor = old.host.flavor
        members = self.members[flavor]
        nodes = members[old]
        del nodes[bisect_left(nodes, node)]
        if not nodes:
            del members[old]
        insort(members.setdefault(new, []), node)
        self.where[node] = new
        self.version += 1
        cluster = old.host.cluster
        for known, rooms in self._rooms.get(flavor, {}).items():
            change = new.tasks(known) - old.tasks(known)
            if change:
                rooms[cluster] = rooms.get(cluster, 0) + change

    def copy(self) -> "Ground":
        """Return a ground that starts like this one and goes its own way."""
        other = Ground()
        other.members = {
            flavor: {kind: list(nodes) for kind, nodes in members.items()} for flavor, members in self.members.items()
        }
        other.where = dict(self.where)
        other.first = self.first
        other.hosts = self.hosts
        other.paths = self.paths
        other.levels = self.levels
        other.kinds = self.kinds
        other._hosts = self._hosts
        return other

    def without(self, nodes: Set[int]) -> "Ground":
        """Return a copy in which nothing is free on some nodes."""
        other = self.copy()
        for members in other.members.values():
            for kind, all_of in list(members.items()):
                out = [node for node in all_of if node in nodes]
                if not out:
                    continue
                del members[kind]
                if len(out) < len(all_of):
                    members[kind] = [node for node in all_of if node not in nodes]
                none = self.kind(kind.host, 0, 0, 0, 0)
                members[none] = sorted([*members.get(none, ()), *out])
                other.where.update(dict.fromkeys(out, none))
        return other

    def within(self, prefix: Path, pattern: Pattern) -> Members:
        """Return the usable nodes of a domain (one node: itself) that hold a task of the pattern, by kind."""
        result: Members = {}
        depth = len(prefix)
        for kind, nodes in self.usable(pattern.flavor):
            if kind.host.cluster != prefix[0] or not kind.tasks(pattern):
                continue
            if depth > self.levels:
                found = [node for node in nodes if node == prefix[-1]]
            else:
                found = nodes if depth == 1 else [node for node in nodes if self.paths[node][:depth] == prefix]
            if found:
                result[kind] = found
        return result

    def usable(self, flavor: int) -> Iterator[tuple[Kind, list[int]]]:
        """Yield the kinds of a flavor's usable nodes with their members."""
        yield from self.members.get(flavor, {}).items()

    def free(self, flavor: int) -> int:
        """Return the free counted units of a flavor's usable nodes."""
        return sum(max(0, kind.units) * len(nodes) for kind, nodes in self.usable(flavor))

    def largest(self, flavor: int) -> int:
        """Return the most free counted units on one usable node of a flavor."""
        return max((max(0, kind.units) for kind, _ in self.usable(flavor)), default=0)


def taken(attempts: Iterable[Attempt], *, leaving: bool = True) -> dict[int, Room]:
    """Return units, CPU, memory and pods that our attempts hold, by node; without ``leaving`` as if those had gone."""
    sums: dict[int, list[int]] = {}
    for attempt in attempts:
        if attempt.leaving and not leaving:
            continue
        groups = attempt.groups
        for row in attempt.placed + attempt.surplus if attempt.surplus else attempt.placed:
            group, tasks = groups[row.group], row.tasks
            known = sums.get(row.node)
            if known is None:
                known = sums[row.node] = [0, 0, 0, 0]
            known[0] += group.units * tasks
            known[1] += group.cpu * tasks
            known[2] += group.memory * tasks
            known[3] += tasks
    return {node: (units, cpu, memory, pods) for node, (units, cpu, memory, pods) in sums.items()}


def survey(
    world: World, *, count_lost: bool = False, leaving: bool = True, attempts: tuple[Attempt, ...] | None = None
) -> Ground:
    """Return the ground: what is free on usable nodes.

    ``count_lost`` takes cordoned and lost nodes as usable; without ``leaving`` what leaves has gone already;
    ``attempts`` are there instead of those of the world.
    """
    ground = Ground()
    used = taken(world.attempts if attempts is None else attempts, leaving=leaving)
    hosts: dict[tuple[int, int, int, int, int, int, Labels], Host] = {}
    for node in world.nodes:
        key = (node.cluster, node.flavor, node.units, node.cpu, node.memory, node.pods, node.labels)
        host = hosts.get(key)
        if host is None:
            host = hosts[key] = Host(node)
            ground.hosts[host] = []
        ground.hosts[host].append(node.id)
        ground.paths[node.id] = (node.cluster, *node.domains)
        ground.levels = max(ground.levels, 1 + len(node.domains))
        if not (count_lost or node.state is NodeState.READY):
            continue
        units, cpu, memory, pods = used.get(node.id, (0, 0, 0, 0))
        kind = ground.kind(
            host,
            node.units - node.outside_units - units,
            node.cpu - node.outside_cpu - cpu,
            node.memory - node.outside_memory - memory,
            node.pods - node.outside_pods - pods,
        )
        ground.members.setdefault(node.flavor, {}).setdefault(kind, []).append(node.id)
        ground.where[node.id] = kind
        place = (node.flavor, node.cluster)
        ground.first[place] = min(node.id, ground.first.get(place, node.id))
    for members in ground.members.values():
        for nodes in members.values():
            nodes.sort()
    return ground


def bare(ground: Ground) -> Ground:
    """Return the ground as it would be with every node usable and nothing on any: what could ever be given."""
    result = Ground()
    result.paths = ground.paths
    result.levels = ground.levels
    for host, nodes in ground.hosts.items():
        kind = result.kind(host, host.units, host.cpu, host.memory, host.pods)
        result.members.setdefault(host.flavor, {})[kind] = sorted(nodes)
        place = (host.flavor, host.cluster)
        result.first[place] = min(*nodes, result.first.get(place, nodes[0]))
        result.where.update(dict.fromkeys(nodes, kind))
    return result
