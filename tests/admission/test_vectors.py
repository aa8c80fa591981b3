"""The conformance vectors that are pure numbers of the rules; the others are files under tests/scenarios."""

import pytest

from queues.admission.board import Board
from queues.admission.shares import Share, borrowed
from tests.admission.site import Site


@pytest.mark.parametrize(("uses", "above"), [(14, 4), (10, 0), (9, 0)])
def test_vector_05_borrowed_counts_from_the_guarantee(uses: int, above: int) -> None:
    site = Site()
    (node,) = site.node(20)
    department = site.team()
    team = site.team(10, parent=department)
    site.team(10, parent=department, lend=4)
    site.runs(team, node, tasks=uses)

    board = Board(site.world())

    assert borrowed(board.lines, board.tree.number[team]) == above * 1000


def test_vector_05_shares_compare_exactly() -> None:
    four, of_weight_two, of_weight_zero = Share(4000, 1000), Share(4000, 2000), Share(1, 0)

    assert of_weight_two.below(Share(2001, 1000))
    assert not of_weight_two.below(Share(2000, 1000))
    assert not Share(2000, 1000).below(of_weight_two)
    assert of_weight_two.below(four)
    assert Share(10**30, 1).below(of_weight_zero)
    assert not of_weight_zero.below(Share(10**30, 1))
    assert not of_weight_zero.below(Share(7, 0))
    assert Share(0, 0).below(Share(1, 10**9))
