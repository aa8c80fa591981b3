"""``manage.py simulate``: exit status and output."""

import json
import subprocess
import sys
from pathlib import Path

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
