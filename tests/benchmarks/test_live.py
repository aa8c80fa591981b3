"""The wall-clock benchmarks in a tiny form: they run, and what they count is right whatever the machine does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from queues.benchmarks.beside import WORDS
from queues.benchmarks.results import NoTrace, Setting
from queues.benchmarks.sidebyside import CASES, side_by_side

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.processes
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("admit", {"admit/cycles": 1, "admit/requests": None}),
        ("api", {"api/jobs": 408}),
        ("pages", {"pages/job/statements": None, "pages/api-jobs/scans": 0}),
        ("restart", {"restart/right": 1, "restart/double-launches": 0, "restart/running": 20}),
    ],
)
def test_a_wall_clock_benchmark_runs_and_counts_right(
    tmp_path: Path, name: str, values: dict[str, float | None]
) -> None:
    lines = tmp_path / "lines"
    asked = (name, "--part", "1000", "--json", str(lines))

    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "bench", *asked], check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    found = {row["name"]: row["value"] for row in map(json.loads, lines.read_text().splitlines())}
    assert {key: found[key] for key, value in values.items() if value is not None} == {
        key: value for key, value in values.items() if value is not None
    }
    assert values.keys() <= found.keys()


def test_the_side_by_side_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIDEBYSIDE", raising=False)

    with pytest.raises(NoTrace, match="needs SIDEBYSIDE"):
        next(side_by_side(Setting(data=None, seed=1)))


def test_the_cases_are_those_of_the_bench_with_their_targets() -> None:
    assert {case.name: case.target for case in CASES} == {
        "calm": 115,
        "drain": 28,
        "burst": 20,
        "base": 60,
        "stretch": 90,
    }
    assert set(WORDS.values()) == {"admitted", "evicted", "finished"}
