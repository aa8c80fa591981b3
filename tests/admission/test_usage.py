"""What teams and users have and may still have, by hand: SEMANTICS 2 and 5."""

from queues.admission.board import Board
from queues.admission.world import Claim, Placed
from tests.admission.site import Site


def test_the_tighter_of_the_limits_of_team_and_queue_bounds_a_user() -> None:
    site = Site()
    site.node(20)
    team = site.team(20, per_user_limit=8, queue_limit=10)
    site.runs(team, 1, units=3, user=5)
    site.runs(team, 1, units=2, user=5, queue=None)
    board = Board(site.world())
    place, queue = board.tree.number[team], board.queues[team]

    # Of the team's 8 the user has 5, of the queue's 10 only the 3 that came through it.
    assert board.user_room(queue, 5) == 3
    assert board.user_room(queue, 6) == 8
    assert board.user_room(queue, 5, {place: 2}) == 5
    assert board.user_room(queue, 5, {place: 9, None: 1}) == 8


def test_without_limits_a_user_is_not_bounded() -> None:
    site = Site()
    site.node(4)
    team = site.team(4)
    board = Board(site.world())

    assert board.user_room(board.queues[team], 5) is None


def test_soft_units_of_a_user_are_theirs_to_give_back() -> None:
    site = Site()
    site.node(20)
    team = site.team(20, per_user_limit=8, queue_limit=6)
    site.runs(team, 1, units=2, user=5, surplus=(Placed(group=0, node=1, tasks=2),))
    board = Board(site.world())
    place, queue = board.tree.number[team], board.queues[team]

    # One task of 2 units and two soft ones: 6 in use, 4 of them soft.
    assert board.user_room(queue, 5) == 0
    assert board.hard_room(queue, 5) == 4
    assert board.used_value[place, 5] == 2000


def test_surplus_that_grows_is_soft_too() -> None:
    site = Site()
    site.node(20)
    team = site.team(20, per_user_limit=8)
    soft = (Placed(group=0, node=1, tasks=1),)
    site.runs(team, 1, units=2, user=5, surplus=soft)
    board = Board(site.world())
    place, queue = board.tree.number[team], board.queues[team]
    (attempt,) = board.running.values()

    board.use_attempt(attempt, soft, 1, soft=True)

    assert (board.user_room(queue, 5), board.hard_room(queue, 5)) == (2, 6)
    assert (board.lines[1].usage[place], board.hard[1].usage[place]) == (6, 2)


def test_victims_of_claims_do_not_count_and_what_comes_behind_them_does() -> None:
    site = Site()
    site.node(20)
    team = site.team(20)
    site.runs(team, 1, units=2, leaving=True, claimed=True)
    site.runs(team, 1, units=3)
    board = Board(site.world())

    assert board.lines[1].usage[board.tree.number[team]] == 3


def test_who_asks_beyond_what_the_tree_can_ever_give_is_not_entitled() -> None:
    site = Site()
    site.node(20)
    team = site.team(10)
    site.team(10, lend=4)
    site.runs(team, 1, units=10)
    site.waits(team, 4, gang=1)
    site.waits(team, 5, gang=1)
    board = Board(site.world())
    cases = [board.case(row) for row in site.classes]

    # 10 of its own and 4 that the other lends: 14.
    assert [board.entitled(case, case.shape.options[0]) for case in cases] == [True, False]


def test_a_claim_is_for_the_flavors_that_it_names_or_for_the_first_wish_once_that_has_changed() -> None:
    site = Site()
    site.flavor("t4")
    site.flavor("h100")
    site.node(4, flavor=1)
    site.node(4, flavor=2)
    team = site.team(4)
    job = site.waits(team, 1, gang=1, flavors=(1, 2))
    board = Board(site.world())

    def flavors(*named: int) -> tuple[int, ...]:
        return board.option_of(
            Claim(id=1, job=job, job_class=1, team=team, user=team, flavors=named, placed=())
        ).flavors

    assert (flavors(2), flavors(3)) == ((2,), (1,))
