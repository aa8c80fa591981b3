"""What keeps pods close together, or apart, that are not pinned to their nodes."""

from dataclasses import replace
from typing import Any

import pytest

from clusters import manifests, names
from clusters.port import Closeness, Near, Placement
from tests.clusters.test_manifests import JOB, WAVE, group, launch

RACK = "tidegate.io/rack"
IN_R1 = {"key": RACK, "operator": "In", "values": ["r1"]}


def pod(placement: Placement, *nodes: str, gang: bool = True, **wish: Any) -> dict[str, Any]:  # noqa: ANN401  fields of Closeness
    """Return the spec of a pod of a wave with one wish."""
    row = replace(group(*nodes), closeness=(Closeness(**{"key": RACK, "domains": ("r1",), **wish}),))
    wanted = replace(launch(row), placement=placement, gang=gang)
    spec: dict[str, Any] = manifests.job(wanted, row)["spec"]["template"]["spec"]
    return spec


def required(spec: dict[str, Any]) -> list[dict[str, Any]]:
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (only,) = terms
    found: list[dict[str, Any]] = only["matchExpressions"]
    return found


def preferred(spec: dict[str, Any]) -> dict[str, int]:
    """Return how much each node name or domain is liked."""
    found = {}
    for row in spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]:
        (rules,) = row["preference"].values()
        found["+".join(rules[0]["values"])] = row["weight"]
    return found


@pytest.mark.parametrize("nodes", [("a",), ("a", "b")])
def test_free_pods_stay_in_the_domain_that_was_planned(nodes: tuple[str, ...]) -> None:
    assert required(pod(Placement.FREE, *nodes, near=Near.REQUIRED)) == [IN_R1]


def test_pods_with_a_preferred_node_stay_in_the_domain_too() -> None:
    spec = pod(Placement.PREFER, "a", near=Near.REQUIRED)

    assert required(spec) == [IN_R1]
    assert preferred(spec) == {"a": 100}


def test_gated_pods_keep_the_domain_while_their_pin_prefers_a_node() -> None:
    spec = pod(Placement.PREFER, "a", "b", near=Near.REQUIRED)

    assert required(spec) == [IN_R1]
    assert spec["schedulingGates"] == [{"name": names.GATE}]


def test_a_preferred_domain_is_liked_less_than_the_node_itself() -> None:
    assert preferred(pod(Placement.FREE, "a", near=Near.PREFERRED)) == {"r1": 50}
    assert preferred(pod(Placement.PREFER, "a", near=Near.PREFERRED)) == {"a": 100, "r1": 50}


def test_an_even_spread_is_a_wish_until_a_skew_bounds_it() -> None:
    spec = pod(Placement.FREE, "a", "b", near=Near.SPREAD, domains=("r1", "r2"))

    assert "affinity" not in spec
    assert spec["topologySpreadConstraints"] == [
        {
            "maxSkew": 1,
            "topologyKey": RACK,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"tidegate.io/wave": WAVE, "tidegate.io/group": "0"}},
        }
    ]


def test_a_bounded_skew_is_kept_among_the_domains_that_were_planned() -> None:
    spec = pod(Placement.FREE, "a", "b", near=Near.SPREAD, domains=("r1", "r2"), max_skew=2, whole=True)

    assert required(spec) == [{**IN_R1, "values": ["r1", "r2"]}]
    (constraint,) = spec["topologySpreadConstraints"]
    assert (constraint["maxSkew"], constraint["whenUnsatisfiable"]) == (2, "DoNotSchedule")
    assert constraint["labelSelector"] == {"matchLabels": {"tidegate.io/wave": WAVE}}


def test_separate_tasks_spread_over_all_waves_of_their_job_and_never_wait_for_it() -> None:
    spec = pod(Placement.FREE, "a", gang=False, near=Near.SPREAD, max_skew=1)

    (constraint,) = spec["topologySpreadConstraints"]
    assert "affinity" not in spec
    assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"
    assert constraint["labelSelector"]["matchLabels"]["tidegate.io/job"] == JOB


def test_nodes_themselves_are_domains() -> None:
    spec = pod(Placement.FREE, "a", "b", near=Near.SPREAD, key="", domains=("a", "b"))

    (constraint,) = spec["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "kubernetes.io/hostname"


@pytest.mark.parametrize("near", list(Near))
def test_pinned_pods_need_nothing_of_it(near: Near) -> None:
    plain = manifests.job(launch(group("a", "b")), group("a", "b"))["spec"]["template"]["spec"]

    assert pod(Placement.PIN, "a", "b", near=near) == plain


@pytest.mark.parametrize("near", list(Near))
def test_a_domain_that_no_node_has_asks_for_nothing(near: Near) -> None:
    spec = pod(Placement.FREE, "a", "b", near=near, domains=())

    assert not {"affinity", "topologySpreadConstraints"} & spec.keys()
