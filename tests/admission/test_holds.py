"""Holds by hand: when they are planned for, what they carry on, and whom they bind (SEMANTICS 7)."""

from dataclasses import replace

import pytest

from queues.admission.world import HOUR, MINUTE, Group, Hold, JobShape, Placed, Quota, Standing
from tests.admission.site import NOW, Decided, Site


def planned(decided: Decided) -> dict[int, tuple[int | None, list[int]]]:
    """Return the holds by job: the planned start and the nodes."""
    return {row.job: (row.at, [placed.node for placed in row.placed]) for row in decided.outcome.holds}


def test_a_job_on_two_gpu_types_holds_both_from_the_time_when_the_last_is_free() -> None:
    site = Site()
    x, y = site.flavor("x"), site.flavor("y")
    (first,), (second,) = site.node(1, flavor=x), site.node(1, flavor=y)
    department = site.team(quotas=(Quota(flavor=y, guaranteed=1),))
    team = site.team(quotas=(Quota(flavor=x, guaranteed=1),), parent=department)
    site.runs(team, first, flavor=x, ends_by=NOW + HOUR)
    site.runs(team, second, flavor=y, ends_by=NOW + 2 * HOUR)
    groups = (Group(tasks=1, units=1, flavors=(x,)), Group(tasks=1, units=1, flavors=(y,)))
    job = site.waits(team, groups=groups, minutes=60)

    (hold,) = site.decide().outcome.holds

    assert (hold.job, hold.at, hold.standing) == (job, NOW + 2 * HOUR, Standing.GUARANTEED)


def test_a_hold_that_is_guaranteed_only_by_its_department_binds_no_leaf_below_that_has_its_own() -> None:
    site = Site()
    x, y = site.flavor("x"), site.flavor("y")
    (first,), (second,) = site.node(2, flavor=x), site.node(1, flavor=y)
    department = site.team(quotas=(Quota(flavor=y, guaranteed=1),))
    team = site.team(quotas=(Quota(flavor=x, guaranteed=1),), parent=department)
    sibling = site.team(quotas=(Quota(flavor=x, guaranteed=1),), parent=department)
    site.runs(team, first, flavor=x, ends_by=NOW + HOUR)
    site.runs(team, second, flavor=y, ends_by=NOW + HOUR)
    groups = (Group(tasks=1, units=1, flavors=(x,)), Group(tasks=1, units=1, flavors=(y,)))
    holder = site.waits(team, groups=groups, minutes=60)
    site.holds_on(holder, at=NOW + HOUR)
    site.holds[0] = replace(
        site.holds[0],
        flavors=(x, y),
        placed=(Placed(group=0, node=first, tasks=1), Placed(group=1, node=second, tasks=1)),
    )
    own = site.waits(sibling, flavors=(x,))

    decided = site.decide()

    assert decided.started() == [own]
    assert [row.job for row in decided.outcome.holds] == [holder]


def test_a_planned_start_that_guaranteed_demand_makes_impossible_in_this_cycle_says_so() -> None:
    site = Site()
    site.node(2)
    owner, guest = site.team(2), site.team()
    site.runs(guest, 1, ends_by=NOW + HOUR)
    holder = site.waits(guest, 2, gang=1, minutes=60)
    site.holds_on(holder, 1, at=NOW + HOUR, standing=Standing.BORROWER)
    job = site.waits(owner, gang=1, limit=120)

    decided = site.decide()

    assert decided.started() == [job]
    assert [(row.job, row.at, row.moved) for row in decided.outcome.holds] == [(holder, NOW + 2 * HOUR, "impossible")]


def test_a_more_urgent_job_that_may_hold_from_now_on_does_so_before_others_of_its_team_have_a_turn() -> None:
    site = Site()
    site.node(4)
    team = site.team(4)
    site.runs(team, 1, units=2, ends_by=NOW + HOUR)
    less = site.waits(team, 4, gang=1, minutes=60, limit=60)
    site.holds_on(less, 1, at=NOW + HOUR)
    urgent = site.waits(team, 4, gang=1, minutes=30, limit=60, priority=2)
    site.waits(team, 2, gang=1, minutes=1, limit=120, priority=2)
    site.waits(team, 4, gang=1, minutes=31, limit=60, priority=-1)

    decided = site.decide()

    # The third is more urgent than the first, whose hold does not bind it, but not than the second.
    assert decided.started() == []
    assert planned(decided)[urgent] == (NOW + HOUR, [1])


def test_a_firm_gang_as_large_as_its_guarantee_holds_for_the_end_of_its_teams_own_firm_work() -> None:
    site = Site()
    site.node(4)
    team = site.team(4)
    site.runs(team, 1, units=4, preemptible=False, ends_by=NOW + HOUR)
    job = site.waits(team, 4, gang=1, minutes=60, preemptible=False)

    (hold,) = site.decide().outcome.holds

    assert (hold.job, hold.at, hold.standing) == (job, NOW + HOUR, Standing.GUARANTEED)


def test_what_others_overfill_does_not_matter_to_a_hold_that_needs_none_of_it() -> None:
    site = Site()
    site.node(4, cpu=1000, outside_cpu=5000)
    team = site.team(4)
    site.runs(team, 1, units=4, ends_by=NOW + HOUR)
    job = site.waits(team, 4, gang=1, minutes=60)

    assert planned(site.decide()) == {job: (NOW + HOUR, [1])}


def test_a_team_in_a_department_holds_like_any_other() -> None:
    site = Site()
    site.node(4)
    department = site.team()
    team = site.team(4, parent=department)
    site.runs(team, 1, units=4, ends_by=NOW + HOUR)
    job = site.waits(team, 4, gang=1, minutes=60)

    assert planned(site.decide()) == {job: (NOW + HOUR, [1])}


def test_a_hold_tells_why_it_moved_and_carries_on_what_its_job_is() -> None:
    site = Site()
    site.node(4, count=2)
    team, stranger = site.team(4), site.team(4)
    site.runs(team, 1, units=4, ends_by=NOW + HOUR)
    site.runs(stranger, 2, units=4, borrow=False)
    job = site.waits(team, 4, gang=1, minutes=60, limit=90, evictions=2)
    site.waiting[0] = replace(site.waiting[0], grace=MINUTE)

    def renewed(at: int, moved: str) -> Hold:
        site.holds.clear()
        site.holds_on(job, 1, at=at, grace=MINUTE, moved=moved)
        (hold,) = site.decide().outcome.holds
        assert hold == replace(site.holds[0], at=NOW + HOUR, moved=hold.moved)
        return hold

    assert renewed(NOW + HOUR, "impossible").moved == "impossible"
    assert renewed(NOW + 2 * HOUR, "").moved == "earlier"
    assert renewed(NOW + MINUTE, "").moved == "impossible"


def test_a_job_that_others_holds_alone_keep_from_a_planned_start_holds_no_endless_nodes_instead() -> None:
    site = Site()
    labels = (("ib", "yes"),)
    site.node(1, count=4, labels=labels)
    site.node(2)
    team, stranger = site.team(4), site.team(2)
    site.runs(team, 1, ends_by=NOW + HOUR)
    site.runs(stranger, 3, borrow=False)
    site.runs(stranger, 4, borrow=False)
    first = site.waits(team, gang=2, minutes=60, labels=labels)
    site.waits(team, gang=2, minutes=50, user=99, labels=labels)

    assert planned(site.decide()) == {first: (NOW + HOUR, [1, 2])}


def test_there_are_never_more_guaranteed_holds_than_nodes() -> None:
    site = Site()
    site.node(4)
    team = site.team(4)
    site.runs(team, 1, units=4, ends_by=NOW + HOUR)
    first = site.waits(team, 2, gang=1, minutes=60)
    site.waits(team, 2, gang=1, minutes=50, user=99)

    assert planned(site.decide()) == {first: (NOW + HOUR, [1])}


def test_a_job_starts_together_with_another_planned_start_where_both_fit() -> None:
    site = Site()
    site.node(4)
    site.node(1)
    team, other = site.team(4), site.team(1)
    site.runs(team, 1, units=4, ends_by=NOW + HOUR)
    site.runs(other, 2, ends_by=NOW + 2 * HOUR)
    first, second = (site.waits(team, 2, gang=1, minutes=wait, user=wait) for wait in (60, 50))

    assert planned(site.decide()) == {first: (NOW + HOUR, [1]), second: (NOW + HOUR, [1])}


def test_a_borrowers_hold_that_gives_way_is_planned_again_where_there_is_room() -> None:
    site = Site()
    site.node(1, count=2)
    owner, stranger = site.team(1), site.team()
    site.runs(owner, 1, ends_by=NOW + HOUR)
    site.runs(stranger, 2, ends_by=NOW + 2 * HOUR, safe_until=NOW + 2 * HOUR)
    borrower = site.waits(stranger, minutes=90)
    site.holds_on(borrower, 1, at=NOW + HOUR, standing=Standing.BORROWER)
    own = site.waits(owner, minutes=60)

    decided = site.decide()

    assert planned(decided) == {own: (NOW + HOUR, [1]), borrower: (NOW + 2 * HOUR, [2])}
    assert [row.standing for row in decided.outcome.holds] == [Standing.GUARANTEED, Standing.BORROWER]


def test_the_next_job_of_a_class_holds_when_the_first_has_started() -> None:
    site = Site()
    site.node(8)
    site.team(8)
    team = site.team()
    site.runs(team, 1, units=4, ends_by=NOW + HOUR)
    first = site.waits(team, 4, gang=1, minutes=60)
    second = site.waits(team, 4, gang=1, minutes=50)

    decided = site.decide()

    assert decided.started() == [first]
    assert planned(decided) == {second: (NOW + HOUR, [1])}


def test_a_claim_that_a_planned_start_does_not_mind_succeeds_beside_it() -> None:
    site = Site()
    site.node(4)
    holding, claiming, borrower = site.team(2), site.team(2), site.team()
    site.runs(holding, 1, units=2, ends_by=NOW + HOUR)
    guest = site.runs(borrower, 1, units=2)
    holder = site.waits(holding, 2, gang=1, minutes=60)
    site.holds_on(holder, 1, at=NOW + HOUR)
    job = site.waits(claiming, 2, gang=1)

    decided = site.decide()

    assert (decided.started(), decided.victims()) == ([job], [guest])
    assert planned(decided) == {holder: (NOW + HOUR, [1])}


def test_a_claim_counts_no_room_twice_that_a_planned_start_takes_over_from_its_victim() -> None:
    site = Site()
    site.node(4, labels=(("ib", "yes"),))
    site.node(4)
    holding, claiming, borrower = site.team(4), site.team(2), site.team()
    site.runs(holding, 1, units=2, ends_by=NOW + HOUR)
    site.runs(borrower, 1, units=2, ends_by=NOW + 30 * MINUTE)
    holder = site.waits(holding, 4, gang=1, minutes=60, labels=(("ib", "yes"),))
    site.holds_on(holder, 1, at=NOW + HOUR)
    site.waits(claiming, 2, gang=1, labels=(("ib", "yes"),))

    decided = site.decide()

    assert (decided.started(), decided.victims()) == ([], [])
    assert planned(decided) == {holder: (NOW + HOUR, [1])}


def test_surplus_that_a_planned_start_takes_back_is_for_nobody_who_stays_longer() -> None:
    site = Site()
    site.node(4, labels=(("ib", "yes"),))
    site.node(6)
    holding, borrower, growing = site.team(4), site.team(), site.team()
    site.runs(holding, 1, units=2, ends_by=NOW + HOUR)
    site.runs(growing, 2, units=2, shape=JobShape.ELASTIC)
    group = replace(site.attempts[1].groups[0], most=2)
    surplus = (Placed(group=0, node=1, tasks=1),)
    site.attempts[1] = replace(site.attempts[1], groups=(group,), surplus=surplus)
    holder = site.waits(holding, 4, gang=1, minutes=60, labels=(("ib", "yes"),))
    site.holds_on(holder, 1, at=NOW + HOUR)
    site.waits(borrower, 2, gang=1, user=1, minutes=1, labels=(("ib", "yes"),))
    short = site.waits(borrower, 2, gang=1, user=2, limit=30, labels=(("ib", "yes"),))

    decided = site.decide()

    assert [(row.job, row.placed) for row in decided.outcome.evictions] == [(short, surplus)]
    assert decided.nodes(short) == {1: 1}
    assert planned(decided)[holder] == (NOW + HOUR, [1])


def test_who_ends_in_time_starts_on_held_nodes_when_another_has_taken_what_was_free_beside_them() -> None:
    site = Site()
    site.node(1)
    site.node(2)
    site.team(3)
    holding, quick, slow = site.team(), site.team(), site.team()
    site.runs(holding, 2, ends_by=NOW + HOUR)
    holder = site.waits(holding, 2, gang=1, minutes=60)
    site.holds_on(holder, 2, at=NOW + HOUR, standing=Standing.BORROWER)
    first = site.waits(quick, minutes=20, limit=30)
    site.waits(slow, minutes=15, user=1)
    soon = site.waits(slow, minutes=10, user=2, limit=30)

    decided = site.decide()

    assert decided.nodes(first) == {1: 1}
    assert decided.started() == [first, soon]
    assert decided.nodes(soon) == {2: 1}


def test_one_persons_limit_keeps_nobody_else_from_holding() -> None:
    site = Site()
    site.node(4)
    team = site.team(4, per_user_limit=2)
    site.runs(team, 1, units=2, user=1)
    site.runs(team, 1, units=2, user=2, ends_by=NOW + HOUR)
    site.waits(team, 2, gang=1, minutes=60, user=1)
    second = site.waits(team, 2, gang=1, minutes=50, user=2)

    assert planned(site.decide()) == {second: (NOW + HOUR, [1])}


def test_a_job_that_backs_off_keeps_nobody_else_from_holding() -> None:
    site = Site()
    site.node(4)
    site.team(4)
    team = site.team()
    site.runs(team, 1, units=4, ends_by=NOW + HOUR)
    site.waits(team, 4, gang=1, minutes=60, user=1, evictions=5)
    second = site.waits(team, 4, gang=1, minutes=50, user=2)

    assert planned(site.decide()) == {second: (NOW + HOUR, [1])}


def test_a_borrowers_hold_whose_room_is_taken_is_planned_again_elsewhere() -> None:
    site = Site()
    site.node(2)
    site.node(2)
    owner, other, borrower = site.team(3), site.team(1), site.team()
    site.runs(owner, 1, ends_by=NOW + HOUR)
    site.runs(owner, 2, ends_by=NOW + 2 * HOUR)
    site.runs(other, 2, ends_by=NOW + 2 * HOUR)
    job = site.waits(borrower, 2, gang=1, minutes=60)
    site.holds_on(job, 1, at=NOW + HOUR, standing=Standing.BORROWER)
    own = site.waits(owner)

    decided = site.decide()

    assert decided.started() == [own]
    assert planned(decided) == {job: (NOW + 2 * HOUR, [2])}


def test_a_hold_stays_where_it_is_though_another_node_would_do_as_well() -> None:
    site = Site()
    site.node(2, count=2)
    team = site.team(4)
    for node in (1, 2):
        site.runs(team, node, units=2, ends_by=NOW + HOUR)
    job = site.waits(team, 2, gang=1, minutes=60)
    site.holds_on(job, 2, at=NOW + HOUR)

    assert planned(site.decide()) == {job: (NOW + HOUR, [2])}


def test_a_persons_job_that_starts_now_makes_room_in_their_limit_and_on_its_node_when_it_ends() -> None:
    site = Site()
    site.node(2, count=2)
    site.nodes[1] = replace(site.nodes[1], labels=(("ib", "yes"),))
    team = site.team(4, per_user_limit=2)
    first = site.waits(team, 2, gang=1, minutes=70, limit=60, labels=(("ib", "yes"),))
    second = site.waits(team, 2, gang=1, minutes=60)

    decided = site.decide()

    # Both nodes will be free then; it leaves alone the one that is free already.
    assert decided.started() == [first]
    assert planned(decided) == {second: (NOW + HOUR, [2])}


def test_what_a_planned_start_leaves_of_its_node_is_for_anybody_however_long() -> None:
    site = Site()
    site.node(4)
    holding, borrower = site.team(3), site.team()
    site.runs(holding, 1, units=2, ends_by=NOW + HOUR)
    holder = site.waits(holding, 3, gang=1, minutes=60)
    site.holds_on(holder, 1, at=NOW + HOUR)
    job = site.waits(borrower)

    assert site.decide().started() == [job]


@pytest.mark.parametrize("limits", [{"per_user_limit": 2}, {"queue_limit": 2}])
def test_a_persons_second_hold_starts_when_the_first_has_left_room_in_their_limit(limits: dict[str, int]) -> None:
    site = Site()
    site.node(4)
    site.node(2)
    team, other = site.team(4, **limits), site.team(2)  # type: ignore[arg-type]
    for user in (8, 9):
        site.runs(team, 1, units=2, user=user, ends_by=NOW + HOUR)
    site.runs(other, 2, units=2, ends_by=NOW + 2 * HOUR)
    first = site.waits(team, 2, gang=1, minutes=50, limit=30, user=1)
    second = site.waits(team, 2, gang=1, minutes=40, limit=30, user=1, cpu=1)

    assert planned(site.decide()) == {first: (NOW + HOUR, [1]), second: (NOW + 2 * HOUR, [2])}


@pytest.mark.parametrize(("limit", "at"), [(60, 1), (61, 3), (None, 3)])
def test_a_persons_second_hold_starts_before_the_first_where_it_ends_in_time(limit: int | None, at: int) -> None:
    site = Site()
    for units, label in ((2, "a"), (2, "b"), (1, "c")):
        site.node(units, labels=((label, "yes"),))
    team, other = site.team(4, per_user_limit=2), site.team(1)
    for node, hours in ((1, 2), (2, 1)):
        site.runs(team, node, units=2, user=7 + node, ends_by=NOW + hours * HOUR)
    site.runs(other, 3, ends_by=NOW + 3 * HOUR)
    first = site.waits(team, 2, gang=1, minutes=50, limit=30, user=1, labels=(("a", "yes"),))
    second = site.waits(team, 2, gang=1, minutes=40, limit=limit, user=1, labels=(("b", "yes"),))

    assert planned(site.decide()) == {first: (NOW + 2 * HOUR, [1]), second: (NOW + at * HOUR, [2])}


def test_a_borrowers_hold_takes_nothing_that_another_team_keeps() -> None:
    site = Site()
    labels = (("ib", "yes"),)
    site.node(2, labels=labels)
    site.node(1, labels=labels)
    site.node(1)
    keeping, other, borrower = site.team(3), site.team(1), site.team()
    site.runs(keeping, 1, ends_by=NOW + HOUR)
    site.runs(other, 2, ends_by=NOW + 2 * HOUR)
    keeper = site.waits(keeping, 2, gang=1, minutes=1)
    job = site.waits(borrower, gang=1, minutes=50, labels=labels)

    decided = site.decide()

    assert [(row.job, [placed.node for placed in row.placed]) for row in decided.outcome.keeps] == [(keeper, [1])]
    assert planned(decided) == {job: (NOW + 2 * HOUR, [2])}


def test_a_firm_job_holds_for_the_end_of_a_firm_one_of_its_team_that_starts_now() -> None:
    site = Site()
    site.node(4)
    team = site.team(4)
    first = site.waits(team, 4, gang=1, minutes=50, limit=60, preemptible=False)
    second = site.waits(team, 4, gang=1, minutes=40, cpu=1, preemptible=False)

    decided = site.decide()

    assert decided.started() == [first]
    assert planned(decided) == {second: (NOW + HOUR, [1])}
