"""When a planned start still stands, by hand: SEMANTICS 7."""

from dataclasses import replace

from queues.admission.board import Board
from queues.admission.decide import decide
from queues.admission.outlooks import Book
from queues.admission.plans import Plan, short
from queues.admission.quota import ROOT
from queues.admission.world import MINUTE, Hold, Placed, Standing
from tests.admission.site import NOW, Site


def planned(*, borrow: int | None = None, uses: int = 0) -> tuple[Plan, Board]:
    """Return a plan for 4 units on one node of 8 in ten minutes, its ask counted, by a team that is promised 4."""
    site = Site()
    site.node(8)
    team = site.team(4, borrow=borrow)
    if uses:
        site.runs(team, 1, units=uses)
    site.waits(team, 4, gang=1)
    row = site.classes[0]
    site.classes[0] = replace(row, ask=replace(row.ask, time_limit=30 * MINUTE))
    board = Board(site.world())
    case = board.case(site.classes[0])
    option = case.shape.options[0]
    lines = {1: board.lines[1].copy()}
    lines[1].take(case.place, 4)
    plan = Plan(
        job=1,
        job_class=1,
        user=1,
        case=case,
        option=option,
        priority=0,
        wait_from=NOW,
        placed=(Placed(group=0, node=1, tasks=1),),
        at=NOW + 10 * MINUTE,
        standing=Standing.GUARANTEED,
        node=None,
        rank=0,
        needs={1: (4, 0, 0, 1)},
        spare={1: (4, 0, 0, 9)},
        lines=lines,
        limit=None,
        grace=MINUTE,
        evictions=0,
        idle=0,
        counted=frozenset(),
        beside={},
    )
    return plan, board


def test_a_planned_job_runs_from_its_start_to_its_limit_and_grace() -> None:
    plan, _ = planned()

    assert [plan.in_use_at(NOW + minutes * MINUTE) for minutes in (9, 10, 40, 41)] == [False, True, True, False]
    plan.limit = 5 * MINUTE
    assert [plan.in_use_at(NOW + minutes * MINUTE) for minutes in (15, 16)] == [True, False]
    plan.at = None
    assert not plan.in_use_at(NOW)


def test_a_plan_is_broken_by_what_it_needs_and_no_longer_finds() -> None:
    plan, _ = planned()
    plan.free(1, (-4, 0, -5, 0))
    plan.free(2, (-9, -9, -9, -9))

    # All units are taken but its own; memory is short, of which it needs none.
    assert not plan.broken()

    plan.free(1, (-1, 0, 0, 0))
    assert plan.broken()


def test_a_plan_is_broken_by_quota_that_others_have_taken() -> None:
    plan, board = planned(borrow=2)
    place = plan.case.place

    # The team uses its 4 as planned and may have 2 more.
    plan.change(place, {1: 2, 7: 9}, 1)
    assert not plan.broken()
    plan.change(place, {1: 1}, 1)
    assert plan.broken()
    plan.change(place, {1: 1}, -1)
    assert not plan.broken()

    plan.change_in(board.lines, 1)
    assert board.lines[1].usage[place] == 4
    plan.change_in(board.lines, -1)
    assert board.lines[1].usage[place] == 0


def test_quota_is_short_above_the_limit_or_above_what_is_there() -> None:
    (limited, _), (unlimited, _) = planned(borrow=2, uses=3), planned(uses=5)

    # 3 + 4 is more than 4 + 2; 5 + 4 is more than 8.
    assert short(limited.lines[1], limited.case.place)
    assert short(unlimited.lines[1], unlimited.case.place)
    assert not short(planned(uses=4)[0].lines[1], 1)


def test_a_plan_leaves_what_keeps_it_inside_its_guarantee_or_else_within_its_limit() -> None:
    plan, _ = planned()
    place = plan.case.place

    # 4 of its own 4 are in use as planned: none is left inside. The root may lend 4 more of 8.
    assert plan.most(1) == {place: 4, ROOT: 8}
    assert [plan.leaves(place, 1, units) for units in (0, 1)] == [True, False]
    plan.standing = Standing.BORROWER
    plan.change(place, {1: 0}, 1)
    assert plan.most(1) == {ROOT: 8}
    assert [plan.leaves(place, 1, units) for units in (4, 5)] == [True, False]
    assert plan.leaves(place, 7, 99)


def test_what_a_plan_leaves_follows_what_comes_and_goes() -> None:
    plan, _ = planned(borrow=2)
    place = plan.case.place
    plan.standing = Standing.BORROWER

    # It uses 4 of 4 and may have 2 more.
    assert plan.most(1) == {place: 6, ROOT: 8}
    assert [plan.leaves(place, 1, units) for units in (2, 3)] == [True, False]
    plan.change(place, {1: 1}, 1)
    assert [plan.leaves(place, 1, units) for units in (1, 2)] == [True, False]
    plan.change(place, {1: 1}, -1)
    assert plan.leaves(place, 1, 2)


def test_a_plan_that_is_short_binds_nobody() -> None:
    plan, _ = planned(borrow=2, uses=3)

    assert (plan.most(1), plan.leaves(plan.case.place, 1, 99)) == ({}, True)


def test_a_plan_minds_only_teams_that_use_what_it_needs() -> None:
    site = Site()
    site.node(8)
    department = site.team(4)
    team, sibling, other = site.team(parent=department), site.team(parent=department), site.team(2, lend=0)
    board = Board(site.world())
    plan, _ = planned()
    site.waits(team, 4, gang=1)
    plan.case = board.case(site.classes[0])
    plan.lines = {1: board.lines[1].copy()}
    plan.lines[1].take(plan.case.place, 4)
    number = board.tree.number

    # The pool is full with its 4: a sibling pushes it out of its guarantee. Of 8 units the last team keeps 2 back.
    assert plan.most(1) == {number[department]: 4, ROOT: 6}
    assert not plan.leaves(number[sibling], 1, 1)
    assert [plan.leaves(number[other], 1, units) for units in (4, 5)] == [True, False]


def test_the_book_tells_which_plans_have_no_quota_to_spare_for_an_ask() -> None:
    firm, _ = planned()
    loose, _ = planned()
    loose.job, loose.standing = 2, Standing.BORROWER
    place = firm.case.place
    book = Book([firm, loose])

    # The first has nothing to spare in its team, both have 4 at the root.
    assert [book.tight((place,), ((1, units),)) for units in (0, 1)] == [set(), {firm}]
    assert [book.tight((place, ROOT), ((1, units),)) for units in (1, 4, 5)] == [{firm}, {firm}, {firm, loose}]
    assert book.tight((place, ROOT), ((7, 9),)) == set()

    book.drop(firm)
    assert [book.tight((place, ROOT), ((1, units),)) for units in (4, 5)] == [set(), {loose}]
    book.add(firm)
    assert book.tight((ROOT,), ((7, 9), (1, 5))) == {firm, loose}


def test_a_job_has_one_plan_however_often_it_is_planned() -> None:
    site = Site()
    site.node(4, count=2)
    team = site.team(8)
    for node in (1, 2):
        site.runs(team, node, units=4, ends_by=NOW + node * 10 * MINUTE)
    job = site.waits(team, 4, gang=1, limit=30, minutes=40)
    hold = Hold(
        job=job,
        job_class=1,
        user=team,
        flavors=(1,),
        placed=(Placed(group=0, node=2, tasks=1),),
        at=NOW + 20 * MINUTE,
        wait_from=NOW - 40 * MINUTE,
        limit=30 * MINUTE,
    )
    world = replace(site.world(), holds=(hold, replace(hold, moved="later")))

    found = decide(world, site.heads()).holds

    assert [(row.job, row.at) for row in found] == [(job, NOW + 10 * MINUTE)]
