"""Random timelines keep the invariants of SEMANTICS 13, evictions come to an end, and nothing depends on chance."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from queues.simulation.reading import parse
from queues.simulation.report import as_json, as_text
from queues.simulation.run import Result, Simulation, simulate
from queues.simulation.scenario import Reader, Scenario, load
from tests.examples import examples
from tests.simulation.timelines import timeline

JOB = "{name: s, team: a, runs: 20m, time_limit: 20m}"


def read(text: str) -> Scenario:
    return Reader(parse(text, "random.yaml"), "random.yaml").scenario()


def run(text: str) -> Result:
    return simulate(read(text), lambda: 0.0)


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
def test_random_timelines_keep_the_invariants(seed: int) -> None:
    text = timeline(Random(seed))

    result = run(text)

    assert result.ok, text + as_text(result)


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.too_slow])
def test_the_same_timeline_gives_the_same_events(seed: int) -> None:
    text = timeline(Random(seed))

    assert json.dumps(as_json(run(text))) == json.dumps(as_json(run(text)))


class Seldom(Simulation):
    """Decides when something changed, until the end of its time line."""

    def _quieten(self) -> None: ...


class Often(Seldom):
    """Decides at every tick as well, whether anything changed or not."""

    def _cycle(self) -> None:
        super()._cycle()
        self._engine.dirty = True


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(5), suppress_health_check=[HealthCheck.too_slow])
def test_to_decide_again_when_nothing_changed_changes_nothing(seed: int) -> None:
    text = timeline(Random(seed))

    seldom, often = (kind(read(text), lambda: 0.0).run() for kind in (Seldom, Often))

    assert (often.events, often.failures) == (seldom.events, seldom.failures), text


@pytest.mark.parametrize("gap", [1, 7, 20])
def test_a_gang_of_the_owner_starts_within_the_bound_whatever_stream_comes(tmp_path: Path, gap: int) -> None:
    path = tmp_path / "stream.yaml"
    path.write_text(
        "policy: {hold_after: 5m, tick: 1m}\n"
        "nodes: [{name: n, count: 2, flavor: g, units: 2}]\n"
        "teams: [{name: a, guaranteed: {g: 4}}]\n"
        "timeline:\n"
        "  - {at: 0s, submit: {name: first, count: 4, team: a, runs: 20m, time_limit: 20m}}\n"
        "  - {at: 1m, submit: {name: gang, team: a, shape: gang, tasks: 4, runs: 20m, time_limit: 20m}}\n"
        f"  - {{at: 2m, repeat: {{every: {gap}m, times: 60, submit: {JOB}}}}}\n"
        "expect: [{job: gang, starts: 1m, within: 25m}]\n"
        "until: 120m\n"
    )

    assert simulate(load(path), lambda: 0.0).failures == []


@given(st.integers(0, 1 << 32))
@example(3652)  # guaranteed demand takes a borrower's claim over
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
def test_who_evicts_starts_before_anybody_goes_for_it_again(seed: int) -> None:
    text = timeline(Random(seed), calm=True)

    events = run(text.replace("until: 25m", "until: 3h")).events

    assert left_waiting(events) == set(), text


def left_waiting(events: Sequence[Mapping[str, object]]) -> set[object]:
    """Return the claimants that neither start nor lose their claim to one that starts or claims by its guarantee."""
    waiting: set[object] = set()
    by_right: set[object] = set()
    for row in events:
        lost = row["event"] == "reason" and row["reason"] != "WAITS_VICTIMS" and row["at"] in by_right
        if row["event"] == "evicting":
            waiting.add(row["claimant"])
        elif lost or row["event"] in {"admitted", "ended", "cancelled"}:
            waiting.discard(row["job"])
        if row.get("borrowed") == 0 or row.get("rule") == "guarantee":
            by_right.add(row["at"])
    return waiting


@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3)), min_size=1, max_size=12),
)
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
def test_a_guarantee_comes_back_within_one_cycle_after_the_grace(
    nodes: int, units: int, grace: int, guests: list[tuple[int, int]]
) -> None:
    size = nodes * units
    jobs = "".join(
        f"  - {{at: {at}m, submit: {{name: g{number}-, count: {tasks}, team: guest}}}}\n"
        for number, (at, tasks) in sorted(enumerate(guests), key=lambda row: row[1][0])
    )

    result = run(
        f"policy: {{grace: {grace}m}}\nnodes: [{{name: n, count: {nodes}, flavor: g, units: {units}}}]\n"
        f"teams: [{{name: owner, guaranteed: {{g: {size}}}}}, {{name: guest}}]\ntimeline:\n{jobs}"
        f"  - {{at: 10m, submit: {{name: own, team: owner, shape: gang, tasks: {size}}}}}\n"
        f"expect: [{{job: own, starts: {10 + grace}m, within: 10s}}, {{at: 20m, team: owner, used: {size}}}]\n"
    )

    assert result.failures == []
