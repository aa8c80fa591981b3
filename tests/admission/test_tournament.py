"""Whose turn it is after a step that took what others counted on: SEMANTICS 4."""

from queues.admission.reasons import Code
from queues.admission.world import Quota
from tests.admission.site import Site


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
