"""``manage.py simulate``: exit status and output."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

from queues.simulation.books import Book

ROOT = Path(__file__).parent.parent.parent
GOOD = """\
nodes: [{name: n, flavor: g, units: 2}]
teams: [{name: a, guaranteed: {g: 2}}]
timeline: [{at: 0s, submit: {name: j, team: a}}]
expect: [{job: j, starts: 0s}]
"""


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "manage.py", "simulate", *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)


class Here:
    """The command in this process, which is quicker to start."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *files: Path) -> tuple[int, str, str]:
        """Return exit status, standard output and errors."""
        try:
            call_command("simulate", "--json", *map(str, files))
        except SystemExit as status:
            return int(str(status.code)), *self._capsys.readouterr()
        return 0, *self._capsys.readouterr()


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(capsys)


def test_exit_status_tells_good_from_failed_from_not_valid(tmp_path: Path) -> None:
    for name, text in (("good", GOOD), ("failed", GOOD.replace("starts: 0s", "starts: 5m")), ("bad", "teams: 5\n")):
        (tmp_path / f"{name}.yaml").write_text(text)
    good, failed, bad = (str(tmp_path / f"{name}.yaml") for name in ("good", "failed", "bad"))

    assert command(good).returncode == 0
    assert command(good, failed).returncode == 1
    worst = command("--json", good, failed, bad)
    assert worst.returncode == 2
    assert [json.loads(line)["ok"] for line in worst.stdout.splitlines()] == [True, False]
    assert "bad.yaml:1" in worst.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes: [", ":1: file: is not YAML"),
        ("", ":1: file: is empty"),
        (GOOD.replace("team: a", "teem: a"), ":3: timeline[0].submit.teem: unknown field; known are: borrow, "),
        (GOOD.replace("units: 2", "units: two"), ":1: nodes[0].units: must be a whole number, not 'two'"),
        (GOOD.replace("team: a", "team: b"), ":3: timeline[0].submit.team: no team is called 'b'"),
        (GOOD.replace("job: j", "job: k"), ":4: expect[0].job: "),
        (GOOD + "until: -1s\n", ":5: until: must be a duration"),
        (GOOD.replace("starts: 0s", "at: 5h, state: queued") + "until: 1m\n", ":4: expect[0]: at is beyond until"),
        (GOOD.replace("}]\nexpect", "}, {at: 1m, hold: j}]\nexpect"), ":3: timeline[1].hold: job 'j' is running"),
        (GOOD.replace("guaranteed: {g: 2}", "guaranteed: {g: 3}"), "3 units of 'g' are guaranteed, 2 are installed"),
        (GOOD + 'name: "x\\ud800"\n', ":5: name: half of a pair of characters is no text"),
    ],
)
def test_what_is_not_valid_is_named_with_file_line_and_field(text: str, said: str, tmp_path: Path, here: Here) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)

    status, out, err = here(path)

    assert (status, out) == (2, "")
    assert err.startswith(str(path))
    assert said in err
    assert err.count("\n") == 1


def test_what_cannot_be_read_is_not_valid_and_the_others_still_run(tmp_path: Path, here: Here) -> None:
    good, missing, latin = (tmp_path / name for name in ("good.yaml", "missing.yaml", "latin.yaml"))
    good.write_text(GOOD)
    latin.write_bytes(b"name: caf\xe9\n")

    status, out, err = here(missing, latin, tmp_path, good)

    assert status == 2
    assert [json.loads(line)["file"] for line in out.splitlines()] == [str(good)]
    assert [line.split(" ")[1] for line in err.splitlines()] == ["file:", "file:", "file:"]


def test_nothing_but_objects_is_said_on_standard_output_and_always_the_same(tmp_path: Path, here: Here) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)

    first, second = (json.loads(here(path)[1]) for _ in range(2))

    for found in (first, second):
        assert found["summary"].pop("decide_seconds") >= 0
    assert json.dumps(first) == json.dumps(second)
    assert list(first) == ["file", "name", "ok", "failures", "events", "summary"]


def test_a_broken_invariant_fails_the_run_with_its_time_and_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Here
) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    monkeypatch.setattr(Book, "limit", lambda *_: 0)

    status, out, _ = here(path)
    found = json.loads(out)

    assert status == 1
    assert found["ok"] is False
    assert [(row["at"], row["expect"]) for row in found["failures"]] == [(0.0, {"invariant": "I2"})]
    assert "1 used, limit 0" in str(found["failures"][0]["found"])


def test_a_reader_that_goes_away_gets_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    line = [sys.executable, "manage.py", "simulate", "--json", *[str(path)] * 2]
    reader, writer = os.pipe()
    os.close(reader)

    found = subprocess.run(line, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)

    assert (found.returncode, found.stderr) == (1, "")
