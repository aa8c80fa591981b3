"""Why jobs wait: each code of SEMANTICS 10 that this slice can give, with its numbers."""

from dataclasses import replace

import pytest

from queues.admission.reasons import Code, Reason
from queues.admission.world import HOUR, MINUTE, Policy
from tests.admission.site import GI, NOW, Site


def test_more_than_the_limits_could_ever_give_is_permanent() -> None:
    site = Site()
    site.node(8, count=2)
    site.team(8)
    b = site.team(8, borrow=0)
    job = site.waits(b, gang=12)

    decided = site.decide()

    assert decided.code(job) is Code.EXCEEDS_MAX
    assert (decided.numbers(job)["needs"], decided.numbers(job)["limit"]) == (12, 8)
    assert decided.reason(job).permanent


def test_a_gang_larger_than_any_cluster_is_permanent() -> None:
    site = Site()
    site.node(8, cluster=1)
    site.node(8, cluster=2)
    a = site.team(16)
    job = site.waits(a, gang=9)

    decided = site.decide()

    numbers = decided.numbers(job)
    assert (decided.code(job), numbers["needs"], numbers["limit"]) == (Code.EXCEEDS_MAX, 9, 8)


def test_a_task_larger_than_any_node_is_permanent_even_while_the_cluster_is_full() -> None:
    site = Site()
    site.node(8, count=4, memory=64 * GI)
    a = site.team(32)
    site.runs(a, 1, 2, 3, 4, units=8)
    wide, fat = site.waits(a, units=9), site.waits(a, memory=65 * GI)

    decided = site.decide()

    assert decided.code(wide) is Code.EXCEEDS_NODE
    assert decided.numbers(wide) == {"flavor": "g", "needs": 9, "largest_node": 8}
    assert decided.code(fat) is Code.EXCEEDS_NODE


def test_labels_that_no_node_carries_are_permanent() -> None:
    site = Site()
    site.node(8)
    a = site.team(8)
    job = site.waits(a, labels=(("ib", "yes"),))

    decided = site.decide()

    assert (decided.code(job), decided.numbers(job)["labels"]) == (Code.NO_MATCHING_NODE, "ib=yes")


def test_a_firm_job_larger_than_its_team_and_the_pools_above_cover_is_permanent() -> None:
    site = Site()
    site.node(8)
    team = site.team(3, parent=site.team(2))
    job = site.waits(team, 6, gang=1, preemptible=False)

    decided = site.decide()

    assert (decided.code(job), decided.numbers(job)["limit"]) == (Code.EXCEEDS_MAX, 5)


def test_where_a_limit_binds_people_of_whom_none_uses_anything_yet_room_is_the_reason() -> None:
    site = Site()
    site.node(2)
    team, other = site.team(per_user_limit=2), site.team(2)
    site.runs(other, 1, units=2)
    job = site.waits(team, 2, gang=1)

    assert site.decide().code(job) is Code.NO_FREE_CAPACITY


def test_one_task_beyond_a_users_limit_is_permanent() -> None:
    site = Site()
    site.node(8)
    a = site.team(8, per_user_limit=2)
    job = site.waits(a, gang=3)

    assert site.decide().code(job) is Code.EXCEEDS_MAX


def test_a_paused_queue_team_or_department_starts_nothing() -> None:
    site = Site()
    site.node(8)
    parent = site.team(paused=True)
    teams = [site.team(2, parent=parent), site.team(2, paused=True), site.team(2, queue_paused=True)]
    jobs = [site.waits(team) for team in teams]

    decided = site.decide()

    assert decided.started() == []
    assert [decided.code(job) for job in jobs] == [Code.QUEUE_PAUSED] * 3
    assert [decided.numbers(job) for job in jobs] == [{"team": "t1"}, {"team": "t3"}, {"queue": "q4"}]


def test_a_users_limit_in_team_or_queue_is_named_for_that_user_alone() -> None:
    for of_team, of_queue in ((2, None), (None, 2)):
        site = Site()
        site.node(8)
        a = site.team(8, per_user_limit=of_team, queue_limit=of_queue)
        jobs = [site.waits(a, user=1) for _ in range(3)]
        other = site.waits(a, user=2)

        decided = site.decide()

        assert decided.started() == [jobs[0], other, jobs[1]]
        assert decided.code(jobs[2]) is Code.USER_LIMIT
        assert (decided.numbers(jobs[2])["used"], decided.numbers(jobs[2])["limit"]) == (2, 2)


def test_a_teams_own_limit_is_named_before_what_is_free() -> None:
    site = Site()
    site.node(10, count=2)
    red = site.team(5, borrow=2)
    site.team(15)
    job = site.waits(red, tasks=9)

    decided = site.decide()

    assert (decided.tasks(job), decided.code(job)) == (7, Code.TEAM_LIMIT)
    assert decided.numbers(job)["limit"] == 7


def test_a_departments_limit_is_named_as_such() -> None:
    site = Site()
    site.node(20)
    parent = site.team(borrow=1)
    a = site.team(5, parent=parent)
    site.team(15)
    job = site.waits(a, tasks=9)

    decided = site.decide()

    assert (decided.tasks(job), decided.code(job)) == (6, Code.BORROW_LIMIT)
    assert decided.numbers(job)["team"] == "t1"


def test_what_the_tree_could_never_lend_is_named() -> None:
    site = Site()
    site.node(18)
    parent = site.team()
    red = site.team(9, parent=parent)
    site.team(9, parent=parent, lend=3)
    job = site.waits(red, tasks=15)

    decided = site.decide()

    assert (decided.tasks(job), decided.code(job)) == (12, Code.LEND_LIMIT)


def test_idle_units_that_are_not_lent_at_this_moment_are_named_too() -> None:
    site = Site()
    site.node(18)
    parent = site.team()
    red = site.team(6, parent=parent)
    blue = site.team(6, parent=parent)
    site.team(6, parent=parent, lend=3)
    site.runs(blue, 1, units=7)
    job = site.waits(red, tasks=9)

    decided = site.decide()

    assert (decided.tasks(job), decided.code(job)) == (8, Code.LEND_LIMIT)


def test_firm_work_needs_a_guarantee_that_cannot_be_recalled() -> None:
    site = Site()
    site.node(8)
    a = site.team(2)
    site.team(6)
    job = site.waits(a, tasks=3, preemptible=False)
    wide = site.waits(a, gang=3, borrow=False)

    decided = site.decide()

    assert (decided.tasks(job), decided.code(job), decided.code(wide)) == (2, Code.TEAM_LIMIT, Code.EXCEEDS_MAX)


def test_firm_work_may_stand_on_the_pool_of_its_department_once() -> None:
    site = Site()
    site.node(8)
    parent = site.team(3)
    a, b = site.team(1, parent=parent), site.team(0, parent=parent)
    mine, theirs = site.waits(a, tasks=4, preemptible=False, minutes=1), site.waits(b, tasks=4, preemptible=False)

    decided = site.decide()

    assert decided.tasks(mine) + decided.tasks(theirs) == 4


def test_a_job_that_does_not_borrow_starts_only_inside_its_guarantee() -> None:
    site = Site()
    site.node(8)
    a = site.team(2)
    site.runs(a, 1)
    job = site.waits(a, gang=2, borrow=False)

    decided = site.decide()

    assert (decided.started(), decided.code(job)) == ([], Code.TEAM_LIMIT)


def test_lost_capacity_is_named_when_it_is_the_cause() -> None:
    site = Site()
    site.node(8, count=4)
    a, b = site.team(16), site.team(16)
    site.cordon(4)
    first, second = site.waits(a, gang=16, minutes=1), site.waits(b, gang=16)

    decided = site.decide()

    assert (decided.started(), decided.code(second)) == ([first], Code.CAPACITY_REDUCED)
    assert (decided.numbers(second)["usable"], decided.numbers(second)["installed"]) == (24, 32)


def test_units_that_are_about_to_come_back_are_named() -> None:
    site = Site()
    site.node(8)
    a = site.team(8)
    site.runs(a, 1, units=6, leaving=True)
    soon, never = site.waits(a, gang=8), site.waits(a, gang=8, cpu=999_999)

    decided = site.decide()

    assert (decided.code(soon), decided.numbers(soon)["terminating"]) == (Code.WAITS_TERMINATING, 6)
    assert decided.code(never) is not Code.WAITS_TERMINATING


def test_units_that_a_claim_clears_beyond_its_ask_are_about_to_come_back_at_once() -> None:
    site = Site()
    site.node(8)
    owner, guest = site.team(4), site.team()
    site.runs(guest, 1, units=8, grace=MINUTE)
    site.waits(owner, 4)
    more, most = site.waits(guest, 3), site.waits(guest, 5)

    decided = site.decide()

    assert (decided.code(more), decided.numbers(more)["terminating"]) == (Code.WAITS_TERMINATING, 4)
    assert decided.code(most) is Code.NO_FREE_CAPACITY


def test_a_full_cluster_is_told_with_numbers() -> None:
    site = Site()
    site.node(8)
    a, b = site.team(1), site.team(7)
    site.runs(b, 1, units=7)
    job = site.waits(a, gang=4)

    decided = site.decide()

    assert decided.reason(job) == Reason(
        code=Code.NO_FREE_CAPACITY,
        numbers=(
            ("flavor", "g"),
            ("free", 1),
            ("largest_block", 1),
            ("may_borrow", 0),
            ("needs", 4),
            ("team_left", 1),
        ),
    )


def test_free_units_on_too_many_nodes_are_fragments() -> None:
    site = Site()
    site.node(8, count=8)
    a = site.team(64)
    site.runs(a, *range(1, 9), units=7)
    whole, crumbs = site.waits(a, units=8, priority=1), site.waits(a, tasks=4)

    decided = site.decide()

    assert (decided.code(whole), decided.numbers(whole)["free"], decided.numbers(whole)["largest_block"]) == (
        Code.NO_FREE_CAPACITY,
        4,
        1,
    )
    assert decided.tasks(crumbs) == 4

    site.waiting.pop()
    assert (site.decide().code(whole), site.decide().numbers(whole)["free"]) == (Code.FRAGMENTED, 8)


def test_a_job_that_started_whole_leaves_no_verdict() -> None:
    site = Site()
    site.node(8)
    a = site.team(8)
    site.waits(a, gang=8)

    assert site.decide().outcome.verdicts == ()


def test_the_flavor_nearest_to_a_start_gives_the_reason() -> None:
    site = Site()
    first, second = site.flavor("first"), site.flavor("second")
    site.node(4, flavor=first)
    site.node(8, flavor=second)
    a = site.team(quotas=())
    site.runs(a, 2, units=8, flavor=second)
    job = site.waits(a, units=8, flavors=(first, second))

    decided = site.decide()

    assert (decided.code(job), decided.numbers(job)["flavor"]) == (Code.NO_FREE_CAPACITY, "second")


def test_what_could_start_only_with_lost_nodes_and_once_others_have_left_does_not_wait_for_these_alone() -> None:
    site = Site()
    site.node(4, count=2)
    a = site.team(8)
    site.runs(a, 1, units=4, leaving=True)
    site.cordon(2)
    job = site.waits(a, gang=8)

    assert site.decide().code(job) is Code.NO_FREE_CAPACITY


def test_a_hold_tells_its_time_and_who_may_not_delay_it_whose_it_is() -> None:
    site = Site()
    site.node(4)
    a, b = site.team(4), site.team()
    site.runs(a, 1, units=2, ends_by=NOW + HOUR)
    holder = site.waits(a, 4, gang=1, minutes=60)
    site.holds_on(holder, 1, at=NOW + HOUR)
    job = site.waits(b)

    decided = site.decide()

    (held,) = [row.reason for row in decided.outcome.verdicts if row.job == holder]
    assert (held.code, dict(held.numbers)) == (Code.HOLDS, {"at": NOW + HOUR, "flavor": "g", "needs": 4})
    assert (decided.code(job), decided.numbers(job)["job"]) == (Code.WOULD_DELAY, holder)


def test_who_is_evicted_now_blocks_nobody_without_end() -> None:
    site = Site(policy=Policy(hold_idle_limit=1000))
    site.node(4)
    site.node(1, labels=(("ib", "yes"),))
    a, owner, borrower = site.team(4), site.team(1), site.team()
    own = site.runs(a, 1)
    site.runs(borrower, 2)
    gang = site.waits(a, 4, minutes=60)
    site.waiting[0] = replace(site.waiting[0], idle=1000)
    site.waits(owner, labels=(("ib", "yes"),))

    decided = site.decide()

    (told,) = [dict(row.reason.numbers) for row in decided.outcome.verdicts if row.job == gang]
    assert (told["endless"], told["endless_jobs"]) == (1, str(own))


def test_what_would_fit_only_if_more_than_what_leaves_had_gone_does_not_wait_for_that() -> None:
    site = Site()
    site.node(4)
    a = site.team(4)
    site.runs(a, 1, units=2, leaving=True)
    site.runs(a, 1, units=2)
    job = site.waits(a, 4, gang=1)

    decided = site.decide()

    assert decided.code(job) is Code.NO_FREE_CAPACITY
    assert (decided.numbers(job)["free"], decided.numbers(job)["largest_block"]) == (0, 0)


def test_where_no_node_is_usable_the_largest_block_is_nothing() -> None:
    site = Site()
    site.node(4)
    site.cordon(1)
    job = site.waits(site.team(4))

    decided = site.decide()

    assert (decided.code(job), decided.numbers(job)["largest_block"]) == (Code.CAPACITY_REDUCED, 0)


def test_who_may_not_borrow_is_told_what_its_team_uses_of_its_own() -> None:
    site = Site()
    site.node(8)
    a = site.team(2)
    site.runs(a, 1, units=2)
    job = site.waits(a, borrow=False)

    numbers = site.decide().numbers(job)

    assert (site.decide().code(job), numbers["used"], numbers["limit"]) == (Code.TEAM_LIMIT, 2, 2)


def test_what_waits_for_others_to_leave_tells_what_it_needs_and_what_comes() -> None:
    site = Site()
    site.node(4)
    a = site.team(4)
    site.runs(a, 1, units=3, leaving=True)
    job = site.waits(a, 2, gang=1)

    numbers = site.decide().numbers(job)

    assert (site.decide().code(job), numbers["needs"], numbers["terminating"]) == (Code.WAITS_TERMINATING, 2, 3)


@pytest.mark.parametrize("priority", [-1, 0, 1])
def test_who_would_delay_a_hold_of_equal_priority_in_its_team_is_told_which(priority: int) -> None:
    site = Site()
    site.node(2)
    team = site.team(2)
    site.runs(team, 1, ends_by=NOW + HOUR)
    holder = site.waits(team, 2, gang=1, minutes=50, priority=priority)
    site.holds_on(holder, 1, at=NOW + HOUR)
    job = site.waits(team, minutes=5, priority=priority)

    decided = site.decide()

    assert (decided.started(), decided.code(job)) == ([], Code.WOULD_DELAY)
    assert decided.numbers(job)["job"] == holder


def test_who_would_take_what_another_job_of_its_team_keeps_is_told_so() -> None:
    site = Site()
    site.node(2, labels=(("ib", "yes"),))
    site.node(1)
    team, other = site.team(3), site.team()
    site.runs(team, 1, ends_by=NOW + HOUR)
    site.runs(other, 2, safe_until=NOW + HOUR)
    keeping = site.waits(team, 2, gang=1, minutes=9, labels=(("ib", "yes"),))
    job = site.waits(team, gang=1)

    decided = site.decide()

    # One unit is in use, two are kept, one is free: it is among those that are kept.
    assert [row.job for row in decided.outcome.keeps] == [keeping]
    assert (decided.started(), decided.code(job)) == ([], Code.WOULD_DELAY)
