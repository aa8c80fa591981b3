"""Where pods land that are not pinned: kube-scheduler chooses, inside what their job wishes."""

from collections import Counter
from dataclasses import replace

import pytest

from clusters.port import Closeness, Launch, Near, Placement
from tests.clusters.contract.ground import Ground

RACK = "tidegate.test/rack"
FOREVER = {"forever": "1"}


def racks(ground: Ground, *sizes: int) -> list[list[str]]:
    """Add nodes, so many to each rack, and return their names by rack."""
    return [
        [ground.node(labels={RACK: f"{ground.key}-{rack}"}) for _ in range(size)] for rack, size in enumerate(sizes)
    ]


def free(ground: Ground, nodes: list[str], domains: tuple[int, ...], near: Near, skew: int | None = None) -> Launch:
    """Describe a gang of one GPU a task whose nodes kube-scheduler chooses among those of this test."""
    group = ground.group(*nodes, steer=FOREVER, node_labels=(("tidegate.test/ground", ground.key),))
    names = tuple(f"{ground.key}-{rack}" for rack in domains)
    wish = Closeness(near=near, key=RACK, domains=names, max_skew=skew)
    return ground.launch(replace(group, closeness=(wish,)), placement=Placement.FREE)


def landed(ground: Ground, launch: Launch, rows: list[list[str]]) -> list[int]:
    """Return how many tasks are in each rack once all have nodes."""
    nodes = Counter(pod.node for pod in ground.placed(launch))
    return [sum(nodes[node] for node in row) for row in rows]


def test_a_gang_that_requires_a_rack_lands_in_the_one_that_was_planned(ground: Ground) -> None:
    rows = racks(ground, 2, 3)
    launch = free(ground, rows[0] * 2, (0,), Near.REQUIRED)

    ground.cluster.launch(launch)

    assert landed(ground, launch, rows) == [4, 0]


def test_a_preferred_rack_that_is_full_is_left(ground: Ground) -> None:
    rows = [[ground.node(gpus=1, labels={RACK: f"{ground.key}-0"})], [ground.node(labels={RACK: f"{ground.key}-1"})]]
    launch = free(ground, rows[0] * 3, (0,), Near.PREFERRED)

    ground.cluster.launch(launch)

    assert landed(ground, launch, rows) == [1, 2]


@pytest.mark.kubernetes
@pytest.mark.parametrize("ground", ["kubernetes"], indirect=True)
def test_a_bounded_spread_keeps_its_skew_whatever_rack_has_more_room(ground: Ground) -> None:
    rows = racks(ground, 3, 1)
    launch = free(ground, [rows[0][0], rows[1][0]] * 2, (0, 1), Near.SPREAD, skew=1)

    ground.cluster.launch(launch)

    assert landed(ground, launch, rows) == [2, 2]
