"""The emulator's pure parts: quantities, durations, selectors, patches, index ranges."""

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.emulator import patches
from clusters.emulator.clock import after, duration
from clusters.emulator.errors import ApiError
from clusters.emulator.jobpods import indexes, ranges
from clusters.emulator.kinds import CONFIG_MAPS, NODES
from clusters.emulator.quantities import QuantityError, milli, render
from clusters.emulator.selectors import matches_term, parse_fields, parse_labels
from clusters.emulator.store import Store


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        ("1", 1000),
        ("250m", 250),
        ("0.1", 100),
        (".5", 500),
        ("1.", 1000),
        ("1u", 1),
        ("2k", 2_000_000),
        ("1Ki", 1_024_000),
        ("1.5Gi", 1536 * 1024 * 1024 * 1000),
        ("1e3", 1_000_000),
        ("1E", 10**21),
        ("-3", -3000),
        ("+3", 3000),
        ("0", 0),
    ],
)
def test_quantities_are_read_exactly(text: str, thousandths: int) -> None:
    assert milli(text) == thousandths


@pytest.mark.parametrize("text", ["", "x", "1x", "1 Gi", "--1", "1ki", "m", ".", "0x1", "\u0661", "1e999"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        milli(text)


@given(st.integers(0, 10**15), st.booleans())
def test_a_rendered_quantity_reads_back(thousandths: int, binary: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    assert milli(render(thousandths, binary=binary)) == thousandths


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("200ms", 0.2),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        ("0", 0.0),
        ("10us", 1e-5),
        ("", 7.0),
        ("soon", 7.0),
        ("5", 7.0),
    ],
)
def test_go_durations_are_understood(text: str, seconds: float) -> None:
    assert duration(text, 7.0) == pytest.approx(seconds)


def test_a_time_beyond_the_calendar_is_far_off() -> None:
    assert after(datetime(2026, 1, 1, tzinfo=UTC), 1e30).year == 2055


@given(st.sets(st.integers(0, 200)))
def test_index_ranges_read_back(found: set[int]) -> None:
    assert indexes(ranges(found)) == found


def test_index_ranges_are_written_as_the_job_controller_does() -> None:
    assert ranges({0, 1, 2, 4, 6, 7}) == "0-2,4,6,7"


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("", {}, True),
        ("a=1", {"a": "1"}, True),
        ("a==1,b!=2", {"a": "1"}, True),
        ("a in (1, 2),b", {"a": "2", "b": ""}, True),
        ("a notin (1)", {}, True),
        ("!a", {"a": ""}, False),
        ("kubernetes.io/x-y=z.z", {"kubernetes.io/x-y": "z.z"}, True),
        ("a=", {"a": ""}, True),
    ],
)
def test_label_selectors_choose(selector: str, labels: dict[str, str], matches: bool) -> None:  # noqa: FBT001 - a case
    assert parse_labels(selector)({"metadata": {"labels": labels}}) is matches


def test_field_selectors_read_booleans_and_absent_fields() -> None:
    cordoned = parse_fields(NODES, "spec.unschedulable=true")

    assert cordoned({"metadata": {}, "spec": {"unschedulable": True}})
    assert not cordoned({"metadata": {}})


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ({"key": "n", "operator": "Gt", "values": ["4"]}, True),
        ({"key": "n", "operator": "Lt", "values": ["4"]}, False),
        ({"key": "n", "operator": "Gt", "values": ["x"]}, False),
        ({"key": "absent", "operator": "NotIn", "values": ["x"]}, True),
    ],
)
def test_node_terms_compare(expression: dict[str, object], matches: bool) -> None:  # noqa: FBT001 - a case
    node = {"metadata": {"name": "x", "labels": {"n": "5"}}}

    assert matches_term({"matchExpressions": [expression]}, node) is matches


def test_an_empty_node_term_matches_nothing() -> None:
    assert not matches_term({}, {"metadata": {"name": "x"}})


JSON = st.recursive(
    st.none() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_merging_twice_is_merging_once(target: object, patch: object) -> None:
    once = patches.merge(target, patch)

    assert patches.merge(once, patch) == once


def test_strategic_merge_keeps_other_elements_and_replaces_lists_without_a_key() -> None:
    target = {"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "args": ["x"], "finalizers": ["f"]}
    patch = {"containers": [{"name": "a", "image": "2"}], "args": ["y"], "finalizers": ["g"]}

    assert patches.strategic(target, patch) == {
        "containers": [{"name": "a", "image": "2"}, {"name": "b"}],
        "args": ["y"],
        "finalizers": ["f", "g"],
    }


def test_strategic_merge_understands_its_directives() -> None:
    target = {"containers": [{"name": "a"}], "finalizers": ["f", "g"], "labels": {"x": "1"}}
    patch = {
        "containers": [{"$patch": "replace"}, {"name": "c"}],
        "$deleteFromPrimitiveList/finalizers": ["f"],
        "labels": {"$patch": "replace", "y": "2"},
    }

    assert patches.strategic(target, patch) == {
        "containers": [{"name": "c"}],
        "finalizers": ["g"],
        "labels": {"y": "2"},
    }


def test_json_patch_moves_copies_and_inserts() -> None:
    steps = [
        {"op": "add", "path": "/list/0", "value": 0},
        {"op": "add", "path": "/list/-", "value": 9},
        {"op": "move", "from": "/a", "path": "/b"},
        {"op": "copy", "from": "/b", "path": "/c"},
    ]
    target = {"list": [1], "a": {"x": 1}}

    assert patches.json_patch(CONFIG_MAPS, "m", target, steps) == {"list": [0, 1, 9], "b": {"x": 1}, "c": {"x": 1}}
    assert target == {"list": [1], "a": {"x": 1}}


@given(st.lists(st.dictionaries(st.sampled_from(["op", "path", "from", "value"]), JSON, max_size=4), max_size=3))
def test_any_json_patch_applies_or_is_refused(steps: list[object]) -> None:
    with contextlib.suppress(ApiError):
        patches.json_patch(CONFIG_MAPS, "m", {"a": [{"b": 1}], "c": "text"}, steps)


def test_the_store_numbers_every_change_and_knows_owners() -> None:
    store = Store(keep=2)
    owned = {"metadata": {"name": "m", "namespace": "n", "ownerReferences": [{"uid": "u"}]}}

    first = store.put(CONFIG_MAPS, owned)
    second = store.put(CONFIG_MAPS, first)
    last = store.remove(CONFIG_MAPS, "n", "m")

    numbers = [int(body["metadata"]["resourceVersion"]) for body in (first, second, last)]
    assert numbers == sorted(set(numbers))
    assert store.owned("u") == []
    assert store.floor(CONFIG_MAPS) == numbers[0]
    assert [change.deleted for change in store.since(CONFIG_MAPS, numbers[0])] == [False, True]
