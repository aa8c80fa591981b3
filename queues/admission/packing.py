"""Tasks of a group on the fewest nodes; equal nodes are counted, never tried one by one (SEMANTICS 5)."""

from queues.admission.nodes import Kind, Members
from queues.admission.shapes import Pattern


def fewest_nodes(members: Members, pattern: Pattern, tasks: int) -> list[tuple[int, int]] | None:
    """Return (node, tasks) on the fewest nodes; among equally few the most whole nodes stay whole; None: no room."""
    whole: list[tuple[int, Kind, list[int]]] = []
    broken: list[tuple[int, Kind, list[int]]] = []
    for kind, nodes in members.items():
        fit = kind.tasks(pattern)
        if fit:
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
