"""The quota tree: SEMANTICS 2 and its vectors in 15."""

import pytest

from queues.admission.quota import in_use, ledger, pro_rata
from queues.admission.world import NodeState
from tests.admission.site import Site


def available(site: Site, team: int) -> int:
    tree, lines = in_use(site.world())
    return lines[1].available(tree.number[team])


def department(units: int = 20, *, borrow: int | None = None) -> tuple[Site, int, int]:
    site = Site()
    site.node(units)
    parent = site.team()
    return site, site.team(10, parent=parent, borrow=borrow), site.team(10, parent=parent, lend=4)


def test_lending_is_bounded_by_the_lend_limit_of_the_lender() -> None:
    site, a, b = department()

    assert (available(site, a), available(site, b)) == (14, 20)

    site.runs(b, 1, units=8)
    assert available(site, a) == 12


@pytest.mark.parametrize(("limit", "expected"), [(None, 14), (2, 12), (0, 10)])
def test_a_borrow_limit_of_zero_is_not_no_limit(limit: int | None, expected: int) -> None:
    site, a, _ = department(borrow=limit)

    assert available(site, a) == expected


@pytest.mark.parametrize(("limit", "expected"), [(None, 26), (3, 13)])
def test_a_pool_is_shared_by_all_children(limit: int | None, expected: int) -> None:
    site = Site()
    site.node(26)
    parent = site.team(6)
    a = site.team(10, parent=parent, borrow=limit)
    site.team(10, parent=parent)

    assert available(site, a) == expected


def test_lend_limits_hold_at_two_levels() -> None:
    site = Site()
    site.node(20)
    x, y = site.team(lend=5), site.team()
    a, b = site.team(10, parent=x), site.team(10, parent=y)

    assert (available(site, b), available(site, a)) == (15, 20)


def test_own_kept_back_units_stay_available_under_a_department_that_is_over() -> None:
    site = Site()
    site.node(20)
    parent = site.team()
    a, b = site.team(10, parent=parent, lend=4), site.team(8, parent=parent)
    site.runs(b, 1, units=14)
    site.nodes[0] = site.nodes[0].__class__(id=1, name="n1", cluster=1, flavor=1, units=18, cpu=10**6, memory=10**12)

    assert available(site, a) == 6


def test_units_promised_to_nobody_are_lent() -> None:
    site = Site()
    site.node(256)
    a, b = site.team(124), site.team(124)

    site.runs(b, 1, units=124)

    assert available(site, a) == 132


def test_work_on_a_cordoned_node_stands_on_its_own_feet() -> None:
    site = Site()
    site.node(8, count=2)
    a, b, c = site.team(8), site.team(), site.team()
    site.runs(b, 1, units=8)
    site.cordon(1, NodeState.CORDONED)

    _, lines = in_use(site.world())

    assert lines[1].guaranteed[0] == 8
    assert (available(site, a), available(site, c)) == (8, 8)


def test_available_is_never_negative_after_a_cut() -> None:
    site = Site()
    site.node(8)
    a, b = site.team(3, borrow=0), site.team(2)
    site.runs(a, 1, units=6)

    assert (available(site, a), available(site, b)) == (0, 2)


def test_every_borrowed_unit_is_lent_by_somebody() -> None:
    site = Site()
    site.node(30)
    a, b, c = site.team(10), site.team(7), site.team(3)
    site.runs(a, 1, units=15)
    site.runs(c, 1, units=4)

    loan = ledger(site.world()).loans[0]

    assert dict(loan.borrowed) == {a: 5, c: 1}
    assert dict(loan.lent) == {b: 2, None: 4}
    assert loan.over_lending == 0


def test_the_last_units_above_the_guarantee_are_the_borrowed_ones_and_firm_ones_go_first() -> None:
    site = Site()
    site.node(10)
    a = site.team(4)
    site.team(6)
    site.runs(a, 1, units=3)
    site.runs(a, 1, units=3)
    site.runs(a, 1, units=2, preemptible=False)

    assert ledger(site.world()).attempts == ((1, 1, 1), (2, 1, 3))


def test_what_no_idle_unit_covers_is_over_lending() -> None:
    site = Site()
    site.node(8)
    a, b = site.team(2), site.team(6)
    site.runs(a, 1, units=5)
    site.runs(b, 1, units=5)

    loan = ledger(site.world()).loans[0]

    assert dict(loan.borrowed) == {a: 3}
    assert (loan.lent, loan.over_lending) == (((b, 1),), 2)


def test_firm_use_is_covered_by_the_guarantee_and_the_pools_above_it() -> None:
    site = Site()
    site.node(30)
    parent = site.team(3)
    a, b = site.team(5, parent=parent), site.team(5, parent=parent)
    site.runs(b, 1, units=6, preemptible=False)
    tree, lines = in_use(site.world())
    line, place = lines[1], tree.number[a]

    # b passes its 5 by one, which takes one of the department's 3; nobody's 17 lie above.
    assert (line.firm[tree.number[b]], line.firm[tree.number[parent]], line.firm[0]) == (6, 1, 0)
    assert [line.covers(place, units, alone=True) for units in (8, 9)] == [True, False]
    assert [line.covers(place, units) for units in (7, 8)] == [True, False]


def test_a_borrow_limit_binds_only_what_borrows() -> None:
    site = Site()
    site.node(40)
    parent = site.team(6, borrow=0)
    a, b = site.team(10, parent=parent, borrow=2), site.team(parent=parent)
    site.runs(a, 1, units=9)
    site.runs(b, 1, units=12)
    tree, lines = in_use(site.world())
    line, place = lines[1], tree.number[a]

    # The department has 16 and uses 21: a may still have its 10, and no more.
    assert line.limited_by(place, 1) is None
    assert line.limited_by(place, 2) == tree.number[parent]
    assert line.limited_by(place, 4) == place
    assert [line.limited_by(place, units, alone=True) for units in (12, 13)] == [None, place]


def test_the_most_that_a_team_could_have_counts_installed_units_and_limits() -> None:
    site = Site()
    site.node(10, count=2)
    a, b = site.team(4, borrow=3), site.team(6, lend=2)
    site.runs(b, 1, units=6)
    site.cordon(2)
    tree, lines = in_use(site.world())

    # a: its 4 and 3 more. b: its 6, a's 4, and the 10 that are promised to nobody, one node cordoned or not.
    assert (lines[1].most(tree.number[a]), lines[1].most(tree.number[b])) == (7, 20)


@pytest.mark.parametrize(
    ("total", "idle", "parts"),
    [
        (5, [("x", 3), ("y", 3), ("z", 3)], (("x", 2), ("y", 2), ("z", 1))),
        (3, [("x", 1), ("y", 5)], (("x", 1), ("y", 2))),
        (9, [("x", 2), ("y", 3)], (("x", 2), ("y", 3))),
        (1, [("x", 1), ("y", 5)], (("y", 1),)),
        (2, [("x", 0), ("y", -1)], ()),
        (0, [("x", 4)], ()),
    ],
)
def test_lenders_lend_in_proportion_largest_remainder_first(
    total: int, idle: list[tuple[str, int]], parts: tuple[tuple[str, int], ...]
) -> None:
    assert pro_rata(total, idle) == parts


def test_a_flavor_is_overcommitted_only_where_its_ready_units_together_do_not_suffice() -> None:
    site = Site()
    site.node(8, count=2)
    site.team(16)

    _, lines = in_use(site.world())
    assert not lines[1].overcommitted

    site.cordon(2)
    _, lines = in_use(site.world())
    assert lines[1].overcommitted
