"""Units, CPU, memory and pods on nodes, by hand."""

from queues.admission.rooms import NOTHING, least, minus, negative, plus, rooms, rooms_of
from queues.admission.shapes import Shape
from queues.admission.world import Ask, Attempt, Group, JobShape, Placed

LEADER = Group(tasks=1, units=1, cpu=10, memory=100, flavors=(1,))
WORKER = Group(tasks=3, units=2, cpu=20, memory=300, flavors=(1,))
PLACED = (
    Placed(group=0, node=7, tasks=1),
    Placed(group=1, node=7, tasks=1),
    Placed(group=1, node=8, tasks=2),
)
TAKEN = {7: (3, 30, 400, 2), 8: (4, 40, 600, 2)}


def test_tasks_of_an_option_take_units_cpu_memory_and_pods() -> None:
    (option,) = Shape(Ask(shape=JobShape.GANG, groups=(LEADER, WORKER))).options

    assert rooms(option, PLACED) == TAKEN


def test_tasks_of_an_attempt_take_the_same() -> None:
    attempt = Attempt(
        id=1,
        number=1,
        job=1,
        team=1,
        user=1,
        groups=(LEADER, WORKER),
        flavors=(1, 1),
        placed=PLACED,
        since=0,
    )

    assert rooms_of(attempt, PLACED) == TAKEN
    assert rooms_of(attempt, PLACED[:1]) == {7: (1, 10, 100, 1)}


def test_rooms_are_added_and_taken_part_by_part() -> None:
    assert NOTHING == (0, 0, 0, 0)
    assert plus((1, 2, 3, 4), (10, 20, 30, 40)) == (11, 22, 33, 44)
    assert minus((11, 22, 33, 44), (10, 20, 30, 40)) == (1, 2, 3, 4)
    assert negative((1, 2, -3, 4)) == (-1, -2, 3, -4)
    assert least((1, 20, 3, 40), (10, 2, 30, 4)) == (1, 2, 3, 4)
    assert least((5, 6, 7, 8), (9, 9, 9, 9)) == least((9, 9, 9, 9), (5, 6, 7, 8)) == (5, 6, 7, 8)
