"""The placement witness: on which real nodes the tasks of a job would run (SEMANTICS 5)."""

from collections.abc import Mapping

from queues.admission.nodes import Ground, Kind, Path
from queues.admission.shapes import Option, Pattern
from queues.admission.topology import depth, domain_rooms, place
from queues.admission.world import Near, Placed, Topology

Mix = tuple[tuple[Pattern, int], ...]
"""The tasks that are common at present on one flavor, with their number."""


def fits(ground: Ground, option: Option) -> bool:
    """Whether a witness exists now; where sums do not tell, it is tried out."""
    if len(option.patterns) == 1:
        tasks = option.tasks[0]
        if max(ground.rooms(option.patterns[0]).values(), default=0) < tasks:
            return False
        if tasks == 1 or not (option.together or option.topologies[0]):
            return True
    return witness(ground, option) is not None


def witness(
    ground: Ground, option: Option, mix: Mix = (), *, spread: bool = False, beside: Mapping[int, int] | None = None
) -> tuple[Placed, ...] | None:
    """Return nodes for every task of the option within one cluster, or None; the ground stays as it was.

    A single task goes where the mix loses least (``spread``: to the emptiest node), a gang into the tightest cluster.
    ``beside``: where a single task wishes to spread, the tasks of its job by node.
    """
    if option.tasks == (1,):
        domain = _least_taken(ground, option, beside) if option.evenly and beside is not None else None
        return _single(ground, option.patterns[0], mix, domain, spread=spread)
    for cluster in _clusters(ground, option):
        placed = _together(ground, option, (cluster,))
        if placed is not None:
            return placed
    return None


def _clusters(ground: Ground, option: Option) -> list[int]:
    """Return the clusters with room for each group by itself, that with the least room for more first."""
    pattern = option.patterns[0]
    found = []
    for cluster, room in ground.rooms(pattern).items():
        if all(
            ground.rooms(other).get(cluster, 0) >= tasks
            for other, tasks in zip(option.patterns, option.tasks, strict=True)
        ):
            found.append((room - option.tasks[0], ground.first[pattern.flavor, cluster], cluster))
    return [cluster for _, _, cluster in sorted(found)]


def _together(ground: Ground, option: Option, cluster: Path) -> tuple[Placed, ...] | None:
    """Place all groups where the wish of the job lets them: in one domain, or outward from there."""
    wish = option.together
    if wish is None or wish.near is Near.SPREAD:
        return _groups(ground, option, cluster, wish)
    level = depth(wish)
    pattern = option.patterns[0]
    while level > len(cluster):
        rooms = domain_rooms(ground, pattern, cluster, level)
        for domain in sorted(rooms, key=lambda row: rooms[row]):
            placed = _groups(ground, option, domain, wish)
            if placed is not None:
                return placed
        if wish.near is Near.REQUIRED:
            return None
        level -= 1
    return _groups(ground, option, cluster, wish)


def _groups(ground: Ground, option: Option, domain: Path, wish: Topology | None) -> tuple[Placed, ...] | None:
    """Place the groups one after the other in a domain, that with the largest tasks first."""
    order = sorted(range(len(option.patterns)), key=lambda group: (-option.patterns[group].units, group))
    done: list[Placed] = []
    complete = True
    for group in order:
        pattern, tasks = option.patterns[group], option.tasks[group]
        rows = place(ground, pattern, tasks, domain, option.topologies[group] or wish)
        if rows is None:
            complete = False
            break
        for node, count in rows:
            ground.take(node, pattern, count)
            done.append(Placed(group=group, node=node, tasks=count))
    for row in done:
        ground.take(row.node, option.patterns[row.group], -row.tasks)
    return tuple(sorted(done, key=lambda row: (row.group, row.node))) if complete else None


def _least_taken(ground: Ground, option: Option, beside: Mapping[int, int]) -> Path | None:
    """Return the domain with room in which the job has the fewest tasks, then that with the first node."""
    wish, pattern = option.topologies[0], option.patterns[0]
    if wish is None:
        return None
    level = depth(wish)
    rooms: dict[Path, tuple[int, int]] = {}
    for cluster in ground.rooms(pattern):
        rooms |= domain_rooms(ground, pattern, (cluster,), level)
    taken: dict[Path, int] = {}
    for node, tasks in beside.items():
        path = (*ground.paths.get(node, ()), node)[:level]
        taken[path] = taken.get(path, 0) + tasks
    return min(rooms, key=lambda path: (taken.get(path, 0), rooms[path][1]), default=None)


def _single(
    ground: Ground, pattern: Pattern, mix: Mix, domain: Path | None, *, spread: bool
) -> tuple[Placed, ...] | None:
    best: tuple[int, int, int] | None = None
    members = ground.usable(pattern.flavor) if domain is None else ground.within(domain, pattern).items()
    for kind, nodes in members:
        if kind.tasks(pattern):
            key = (0, -kind.units, nodes[0]) if spread else (growth(ground, kind, pattern, mix), kind.units, nodes[0])
            if best is None or key < best:
                best = key
    return None if best is None else (Placed(group=0, node=best[2], tasks=1),)


def growth(ground: Ground, kind: Kind, pattern: Pattern, mix: Mix) -> int:
    """Return by how much the units that the mix cannot use grow when a task is placed on a node of the kind."""
    after = ground.kind(
        kind.host,
        kind.units - pattern.units,
        kind.cpu - pattern.cpu,
        kind.memory - pattern.memory,
        kind.pods - 1,
    )
    return unusable(after, mix) - unusable(kind, mix)


def unusable(kind: Kind, mix: Mix) -> int:
    """Return the units free on a node of the kind that tasks of the mix could not use, summed over the mix.

    Tasks that may never run on such a node lose nothing there.
    """
    matches = kind.host.matches
    return sum(count * (kind.units - kind.usable(pattern)) for pattern, count in mix if matches(pattern.labels))
