"""What victims cost and who gives surplus back first, by hand: SEMANTICS 8."""

from queues.admission.board import Board
from queues.admission.costs import Costs
from queues.admission.quota import Tree
from queues.admission.trial import Candidate, surplus_order
from queues.admission.victims import dispute, portions
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


def keys(site: Site, claimant: int, *sets: tuple[int, ...]) -> list[tuple[object, ...]]:
    """Return what these sets of attempts cost a claimant's team that asks for nothing yet."""
    world = site.world()
    board = Board(world)
    number = board.tree.number
    option = board.case(world.classes[0]).shape.options[0]
    costs = Costs(board, number[claimant], option, board.hard)

    def candidate(job: int) -> Candidate:
        attempt = next(row for row in world.attempts if row.job == job)
        units = {attempt.flavors[0]: attempt.placed[0].tasks * attempt.groups[0].units}
        return Candidate(attempt, attempt.placed, number[attempt.team], units, own=False, everything=units)

    for (job,) in (jobs for jobs in sets if len(jobs) == 1):
        assert costs.of_one(candidate(job)) == costs.key([candidate(job)])
    return [costs.key([candidate(job) for job in jobs]) for jobs in sets]


def test_the_highest_shares_of_a_set_are_compared_first_and_a_weight_of_zero_is_above_all() -> None:
    site = Site()
    site.node(40)
    owner, little, much = site.team(20), site.team(weight=4000), site.team()
    free, modest = site.team(weight=0), site.team(2, weight=0)
    a, b = site.runs(little, 1, units=3), site.runs(much, 1, units=4)
    c, d = site.runs(free, 1), site.runs(modest, 1)
    site.waits(owner)

    both, endless, within = keys(site, owner, (a, b), (c,), (d,))

    # 4 and 3/4, each times what makes all of them whole.
    assert both[5] == ((0, -16_000), (0, -3_000))
    assert (endless[5], within[5]) == (((-1, 0),), ((0, 0),))


def test_what_a_team_and_its_department_lose_of_their_promise_counts_once() -> None:
    site = Site()
    site.flavor("t4")
    site.flavor("h100")
    site.node(40, flavor=1)
    site.node(8, flavor=2)
    owner, department = site.team(20), site.team()
    team, other = site.team(10, parent=department), site.team(5)
    site.runs(team, 1, units=8)
    victim = site.runs(team, 1, units=2)
    site.runs(other, 1, units=5)
    elsewhere = site.runs(other, 2, units=1, flavor=2)
    site.waits(owner)

    alone, together = keys(site, owner, (victim,), (victim, elsewhere))

    # The team falls from 10 to 8 of the 10 it is promised, and would be inside again; nobody is promised an h100.
    assert (alone[1:3], together[1:3]) == ((2000, 2000), (2000, 2000))


def test_the_newest_victims_are_named_first() -> None:
    site = Site()
    site.node(4)
    owner, other = site.team(4), site.team()
    site.runs(other, 1, units=2)
    site.runs(other, 1, units=2)
    site.waits(owner, 4, gang=1)

    assert [row.attempt for row in site.decide().outcome.evictions] == [2, 1]


def test_of_sets_alike_the_one_with_the_newest_member_costs_least() -> None:
    site = Site()
    site.node(4)
    owner, other = site.team(4), site.team()
    oldest, second, third, newest = (site.runs(other, 1) for _ in range(4))
    site.waits(owner)

    one, two = keys(site, owner, (oldest, newest), (second, third))

    assert one < two
