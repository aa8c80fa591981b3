"""Where gangs lie in the tree of domains: SEMANTICS 5, two levels, zone and rack, and the node."""

from dataclasses import replace

import pytest

from queues.admission.shapes import bound_groups
from queues.admission.world import Ask, Group, JobShape, Near, Topology
from tests.admission.site import Site

RACK = Topology(near=Near.PREFERRED, level=1)


def zones(*nodes: tuple[str, str | None, int]) -> tuple[Site, int]:
    """Return a site with one node for each (zone, rack, units) and the team that owns all."""
    site = Site()
    for zone, rack, units in nodes:
        site.node(units, domains=(zone, rack))
    return site, site.team(sum(units for _, _, units in nodes))


def preferring(tasks: int) -> tuple[Group, ...]:
    return (Group(tasks=tasks, units=1, flavors=(1,), topology=RACK),)


def test_a_gang_that_no_preferred_rack_holds_fills_the_fewest_racks_of_the_tightest_zone() -> None:
    racks = ("z1", "a", 3), ("z1", "b", 3), ("z1", "c", 3), ("z2", "d", 2), ("z2", "e", 3), ("z2", "f", 2)
    site, team = zones(*racks)
    job = site.waits(team, groups=preferring(4))

    # Zone 2 has room for three more, zone 1 for five; in zone 2 the largest rack, and the first that holds the rest.
    assert site.decide().nodes(job) == {4: 1, 5: 3}


def test_what_no_rack_holds_any_more_goes_to_nodes_that_are_in_none() -> None:
    site, team = zones(("z", "a", 2), ("z", "b", 1), ("z", None, 3))
    job = site.waits(team, groups=preferring(5))

    assert site.decide().nodes(job) == {1: 2, 2: 1, 3: 2}


def test_a_gang_without_a_wish_goes_to_the_tightest_rack_that_holds_it() -> None:
    site, team = zones(*[("z", "a", 1)] * 3, *[("z", "b", 1)] * 2)
    job = site.waits(team, gang=2)

    assert site.decide().nodes(job) == {4: 1, 5: 1}


def test_one_node_that_holds_all_goes_before_a_larger_one_that_is_broken_already() -> None:
    site = Site()
    site.node(8)
    site.node(2)
    team = site.team(10)
    site.runs(team, 1, units=4)
    job = site.waits(team, gang=2)

    assert site.decide().nodes(job) == {2: 2}


def test_a_job_that_prefers_a_rack_keeps_its_groups_in_the_next_outer_domain_that_holds_all() -> None:
    site, team = zones(("z1", "a", 2), ("z1", "b", 1), ("z2", "c", 3), ("z2", "d", 2))
    groups = (Group(tasks=2, units=1, flavors=(1,)), Group(tasks=2, units=1, cpu=1, flavors=(1,)))
    job = site.waits(team, groups=groups, together=RACK)

    # Zone 1 has room for three. The first group alone would fit rack a exactly.
    assert site.decide().nodes(job) == {3: 2, 4: 2}


def test_a_job_that_prefers_a_rack_may_lie_in_all_of_the_cluster() -> None:
    site, team = zones(("z1", "a", 2), ("z2", "b", 3))
    job = site.waits(team, groups=(Group(tasks=5, units=1, flavors=(1,)),), together=RACK)

    assert site.decide().nodes(job) == {1: 2, 2: 3}


def test_a_job_that_requires_a_rack_does_not() -> None:
    site, team = zones(("z1", "a", 2), ("z1", "b", 3))
    groups = (Group(tasks=4, units=1, flavors=(1,)),)
    site.waits(team, groups=groups, together=Topology(near=Near.REQUIRED, level=1))

    assert site.decide().started() == []


def test_inside_the_domain_that_holds_a_job_its_wish_still_counts() -> None:
    site, team = zones(("z", "a", 2), ("z", "b", 1), ("z", "b", 2))
    job = site.waits(team, groups=(Group(tasks=4, units=1, flavors=(1,)),), together=RACK)

    # The largest rack first, then the other; two nodes would hold all, but of two racks only one would be full.
    assert site.decide().nodes(job) == {1: 1, 2: 1, 3: 2}


@pytest.mark.parametrize(("skew", "nodes"), [(None, {1: 3, 2: 1}), (2, {1: 3, 2: 1}), (1, {})])
def test_a_gang_spreads_as_evenly_as_there_is_room_and_not_more_unevenly_than_it_says(
    skew: int | None, nodes: dict[int, int]
) -> None:
    site, team = zones(("a", None, 3), ("b", None, 1))
    job = site.waits(team, gang=4, topology=Topology(near=Near.SPREAD, level=0, max_skew=skew))

    assert site.decide().nodes(job) == nodes


def test_single_tasks_spread_over_the_zones_of_all_clusters() -> None:
    site = Site()
    site.node(2, domains=("a",), cluster=1)
    site.node(2, domains=("b",), cluster=2)
    team = site.team(4)
    site.runs(team, 2)
    job = site.waits(team, topology=Topology(near=Near.SPREAD, level=0))
    site.attempts[0] = replace(site.attempts[0], job=job)

    assert site.decide().nodes(job) == {1: 1}


@pytest.mark.parametrize(
    ("own", "whole", "counts"),
    [
        (Topology(near=Near.PREFERRED, level=1), Topology(near=Near.REQUIRED, level=0), "whole"),
        (Topology(near=Near.REQUIRED, level=0), Topology(near=Near.PREFERRED, level=1), "own"),
        (Topology(near=Near.REQUIRED, level=0), Topology(near=Near.REQUIRED, level=1), "whole"),
        (Topology(near=Near.REQUIRED, level=1), Topology(near=Near.REQUIRED, level=0), "own"),
        (Topology(near=Near.PREFERRED, level=0), Topology(near=Near.PREFERRED, level=1), "own"),
        (None, Topology(near=Near.PREFERRED, level=1), "whole"),
    ],
)
def test_of_the_wishes_of_a_group_and_its_job_the_stricter_counts(
    own: Topology | None, whole: Topology, counts: str
) -> None:
    group = Group(tasks=1, units=1, flavors=(1,), topology=own)
    ask = Ask(shape=JobShape.GANG, groups=(group,), topology=whole)

    assert bound_groups(ask)[0].topology == (whole if counts == "whole" else own)


def test_a_node_whose_last_pods_a_larger_task_would_need_is_left_alone() -> None:
    site = Site()
    site.node(8, pods=1)
    site.node(9)
    full = site.node(4)
    team = site.team(21)
    site.runs(team, *full, units=4)
    job = site.waits(team)

    # Beside it on node 2 two tasks of four units, as runs already, leave nothing; on node 1 none would find a pod.
    assert site.decide().nodes(job) == {2: 1}
