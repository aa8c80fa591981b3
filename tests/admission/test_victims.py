"""What victims cost and who gives surplus back first, by hand: SEMANTICS 8."""

from queues.admission.board import Board
from queues.admission.quota import Tree
from queues.admission.victims import Candidate, Costs, dispute, portions, surplus_order
from queues.admission.world import HOUR, JobShape, Placed
from tests.admission.site import NOW, Site


def cost(site: Site, job: int) -> int:
    world = site.world()
    board = Board(world)
    attempt = next(row for row in world.attempts if row.job == job)
    place = board.tree.number[attempt.team]
    candidate = Candidate(attempt, attempt.placed, place, {1: 2}, own=False, everything={1: 2})
    waiting = next(iter(world.classes))
    option = board.case(waiting).shape.options[0]
    return Costs(board, board.tree.number[1], option, board.hard).cost(candidate)


def test_the_cost_is_value_times_what_is_lost_and_dearer_for_those_evicted_before() -> None:
    site = Site()
    site.flavor(value=3000)
    site.node(20)
    owner, other = site.team(20), site.team()
    fresh = site.runs(other, 1, units=2, since=NOW)
    saved = site.runs(other, 1, units=2, since=NOW - 3 * HOUR, saved=NOW - HOUR)
    old = site.runs(other, 1, units=2, since=NOW - 9 * HOUR)
    twice = site.runs(other, 1, units=2, since=NOW, evictions=2)
    earlier = site.runs(other, 1, units=2, since=NOW - HOUR, saved=NOW - 2 * HOUR)
    site.waits(owner, 2)
    restart = site.policy.restart_cost

    assert cost(site, fresh) == 6000 * restart
    assert cost(site, saved) == 6000 * (restart + HOUR)
    assert cost(site, old) == 6000 * (restart + 4 * HOUR)
    assert cost(site, twice) == 6000 * restart * 3
    assert cost(site, earlier) == 6000 * (restart + HOUR)


def test_of_an_independent_job_tasks_go_one_by_one_else_all_at_once() -> None:
    site = Site()
    site.node(8, count=2)
    team = site.team(16)
    site.runs(team, 1, 2, tasks=2, shape=JobShape.INDEPENDENT)
    site.runs(team, 1, 2, tasks=2, shape=JobShape.GANG)
    single, gang = site.world().attempts

    one = (Placed(group=0, node=1, tasks=1),), (Placed(group=0, node=2, tasks=1),)
    assert list(portions(single)) == [one[0], one[0], one[1], one[1]]
    assert list(portions(gang)) == [gang.placed]


def test_a_dispute_is_settled_below_the_common_ancestor() -> None:
    site = Site()
    site.node(8)
    x, y = site.team(), site.team()
    a, b, c = site.team(parent=x), site.team(parent=x), site.team(parent=y)
    tree = Tree(site.world())
    number = tree.number

    assert dispute(tree, number[a], number[b]) == ([number[b]], number[a])
    assert dispute(tree, number[a], number[c]) == ([number[c], number[y]], number[x])
    assert dispute(tree, number[a], number[a]) == ([], None)


def test_surplus_goes_from_the_own_team_first_then_from_the_highest_share_and_the_newest() -> None:
    site = Site()
    site.node(40)
    own, little, much, free = site.team(10), site.team(weight=4000), site.team(), site.team(weight=0)

    def elastic(team: int, soft: int) -> int:
        surplus = tuple(Placed(group=0, node=1, tasks=1) for _ in range(soft))
        return site.runs(team, 1, shape=JobShape.ELASTIC, surplus=surplus)

    mine, first, second, third = elastic(own, 1), elastic(little, 2), elastic(much, 1), elastic(much, 1)
    last = elastic(free, 1)
    board = Board(site.world())

    order = [attempt.job for attempt, _ in surplus_order(board, board.tree.number[own])]

    # Shares: little 3 / 4, much 4 / 1, and a weight of zero is above every share.
    assert order == [mine, last, third, second, first, first]
