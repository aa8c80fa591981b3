"""What teams and users have and may still have, by hand: SEMANTICS 2 and 5."""

from queues.admission.board import Board
from queues.admission.world import Placed
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
    assert board.user_room(place, queue, 5) == 3
    assert board.user_room(place, queue, 6) == 8
    assert board.user_room(place, queue, 5, soft_in_team=2) == 5
    assert board.user_room(place, queue, 5, soft_in_team=9, soft_in_queue=1) == 8


def test_without_limits_a_user_is_not_bounded() -> None:
    site = Site()
    site.node(4)
    team = site.team(4)
    board = Board(site.world())

    assert board.user_room(board.tree.number[team], board.queues[team], 5) is None


def test_soft_units_of_a_user_are_theirs_to_give_back() -> None:
    site = Site()
    site.node(20)
    team = site.team(20, per_user_limit=8, queue_limit=6)
    site.runs(team, 1, units=2, user=5, surplus=(Placed(group=0, node=1, tasks=2),))
    board = Board(site.world())
    place, queue = board.tree.number[team], board.queues[team]

    # One task of 2 units and two soft ones: 6 in use, 4 of them soft.
    assert board.user_room(place, queue, 5) == 0
    assert board.hard_room(place, queue, 5) == 4
    assert board.used_value[place, 5] == 2000
