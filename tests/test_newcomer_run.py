"""`make run` as a newcomer has it: it starts, moves, says what runs, heals, stops, goes on, and leaves nothing."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stack.running import MARK, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600), pytest.mark.xdist_group("make run")]

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS, LIMIT = 240.0, 120.0
TELLS = {"worker": b"worker", "web": b"stack.web", "postgres": b"bin/postgres", "cluster": b"clusters.emulator"}
OWN = re.compile(r"^(DATABASE_URL|REDIS_URL|TIDEGATE_\w+|PYTEST_\w+|MAKE\w*|DJANGO_\w+)$")


@dataclass(kw_only=True)
class Demo:
    """A run of `make run` over a data folder of its own."""

    data: Path
    make: subprocess.Popen[bytes]
    output: Path

    @property
    def said(self) -> str:
        return self.output.read_text()

    @property
    def address(self) -> str:
        return str(re.findall(r"http://localhost:\d+", self.said)[0])

    @property
    def supervisor(self) -> int:
        return Run(self.data).note().pid

    def logins(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.data / "demo.json").read_text())
        return told

    def api(self, path: str, *, body: bytes | None = None, kind: str = "application/json") -> dict[str, Any]:
        """Ask the REST API as bela (to change) or the auditor (to read)."""
        token = self.logins()["tokens"]["bela" if body else "audit"]
        request = urllib.request.Request(self.address + path, data=body)  # noqa: S310  our own address
        request.add_header("Authorization", f"Bearer {token}")
        request.add_header("Content-Type", kind)
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  as above
            told: dict[str, Any] = json.loads(answer.read())
            return told


def command(*targets: str) -> list[str]:
    return ["make", "-C", str(ROOT), "-o", "setup-run", f"PY={shlex.quote(sys.executable)}", *targets]


def environment(data: Path) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not OWN.match(key)} | {"TIDEGATE_DATA": str(data)}


def start(data: Path) -> Demo:
    """Start and wait until the block with the logins has been printed."""
    output = data.with_suffix(".out")
    with output.open("wb") as out:
        make = subprocess.Popen(command("run"), env=environment(data), stdout=out, stderr=subprocess.STDOUT)
    demo = Demo(data=data, make=make, output=output)
    deadline = time.monotonic() + START_SECONDS
    while "Stop: Ctrl-C" not in demo.said:
        if make.poll() is not None or time.monotonic() > deadline:
            end(demo)
            pytest.fail("make run did not come up:\n" + demo.said)
        time.sleep(0.1)
    return demo


def end(demo: Demo) -> None:
    """Make sure that nothing is left, however the test went; who is killed late may start others anew meanwhile."""
    while left := processes(demo.data):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    demo.make.kill()
    demo.make.wait()


def processes(data: Path) -> list[int]:
    """Return all processes that belong to the run: each inherits a mark, or names the folder."""
    marks = {f"{name}={data}".encode() for name in (MARK, "TIDEGATE_DATA")}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "environ").read_bytes().split(b"\0")
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if marks & set(told) or (str(data).encode() in words and b"pytest" not in words):
            found.append(int(folder.name))
    return found


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not answers(true):
        assert time.monotonic() < deadline, what
        time.sleep(0.25)


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Demo]]:
    """Return what was started over the folder of this module, which everybody goes on with."""
    begun = [start(tmp_path_factory.mktemp("newcomer") / "my data")]
    yield begun
    end(begun[-1])


@pytest.fixture
def demo(starts: list[Demo]) -> Demo:
    if starts[-1].make.poll() is not None:
        starts.append(start(starts[-1].data))
    return starts[-1]


def test_somebody_named_in_the_block_signs_in_and_sees_the_overview(demo: Demo) -> None:
    found = re.search(r"^    ada +(\S+) +lead of team nlp$", demo.said, re.MULTILINE)
    assert found is not None
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))

    with browser.open(f"{demo.address}/", timeout=60) as page:
        form = page.read().decode()
        where = page.url
    csrf = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)[0]
    values = {"csrfmiddlewaretoken": csrf, "username": "ada", "password": found[1]}
    request = urllib.request.Request(  # noqa: S310  our own address
        where, data=urllib.parse.urlencode(values).encode(), headers={"Referer": where}
    )
    with browser.open(request, timeout=60) as page:
        overview = page.read().decode()
        status = page.status

    assert status == 200
    assert "nlp" in overview
    assert "h100" in overview.lower()


def test_within_a_minute_jobs_run_borrow_wait_and_end(demo: Demo) -> None:
    def states() -> dict[str, int]:
        return dict(demo.api("/api/v1/jobs:count?group_by=state")["counts"])

    def reasons() -> dict[str, str]:
        queued = demo.api("/api/v1/jobs?state=queued&limit=200")["items"]
        return {job["name"]: job["reason"]["code"] for job in queued if job["reason"]}

    until(lambda: {"running", "queued", "succeeded"} <= states().keys(), "jobs in every state")
    until(lambda: demo.api("/api/v1/jobs?state=failed&limit=1")["items"], "a job that failed")
    until(lambda: len(set(reasons().values())) > 1, "a job that waits for others")
    assert reasons()["too-large-for-this-cluster"] == "EXCEEDS_MAX"


def test_the_first_job_of_the_readme_is_accepted_as_it_stands_there(demo: Demo) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

    job = demo.api("/api/v1/jobs", body=block.encode(), kind="application/yaml")
    explained = demo.api(f"/api/v1/jobs/{job['id']}/explain")

    assert job["name"] == "my-first-job"
    assert explained


def test_a_second_start_says_what_runs_and_changes_nothing(demo: Demo) -> None:
    done = subprocess.run(
        command("run"), env=environment(demo.data), check=False, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0
    assert f"already runs in this checkout: {demo.address} (process {demo.supervisor})" in done.stdout
    until(lambda: demo.api("/api/v1/jobs?limit=1")["items"], "the first run goes on")


def command_of(pid: int) -> bytes:
    """Return a process's command line; nothing for one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


@pytest.mark.parametrize("name", TELLS)
def test_a_process_that_is_killed_comes_back_and_the_loop_goes_on(demo: Demo, name: str) -> None:
    def last_cycle() -> int:
        return int(demo.api("/api/v1/decisions?limit=1")["items"][0]["cycle"])

    until(last_cycle, "a decision to compare with")
    before = last_cycle()
    victim = leader(demo, name)

    os.kill(victim, signal.SIGKILL)

    # The pause is longer where it has ended before, as it may when another one's turn to be killed came earlier.
    until(lambda: re.search(rf"{name} ended with SIGKILL; it starts again in \d+ s", demo.said), "it is said")
    until(lambda: leader(demo, name) not in {victim, 0}, "it starts again")
    until(lambda: last_cycle() > before, "the loop goes on")


def leader(demo: Demo, name: str) -> int:
    """Return the process of that name which the supervisor has started, or 0 while there is none."""
    for pid, _ in Run(demo.data).note().groups:
        command_line = Path(f"/proc/{pid}/cmdline")
        if command_line.exists() and TELLS[name] in command_line.read_bytes():
            return pid
    return 0


def answers(ask: Callable[[], object]) -> object:
    """Return an answer, or None while nobody gives one."""
    try:
        return ask()
    except OSError:
        return None


def test_a_signal_ends_everything_a_new_start_goes_on_and_even_kill_9_leaves_nothing(
    demo: Demo, starts: list[Demo]
) -> None:
    data, oldest = demo.data, "/api/v1/jobs?q=too-large-for-this-cluster"
    until(lambda: demo.api(oldest)["items"], "a first job")
    password = demo.logins()["password"]
    kept = [job["id"] for job in demo.api(oldest)["items"]]

    demo.make.send_signal(signal.SIGTERM)

    until(lambda: not processes(data), "nothing is left after SIGTERM")
    demo.make.wait(LIMIT)
    starts.append(start(data))
    again = starts[-1]
    assert again.logins()["password"] == password
    assert [job["id"] for job in again.api(oldest)["items"]] == kept

    os.kill(again.supervisor, signal.SIGKILL)

    until(lambda: not processes(data), "nothing is left after kill -9")
    again.make.wait(LIMIT)
