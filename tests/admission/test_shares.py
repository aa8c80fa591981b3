"""Fair shares, by hand: SEMANTICS 3."""

from queues.admission.quota import in_use
from queues.admission.shares import Share, borrowed, counted, fill
from queues.admission.world import Quota
from tests.admission.site import Site


def test_nobody_is_below_one_who_borrows_nothing() -> None:
    nothing, nothing_of_more, nothing_of_none = Share(0, 1), Share(0, 2), Share(0, 0)

    assert not nothing.below(nothing_of_more)
    assert not Share(1, 1).below(nothing_of_none)
    assert nothing.below(Share(1, 10**9))


def test_ranks_sort_as_shares_do() -> None:
    # Of the weights 1, 2 and 3 the scale is 6: nothing, 1/3 = 2/6, 1/2 = 3/6, 2/2 = 6/6, and last a weight of zero.
    shares = [Share(0, 3), Share(1, 3), Share(1, 2), Share(2, 2), Share(1, 0)]

    assert [share.rank(6) for share in shares] == [(0, 0), (0, 2), (0, 3), (0, 6), (1, 0)]


def test_ranks_of_large_numbers_are_exact() -> None:
    assert Share(10**20, 2).rank(6) < Share(10**20 + 1, 2).rank(6)


def test_what_is_borrowed_is_counted_by_value_with_the_ask_in_use() -> None:
    site = Site()
    site.flavor("t4")
    site.flavor("h100", value=4000)
    site.node(20, flavor=1)
    site.node(20, flavor=2)
    department = site.team(quotas=())
    team = site.team(quotas=(Quota(flavor=1, guaranteed=10, lend_limit=4),), parent=department)
    site.runs(team, 1, units=9)
    site.runs(team, 2, units=1, flavor=2)
    tree, lines = in_use(site.world())
    place, above = tree.number[team], tree.number[department]

    # Of the 10 the team keeps 6 back and lends 4. It uses 9, and one h100 that nobody promised.
    assert borrowed(lines, place) == borrowed(lines, above) == 4000
    assert counted(lines, place, ((1, 2),), place, only_needs=True) == 1000
    assert counted(lines, place, ((1, 2),), place, only_needs=False) == 5000
    # 11 are 5 above what is kept back, one more than the 4 that the department has of the team.
    assert counted(lines, place, ((1, 2),), above, only_needs=True) == 1000
    assert counted(lines, place, ((1, 1), (2, 2)), above, only_needs=False) == 12000
    # An h100 more: two that nobody promised; the t4 are within their promise.
    assert counted(lines, place, ((2, 1),), place, only_needs=False) == 8000


def test_the_fill_is_told_only_of_overcommitted_flavors_for_every_node_of_the_path() -> None:
    site = Site()
    site.node(6)
    site.node(4)
    department = site.team()
    team = site.team(10, lend=4, parent=department)
    site.runs(team, 1, units=2)
    tree, lines = in_use(site.world())
    place = tree.number[team]
    assert fill(lines, place, ((1, 1),)) == {}

    site.cordon(2)
    _, lines = in_use(site.world())

    # The third unit is one of the six that are kept back: the department's use stays nothing of 4.
    assert fill(lines, place, ((1, 1),)) == {place: Share(3, 10), tree.number[department]: Share(0, 4)}
