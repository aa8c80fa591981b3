"""Growth of elastic jobs by hand, and what stops it: SEMANTICS 6."""

from dataclasses import replace

import pytest

from queues.admission.reasons import Code
from queues.admission.world import HOUR, JobShape, Near, Placed, Topology
from tests.admission.site import NOW, Site


def elastic(site: Site, team: int, node: int, **more: object) -> int:
    """Let a job of one task that may have two run."""
    job = site.runs(team, node, shape=JobShape.ELASTIC, **more)  # type: ignore[arg-type]
    group = replace(site.attempts[-1].groups[0], most=2)
    site.attempts[-1] = replace(site.attempts[-1], groups=(group,))
    return job


def grown(site: Site) -> tuple[list[int], list[Code]]:
    """Return on which nodes jobs grow and what stops others."""
    outcome = site.decide().outcome
    return [row.node for growth in outcome.growth for row in growth.placed], [row.code for row in outcome.stalled]


def test_it_grows_where_a_unit_is_free() -> None:
    site = Site()
    site.node(2)
    elastic(site, site.team(), 1)

    assert grown(site) == ([1], [])


@pytest.mark.parametrize(("used", "why"), [(0, Code.LEND_LIMIT), (1, Code.NO_FREE_CAPACITY)])
def test_what_others_do_not_lend_is_told_apart_from_what_is_in_use(used: int, why: Code) -> None:
    site = Site()
    site.node(3)
    team, other, owner = site.team(), site.team(), site.team(3, lend=2)
    elastic(site, team, 1)
    site.runs(other, 1)
    if used:
        site.runs(owner, 1)

    assert grown(site) == ([], [why])


def test_a_unit_that_a_planned_start_needs_delays_growth_and_one_that_is_not_there_lacks() -> None:
    site = Site()
    site.node(1)
    site.node(2)
    team, holding = site.team(), site.team(3)
    elastic(site, team, 1)
    site.runs(holding, 2, ends_by=NOW + HOUR)
    holder = site.waits(holding, 2, gang=1, minutes=60)
    site.holds_on(holder, 2, at=NOW + HOUR)

    assert grown(site) == ([], [Code.WOULD_DELAY])


def test_growth_is_no_usage_of_the_guarantee_for_a_job_that_waits() -> None:
    site = Site()
    site.node(2)
    site.node(1)
    team = site.team(3)
    site.queues[0] = replace(site.queues[0], limit_needed_to_borrow=True)
    elastic(site, team, 1)
    job = site.waits(team, 2, gang=1)

    decided = site.decide()

    # One task and two units are three: inside, so that no time limit is needed; the free units are on two nodes.
    assert [row.placed for row in decided.outcome.growth] == [(Placed(group=0, node=2, tasks=1),)]
    assert decided.code(job) is Code.NO_FREE_CAPACITY


def test_it_grows_in_the_zone_where_it_has_fewest_though_another_is_tighter() -> None:
    site = Site()
    site.node(2, domains=("a",))
    site.node(4, domains=("b",))
    elastic(site, site.team(6), 1)
    (group,) = site.attempts[0].groups
    wish = Topology(near=Near.SPREAD, level=0)
    site.attempts[0] = replace(site.attempts[0], groups=(replace(group, topology=wish),))

    assert grown(site) == ([2], [])


def test_what_has_lost_all_tasks_of_its_minimum_does_not_grow() -> None:
    site = Site()
    site.node(4)
    elastic(site, site.team(4), 1)
    surplus = (Placed(group=0, node=1, tasks=1),)
    site.attempts[0] = replace(site.attempts[0], placed=(), surplus=surplus)

    assert grown(site) == ([], [])


def test_it_grows_only_on_nodes_with_its_labels() -> None:
    site = Site()
    site.node(1, labels=(("ib", "yes"),))
    site.node(4)
    elastic(site, site.team(5), 1)
    (group,) = site.attempts[0].groups
    site.attempts[0] = replace(site.attempts[0], groups=(replace(group, labels=(("ib", "yes"),)),))

    assert grown(site) == ([], [Code.NO_FREE_CAPACITY])


def test_a_unit_in_another_rack_is_none_for_who_needs_its_own() -> None:
    site = Site()
    site.node(1, domains=("a",))
    site.node(1, domains=("b",))
    elastic(site, site.team(2), 1)
    (group,) = site.attempts[0].groups
    wish = Topology(near=Near.REQUIRED, level=0)
    site.attempts[0] = replace(site.attempts[0], groups=(replace(group, topology=wish),))

    assert grown(site) == ([], [Code.NO_FREE_CAPACITY])


def test_a_unit_that_another_job_keeps_delays_growth() -> None:
    site = Site()
    site.node(1)
    site.node(2)
    elastic(site, site.team(), 1)
    keeping = site.team(3)
    site.runs(keeping, 2, ends_by=NOW + HOUR)
    site.waits(keeping, 2, gang=1)

    assert grown(site) == ([], [Code.WOULD_DELAY])
