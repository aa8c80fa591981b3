"""The bound of a wait, by hand: eligible + (k + 1) x D."""

from dataclasses import replace

from queues.admission.bound import Bound, bound
from queues.admission.world import MINUTE, Hold, Placed
from tests.admission.site import NOW, Site

HOLD_AFTER = 30 * MINUTE


def told(site: Site, job: int, *holds: int) -> Bound:
    rows = {row.id: row for row in site.waiting}
    kept = tuple(
        Hold(
            job=number,
            job_class=rows[number].job_class,
            user=rows[number].user,
            flavors=(1,),
            placed=(Placed(group=0, node=1, tasks=1),),
            at=NOW,
            wait_from=rows[number].wait_from,
        )
        for number in holds
    )
    found = bound(replace(site.world(), holds=kept), site.heads(), rows[job], 1)
    assert found is not None
    return found


def full() -> tuple[Site, int]:
    """Return one node of 8 that its owner's job fills for another 50 minutes."""
    site = Site()
    site.node(8)
    team = site.team(8)
    site.runs(team, 1, units=8, ends_by=NOW + 50 * MINUTE)
    return site, team


def test_alone_it_waits_until_it_may_hold_and_then_for_the_longest_end() -> None:
    site, team = full()
    job = site.waits(team, 8, gang=1, minutes=10, limit=20)

    found = told(site, job)

    assert found == Bound(eligible=NOW + 20 * MINUTE, guaranteed=True, before=0, longest=50 * MINUTE)
    assert found.latest == NOW + 70 * MINUTE


def test_what_can_never_start_has_no_bound() -> None:
    site = Site()
    site.node(8)
    job = site.waits(site.team(9), 9, gang=1, minutes=10, limit=20)

    assert bound(site.world(), site.heads(), site.waiting[-1], 1) is None
    assert site.decide().reason(job).permanent


def test_where_nothing_runs_and_nobody_else_waits_it_starts_when_it_may_hold() -> None:
    site = Site()
    site.node(8)
    job = site.waits(site.team(8), 8, gang=1, minutes=10, limit=20)

    assert told(site, job) == Bound(eligible=NOW + 20 * MINUTE, guaranteed=True)


def test_each_job_that_holds_before_it_adds_the_longest_end_once() -> None:
    site, team = full()
    site.waits(team, 8, gang=1, minutes=90, limit=20)
    site.waits(team, 8, gang=1, minutes=80, limit=60)
    job = site.waits(team, 8, gang=1, minutes=40, limit=20)
    site.waits(team, 8, gang=1, minutes=39, limit=500)

    found = told(site, job)

    # It may hold already, so what comes behind it does not count: 60 min is the longest, of the job that waits 80 min.
    assert found == Bound(eligible=NOW, guaranteed=True, before=2, longest=60 * MINUTE)
    assert found.latest == NOW + 180 * MINUTE


def test_who_would_borrow_does_not_hold_before_guaranteed_demand_though_it_waits_longer() -> None:
    site, team = full()
    job = site.waits(team, 8, gang=1, minutes=40, limit=20)
    site.waits(site.team(), 8, gang=1, minutes=90, limit=20)

    assert told(site, job).before == 0


def test_before_it_may_hold_anything_that_waits_may_start_once() -> None:
    site, team = full()
    job = site.waits(team, 8, gang=1, minutes=10, limit=20)
    site.waits(team, 8, gang=1, minutes=5, limit=240, user=99)

    assert told(site, job).latest == NOW + 20 * MINUTE + 240 * MINUTE


def test_later_jobs_of_its_team_count_where_they_are_more_urgent() -> None:
    site, team = full()
    job = site.waits(team, 8, gang=1, minutes=30, limit=20)
    site.waits(team, 8, gang=1, minutes=1, limit=20, priority=1)
    site.waits(team, 8, gang=1, minutes=1, limit=20, priority=-1)

    assert told(site, job).before == 1


def test_more_urgent_jobs_of_its_team_pass_even_a_hold_that_is_there() -> None:
    site, team = full()
    job = site.waits(team, 8, gang=1, minutes=40, limit=20)
    site.waits(team, 8, gang=1, minutes=35, limit=20, priority=1)

    assert told(site, job, job).before == 1


def test_how_urgent_a_job_is_counts_from_when_it_may_hold() -> None:
    site, team = full()
    site.queues[0] = replace(site.queues[0], hold_after=90 * MINUTE)
    job = site.waits(team, 8, gang=1, minutes=40, limit=20)
    site.waits(team, 8, gang=1, minutes=0, limit=20, priority=1)
    site.waits(team, 8, gang=1, minutes=0, limit=20, priority=2)

    # In 50 minutes it will have waited 90 and be as urgent as a job of priority 1 that has waited 50.
    assert told(site, job).before == 1


def test_waiting_tasks_of_an_independent_job_hold_one_by_one() -> None:
    site, team = full()
    site.waits(team, 1, tasks=3, minutes=50, limit=20)
    job = site.waits(team, 8, gang=1, minutes=40, limit=20)

    assert told(site, job).before == 3


def test_holds_that_are_there_keep_their_order() -> None:
    site, team = full()
    older = site.waits(team, 8, gang=1, minutes=50, limit=20)
    job = site.waits(team, 8, gang=1, minutes=40, limit=20)

    assert told(site, job, job, older).before == 0
    assert told(site, job, older, job).before == 1


def test_holds_of_less_urgent_jobs_of_its_team_are_not_before_it() -> None:
    site, team = full()
    low = site.waits(team, 8, gang=1, minutes=50, limit=20, priority=-1)
    job = site.waits(team, 8, gang=1, minutes=40, limit=20)

    assert told(site, job, low).before == 0
    assert told(site, low, job).before == 1


def test_what_is_claimed_lasts_until_the_claimant_will_have_ended() -> None:
    site, team = full()
    claimant = site.waits(team, 4, gang=1, minutes=5, limit=90)
    job = site.waits(team, 8, gang=1, minutes=40, limit=20)
    site.claims_on(claimant, 1, length=90 * MINUTE)

    # What runs ends in 50 minutes; the claimant may run for 90 once it has started.
    assert told(site, job).longest == 90 * MINUTE


def test_its_own_claim_is_no_reason_to_wait() -> None:
    site, team = full()
    job = site.waits(team, 8, gang=1, minutes=40, limit=90)
    site.claims_on(job, 1, length=90 * MINUTE)

    assert told(site, job).longest == 50 * MINUTE


def test_what_has_no_time_limit_makes_it_unknown() -> None:
    site, team = full()
    site.runs(team, 1, units=0)
    site.waits(team, 8, gang=1, minutes=90)
    job = site.waits(team, 8, gang=1, minutes=40, limit=20)

    found = told(site, job)

    assert (found.endless, found.latest) == (2, None)


def test_who_would_borrow_is_promised_nothing() -> None:
    site, _ = full()
    stranger = site.team(0)
    job = site.waits(stranger, 8, gang=1, minutes=40, limit=20)

    found = told(site, job)

    assert (found, found.latest) == (Bound(eligible=NOW, guaranteed=False), None)


def test_who_is_paused_or_waits_for_other_gpus_is_not_before_it() -> None:
    site, team = full()
    site.flavor("other")
    site.node(8, flavor=2)
    paused = site.team(8, paused=True)
    site.waits(paused, 8, gang=1, minutes=90, limit=20)
    site.waits(team, 8, gang=1, minutes=90, limit=20, flavors=(2,))
    job = site.waits(team, 8, gang=1, minutes=40, limit=20)

    assert told(site, job).before == 0


def test_of_a_long_line_only_so_much_is_counted() -> None:
    site, team = full()
    for _ in range(1001):
        site.waits(team, 8, gang=1, minutes=90, limit=20)
    job = site.waits(team, 8, gang=1, minutes=40, limit=20)

    found = told(site, job)

    assert (found.many, found.before, found.latest) == (True, 1000, None)


def test_the_limit_of_its_class_is_the_limit_of_a_job_that_has_none() -> None:
    site, team = full()
    site.waits(team, 8, gang=1, minutes=90, priority=1)
    job = site.waits(team, 8, gang=1, minutes=40, limit=20)
    first = site.classes[0]
    site.classes[0] = replace(first, ask=replace(first.ask, time_limit=70 * MINUTE))

    assert told(site, job) == Bound(eligible=NOW, guaranteed=True, before=1, longest=70 * MINUTE)


def test_what_waits_holds_units_for_the_limit_of_its_class_and_its_grace() -> None:
    site, team = full()
    job = site.waits(team, 8, gang=1, minutes=10, limit=20)
    site.waits(team, 8, gang=1, minutes=5, user=99, priority=-1)
    last = site.classes[-1]
    site.classes[-1] = replace(last, ask=replace(last.ask, time_limit=70 * MINUTE))
    site.waiting[-1] = replace(site.waiting[-1], grace=2 * MINUTE)

    assert told(site, job).longest == 72 * MINUTE


def test_what_leaves_ends_and_what_runs_on_other_gpus_does_not_matter() -> None:
    site, team = full()
    site.runs(team, 1, units=0, leaving=True)
    site.runs(team, 1, units=0, leaving=True, ends_by=NOW + 55 * MINUTE)
    site.flavor("other")
    site.node(8, flavor=2)
    site.runs(team, 2, flavor=2)
    site.runs(team, 2, flavor=2, ends_by=NOW + 900 * MINUTE)
    job = site.waits(team, 8, gang=1, minutes=40, limit=20)

    assert told(site, job) == Bound(eligible=NOW, guaranteed=True, before=0, longest=55 * MINUTE)
