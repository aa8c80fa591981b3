"""Who gets what frees where several claims wait, by hand: SEMANTICS 8, Memory."""

from dataclasses import replace

from queues.admission.decide import decide
from queues.admission.world import MINUTE, Placed, Policy, Victim
from tests.admission.site import NOW, Site


def test_a_later_claim_starts_on_what_an_earlier_one_on_its_node_does_not_need() -> None:
    site = Site()
    site.node(4)
    owner, guest = site.team(4), site.team()
    site.runs(guest, 1, units=2, leaving=True, claimed=True, ends_by=NOW + MINUTE)
    first, second = site.waits(owner, 3, gang=1, minutes=2), site.waits(owner, gang=1, minutes=1)
    claim = site.claims_on(first, 1)
    site.claims_on(second, 1)

    decided = site.decide()

    # Two of the four are free; in a minute the first has the three that the second leaves.
    assert (decided.started(), decided.outcome.claims) == ([second], (claim,))


def test_a_later_claim_leaves_an_earlier_one_what_is_free_where_victims_have_yet_to_go() -> None:
    site = Site(policy=Policy(evictions_per_minute=1))
    site.node(3, outside_units=1)
    owner, guest = site.team(3), site.team()
    site.runs(guest, 1)
    first, second = site.waits(owner, 2, gang=1, minutes=2), site.waits(owner, gang=1, minutes=1)
    victim = Victim(attempt=1, placed=(Placed(group=0, node=1, tasks=1),))
    claim = site.claims_on(first, 1, pending=(victim,))
    site.claims_on(second, 1)

    decided = decide(replace(site.world(), evicted_at=(NOW,)), site.heads())

    # A pod that is not ours has taken the second's unit: the one that is free is the first's, with that of its victim,
    # and nothing else will come: the second's claim is none any more.
    assert (decided.admissions, decided.claims) == ((), (claim,))
