"""Who has whose units, by hand."""

from queues.admission.loans import OVER, UNASSIGNED, Part, between_teams, by_attempt
from queues.admission.quota import ledger
from queues.admission.world import Quota
from tests.admission.site import Site


def teams(site: Site) -> list[tuple[int, int, int]]:
    return [(part.borrower, part.lender, part.units) for part in between_teams(ledger(site.world()))]


def test_each_borrower_takes_in_proportion_to_what_is_still_to_lend() -> None:
    site = Site()
    site.node(30)
    a, b, c = site.team(10), site.team(7), site.team(3)
    site.runs(a, 1, units=15)
    site.runs(c, 1, units=4)

    # 6 borrowed; b (7 idle) lends 2, nobody's 10 lend 4. a takes 5 of 2 + 4: 1 2/3 and 3 1/3, so 2 and 3; c the last.
    assert teams(site) == [(a, b, 2), (a, UNASSIGNED, 3), (c, UNASSIGNED, 1)]


def test_what_nobody_lends_is_over_lending_on_both_sides() -> None:
    site = Site()
    site.node(8)
    a, b = site.team(2), site.team(6)
    site.runs(a, 1, units=5)
    site.runs(b, 1, units=5)

    assert teams(site) == [(a, b, 1), (a, OVER, 2)]


def test_a_pool_lends_to_the_team_below_it() -> None:
    site = Site()
    site.node(8)
    department = site.team(6)
    a = site.team(2, parent=department)
    site.runs(a, 1, units=4)

    assert teams(site) == [(a, department, 2)]


def test_the_units_of_a_team_are_split_between_its_borrowed_attempts() -> None:
    site = Site()
    site.node(30)
    a, b = site.team(4), site.team(10)
    site.runs(a, 1, units=6)
    site.runs(a, 1, units=8)
    world = site.world()
    book = ledger(world)

    parts = by_attempt(book, world, between_teams(book))

    # 10 borrowed: 2 of the first attempt, 8 of the second. b lends 10 of 26 idle, so 4 (3.85); nobody's 16 lend 6.
    assert [(part.lender, part.units) for part in between_teams(book)] == [(b, 4), (UNASSIGNED, 6)]
    # 2 of 4 + 6: 0.8 and 1.2, so 1 and 1.
    assert parts == (
        Part(flavor=1, borrower=1, lender=b, units=1),
        Part(flavor=1, borrower=1, lender=UNASSIGNED, units=1),
        Part(flavor=1, borrower=2, lender=b, units=3),
        Part(flavor=1, borrower=2, lender=UNASSIGNED, units=5),
    )


def test_who_comes_later_takes_what_is_left() -> None:
    site = Site()
    site.node(5)
    a, b, c, d = site.team(), site.team(1), site.team(), site.team(4)
    site.runs(a, 1, units=2)
    site.runs(c, 1, units=3)
    world = site.world()

    # 2 of 1 + 4: 0.4 and 1.6, so both of d. Then 1 and 2 are left for c's 3.
    assert teams(site) == [(a, d, 2), (c, b, 1), (c, d, 2)]
    assert by_attempt(ledger(world), world, ()) == ()


def test_units_of_a_gpu_type_are_split_among_attempts_that_borrow_that_type() -> None:
    site = Site()
    own, other = site.flavor("own"), site.flavor("other")
    site.node(4, flavor=own)
    site.node(4, flavor=other)
    lender = site.team(quotas=(Quota(flavor=own, guaranteed=4), Quota(flavor=other, guaranteed=4)))
    borrower = site.team(quotas=())
    site.runs(borrower, 2, units=3, flavor=other)
    site.runs(borrower, 1, units=1, flavor=own)
    world = site.world()
    book = ledger(world)

    parts = by_attempt(book, world, between_teams(book))

    assert [(part.flavor, part.borrower, part.lender, part.units) for part in parts] == [
        (own, 2, lender, 1),
        (other, 1, lender, 3),
    ]
