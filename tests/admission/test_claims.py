"""Reservations and claims by hand: whose stand, who is taken over, where a claim starts (SEMANTICS 8)."""

from dataclasses import replace

import pytest

from queues.admission.decide import decide
from queues.admission.outcome import Takeover
from queues.admission.reasons import Code
from queues.admission.world import (
    HOUR,
    MINUTE,
    Group,
    JobShape,
    Near,
    NodeState,
    Placed,
    Policy,
    Quota,
    Standing,
    Topology,
    Victim,
)
from tests.admission.site import NOW, Site


def leaving(site: Site, team: int, *nodes: int, units: int = 1) -> int:
    """Let a job leave for a claim within the minute."""
    return site.runs(team, *nodes, units=units, leaving=True, claimed=True, ends_by=NOW + MINUTE)


def test_a_claim_stands_until_what_leaves_for_it_has_gone() -> None:
    site = Site()
    site.node(2)
    owner, borrower = site.team(2, per_user_limit=2), site.team()
    leaving(site, borrower, 1, units=2)
    job = site.waits(owner, 2, gang=1, minutes=60)
    claim = site.claims_on(job, 1)

    decided = site.decide()

    (verdict,) = [row for row in decided.outcome.verdicts if row.job is not None]
    assert (decided.started(), decided.outcome.claims) == ([], (claim,))
    assert (verdict.job, verdict.reason.code) == (job, Code.WAITS_VICTIMS)
    assert dict(verdict.reason.numbers) == {"claim": claim.id, "needs": 2, "flavor": "g"}


def test_a_claim_on_two_gpu_types_tells_no_type() -> None:
    site = Site()
    x, y = site.flavor("x"), site.flavor("y")
    (first,), (second,) = site.node(1, flavor=x), site.node(1, flavor=y)
    owner = site.team(quotas=(Quota(flavor=x, guaranteed=1), Quota(flavor=y, guaranteed=1)))
    borrower = site.team(quotas=())
    site.runs(borrower, first, flavor=x, grace=MINUTE)
    site.runs(borrower, second, flavor=y, grace=MINUTE)
    groups = (Group(tasks=1, units=1, flavors=(x,)), Group(tasks=1, units=1, flavors=(y,)))
    job = site.waits(owner, groups=groups)

    numbers = [dict(row.reason.numbers) for row in site.decide().outcome.verdicts if row.job == job]

    assert numbers == [{"claim": 1, "needs": 2}]


def test_a_claim_starts_on_another_listed_type_where_its_guarantee_has_room() -> None:
    site = Site()
    x, y = site.flavor("x"), site.flavor("y")
    site.node(1, flavor=x)
    (free,) = site.node(1, flavor=y)
    owner = site.team(quotas=(Quota(flavor=x, guaranteed=1), Quota(flavor=y, guaranteed=1)))
    borrower = site.team(quotas=())
    site.runs(borrower, 1, flavor=x, leaving=True, claimed=True, ends_by=NOW + MINUTE)
    job = site.waits(owner, gang=1, flavors=(x, y))
    site.claims_on(job, 1)

    decided = site.decide()

    assert (decided.nodes(job), decided.outcome.claims) == ({free: 1}, ())
    assert not decided.outcome.admissions[0].borrowed


def test_what_starts_on_its_reservation_counts_against_the_limit_of_its_queue() -> None:
    site = Site()
    site.node(2)
    owner = site.team(2, queue_limit=1)
    first, _ = site.waits(owner, gang=1, minutes=5), site.waits(owner, gang=1)
    site.claims_on(first, 1)

    assert site.decide().started() == [first]


def test_a_victim_that_has_gone_by_itself_is_not_waited_for() -> None:
    site = Site(policy=Policy(evictions_per_minute=1))
    site.node(2)
    owner, borrower = site.team(2), site.team()
    site.runs(borrower, 1, grace=MINUTE)
    job = site.waits(owner, gang=2)
    placed = (Placed(group=0, node=1, tasks=1),)
    there, gone = (Victim(attempt=number, placed=placed) for number in (1, 99))
    site.claims_on(job, 1, tasks=2, pending=(gone, there))
    world = replace(site.world(), evicted_at=(NOW,))

    (claim,) = decide(world, site.heads()).claims

    assert claim.pending == (there,)


def test_a_guaranteed_claim_takes_over_only_the_reservations_of_borrowers_that_it_needs() -> None:
    site = Site()
    site.node(2, count=2)
    owner, borrower = site.team(2), site.team(2)
    leaving(site, borrower, 1, units=2)
    leaving(site, borrower, 2, units=2)
    old, new = (site.waits(borrower, 2, gang=1, minutes=5, user=number) for number in (1, 2))
    kept = site.claims_on(old, 1, standing=Standing.BORROWER)
    site.claims_on(new, 2, standing=Standing.BORROWER)
    job = site.waits(owner, 2, gang=1)

    outcome = site.decide().outcome

    claims = outcome.claims
    assert [(row.job, row.placed[0].node, row.standing) for row in claims] == [
        (old, 1, Standing.BORROWER),
        (job, 2, Standing.GUARANTEED),
    ]
    assert claims[0] == kept
    assert outcome.takeovers == (Takeover(claim=2, job=new, by=job, units=2),)


def test_a_claim_that_takes_over_may_need_victims_as_well() -> None:
    site = Site()
    site.node(2, count=2)
    owner, borrower, guest = site.team(4), site.team(), site.team()
    leaving(site, borrower, 1, units=2)
    claimant = site.waits(borrower, 2, gang=1, minutes=5)
    site.claims_on(claimant, 1, standing=Standing.BORROWER)
    victim = site.runs(guest, 2, units=2)
    job = site.waits(owner, 2, gang=2)

    decided = site.decide()

    (claim,) = decided.outcome.claims
    (eviction,) = decided.outcome.evictions
    assert (claim.job, decided.victims()) == (job, [victim])
    assert (eviction.claim, eviction.rule, eviction.exact) == (claim.id, "guarantee", True)


def test_a_task_does_not_take_over_what_is_reserved_for_another_task_of_its_job() -> None:
    site = Site()
    site.node(1, count=2)
    owner, borrower = site.team(2), site.team()
    site.cordon(2)
    leaving(site, borrower, 1)
    job = site.waits(owner, tasks=2)
    claim = site.claims_on(job, 1)

    assert site.decide().outcome.claims == (claim,)


def test_a_firm_job_claims_what_its_guarantee_covers() -> None:
    site = Site()
    site.node(4)
    owner, borrower = site.team(4), site.team()
    guest = site.runs(borrower, 1, units=4)
    job = site.waits(owner, gang=4, preemptible=False)

    decided = site.decide()

    assert (decided.started(), decided.victims()) == ([job], [guest])


@pytest.mark.parametrize(("guaranteed", "standing"), [(0, Standing.BORROWER), (2, Standing.GUARANTEED)])
def test_a_claim_within_the_team_stands_by_what_the_team_uses_then(guaranteed: int, standing: Standing) -> None:
    site = Site()
    site.node(2)
    team = site.team(guaranteed)
    site.team(2 - guaranteed)
    site.queues[0] = replace(site.queues[0], preempt_within_team=True)
    low = site.runs(team, 1, units=2, priority=-1, grace=MINUTE)
    job = site.waits(team, 2, gang=1)

    decided = site.decide()

    (claim,) = decided.outcome.claims
    assert (decided.victims(), claim.job, claim.standing) == ([low], job, standing)
    assert decided.outcome.evictions[0].rule == "within team"


def test_beside_a_victim_that_waits_its_turn_another_may_go() -> None:
    site = Site(policy=Policy(evictions_per_minute=1))
    site.node(1, count=3)
    first, second, borrower = site.team(2), site.team(1), site.team()
    guests = [site.runs(borrower, node, grace=MINUTE, since=NOW - HOUR + node) for node in (1, 2, 3)]
    pair, single = site.waits(first, gang=2), site.waits(second)
    site.claims_on(pair, 1, 2)
    pending = tuple(Victim(attempt=number, placed=(Placed(group=0, node=number, tasks=1),)) for number in (1, 2))
    site.claims[0] = replace(site.claims[0], pending=pending)

    decided = site.decide()

    waits = {row.job: [victim.attempt for victim in row.pending] for row in decided.outcome.claims}
    assert decided.victims() == guests[:1]
    assert decided.outcome.evictions[0].rule == "guarantee"
    assert waits == {pair: [2], single: [3]}


def test_after_a_cut_a_firm_gang_goes_for_the_type_on_which_nothing_covers_it() -> None:
    site = Site()
    x, y = site.flavor("x"), site.flavor("y")
    (first,), (second,) = site.node(1, flavor=x), site.node(1, flavor=y)
    owner = site.team(quotas=(Quota(flavor=x, guaranteed=1),))
    cut = site.team(quotas=(Quota(flavor=y, guaranteed=1),))
    gang = site.runs(cut, first, flavor=x, preemptible=False)
    groups = (Group(tasks=1, units=1, flavors=(x,)), Group(tasks=1, units=1, flavors=(y,)))
    placed = (Placed(group=0, node=first, tasks=1), Placed(group=1, node=second, tasks=1))
    site.attempts[0] = replace(site.attempts[0], groups=groups, flavors=(x, y), placed=placed)
    job = site.waits(owner, flavors=(x,))

    decided = site.decide()

    assert (decided.started(), decided.victims()) == ([job], [gang])


def test_equal_victims_are_compared_as_one_however_many_there_are() -> None:
    site = Site()
    nodes = site.node(1, count=17)
    owner, borrower = site.team(17), site.team()
    guests = [site.runs(borrower, node) for node in nodes]
    job = site.waits(owner)

    decided = site.decide()

    assert (decided.started(), decided.victims()) == ([job], guests[-1:])
    assert decided.outcome.evictions[0].exact


def test_of_many_unequal_victims_the_cheapest_by_what_still_lacks_go_and_the_record_says_so() -> None:
    site = Site()
    large = site.node(4, count=2)
    small = site.node(1, count=15)
    owner, borrower = site.team(23), site.team()
    # A unit of the first costs 10 min, of the second 11, of each of the others more, none as much as another.
    cheapest = site.runs(borrower, large[0], units=4, since=NOW)
    site.runs(borrower, large[1], units=4, since=NOW - MINUTE)
    others = [site.runs(borrower, node, since=NOW - (2 + place) * MINUTE) for place, node in enumerate(small)]
    job = site.waits(owner, gang=5)

    decided = site.decide()

    # One unit lacks once the first has gone: 12 min for the cheapest of the small ones are less than 44 for the second.
    assert decided.victims() == [cheapest, others[0]]
    assert decided.nodes(job) == {large[0]: 4, small[0]: 1}
    assert not any(row.exact for row in decided.outcome.evictions)


def test_surplus_stays_where_it_need_not_go_however_much_else_was_tried() -> None:
    site = Site()
    site.node(1, labels=(("ib", "yes"),))
    site.node(1, count=2)
    owner, growing = site.team(1), site.team()
    site.runs(growing, 3, shape=JobShape.ELASTIC)
    rows = tuple(Placed(group=0, node=node, tasks=1) for node in (1, 2))
    group = replace(site.attempts[0].groups[0], most=3)
    site.attempts[0] = replace(site.attempts[0], groups=(group,), surplus=rows)
    job = site.waits(owner, labels=(("ib", "yes"),))

    decided = site.decide()

    assert decided.nodes(job) == {1: 1}
    assert [row.placed for row in decided.outcome.evictions] == [rows[:1]]


def test_a_borrower_takes_surplus_back_rather_than_what_another_keeps() -> None:
    site = Site()
    site.node(2)
    site.node(1, count=2)
    team, growing, borrower = site.team(3), site.team(), site.team()
    site.runs(team, 1, preemptible=False)
    site.runs(growing, 3, shape=JobShape.ELASTIC)
    group = replace(site.attempts[1].groups[0], most=2)
    surplus = (Placed(group=0, node=2, tasks=1),)
    site.attempts[1] = replace(site.attempts[1], groups=(group,), surplus=surplus)
    keeping = site.waits(team, 2, gang=1)
    job = site.waits(borrower)

    decided = site.decide()

    assert [row.job for row in decided.outcome.keeps] == [keeping]
    assert [row.placed for row in decided.outcome.evictions] == [surplus]
    assert decided.nodes(job) == {2: 1}


def kept(site: Site, job: int) -> list[tuple[int, int]]:
    """Return on which nodes a job keeps how many tasks."""
    return [(row.node, row.tasks) for keep in site.decide().outcome.keeps if keep.job == job for row in keep.placed]


def test_a_keep_is_as_near_to_free_as_any_set_of_any_cluster() -> None:
    site = Site()
    site.node(4, count=2)
    site.node(4, cluster=2)
    owner, young = site.team(12), site.team()
    for node, units in ((1, 4), (2, 3), (3, 2)):
        site.runs(young, node, units=units, safe_until=NOW + HOUR)
    job = site.waits(owner, 4, gang=1)

    assert kept(site, job) == [(3, 1)]
    site.attempts.pop()
    site.runs(young, 3, units=4, safe_until=NOW + HOUR)
    assert kept(site, job) == [(2, 1)]


def test_a_keep_lies_in_one_domain_where_its_job_asks_for_one() -> None:
    site = Site()
    site.node(2, domains=("a",))
    site.node(2, domains=("b",))
    owner = site.team(4)
    site.runs(owner, 1)
    site.runs(owner, 2)
    groups = (Group(tasks=2, units=1, flavors=(1,)),)
    job = site.waits(owner, groups=groups, together=Topology(near=Near.REQUIRED, level=0))

    assert kept(site, job) == [(1, 2)]


def room_left_by_a_claim(*, pooled: bool) -> tuple[Site, int, int, int]:
    """Return a site where a claim lets a third team start on its second type, on which that could not before.

    Either the claim frees more than it needs, or (``pooled``) it brings the third team's department below its pool.
    """
    site = Site()
    x, y = site.flavor("x"), site.flavor("y")
    site.node(1, flavor=x)
    site.node(2, flavor=y, labels=(("ib", "yes"),))
    owner = site.team(quotas=(Quota(flavor=y, guaranteed=1 + pooled),))
    department = site.team(quotas=(Quota(flavor=y, guaranteed=1),))
    own = Quota(flavor=y, guaranteed=0 if pooled else 1)
    third = site.team(parent=department, quotas=(Quota(flavor=x, guaranteed=1), own))
    borrower = site.team(quotas=(), parent=department if pooled else None)
    site.runs(borrower, 1, flavor=x)
    guest = site.runs(borrower, 2, units=2, flavor=y)
    if pooled:
        site.node(1, flavor=y)
    first = site.waits(owner, gang=1 + pooled, flavors=(y,), labels=(("ib", "yes"),), minutes=5)
    return site, first, site.waits(third, gang=1, flavors=(x, y)), guest


@pytest.mark.parametrize("pooled", [False, True])
def test_what_a_claim_leaves_to_others_is_seen_at_their_turn(*, pooled: bool) -> None:
    site, first, second, guest = room_left_by_a_claim(pooled=pooled)

    decided = site.decide()

    assert ([*decided.started()], decided.victims()) == ([first, second], [guest])


@pytest.mark.parametrize(("candidates", "exact"), [(16, True), (17, False)])
def test_up_to_sixteen_unequal_victims_are_compared_exactly(candidates: int, *, exact: bool) -> None:
    site = Site()
    nodes = site.node(1, count=candidates)
    owner, borrower = site.team(candidates), site.team()
    guests = [site.runs(borrower, node, since=NOW - node * MINUTE) for node in nodes]
    site.waits(owner)

    decided = site.decide()

    assert decided.victims() == guests[:1]
    assert decided.outcome.evictions[0].exact is exact


def test_of_many_victims_those_stay_that_do_not_help_though_they_are_cheaper() -> None:
    site = Site()
    (pair,), singles = site.node(2), site.node(1, count=15)
    owner, borrower = site.team(17), site.team()
    needed = [site.runs(borrower, pair, since=NOW - (60 + place) * MINUTE) for place in range(2)]
    for node in singles:
        site.runs(borrower, node, since=NOW - node * MINUTE)
    job = site.waits(owner, 2)

    decided = site.decide()

    assert (decided.nodes(job), decided.victims()) == ({pair: 1}, needed)


def test_a_claim_keeps_nothing_on_its_nodes_beyond_what_leaves_for_it() -> None:
    site = Site()
    site.node(4, pods=2)
    owner, borrower = site.team(4), site.team()
    leaving(site, borrower, 1, units=3)
    claimant = site.waits(owner, 3, gang=1, minutes=5)
    claim = site.claims_on(claimant, 1)
    job = site.waits(borrower, gang=1)

    decided = site.decide()

    assert (decided.started(), decided.outcome.claims) == ([job], (claim,))


def test_cpu_that_a_claim_leaves_to_others_is_seen_at_their_turn() -> None:
    site = Site()
    x, y = site.flavor("x"), site.flavor("y")
    site.node(1, flavor=x)
    site.node(2, flavor=y, cpu=1000)
    owner = site.team(quotas=(Quota(flavor=y, guaranteed=1),))
    third = site.team(quotas=(Quota(flavor=x, guaranteed=1), Quota(flavor=y, guaranteed=1)))
    borrower = site.team(quotas=())
    site.runs(borrower, 1, flavor=x)
    guest = site.runs(borrower, 2, flavor=y)
    site.attempts[1] = replace(site.attempts[1], groups=(replace(site.attempts[1].groups[0], cpu=1000),))
    first = site.waits(owner, gang=1, flavors=(y,), cpu=1, minutes=5)
    second = site.waits(third, gang=1, flavors=(x, y), cpu=1)

    decided = site.decide()

    assert (decided.started(), decided.victims()) == ([first, second], [guest])


def lacking_a_node() -> tuple[Site, int, int]:
    """Let a job claim two nodes, of which the second is lost, while a borrower waits for the first."""
    site = Site()
    site.node(2, count=2)
    owner, borrower = site.team(4), site.team()
    site.cordon(2, NodeState.LOST)
    job = site.waits(owner, 2, gang=2, minutes=5, limit=10)
    site.claims_on(job, 1, 2, length=10 * MINUTE)
    other = site.waits(borrower, 2, gang=1, minutes=60, limit=10)
    return site, job, other


def test_when_a_claim_ends_that_waits_for_a_lost_node_nobody_knows() -> None:
    site, job, other = lacking_a_node()

    outcome = site.decide().outcome

    assert [claim.job for claim in outcome.claims] == [job]
    assert [(hold.job, hold.at) for hold in outcome.holds] == [(other, None)]
    assert outcome.idle[0] == (job, 2)


def test_nobody_has_yet_to_go_for_a_claim_while_it_waits_for_a_lost_node() -> None:
    site, *_ = lacking_a_node()
    guest = site.runs(2, 1, units=2)
    pending = Victim(attempt=guest, placed=(Placed(group=0, node=1, tasks=1),))
    site.claims[0] = replace(site.claims[0], pending=(pending,))

    lost = site.decide()
    site.cordon(2, NodeState.READY)
    back = site.decide()

    assert (lost.victims(), lost.outcome.claims[0].pending) == ([], (pending,))
    assert back.victims() == [guest]
