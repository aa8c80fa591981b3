"""Claims: SEMANTICS 8, against every possible set of victims in small worlds."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.admission.reasons import Code
from queues.admission.world import HOUR, MINUTE, Group, Policy, Quota, Standing
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
