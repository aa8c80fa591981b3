"""Whose turn it is after a step that took what others counted on: SEMANTICS 4."""

from dataclasses import replace

import pytest

from queues.admission.reasons import Code
from queues.admission.world import HOUR, MINUTE, JobShape, Placed, Policy, Quota
from tests.admission.site import NOW, Site


def test_the_turn_goes_by_what_a_team_can_still_ask_for_when_another_has_taken_what_is_lent() -> None:
    site = Site()
    site.node(8)
    site.team(8, lend=4)
    first, second = site.team(), site.team()
    a, c = site.team(parent=first), site.team(parent=second)
    e = site.team(weight=4000)
    site.waits(a, gang=2, minutes=20)
    one = site.waits(a, minutes=15)
    site.waits(c, gang=2, minutes=20)
    site.waits(c, minutes=10)
    large = site.waits(e, gang=3, minutes=5)

    # e borrows 3/4, less than 2/1. Then one unit is left: both departments ask for one, and a's job waits longer.
    assert site.decide().started() == [large, one]


def test_a_job_that_has_started_inside_its_guarantee_does_not_back_off() -> None:
    site = Site()
    site.node(2)
    team = site.team(1)
    job = site.waits(team, minutes=1, evictions=3)

    decided = site.decide()

    assert decided.started() == [job]
    assert [row.job for row in decided.outcome.verdicts] == []


def test_of_two_jobs_sent_on_to_borrow_the_one_that_finds_no_room_there_claims_what_is_its_teams() -> None:
    site = Site()
    own, other = site.flavor("own"), site.flavor("other")
    site.node(2, flavor=own)
    site.node(1, flavor=other)
    team = site.team(quotas=(Quota(flavor=own, guaranteed=2),))
    borrower = site.team(quotas=())
    guests = [site.runs(borrower, 1, flavor=own, since=0) for _ in range(2)]
    first = site.waits(team, gang=1, flavors=(own, other), minutes=2)
    second = site.waits(team, gang=1, flavors=(own, other), minutes=1)

    decided = site.decide()

    flavors = {row.job: row.flavors for row in decided.outcome.admissions}
    assert flavors == {first: (other,), second: (own,)}
    assert decided.victims() == guests[1:]


def test_a_keep_stands_in_the_way_of_who_would_borrow_what_it_keeps() -> None:
    site = Site()
    site.node(2)
    site.node(1)
    team, borrower = site.team(3), site.team()
    site.runs(team, 1, preemptible=False)
    site.waits(team, 2, gang=1)
    job = site.waits(borrower, gang=2)

    decided = site.decide()

    # Two units are free, of which the first is kept for the task of two that finds no node.
    assert (decided.started(), decided.code(job)) == ([], Code.WOULD_DELAY)


def rivals(site: Site) -> tuple[int, int]:
    """Let a team ask for three units, one for two or one, and one for one; return the job of three and the middle one.

    The first borrows most cheaply, 3/4. If then only one unit is left, the middle team asks for one as well, and its
    job waits longer than that of the last.
    """
    large, middle, last = site.team(weight=4000), site.team(), site.team()
    three = site.waits(large, gang=3, minutes=5)
    site.waits(middle, gang=2, minutes=20)
    one = site.waits(middle, minutes=15)
    site.waits(last, minutes=10)
    return three, one


def test_the_turn_goes_by_what_a_team_can_ask_for_beside_what_others_keep() -> None:
    site = Site()
    site.node(4, labels=(("ib", "yes"),))
    site.node(4)
    keeping = site.team(5)
    site.runs(keeping, 1, preemptible=False)
    site.waits(keeping, 4, gang=1, labels=(("ib", "yes"),))
    three, one = rivals(site)

    assert site.decide().started() == [three, one]


@pytest.mark.parametrize("before", [0, 1])
def test_the_turn_goes_by_what_a_team_can_ask_for_without_delaying_a_planned_start(before: int) -> None:
    site = Site()
    site.node(4, count=3)
    site.team(8, lend=4 + before)
    holding = site.team(4)
    site.runs(holding, 3, units=2, preemptible=False, ends_by=NOW + HOUR)
    holder = site.waits(holding, 4, gang=1, minutes=60, limit=60)
    site.holds_on(holder, 3, at=NOW + HOUR)
    cheap = [site.waits(site.team(weight=8000)) for _ in range(before)]
    three, one = rivals(site)

    # Of eight units that are lent or its own (nine: one goes first) the holder has two now and needs four at its time.
    assert site.decide().started() == [*cheap, three, one]


def test_of_two_jobs_sent_on_to_borrow_one_may_take_surplus_back_there() -> None:
    site = Site()
    own, other = site.flavor("own"), site.flavor("other")
    site.node(2, flavor=own)
    site.node(1, flavor=other)
    site.node(2, flavor=other)
    team = site.team(quotas=(Quota(flavor=own, guaranteed=2),))
    borrower = site.team(quotas=())
    site.runs(borrower, 1, units=2, flavor=own)
    site.runs(borrower, 2, flavor=other, shape=JobShape.ELASTIC)
    group = replace(site.attempts[1].groups[0], most=2)
    surplus = (Placed(group=0, node=3, tasks=1),)
    site.attempts[1] = replace(site.attempts[1], groups=(group,), surplus=surplus)
    jobs = [site.waits(team, gang=1, flavors=(own, other), minutes=minutes) for minutes in (2, 1)]

    decided = site.decide()

    assert [(row.job, row.flavors) for row in decided.outcome.admissions] == [(job, (other,)) for job in jobs]
    assert [(row.placed, row.surplus) for row in decided.outcome.evictions] == [(surplus, True)]


def beside_a_planned_start(site: Site) -> tuple[int, int]:
    """Let a job hold four of six units that are lent, from 90 minutes on; three are in use until then.

    Return the first job of a line, which may run for two hours, and the one behind it, which may for 70 minutes.
    """
    site.node(4, count=2)
    site.team(2, lend=0)
    holding, last = site.team(), site.team()
    site.runs(holding, 1, units=3, ends_by=NOW + 90 * MINUTE)
    holder = site.waits(holding, 4, gang=1, minutes=120, limit=60)
    site.holds_on(holder, 1, at=NOW + 90 * MINUTE)
    long = site.waits(last, gang=1, minutes=7, limit=120)
    short = site.waits(last, gang=1, minutes=5, limit=70)
    site.classes[-1] = replace(site.classes[-1], ask=replace(site.classes[-1].ask, time_limit=2 * HOUR))
    return long, short


def test_who_no_longer_leaves_a_planned_start_its_quota_lets_a_shorter_job_of_its_line_go() -> None:
    site = Site()
    _, short = beside_a_planned_start(site)
    first, second = site.waits(site.team(), minutes=9), site.waits(site.team(), minutes=8)

    # The first two take what is beside the holder in 90 minutes.
    assert site.decide().started() == [first, second, short]


def test_who_goes_in_the_place_of_one_that_waits_longer_has_no_more_of_a_turn_for_that() -> None:
    site = Site()
    beside_a_planned_start(site)
    site.runs(site.team(), 2, units=2)
    between = site.waits(site.team(), gang=1, minutes=6, limit=70)

    # One unit is left, for 90 minutes.
    assert site.decide().started() == [between]


def test_where_more_is_promised_than_there_is_the_guarantee_that_is_used_least_goes_first() -> None:
    site = Site(policy=Policy(overcommit=True))
    site.node(5)
    first, second = site.team(4), site.team(4)
    site.runs(first, 1, units=3)
    site.runs(second, 1)
    site.waits(first, priority=1, minutes=9)
    job = site.waits(second)

    # The first would use 4 of its 4, the second 2 of its 4, and one unit is free.
    assert site.decide().started() == [job]


def test_a_user_with_nothing_goes_before_one_with_the_least_that_can_be() -> None:
    site = Site()
    site.flavor(value=1)
    site.node(2)
    team = site.team(2)
    site.runs(team, 1, user=1)
    site.waits(team, user=1, minutes=9)
    job = site.waits(team, user=2)

    assert site.decide().started() == [job]


def test_a_shorter_job_of_a_user_whose_limit_a_planned_start_of_theirs_fills_takes_the_last_unit_until_then() -> None:
    site = Site()
    site.node(4)
    team = site.team(4, per_user_limit=2)
    site.runs(team, 1, ends_by=NOW + 90 * MINUTE)
    holder = site.waits(team, 2, gang=1, minutes=120, limit=60)
    site.holds_on(holder, 1, at=NOW + 90 * MINUTE)
    _long, short = (site.waits(team, gang=1, minutes=7, limit=limit) for limit in (120, 70))
    site.classes[-1] = replace(site.classes[-1], ask=replace(site.classes[-1].ask, time_limit=2 * HOUR))

    # One of the user's two runs; in 90 minutes, when it ends, the planned start takes both.
    assert site.decide().started() == [short]


def test_who_was_inside_a_pool_until_a_sibling_took_it_waits_for_those_who_still_are_inside() -> None:
    site = Site()
    site.node(7)
    pool, over = site.team(1), site.team()
    first, second = site.team(parent=pool), site.team(parent=pool)
    owner, user = site.team(1, parent=over), site.team(parent=over)
    site.runs(user, 1, units=5)
    jobs = [site.waits(first, minutes=9), site.waits(owner, minutes=7)]
    site.waits(second, minutes=8)

    decided = site.decide()

    # The second would borrow one, and the owner's department borrows five: but the owner is inside its own guarantee.
    assert (decided.started(), decided.victims()) == (jobs, [])


def test_all_are_asked_anew_who_lose_by_a_step_in_whichever_department() -> None:
    site = Site()
    site.node(2)
    department, other = site.team(), site.team(weight=2000)
    first, last, middle = site.team(), site.team(), site.team(parent=department)
    job = site.waits(first, minutes=30)
    site.waits(middle, gang=2, minutes=20)
    one = site.waits(middle, minutes=15)
    site.waits(last, minutes=10)
    site.waits(site.team(parent=other), gang=2, minutes=5)

    # One unit is left after the first, for which the middle one asks now as well, and waits longer than the last.
    assert site.decide().started() == [job, one]
