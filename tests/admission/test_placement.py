"""The placement witness: SEMANTICS 5."""

import pytest

from queues.admission.decide import Memory, decide
from queues.admission.world import Group, NodeState, Quota
from tests.admission.site import GI, Site


def test_a_gang_takes_the_fewest_nodes_and_breaks_no_whole_one_without_need() -> None:
    site = Site()
    site.node(8, count=3)
    a = site.team(24)
    site.runs(a, 2, units=4)
    job = site.waits(a, gang=4)

    assert site.decide().nodes(job) == {2: 4}


def test_the_rest_of_a_gang_goes_to_the_tightest_node_that_holds_it() -> None:
    site = Site()
    site.node(8, count=4)
    a = site.team(32)
    site.runs(a, 1, units=1)
    site.runs(a, 3, units=5)
    job = site.waits(a, gang=11)

    assert site.decide().nodes(job) == {2: 8, 3: 3}


def test_fewer_nodes_go_before_whole_nodes() -> None:
    site = Site()
    site.node(8, count=3)
    a = site.team(24)
    site.runs(a, 1, 2, units=4)
    job = site.waits(a, gang=8)

    assert site.decide().nodes(job) == {3: 8}


def test_a_single_task_goes_to_the_node_with_the_fewest_free_units_then_the_first() -> None:
    site = Site()
    site.node(8, count=3)
    a = site.team(24)
    site.runs(a, 2, 3, units=6)
    job = site.waits(a, units=1)

    assert site.decide().nodes(job) == {2: 1}


def test_a_single_task_goes_where_the_common_shapes_lose_least() -> None:
    site = Site()
    site.node(8, count=4)
    a = site.team(32)
    site.runs(a, 1, units=4)
    site.runs(a, 2, units=3)
    for _ in range(2):
        site.runs(a, 4, units=4)
    job = site.waits(a, units=1)

    assert site.decide().nodes(job) == {2: 1}


def test_a_spread_flavor_takes_the_emptiest_node() -> None:
    site = Site()
    site.flavor("l4", spread=True)
    site.node(8, count=2)
    a = site.team(16)
    site.runs(a, 1, units=1)
    job = site.waits(a, units=1)

    assert site.decide().nodes(job) == {2: 1}


def test_cpu_memory_pods_and_labels_bound_a_node() -> None:
    site = Site()
    site.node(8, cpu=4000)
    site.node(8, memory=4 * GI)
    site.node(8, pods=4)
    site.node(8, outside_pods=109)
    site.node(8, labels=(("ib", "yes"),))
    a = site.team(40)

    assert site.waits(a, cpu=1000, memory=GI, tasks=40)
    assert site.decide().nodes(1) == {1: 4, 2: 4, 3: 4, 4: 1, 5: 8}

    labelled = site.waits(a, gang=3, labels=(("ib", "yes"),), priority=1)
    assert site.decide().nodes(labelled) == {5: 3}


def test_cordoned_and_lost_nodes_and_units_of_others_are_not_free() -> None:
    site = Site()
    site.node(8, count=2)
    site.node(8, outside_units=5)
    a = site.team(24)
    site.cordon(1)
    site.cordon(2, NodeState.LOST)
    job = site.waits(a, tasks=24)

    assert site.decide().nodes(job) == {3: 3}


def test_what_leaves_still_counts_on_its_node() -> None:
    site = Site()
    site.node(8)
    a = site.team(8)
    site.runs(a, 1, units=6, leaving=True)
    job = site.waits(a, tasks=8)

    assert site.decide().nodes(job) == {1: 2}


def test_a_gang_never_spans_clusters_and_takes_the_tightest_that_holds_it() -> None:
    site = Site()
    site.node(8, count=2, cluster=1)
    site.node(6, count=2, cluster=2)
    a = site.team(28)
    wide = site.waits(a, gang=17)
    job = site.waits(a, gang=9)

    decided = site.decide()

    assert decided.nodes(job) == {3: 6, 4: 3}
    assert decided.tasks(wide) == 0


def test_all_groups_of_a_job_start_together_or_not_at_all() -> None:
    site = Site()
    small, large = site.flavor("small"), site.flavor("large")
    site.node(2, flavor=small)
    site.node(4, flavor=large, count=3)
    a = site.team(quotas=())
    groups = (Group(tasks=1, units=1, flavors=(small,)), Group(tasks=4, units=2, flavors=(large,)))
    job = site.waits(a, groups=groups)

    assert site.decide().nodes(job) == {1: 1, 2: 2, 3: 2}

    site.runs(a, 1, units=2, flavor=small)
    assert site.decide().started() == []


def test_groups_on_one_flavor_do_not_count_the_same_room_twice() -> None:
    site = Site()
    site.node(8)
    a = site.team(8)
    groups = (Group(tasks=2, units=1, flavors=(1,)), Group(tasks=1, units=7, flavors=(1,)))
    site.waits(a, groups=groups)

    assert site.decide().started() == []


def test_the_first_listed_flavor_inside_the_guarantee_goes_before_one_that_is_borrowed() -> None:
    site = Site()
    first, second = site.flavor("first"), site.flavor("second")
    site.node(4, flavor=first)
    site.node(4, flavor=second)
    a = site.team(quotas=(Quota(flavor=second, guaranteed=2),))
    inside = site.waits(a, gang=2, flavors=(first, second), minutes=5)
    more = site.waits(a, gang=2, flavors=(first, second))

    rows = {row.job: (row.flavors, row.borrowed) for row in site.decide().outcome.admissions}

    assert rows == {inside: ((second,), False), more: ((first,), True)}


def test_ten_thousand_equal_nodes_are_one_kind() -> None:
    site = Site()
    site.node(8, count=10_000)
    a = site.team(80_000)
    job = site.waits(a, gang=9000, units=8)

    decided = site.decide()

    assert len(decided.nodes(job)) == 9000


def test_tasks_that_start_in_two_clusters_are_two_admissions() -> None:
    site = Site()
    (east,), (west,) = site.node(8), site.node(8, cluster=2)
    job = site.waits(site.team(16), units=8, tasks=2)

    decided = site.decide()

    rows = [(row.job, row.tasks, [placed.node for placed in row.placed]) for row in decided.outcome.admissions]
    assert rows == [(job, 1, [east]), (job, 1, [west])]


def test_a_gang_takes_the_fewest_nodes_of_unequal_ones() -> None:
    site = Site()
    site.node(4)
    site.node(3)
    site.node(2, count=2)
    team = site.team(11)
    job = site.waits(team, gang=9)

    assert sorted(site.decide().nodes(job).values()) == [2, 3, 4]


def test_groups_on_one_node_do_not_count_the_same_memory_twice() -> None:
    site = Site()
    site.node(8, memory=5 * GI)
    team = site.team(8)
    groups = (
        Group(tasks=1, units=1, memory=3 * GI, flavors=(1,)),
        Group(tasks=1, units=2, memory=3 * GI, flavors=(1,)),
    )
    site.waits(team, groups=groups)

    assert site.decide().started() == []


def test_pods_of_all_that_runs_on_a_node_count() -> None:
    site = Site()
    site.node(8, pods=4)
    team = site.team(8)
    site.runs(team, 1, tasks=2)
    site.runs(team, 1)
    site.waits(team, gang=2)
    single = site.waits(team)

    assert site.decide().started() == [single]


@pytest.mark.parametrize("memory", [None, Memory()], ids=["cold", "warm"])
@pytest.mark.parametrize(("waiting", "running", "node"), [(4, [5], 1), (5, [4, 4], 2), (4, [5, 5], 1), (5, [4], 1)])
def test_each_waiting_class_counts_once_and_running_tasks_by_their_number(
    waiting: int, running: list[int], node: int, memory: Memory | None
) -> None:
    site = Site()
    site.node(4)
    site.node(5)
    team, poor = site.team(20), site.team(borrow=0)
    for units in running:
        site.runs(team, *site.node(units), units=units)
    site.waits(poor, waiting)
    site.waits(team)

    outcome = decide(site.world(), site.heads(), memory)

    # One unit on node 1 loses 3 for tasks of 4 and gains 1 for tasks of 5; on node 2 it gains 1 and loses 4.
    assert [row.placed[0].node for row in outcome.admissions] == [node]
