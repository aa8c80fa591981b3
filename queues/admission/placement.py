"""The placement witness: on which real nodes the tasks of a job would run (SEMANTICS 5)."""

from collections.abc import Iterable

from queues.admission.nodes import Ground, Kind
from queues.admission.shapes import Option, Pattern
from queues.admission.world import Placed

Mix = tuple[tuple[Pattern, int], ...]
"""The tasks that are common at present on one flavor, with their number."""


def fits(ground: Ground, option: Option) -> bool:
    """Whether a witness exists now; a job of several groups is tried out."""
    if len(option.patterns) == 1:
        tasks = option.tasks[0]
        return any(room >= tasks for room in ground.rooms(option.patterns[0]).values())
    return witness(ground, option) is not None


def witness(ground: Ground, option: Option, mix: Mix = (), *, spread: bool = False) -> tuple[Placed, ...] | None:
    """Return nodes for every task of the option within one cluster, or None; the ground stays as it was.

    A single task goes where the mix loses least (``spread``: to the emptiest node), a gang into the tightest cluster.
    """
    if option.tasks == (1,):
        return _single(ground, option.patterns[0], mix, spread=spread)
    for cluster in _clusters(ground, option):
        placed = _in_cluster(ground, option, cluster)
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


def _in_cluster(ground: Ground, option: Option, cluster: int) -> tuple[Placed, ...] | None:
    """Place the groups one after the other, that with the largest tasks first, each on the fewest nodes."""
    order = sorted(range(len(option.patterns)), key=lambda group: (-option.patterns[group].units, group))
    done: list[Placed] = []
    complete = True
    for group in order:
        pattern, tasks = option.patterns[group], option.tasks[group]
        rows = fewest_nodes(ground.usable(pattern.flavor), pattern, tasks, cluster)
        if rows is None:
            complete = False
            break
        for node, count in rows:
            ground.take(node, pattern, count)
            done.append(Placed(group=group, node=node, tasks=count))
    for row in done:
        ground.take(row.node, option.patterns[row.group], -row.tasks)
    return tuple(sorted(done, key=lambda row: (row.group, row.node))) if complete else None


def fewest_nodes(
    usable: Iterable[tuple[Kind, list[int]]], pattern: Pattern, tasks: int, cluster: int
) -> list[tuple[int, int]] | None:
    """Return (node, tasks) on the fewest nodes; among equally few the most whole nodes stay whole; None: no room."""
    whole: list[tuple[int, Kind, list[int]]] = []
    broken: list[tuple[int, Kind, list[int]]] = []
    for kind, nodes in usable:
        fit = kind.tasks(pattern)
        if fit and kind.host.cluster == cluster:
            (whole if kind.whole else broken).append((fit, kind, nodes))
    for rows in (whole, broken):
        rows.sort(key=lambda row: (-row[0], row[1].units, row[2][0]))
    count = _least(sorted(whole + broken, key=lambda row: -row[0]), tasks)
    if count is None:
        return None
    new = next(new for new in range(count + 1) if _top(broken, count - new) + _top(whole, new) >= tasks)
    return _fill(whole, broken, new, count - new, tasks)


def _least(rows: list[tuple[int, Kind, list[int]]], tasks: int) -> int | None:
    """Return the smallest number of nodes that hold the tasks; rows come largest first."""
    count = 0
    for fit, _, nodes in rows:
        needed = -(-tasks // fit)
        if needed <= len(nodes):
            return count + needed
        count += len(nodes)
        tasks -= fit * len(nodes)
    return None


def _top(rows: list[tuple[int, Kind, list[int]]], count: int) -> int:
    """Return the tasks that the largest ``count`` nodes hold; below zero where there are fewer nodes."""
    total = 0
    for fit, _, nodes in rows:
        part = min(count, len(nodes))
        total += fit * part
        count -= part
        if not count:
            return total
    return total if not count else -1 << 60


def _fill(
    whole: list[tuple[int, Kind, list[int]]],
    broken: list[tuple[int, Kind, list[int]]],
    new: int,
    old: int,
    tasks: int,
) -> list[tuple[int, int]]:
    """Fill the largest nodes and give the rest to the tightest node that holds it."""
    result: list[tuple[int, int]] = []
    last = broken if old else whole
    for rows, count in ((whole, new), (broken, old)):
        left = count - 1 if rows is last else count
        for fit, _, nodes in rows:
            for node in nodes[:left]:
                part = min(fit, tasks)
                result.append((node, part))
                tasks -= part
            left -= min(left, len(nodes))
            if not left:
                break
    used = {node for node, _ in result}
    tightest = sorted(last, key=lambda row: (row[0], row[1].units, row[2][0]))
    rest = next(node for fit, _, nodes in tightest if fit >= tasks for node in nodes if node not in used)
    return [*result, (rest, tasks)]


def _single(ground: Ground, pattern: Pattern, mix: Mix, *, spread: bool) -> tuple[Placed, ...] | None:
    best: tuple[int, int, int] | None = None
    for kind, nodes in ground.usable(pattern.flavor):
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
    """Return the units free on a node of the kind that tasks of the mix could not use, summed over the mix."""
    return sum(count * (kind.units - pattern.units * kind.tasks(pattern)) for pattern, count in mix)
