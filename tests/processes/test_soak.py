"""The soak in its short form."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.processes
@pytest.mark.timeout(900)
def test_after_a_soak_ledger_recount_cluster_and_every_jobs_end_agree(tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    asked = ("--minutes", "0.25", "--jobs", "60", "--seed", "3", "--kill-every", "3", "--json", str(summary))

    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "soak", *asked], check=False, capture_output=True, text=True
    )

    told = json.loads(summary.read_text())
    assert done.returncode == 0, done.stdout + done.stderr
    assert told["wrong"] == []
    assert told["jobs"] == told["succeeded"] + told["failed"] + told["cancelled"] > 0
    assert told["Kubernetes Jobs created"] > 0
