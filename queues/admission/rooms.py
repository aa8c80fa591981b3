"""Room on nodes as four numbers: counted units, CPU, memory, pods."""

from collections.abc import Iterable

from queues.admission.nodes import Room
from queues.admission.shapes import Option
from queues.admission.world import Attempt, Placed

NOTHING: Room = (0, 0, 0, 0)


def rooms(option: Option, placed: Iterable[Placed]) -> dict[int, Room]:
    """Return what tasks of an option take on each node."""
    result: dict[int, Room] = {}
    for row in placed:
        pattern = option.patterns[row.group]
        room = (pattern.units * row.tasks, pattern.cpu * row.tasks, pattern.memory * row.tasks, row.tasks)
        result[row.node] = plus(result.get(row.node, NOTHING), room)
    return result


def rooms_of(attempt: Attempt, placed: Iterable[Placed]) -> dict[int, Room]:
    """Return what tasks of an attempt take on each node."""
    result: dict[int, Room] = {}
    for row in placed:
        group = attempt.groups[row.group]
        room = (group.units * row.tasks, group.cpu * row.tasks, group.memory * row.tasks, row.tasks)
        result[row.node] = plus(result.get(row.node, NOTHING), room)
    return result


def plus(one: Room, other: Room) -> Room:
    """Add two rooms."""
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3])


def minus(one: Room, other: Room) -> Room:
    """Subtract a room."""
    return (one[0] - other[0], one[1] - other[1], one[2] - other[2], one[3] - other[3])


def negative(room: Room) -> Room:
    """Return the room to take."""
    return (-room[0], -room[1], -room[2], -room[3])


def least(one: Room, other: Room) -> Room:
    """Return the smaller of each."""
    return (min(one[0], other[0]), min(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3]))
