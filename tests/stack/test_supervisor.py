import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stack.servers import StartFailed
from stack.supervisor import Program, Supervisor, ending

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60.0

KILLED = """
import sys
from pathlib import Path
from stack.supervisor import Program, Supervisor

supervisor = Supervisor(Path("LOGS"), out=sys.stdout)
worker = '''
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("pids", os.getpid(), child.pid, flush=True)
time.sleep(60)
'''
supervisor.start(Program(name="worker", command=(sys.executable, "-c", worker)))
while True:
    supervisor.pump(0.1)
"""


def program(name: str, code: str) -> Program:
    return Program(name=name, command=(sys.executable, "-c", code))


def until(true: Callable[[], bool], pump: Callable[[], object] = lambda: time.sleep(0.02)) -> None:
    deadline = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < deadline, "it did not come to pass"
        pump()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def supervisor(tmp_path: Path, out: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "platform"))
    supervisor = Supervisor(tmp_path / "logs", out=out)
    yield supervisor
    if supervisor.children or not supervisor.stopping:
        supervisor.stop()


def test_what_a_program_says_is_shown_under_its_name_and_kept_in_its_log(
    supervisor: Supervisor, out: io.StringIO, tmp_path: Path
) -> None:
    supervisor.start(program("talker", "print('hello'); import time; time.sleep(60)"))

    until(lambda: "hello" in out.getvalue(), lambda: supervisor.pump(0.05))

    assert "talker   │ hello" in out.getvalue()
    assert (tmp_path / "logs" / "talker.log").read_text() == "hello\n"


def test_a_quiet_program_speaks_to_its_log_alone(supervisor: Supervisor, out: io.StringIO, tmp_path: Path) -> None:
    supervisor.call(replace(program("quiet", "print('hello')"), quiet=True))

    assert (tmp_path / "logs" / "quiet.log").read_text() == "hello\n"
    assert "hello" not in out.getvalue()


def test_a_program_that_crashes_starts_again_and_the_pause_doubles(supervisor: Supervisor, out: io.StringIO) -> None:
    supervisor.start(program("shaky", "raise SystemExit(3)"))

    until(lambda: out.getvalue().count("it starts again") == 2, lambda: supervisor.pump(0.05))

    assert "shaky ended with exit code 3; it starts again in 1 s" in out.getvalue()
    assert "shaky ended with exit code 3; it starts again in 2 s" in out.getvalue()


def test_a_program_that_is_killed_is_named_with_its_signal(supervisor: Supervisor, out: io.StringIO) -> None:
    supervisor.start(program("victim", "import time; time.sleep(60)"))
    os.kill(supervisor.children["victim"].process.pid, signal.SIGKILL)

    until(lambda: "starts again" in out.getvalue(), lambda: supervisor.pump(0.05))

    assert "victim ended with SIGKILL" in out.getvalue()


def test_stop_ends_programs_and_what_they_started_last_one_first(supervisor: Supervisor, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    parent = (
        "import subprocess, sys, pathlib, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
        "time.sleep(60)"
    )
    order = tmp_path / "order"
    first = (
        "import signal, sys, pathlib, time\n"
        f"def end(*_): open({str(order)!r}, 'a').write(sys.argv[1] + ' '); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); print('ready', flush=True); time.sleep(60)"
    )
    for name in ("one", "two"):
        supervisor.start(Program(name=name, command=(sys.executable, "-c", first, name)))
    supervisor.start(program("parent", parent))
    logs = [tmp_path / "logs" / f"{name}.log" for name in ("one", "two")]
    until(lambda: note.exists() and all(log.read_text() for log in logs), lambda: supervisor.pump(0.05))

    supervisor.stop()

    until(lambda: not alive(int(note.read_text())))
    assert order.read_text() == "two one "
    assert supervisor.children == {}


def test_a_program_that_ignores_its_signal_is_killed_after_its_patience(supervisor: Supervisor, tmp_path: Path) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    supervisor.start(replace(program("deaf", deaf), patience=0.2))
    until(lambda: (tmp_path / "logs" / "deaf.log").read_text() != "", lambda: supervisor.pump(0.05))
    pid = supervisor.children["deaf"].process.pid

    supervisor.stop()

    assert not alive(pid)


def test_a_call_that_fails_stops_the_start_and_names_the_log(supervisor: Supervisor) -> None:
    with pytest.raises(StartFailed, match=r"migrate ended with exit code 4 \(log: .*migrate\.log\)"):
        supervisor.call(program("migrate", "raise SystemExit(4)"))


def test_waiting_for_a_program_that_ends_or_never_answers_gives_up(supervisor: Supervisor) -> None:
    supervisor.start(replace(program("gone", "raise SystemExit(1)"), ready=lambda: False))
    supervisor.start(replace(program("slow", "import time; time.sleep(60)"), ready=lambda: False))

    with pytest.raises(StartFailed, match="gone ended with exit code 1"):
        supervisor.wait("gone", seconds=LIMIT)
    with pytest.raises(StartFailed, match="slow was not ready within 0 s"):
        supervisor.wait("slow", seconds=0.1)


def test_a_wish_to_end_is_heard_while_a_call_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "platform"))

    def look() -> None:
        raise InterruptedError

    supervisor = Supervisor(tmp_path, out=io.StringIO(), look=look)

    try:
        with pytest.raises(InterruptedError):
            supervisor.call(program("long", "import time; time.sleep(60)"))
    finally:
        supervisor.stop()


def test_a_killed_supervisor_leaves_no_process(tmp_path: Path) -> None:
    script = KILLED.replace("LOGS", str(tmp_path))
    env = {**os.environ, "PYTHONPATH": str(ROOT / "platform"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split("pids")[1].split()]

        process.kill()

    until(lambda: not any(alive(pid) for pid in pids))


def test_endings_are_said_in_words() -> None:
    assert [ending(0), ending(1), ending(-9), ending(-15)] == ["exit code 0", "exit code 1", "SIGKILL", "SIGTERM"]
