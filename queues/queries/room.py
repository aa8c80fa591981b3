"""What is free on the machines of a world."""

from collections import defaultdict
from collections.abc import Mapping

from queues.admission.world import NodeState, World


def held(world: World) -> Mapping[int, int]:
    """Return the units that our tasks hold, by node."""
    units: dict[int, int] = defaultdict(int)
    for attempt in world.attempts:
        for row in attempt.placed + attempt.surplus:
            units[row.node] += row.tasks * attempt.groups[row.group].units
    return units


def free_blocks(world: World, flavor: int) -> tuple[int, ...]:
    """Return the free units of each usable machine of a flavor."""
    ours = held(world)
    return tuple(
        max(0, node.units - node.outside_units - ours.get(node.id, 0))
        for node in world.nodes
        if node.flavor == flavor and node.state is NodeState.READY
    )
