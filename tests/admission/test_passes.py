"""Keeps and claims that are there, turn by turn: SEMANTICS 4, 7 and 8."""

from dataclasses import replace

import pytest

from queues.admission.reasons import Code
from queues.admission.world import HOUR, MINUTE, JobShape, Policy, Quota, Standing
from tests.admission.site import NOW, Decided, Site


def keeps(decided: Decided) -> dict[int, list[int]]:
    """Return the nodes of the keeps by job."""
    return {row.job: [placed.node for placed in row.placed] for row in decided.outcome.keeps}


def test_behind_a_hold_of_its_own_team_a_job_keeps_no_units_idle() -> None:
    site = Site()
    site.node(4)
    team, borrower = site.team(4), site.team()
    site.runs(team, 1, units=2, ends_by=NOW + HOUR)
    holder = site.waits(team, 4, gang=1, minutes=60)
    site.holds_on(holder, 1, at=NOW + HOUR)
    behind = site.waits(team, gang=1)
    short = site.waits(borrower, 2, gang=1, limit=30)

    decided = site.decide()

    assert (decided.started(), keeps(decided)) == ([short], {behind: []})


def test_each_job_of_a_team_keeps_what_is_nearest_to_free_beside_the_others() -> None:
    site = Site()
    site.node(2, count=4)
    team, other = site.team(4), site.team(4)
    for node in range(1, 5):
        site.runs(other, node, preemptible=False)
    jobs = [site.waits(team, 2, gang=1, user=user) for user in (1, 2)]

    assert keeps(site.decide()) == dict(zip(jobs, ([1], [2]), strict=True))


def test_a_job_keeps_on_the_gpus_of_its_guarantee_though_it_wants_others_first() -> None:
    site = Site()
    lent, own = site.flavor("lent"), site.flavor("own")
    site.node(2, flavor=lent)
    site.node(2, count=2, flavor=own)
    team, other = site.team(quotas=(Quota(flavor=own, guaranteed=2),)), site.team(4)
    site.runs(other, 1, preemptible=False, flavor=lent)
    for node in (2, 3):
        site.runs(other, node, flavor=own, safe_until=NOW + HOUR)
    job = site.waits(team, 2, gang=1, flavors=(lent, own))

    assert keeps(site.decide()) == {job: [2]}


def test_who_is_inside_a_pool_but_above_its_own_limit_neither_keeps_nor_stops_others() -> None:
    site = Site()
    site.node(4)
    department = site.team(3)
    team, sibling = site.team(1, parent=department, borrow=0), site.team(parent=department)
    site.runs(team, 1)
    stuck = site.waits(team, minutes=9)
    job = site.waits(sibling)

    decided = site.decide()

    assert (decided.started(), keeps(decided), decided.code(stuck)) == ([job], {}, Code.TEAM_LIMIT)


def passed(site: Site, *, limit: int | None = None, minutes: int | None = None) -> tuple[int, int]:
    """Let two jobs of a team hold whose guarantee has room for either, in the order of their holds; return them."""
    site.node(2, count=3)
    site.team(2)
    site.queues.append(replace(site.queues[0], id=2, per_user_limit=limit))
    first = site.waits(1, gang=1, minutes=40, user=1)
    second = site.waits(1, 2, gang=1, minutes=50, user=2, queue=2, limit=minutes)
    site.holds_on(first, 1, at=NOW + HOUR)
    site.holds_on(second, 2, at=NOW + HOUR)
    return first, second


@pytest.mark.parametrize("limit", [None, 2])
def test_who_keeps_behind_a_hold_that_starts_in_the_same_cycle_starts_as_well_where_there_is_room(
    limit: int | None,
) -> None:
    site = Site()
    first, second = passed(site, limit=limit)

    decided = site.decide()

    # The second waits longer and has the turn, but would push the first, whose hold comes first, out of the guarantee.
    assert decided.outcome.keeps == ()
    started = [(row.job, row.job_class, row.borrowed) for row in decided.outcome.admissions]
    assert started == [(first, 1, False), (second, 2, True)]
    assert decided.outcome.holds == ()


@pytest.mark.parametrize("minutes", [30, None])
def test_a_planned_start_of_this_moment_may_take_quota_that_a_later_one_needs_where_it_ends_before_it(
    minutes: int | None,
) -> None:
    site = Site()
    first, second = passed(site, minutes=minutes)
    site.classes[1] = replace(site.classes[1], ask=replace(site.classes[1].ask, time_limit=30 * MINUTE))
    site.teams[0] = replace(site.teams[0], quotas=(Quota(flavor=1, guaranteed=2, borrow_limit=2),))
    site.runs(site.team(2), 3, units=2, ends_by=NOW + HOUR)
    site.queues.pop()
    third = site.waits(1, 2, gang=1, minutes=45, user=3, limit=60)
    site.holds_on(third, 3, at=NOW + HOUR)

    decided = site.decide()

    # The team may have 4: in an hour the first and the third have 3 of them, beside which the second's 2 find no room.
    assert decided.started() == [first, second]
    assert [(row.job, row.at) for row in decided.outcome.holds] == [(third, NOW + HOUR)]


def test_a_planned_start_of_this_moment_waits_for_its_users_limit() -> None:
    site = Site()
    first, second = passed(site, limit=2)
    site.teams[0] = replace(site.teams[0], quotas=(Quota(flavor=1, guaranteed=3),))
    site.runs(1, 3, user=2, queue=2, leaving=True)

    decided = site.decide()

    assert decided.started() == [first]
    assert [(row.job, row.at) for row in decided.outcome.holds] == [(second, NOW)]


def test_a_claim_counts_as_usage_of_its_team_while_its_victims_leave() -> None:
    site = Site()
    site.node(2, labels=(("ib", "yes"),))
    site.node(4)
    team, guest = site.team(4, borrow=0), site.team()
    site.runs(guest, 1, units=2, leaving=True, claimed=True)
    claimant = site.waits(team, 2, gang=1, minutes=1, labels=(("ib", "yes"),))
    site.claims_on(claimant, 1)
    job = site.waits(team, 3, gang=1)

    decided = site.decide()

    # 2 reserved and 3 asked for are more than 4.
    assert (decided.started(), decided.code(job)) == ([], Code.TEAM_LIMIT)
    assert [row.job for row in decided.outcome.claims] == [claimant]


def test_all_claimants_of_a_person_start_elsewhere_where_other_gpus_are_free() -> None:
    site = Site()
    own, other = site.flavor("own"), site.flavor("other")
    site.node(2, flavor=own)
    site.node(2, flavor=other)
    team, guest = site.team(quotas=(Quota(flavor=own, guaranteed=2),)), site.team(quotas=())
    site.runs(guest, 1, units=2, flavor=own, leaving=True, claimed=True)
    jobs = [site.waits(team, gang=1, flavors=(own, other), minutes=minutes) for minutes in (2, 1)]
    for job in jobs:
        site.claims_on(job, 1, flavor=own)

    decided = site.decide()

    assert [(row.job, row.flavors) for row in decided.outcome.admissions] == [(job, (other,)) for job in jobs]
    assert decided.outcome.claims == ()


def test_who_is_sent_on_finds_nothing_and_claims_does_so_for_its_own_user() -> None:
    site = Site()
    own, other = site.flavor("own"), site.flavor("other")
    site.node(2, flavor=own)
    site.node(2, flavor=other)
    team, owner = (
        site.team(quotas=(Quota(flavor=own, guaranteed=2),)),
        site.team(quotas=(Quota(flavor=other, guaranteed=2),)),
    )
    victim = site.runs(site.team(quotas=()), 1, units=2, flavor=own, grace=MINUTE)
    job = site.waits(team, 2, gang=1, flavors=(own, other), minutes=2, user=7)
    first = site.waits(owner, 2, gang=1, flavors=(other,), minutes=1)

    decided = site.decide()

    assert (decided.started(), decided.victims()) == ([first], [victim])
    assert [(row.job, row.user) for row in decided.outcome.claims] == [(job, 7)]


def test_a_second_job_takes_from_the_rest_of_an_attempt_of_its_own_team() -> None:
    site = Site()
    site.node(3)
    team = site.team(3)
    site.queues[0] = replace(site.queues[0], preempt_within_team=True)
    low = site.runs(team, 1, tasks=3, priority=-1)
    site.attempts[0] = replace(site.attempts[0], shape=JobShape.INDEPENDENT)
    jobs = [site.waits(team, gang=1, minutes=minutes) for minutes in (2, 1)]

    decided = site.decide()

    assert (decided.started(), decided.victims()) == (jobs, [low, low])


@pytest.mark.parametrize(("worn", "preemptible"), [(False, True), (False, False), (True, True)])
def test_a_task_that_keeps_no_longer_leaves_the_keeps_of_the_others_of_its_job(
    *, worn: bool, preemptible: bool
) -> None:
    site = Site(policy=Policy(hold_idle_limit=1000))
    wanted = (("ib", "yes"),)
    site.node(2, count=2, labels=wanted)
    site.node(2)
    team, other = site.team(4), site.team(2)
    for node in (1, 2):
        site.runs(other, node, preemptible=False)
    if worn:
        site.waits(team, 2, labels=wanted, minutes=10, user=9)
        site.waiting[0] = replace(site.waiting[0], idle=1000)
    job = site.waits(team, 2, tasks=2, labels=wanted, minutes=9, preemptible=preemptible)
    large = site.waits(team, 2, gang=1, minutes=8)
    small = [site.waits(team, gang=1, minutes=7) for _ in range(2)]

    decided = site.decide()

    # Both tasks keep, so that the large one borrows; then only one of them is inside, and only its unit stays kept.
    # Whoever has kept for too long and comes before them keeps nothing.
    assert (decided.started(), decided.nodes(small[0])) == ([large, small[0]], {2: 1})
    kept = [[placed.node for placed in row.placed] for row in decided.outcome.keeps if row.job == job]
    assert kept == [[1], []]


def test_a_keep_of_a_job_that_is_inside_no_longer_since_another_of_its_team_claims_is_given_up() -> None:
    site = Site()
    wanted = (("ib", "yes"),)
    site.node(2, labels=wanted)
    site.node(3)
    team, other, borrower = site.team(4), site.team(1), site.team()
    site.queues[0] = replace(site.queues[0], preempt_within_team=True)
    site.runs(other, 1, preemptible=False)
    low = site.runs(team, 2, units=2, priority=-1, grace=MINUTE)
    site.waits(team, 2, labels=wanted, minutes=9)
    claimant = site.waits(team, 3, gang=1, minutes=8)
    job = site.waits(borrower, minutes=7)

    decided = site.decide()

    # Two are in use and two kept of the team's four; then three are reserved, and the one that was kept is lent.
    assert (decided.victims(), [row.job for row in decided.outcome.claims]) == ([low], [claimant])
    assert decided.nodes(job) == {1: 1}


def test_keeps_that_nobody_pushes_out_all_stay() -> None:
    site = Site()
    wanted = (("ib", "yes"),)
    site.node(2, count=2, labels=wanted)
    team, other, borrower = site.team(4), site.team(2), site.team()
    for node in (1, 2):
        site.runs(other, node, preemptible=False)
    site.waits(team, 2, tasks=2, labels=wanted, minutes=9)
    site.waits(borrower)

    assert site.decide().started() == []


@pytest.mark.parametrize("pods", [1, 2])
def test_a_keep_keeps_one_pod_for_each_of_its_tasks(pods: int) -> None:
    site = Site()
    site.node(3, pods=pods)
    site.node(2)
    team, guest = site.team(4), site.team()
    site.runs(guest, 2, units=2, safe_until=NOW + HOUR)
    keeping = site.waits(team, 2, gang=2, minutes=9)
    job = site.waits(guest, gang=1)

    decided = site.decide()

    assert keeps(decided) == {keeping: [1, 2]}
    assert decided.started() == [job][: pods - 1]


def test_who_waits_for_the_age_of_others_and_is_inside_no_longer_is_not_told_to_wait_for_that() -> None:
    site = Site()
    wanted = (("ib", "yes"),)
    site.node(2, labels=wanted)
    site.node(2)
    team, guest = site.team(3), site.team()
    site.runs(guest, 1, safe_until=NOW + HOUR)
    job = site.waits(team, 2, labels=wanted, minutes=9)
    large = site.waits(team, 2, gang=1, minutes=8)

    decided = site.decide()

    # Two are kept of three, so that the large one borrows; then the other would need four.
    assert decided.started() == [large]
    assert [row.reason.code for row in decided.outcome.verdicts if row.job == job] == []


def test_who_holds_inside_the_same_guarantee_may_take_what_another_keeps() -> None:
    site = Site()
    wanted = (("ib", "yes"),)
    site.node(2, labels=wanted)
    site.node(1)
    team, guest = site.team(2), site.team()
    site.runs(guest, 1, safe_until=NOW + HOUR)
    site.runs(guest, 2, safe_until=NOW + HOUR)
    keeping = site.waits(team, 2, gang=1, labels=wanted, minutes=9, priority=1)
    holder = site.waits(team, gang=1, minutes=40)
    site.holds_on(holder, 1, at=NOW)

    decided = site.decide()

    # Two kept and one asked for are more than 2, but a hold of guaranteed demand comes before keeps.
    assert (decided.started(), list(keeps(decided))) == ([holder], [keeping])


def test_who_holds_behind_another_of_its_line_has_its_turn_and_counts_in_the_share_of_its_team() -> None:
    site = Site()
    wanted = (("ib", "yes"),)
    site.node(1, labels=wanted)
    site.node(1)
    site.team(2)
    team, other = site.team(), site.team()
    site.waits(team, gang=1, labels=wanted, minutes=50)
    holder = site.waits(team, gang=1, labels=wanted, minutes=40)
    site.holds_on(holder, 1, at=NOW, standing=Standing.BORROWER)
    site.waits(team, gang=1, minutes=20)
    job = site.waits(other, gang=1, minutes=10)

    # The first would delay the holder. Once that has started the other team borrows less.
    assert site.decide().started() == [holder, job]


def test_what_starts_beside_a_planned_start_leaves_less_room_there_to_the_next() -> None:
    site = Site()
    wanted = (("ib", "yes"),)
    site.node(4, labels=wanted)
    site.node(8)
    holding = site.team()
    site.runs(holding, 1, units=2, ends_by=NOW + HOUR)
    holder = site.waits(holding, 3, gang=1, labels=wanted, minutes=60)
    site.holds_on(holder, 1, at=NOW + HOUR)
    first, _ = (site.waits(site.team(), gang=1, labels=wanted, minutes=minutes) for minutes in (9, 8))

    # Two are free, of which the holder needs one in an hour.
    assert site.decide().started() == [first]
