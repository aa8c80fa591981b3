"""Every scenario file of the project holds, with the invariants checked after each cycle."""

import json
from pathlib import Path

import pytest

from queues.simulation.report import as_json, as_text
from queues.simulation.run import simulate
from queues.simulation.scenario import load

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "tests" / "scenarios"
FILES = sorted(FOLDER.glob("*.yaml"))
VECTORS = [str(number) for number in range(1, 22)]
FIELD = [f"P{number:02}" for number in (2, 4, 5, 6, 7, 9, 12, 13, 14, 17, 18, 19, 21, 23, 24, 25, 26, 29, 32, 34, 35)]
FIELD += ["P43", "P54", "P67", "P68", "P70"]


def no_clock() -> float:
    return 0.0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_holds(path: Path) -> None:
    result = simulate(load(path), no_clock)

    assert result.failures == [], as_text(result)


def table(first: str) -> dict[str, list[str]]:
    """Return what the README's table with this first heading names, by row."""
    lines = iter((FOLDER / "README.md").read_text().splitlines())
    next(line for line in lines if line.startswith(f"| {first} |"))
    next(lines)
    rows: dict[str, list[str]] = {}
    for line in lines:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[cells[0]] = [name.strip() for name in cells[-1].split(",") if name.strip()]
    return rows


def test_every_vector_and_field_problem_has_its_files_and_what_is_named_exists() -> None:
    vectors, field, rules = table("vector"), table("item"), table("rule")
    named = [name for rows in (vectors, field, rules) for names in rows.values() for name in names]

    assert list(vectors) == VECTORS
    assert all(vectors.values())
    assert list(field) == FIELD
    assert [item for item, names in field.items() if not names] == ["P07", "P70"]
    assert {path.name for path in FILES if path.name.startswith("vector_")} <= set(named)
    for name in named:
        path, _, test = name.partition("::")
        assert f"def {test}" in (ROOT / path).read_text() if test else (FOLDER / path).exists()


def test_the_files_of_a_vector_carry_its_number() -> None:
    for number, names in table("vector").items():
        assert all(name.startswith((f"vector_{int(number):02}_", "tests/")) for name in names)


def test_the_same_file_gives_the_same_bytes() -> None:
    path = FILES[0]

    first, second = (json.dumps(as_json(simulate(load(path), no_clock))) for _ in range(2))

    assert first == second
    assert list(json.loads(first)) == ["file", "name", "ok", "failures", "events", "summary"]


def test_who_could_start_but_for_a_keep_holds_without_a_time_instead_of_now_in_each_cycle_anew() -> None:
    result = simulate(load(FOLDER / "holder_behind_a_keep_waits_for_it.yaml"), no_clock)

    told = [(row["at"], row["until"]) for row in result.events if row["event"] == "hold" and row["job"] == "pooled"]
    assert told == [(360.0, 600.0), (600.0, None), (3600.0, 4800.0)]


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
