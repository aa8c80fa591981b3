"""What is not valid names file, line and field."""

from pathlib import Path

import pytest

from queues.simulation.reading import ScenarioError
from queues.simulation.run import simulate
from queues.simulation.scenario import load

WORLD = """\
nodes: [{name: n, flavor: g, units: 4}]
teams: [{name: d}, {name: a, parent: d, guaranteed: {g: 2}}]
"""


def run(tmp_path: Path, text: str) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(text)
    simulate(load(path), lambda: 0.0)


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("nodes: [", 1, "file"),
        ("{}", 1, "file"),
        ("", 1, "file"),
        (WORLD + "colour: red\n", 3, "colour"),
        (WORLD + "policy: {hold_after: 5}\n", 3, "policy.hold_after"),
        (WORLD + "policy: {order: random}\n", 3, "policy.order"),
        (WORLD + "timeline: [{at: 0s, submit: {name: j, team: b}}]\n", 3, "timeline[0].submit.team"),
        (WORLD + "timeline: [{at: 0s, submit: {name: j, team: d}}]\n", 3, "timeline[0].submit.team"),
        (WORLD + "timeline: [{at: 0s, submit: {name: j, team: a, units: 0}}]\n", 3, "timeline[0].submit.units"),
        (WORLD + "timeline: [{at: 0s, submit: {name: j, team: a, units: two}}]\n", 3, "timeline[0].submit.units"),
        (
            WORLD + "timeline: [{at: 0s, submit: {name: j, team: a, required: rack}}]\n",
            3,
            "timeline[0].submit.required",
        ),
        (
            WORLD
            + "timeline:\n - {at: 0s, submit: {name: j, count: 2, team: a}}\n"
            + " - {at: 1s, submit: {name: j1, team: a}}\n",
            5,
            "timeline[1].submit",
        ),
        (WORLD + "timeline: [{at: 0s, cancel: j}]\n", 3, "timeline[0].cancel"),
        (WORLD + "timeline: [{at: 0s}]\n", 3, "timeline[0]"),
        (WORLD + "timeline: [{at: 2m, submit: {name: j, team: a}}]\nuntil: 1m\n", 3, "timeline[0].at"),
        (WORLD + "timeline: [{at: 0s, set_quota: {team: a, flavor: g, guaranteed: 5}}]\n", 3, "timeline[0].set_quota"),
        (
            WORLD + "timeline: [{at: 0s, set_quota: {team: a, flavor: h, guaranteed: 1}}]\n",
            3,
            "timeline[0].set_quota.flavor",
        ),
        (
            WORLD
            + "timeline:\n - {at: 0s, submit: {name: j, team: a, units: 4}}\n"
            + " - {at: 1s, submit: {name: k, team: a}}\n - {at: 2s, checkpoint: k}\n",
            6,
            "timeline[2].checkpoint",
        ),
        (WORLD + "expect: [{at: 1s, job: j, state: queued}]\n", 3, "expect[0].job"),
        (WORLD + "expect: [{at: 1s, team: a, colour: 2}]\n", 3, "expect[0].colour"),
        (WORLD + 'expect: [{always: "team z.used <= 1"}]\n', 3, "expect[0].always"),
        (WORLD.replace("g: 2", "h: 2"), 2, "teams[1].guaranteed.h"),
        (WORLD.replace("g: 2", "g: 9"), 2, "teams"),
        (WORLD.replace("{name: d}", "{name: d, parent: a}"), 2, "teams"),
        (WORLD.replace("{name: d}", "{name: a}"), 2, "teams[1]"),
    ],
)
def test_a_file_that_is_not_valid_names_line_and_field(tmp_path: Path, text: str, line: int, field: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        run(tmp_path, text)

    assert f"case.yaml:{line}: {field}: " in str(caught.value)


def test_on_is_understood_quoted_or_not_and_times_in_all_units(tmp_path: Path) -> None:
    run(
        tmp_path,
        WORLD
        + "timeline: [{at: 1h1m1s, submit: {name: j, team: a}}]\n"
        + "expect:\n  - {at: 1h2m, job: j, on: [n]}\n  - {at: 1h2m, job: j, 'on': n}\n",
    )


def test_what_the_job_state_forbids_is_not_valid_either(tmp_path: Path) -> None:
    running = WORLD + "timeline:\n - {at: 0s, submit: {name: j, team: a, runs: 10s}}\n"

    for line in ("hold: j", "end: {job: j, tasks: 9}"):
        with pytest.raises(ScenarioError, match=r"case\.yaml:5"):
            run(tmp_path, running + f" - {{at: 5s, {line}}}\n")
    with pytest.raises(ScenarioError, match="has ended"):
        run(tmp_path, running + " - {at: 20s, cancel: j}\n")
