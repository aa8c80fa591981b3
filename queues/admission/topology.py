"""Where the tasks of one group lie in the tree of domains: cluster, its levels, node (SEMANTICS 5)."""

from queues.admission.nodes import Ground, Members, Path
from queues.admission.packing import fewest_nodes
from queues.admission.shapes import Option, Pattern
from queues.admission.world import Near, Placed, Topology

Rows = list[tuple[int, int]]
"""Node and tasks."""


def depth(wish: Topology) -> int:
    """Return how long the path of a domain of the wished level is; a node's own path is one longer than its domains."""
    return wish.level + 2


def place(ground: Ground, pattern: Pattern, tasks: int, domain: Path, wish: Topology | None) -> Rows | None:
    """Place the tasks of one group inside a domain as it wishes; None: they do not fit so."""
    if wish is None or depth(wish) <= len(domain):
        return _tightest(ground, pattern, tasks, domain)
    if wish.near is Near.SPREAD:
        return _spread(ground, pattern, tasks, domain, wish)
    level = depth(wish)
    for outer in range(level, len(domain), -1):
        found = _first(ground, pattern, tasks, domain, outer)
        if found is not None:
            if outer == level:
                return _tightest(ground, pattern, tasks, found)
            return _fewest_domains(ground, pattern, tasks, found, level)
        if wish.near is Near.REQUIRED:
            return None
    return _fewest_domains(ground, pattern, tasks, domain, level)


def lies(ground: Ground, option: Option, placed: tuple[Placed, ...]) -> bool:
    """Whether tasks still lie on usable nodes and as their job requires: labels may have changed since then."""
    kinds = [(ground.where.get(row.node), option.patterns[row.group]) for row in placed]
    if not all(kind is not None and kind.host.matches(pattern.labels) for kind, pattern in kinds):
        return False
    for group, wish in ((None, option.together), *enumerate(option.topologies)):
        rows = [row for row in placed if group in {None, row.group}]
        if wish is None or wish.near is not Near.REQUIRED or sum(row.tasks for row in rows) == 1:
            continue
        domains = {_path(ground, row.node)[: depth(wish)] for row in rows}
        if len(domains) > 1 or any(path[-1] is None for path in domains):
            return False
    return True


def domain_rooms(ground: Ground, pattern: Pattern, domain: Path, level: int) -> dict[Path, tuple[int, int]]:
    """Return, for each domain with paths of that length inside a domain, its room in tasks and its first node."""
    rooms: dict[Path, tuple[int, int]] = {}
    for kind, nodes in ground.within(domain, pattern).items():
        fit = kind.tasks(pattern)
        for node in nodes:
            path = _path(ground, node)
            if len(path) < level or path[level - 1] is None:
                continue
            room, first = rooms.get(path[:level], (0, node))
            rooms[path[:level]] = (room + fit, min(first, node))
    return rooms


def _path(ground: Ground, node: int) -> Path:
    return (*ground.paths[node], node)


def _first(ground: Ground, pattern: Pattern, tasks: int, domain: Path, level: int) -> Path | None:
    """Return the tightest domain of a level that holds all tasks, then that with the first node."""
    rooms = domain_rooms(ground, pattern, domain, level)
    able = [path for path, (room, _) in rooms.items() if room >= tasks]
    return min(able, key=lambda path: rooms[path], default=None)


def _tightest(ground: Ground, pattern: Pattern, tasks: int, domain: Path) -> Rows | None:
    """Go down to the tightest sub-domain that holds all, as far as there is one; there take the fewest nodes."""
    levels = ground.levels
    if len(domain) > levels:
        return [(node, tasks)] if isinstance(node := domain[-1], int) else None
    for level in range(len(domain) + 1, levels + 1):
        found = _first(ground, pattern, tasks, domain, level)
        if found is None:
            break
        domain = found
    members = ground.within(domain, pattern)
    whole = _one_node(members, pattern, tasks)
    return [(whole, tasks)] if whole is not None else fewest_nodes(members, pattern, tasks)


def _one_node(members: Members, pattern: Pattern, tasks: int) -> int | None:
    """Return the node that holds all tasks and has room for the fewest more, then the first."""
    able = [
        (kind.tasks(pattern), kind.units, nodes[0]) for kind, nodes in members.items() if kind.tasks(pattern) >= tasks
    ]
    return min(able)[2] if able else None


def _fewest_domains(ground: Ground, pattern: Pattern, tasks: int, domain: Path, level: int) -> Rows | None:
    """Fill the largest domains of a level; the last is the tightest that holds the rest."""
    rooms = domain_rooms(ground, pattern, domain, level)
    result: Rows = []
    while tasks:
        able = [path for path, (room, _) in rooms.items() if room >= tasks]
        if able:
            chosen, part = min(able, key=lambda path: rooms[path]), tasks
        elif rooms:
            chosen = min(rooms, key=lambda path: (-rooms[path][0], rooms[path][1]))
            part = rooms[chosen][0]
        else:
            return _beside(ground, pattern, tasks, domain, result)
        rows = _tightest(ground, pattern, part, chosen)
        if rows is None:
            return None
        result += rows
        tasks -= part
        del rooms[chosen]
    return result


def _beside(ground: Ground, pattern: Pattern, tasks: int, domain: Path, done: Rows) -> Rows | None:
    """Give the rest to nodes that are in no domain of the level."""
    used = {node for node, _ in done}
    members = {
        kind: [node for node in nodes if node not in used] for kind, nodes in ground.within(domain, pattern).items()
    }
    rest = fewest_nodes({kind: nodes for kind, nodes in members.items() if nodes}, pattern, tasks)
    return None if rest is None else done + rest


def _spread(ground: Ground, pattern: Pattern, tasks: int, domain: Path, wish: Topology) -> Rows | None:
    """Give each task to the domain with the fewest so far that has room; ``max_skew`` bounds the difference."""
    rooms = domain_rooms(ground, pattern, domain, depth(wish))
    counts = dict.fromkeys(rooms, 0)
    for _ in range(tasks):
        able = [path for path in rooms if counts[path] < rooms[path][0]]
        if not able:
            return None
        counts[min(able, key=lambda path: (counts[path], rooms[path][1]))] += 1
    if wish.max_skew is not None and max(counts.values()) - min(counts.values()) > wish.max_skew:
        return None
    result: Rows = []
    for path, count in counts.items():
        if count:
            rows = _tightest(ground, pattern, count, path)
            if rows is None:
                return None
            result += rows
    return result
