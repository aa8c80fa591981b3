"""Every scenario file of the project holds, with the invariants checked after each cycle."""

import json
from pathlib import Path

import pytest

from queues.simulation.report import as_json, as_text
from queues.simulation.run import simulate
from queues.simulation.scenario import load

FILES = sorted((Path(__file__).parent.parent / "scenarios").glob("*.yaml"))


def no_clock() -> float:
    return 0.0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_holds(path: Path) -> None:
    result = simulate(load(path), no_clock)

    assert result.failures == [], as_text(result)


def test_the_same_file_gives_the_same_bytes() -> None:
    path = FILES[0]

    first, second = (json.dumps(as_json(simulate(load(path), no_clock))) for _ in range(2))

    assert first == second
    assert list(json.loads(first)) == ["file", "name", "ok", "failures", "events", "summary"]


def test_a_wrong_expectation_fails_with_what_was_found(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "nodes: [{name: n, flavor: g, units: 2}]\n"
        "teams: [{name: a, guaranteed: {g: 2}}]\n"
        "timeline: [{at: 0s, submit: {name: j, team: a}}]\n"
        "expect:\n"
        "  - {at: 10s, job: j, state: queued}\n"
        "  - {job: j, starts: 30s, within: 10s}\n"
        '  - {always: "team a.used == 0"}\n'
    )

    result = simulate(load(path), no_clock)

    assert [row["at"] for row in result.failures] == [0.0, 10.0, 30.0]
    assert result.failures[1]["found"] == {
        "state": "running",
        "units": 1,
        "on": ["n"],
        "reason": None,
        "reserved": 0,
    }
