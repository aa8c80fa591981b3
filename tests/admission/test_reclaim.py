"""Claims: SEMANTICS 8, against every possible set of victims in small worlds."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.admission.reasons import Code
from queues.admission.world import HOUR, MINUTE, Group, JobShape, Placed, Policy, Quota, Standing
from tests.admission.site import NOW, Decided, Site
from tests.examples import examples


def victims(decided: Decided) -> list[int]:
    jobs = {row.id: row.job for row in decided.site.attempts}
    return sorted(jobs[row.attempt] for row in decided.outcome.evictions)


def test_a_guarantee_comes_back_in_the_same_cycle_where_nobody_needs_time_to_leave() -> None:
    site = Site()
    site.node(4)
    a, b = site.team(4), site.team()
    guest = site.runs(b, 1, units=4)
    job = site.waits(a, gang=4)

    decided = site.decide()

    assert (decided.started(), victims(decided)) == ([job], [guest])
    assert decided.outcome.claims == ()


def test_a_claim_waits_for_the_grace_of_its_victims_and_keeps_what_is_free() -> None:
    site = Site()
    site.node(6)
    a, b, c = site.team(6), site.team(), site.team()
    site.runs(b, 1, units=4, grace=MINUTE)
    job = site.waits(a, gang=6)
    other = site.waits(c, gang=2)

    decided = site.decide()

    (claim,) = decided.outcome.claims
    assert (claim.job, claim.standing, decided.started()) == (job, Standing.GUARANTEED, [])
    assert decided.code(other) is not None
    assert any(row.job == job and row.reason.code is Code.WAITS_VICTIMS for row in decided.outcome.verdicts)


def test_a_right_to_reclaim_needs_the_guarantee_on_every_flavor() -> None:
    site = Site()
    x, y = site.flavor("x"), site.flavor("y")
    site.node(12, flavor=x)
    site.node(4, flavor=y)
    a = site.team(quotas=(Quota(flavor=x, guaranteed=10), Quota(flavor=y, guaranteed=4)))
    b = site.team(quotas=(Quota(flavor=x, guaranteed=2),))
    site.runs(a, 1, units=12, flavor=x)
    site.runs(a, 2, units=2, flavor=y)
    site.runs(b, 2, units=2, flavor=y)
    site.waits(a, groups=(Group(tasks=1, units=1, flavors=(x,)), Group(tasks=1, units=1, flavors=(y,))))

    assert site.decide().outcome.evictions == ()


def test_firm_work_and_young_work_are_no_victims() -> None:
    site = Site()
    site.node(6)
    a, b = site.team(4), site.team(2)
    site.runs(b, 1, units=2, preemptible=False)
    site.runs(b, 1, units=2, safe_until=NOW + 1)
    old = site.runs(b, 1, units=2, safe_until=NOW)
    single, pair = site.waits(a, gang=2), site.waits(a, gang=4, priority=-1)

    decided = site.decide()

    assert (decided.started(), victims(decided)) == ([single], [old])
    assert pair not in decided.started()


def test_a_pool_gives_no_right_against_a_sibling_that_uses_it() -> None:
    site = Site()
    site.node(6)
    department = site.team(6)
    a, b = site.team(parent=department), site.team(parent=department)
    site.runs(a, 1, units=6)
    site.waits(b)

    assert site.decide().outcome.evictions == ()


@dataclass(frozen=True)
class Running:
    team: int
    units: int
    hours: int


@st.composite
def disputes(draw: st.DrawFn) -> tuple[list[int], list[Running], int]:
    """Guarantees of three teams that use all units, what runs of the second and third, and what the first asks for."""
    guaranteed = [draw(st.integers(2, 6)), draw(st.integers(0, 4)), draw(st.integers(0, 4))]
    left = sum(guaranteed)
    running: list[Running] = []
    while left and len(running) < 8:
        units = min(left, draw(st.integers(1, 3)))
        left -= units
        running.append(Running(draw(st.integers(1, 2)), units, draw(st.integers(0, 3))))
    return guaranteed, running, draw(st.integers(1, guaranteed[0]))


def best(guaranteed: list[int], running: list[Running], ask: int) -> tuple[int, ...] | None:
    """Return the lowest costs of any legal set that frees enough and has no member that could stay."""
    used = Counter[int]()
    for row in running:
        used[row.team] += row.units
    free = sum(guaranteed) - used.total()

    def works(chosen: tuple[Running, ...]) -> bool:
        for team in {row.team for row in chosen}:
            sizes = sorted(row.units for row in chosen if row.team == team)
            if sum(sizes[:-1]) >= used[team] - guaranteed[team]:
                return False
        return free + sum(row.units for row in chosen) >= ask

    def costs(chosen: tuple[Running, ...]) -> tuple[int, ...]:
        after = used.copy()
        for row in chosen:
            after[row.team] -= row.units
        again = sum(row.units for row in chosen if after[row.team] + row.units <= guaranteed[row.team])
        short = sum(max(0, min(guaranteed[team], used[team]) - after[team]) for team in {r.team for r in chosen})
        lost = sum(row.units * (10 * MINUTE + min(4, row.hours) * HOUR) for row in chosen)
        return again, short, lost, len(chosen)

    sets = [chosen for size in range(len(running) + 1) for chosen in combinations(running, size) if works(chosen)]
    needed = [s for s in sets if not any(works(tuple(r for r in s if r is not member)) for member in s)]
    return min(map(costs, needed), default=None)


@given(disputes())
@settings(max_examples=examples(120))
def test_the_victims_are_the_best_of_all_sets(dispute: tuple[list[int], list[Running], int]) -> None:
    guaranteed, running, ask = dispute
    site = Site()
    site.node(sum(guaranteed))
    teams = [site.team(units) for units in guaranteed]
    for row in running:
        site.runs(teams[row.team], 1, units=row.units, since=NOW - row.hours * HOUR)
    job = site.waits(teams[0], gang=ask)

    decided = site.decide()

    expected = best(guaranteed, running, ask)
    assert (expected is None) == (job not in decided.started())
    if expected is not None:
        gone = [running[row.attempt - 1] for row in decided.outcome.evictions]
        used = Counter[int]()
        for row in running:
            used[row.team] += row.units
        after = used.copy()
        for row in gone:
            after[row.team] -= row.units
        again = sum(row.units for row in gone if after[row.team] + row.units <= guaranteed[row.team])
        short = sum(max(0, min(guaranteed[team], used[team]) - after[team]) for team in {r.team for r in gone})
        lost = sum(row.units * (10 * MINUTE + row.hours * HOUR) for row in gone)
        assert (again, short, lost, len(gone)) == expected


def test_a_job_that_has_kept_idle_units_for_too_long_names_the_endless_jobs_that_block_it() -> None:
    site = Site(policy=Policy(hold_idle_limit=1000))
    (node,) = site.node(4)
    team = site.team(4)
    endless = site.runs(team, node, units=1)
    site.runs(team, node, units=1, ends_by=NOW + 60_000)
    gang = site.waits(team, 4, minutes=60)
    site.waiting[0] = replace(site.waiting[0], idle=1000)

    rows = [row for row in site.decide().outcome.verdicts if row.job == gang]

    numbers = dict(rows[0].reason.numbers)
    assert rows[0].reason.code is Code.NO_FREE_CAPACITY
    assert (numbers["endless"], numbers["endless_jobs"], numbers["needs"]) == (1, str(endless), 4)


def test_who_may_go_only_where_cheaper_ones_stay_is_found_among_many() -> None:
    site = Site()
    site.node(73)
    first, second = site.team(71), site.team()
    owner = site.team(2)
    cheap = [site.runs(first, 1, since=NOW - row * 1000) for row in range(72)]
    dear = site.runs(second, 1)
    job = site.waits(owner, gang=2)

    decided = site.decide()

    # One of 72 goes, then the first team is within its 71: the one unit that is still lacking comes from the second.
    assert (decided.started(), victims(decided)) == ([job], [cheap[0], dear])
    assert not any(row.exact for row in decided.outcome.evictions)


def test_two_teams_of_a_department_together_give_no_more_than_it_has_above_its_own_also_among_many() -> None:
    site = Site()
    site.node(73)
    department, other = site.team(71), site.team()
    first, second = site.team(parent=department), site.team(parent=department)
    owner = site.team(2)
    cheap = [site.runs((first, second)[row % 2], 1, since=NOW - row * 1000) for row in range(72)]
    dear = site.runs(other, 1)
    job = site.waits(owner, gang=2)

    decided = site.decide()

    # The department has one unit above its pool, whichever of its teams gives it: the second one comes from elsewhere.
    assert (decided.started(), victims(decided)) == ([job], [cheap[0], dear])


def test_a_task_is_no_victim_of_another_of_its_job_whose_priority_was_raised_meanwhile() -> None:
    site = Site()
    site.node(2)
    team = site.team(2)
    site.queues[0] = replace(site.queues[0], preempt_within_team=True)
    site.runs(team, 1, tasks=2, priority=-1, shape=JobShape.INDEPENDENT)
    job = site.waits(team)
    site.attempts[0] = replace(site.attempts[0], job=job)

    assert victims(site.decide()) == []


def test_a_claim_within_a_team_compares_own_victims_only_where_it_has_no_right_to_others() -> None:
    site = Site()
    site.node(21)
    team, other = site.team(), site.team()
    site.queues[0] = replace(site.queues[0], preempt_within_team=True)
    own = [site.runs(team, 1, priority=-1, since=NOW - row * 1000) for row in range(4)]
    for row in range(17):
        site.runs(other, 1, since=NOW - row * 1000)
    job = site.waits(team)

    decided = site.decide()

    assert (decided.started(), victims(decided)) == ([job], own[:1])
    assert decided.outcome.evictions[0].exact


@pytest.mark.parametrize(("limit", "claims"), [(58, True), (59, False)])
def test_a_claim_may_pass_a_hold_only_where_it_ends_in_time_the_grace_of_its_victims_counted(
    limit: int, *, claims: bool
) -> None:
    site = Site()
    wanted = (("ib", "yes"),)
    site.node(4, labels=wanted)
    site.node(4)
    owner, holding, borrower = site.team(3), site.team(5), site.team()
    site.runs(holding, 1, ends_by=NOW + HOUR)
    guest = site.runs(borrower, 1, units=2, grace=2 * MINUTE, ends_by=NOW + HOUR)
    holder = site.waits(holding, 4, gang=1, minutes=60, labels=wanted)
    site.holds_on(holder, 1, at=NOW + HOUR)
    site.waits(owner, 3, gang=1, labels=wanted, limit=limit)

    assert victims(site.decide()) == ([guest] if claims else [])


def test_a_claim_leaves_reservations_alone_that_are_of_no_use_to_it() -> None:
    site = Site()
    g, h = site.flavor("g"), site.flavor("h")
    site.node(3, flavor=g)
    site.node(1, flavor=h)
    owner, borrower = site.team(quotas=(Quota(flavor=g, guaranteed=3),)), site.team(quotas=())
    guest = site.runs(borrower, 1, units=2, flavor=g, grace=MINUTE)
    site.runs(borrower, 2, flavor=h, leaving=True, claimed=True, ends_by=NOW + MINUTE)
    one, other = (site.waits(borrower, flavors=(flavor,), minutes=5) for flavor in (g, h))
    site.claims_on(one, 1, flavor=g, standing=Standing.BORROWER)
    stays = site.claims_on(other, 2, flavor=h, standing=Standing.BORROWER)
    job = site.waits(owner, gang=3, flavors=(g,))

    decided = site.decide()

    assert (victims(decided), [row.job for row in decided.outcome.claims]) == ([guest], [other, job])
    assert decided.outcome.claims[0] == stays


def test_a_claim_that_succeeds_in_no_way_takes_no_reservation_over() -> None:
    site = Site()
    wanted = (("ib", "yes"),)
    site.node(1, count=2, labels=wanted)
    site.node(1)
    other, owner, borrower = site.team(1), site.team(2), site.team()
    site.runs(other, 1, preemptible=False)
    site.runs(borrower, 2, leaving=True, claimed=True, ends_by=NOW + MINUTE)
    claim = site.claims_on(site.waits(borrower, minutes=5), 2, standing=Standing.BORROWER)
    job = site.waits(owner, gang=2, labels=wanted)

    decided = site.decide()

    assert decided.outcome.claims == (claim,)
    assert [row.job for row in decided.outcome.keeps] == [job]


def test_surplus_of_two_units_on_a_node_that_is_not_usable_frees_no_quota_either() -> None:
    site = Site()
    site.node(4, count=2)
    growing, borrower = site.team(), site.team()
    site.team(4, lend=0)
    site.runs(growing, 1, units=2, shape=JobShape.ELASTIC)
    group = replace(site.attempts[0].groups[0], most=2)
    surplus = (Placed(group=0, node=1, tasks=1),)
    site.attempts[0] = replace(site.attempts[0], groups=(group,), surplus=surplus)
    site.cordon(1)
    job = site.waits(borrower)

    decided = site.decide()

    # Promised to nobody is 4 usable + 4 held elsewhere - 4, all in use; without the surplus it is 2, all in use.
    assert (victims(decided), decided.code(job)) == ([], Code.LEND_LIMIT)


@pytest.mark.parametrize("guaranteed", [1, 2])
def test_a_firm_job_claims_within_its_team_only_what_its_guarantee_covers(guaranteed: int) -> None:
    site = Site()
    site.node(2)
    team = site.team(guaranteed)
    site.queues[0] = replace(site.queues[0], preempt_within_team=True)
    low = site.runs(team, 1, units=2, priority=-1)
    site.waits(team, 2, gang=1, preemptible=False)

    assert victims(site.decide()) == ([low] if guaranteed == 2 else [])
