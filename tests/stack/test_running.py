import os
import subprocess
import sys
import threading
from pathlib import Path

from stack.running import MARK, Note, Run, is_alive

HOLDER = """
import sys, pathlib
from stack.running import Note, Run
run = Run(pathlib.Path(sys.argv[1]))
assert run.take()
run.write(Note(pid=__import__("os").getpid(), address="http://localhost:1"))
print("taken", flush=True)
sys.stdin.read()
"""


def holder(data: Path) -> "subprocess.Popen[str]":
    platform = str(Path(__file__).resolve().parents[2] / "platform")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": platform},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "taken\n"
    return process


def test_a_second_run_is_refused_and_knows_what_runs(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        second = Run(tmp_path)

        taken = second.take()

        assert not taken
        assert second.held()
        assert second.note() == Note(pid=first.pid, address="http://localhost:1")
        first.kill()


def test_a_killed_run_leaves_nothing_in_the_way_of_the_next(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        first.kill()
        first.wait()
    second = Run(tmp_path)

    taken = second.take()

    assert taken
    second.leave()
    assert not second.held()
    assert second.note() == Note(pid=0)


def test_a_run_that_is_stopping_is_waited_for(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        second = Run(tmp_path)
        second.write(Note(pid=first.pid, stopping=True))
        threading.Timer(0.3, first.kill).start()

        taken = second.take()

    assert taken
    second.leave()


def test_a_broken_note_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"pid": "many"')

    assert Run(tmp_path).note() == Note(pid=0)


def test_leftovers_are_ended_but_never_a_stranger_with_their_number(tmp_path: Path) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    ours = subprocess.Popen(sleep, start_new_session=True, env={**os.environ, MARK: str(tmp_path)})
    stranger = subprocess.Popen(sleep, start_new_session=True)
    run = Run(tmp_path)
    run.write(Note(pid=1, groups=((ours.pid, 15), (stranger.pid, 15))))

    try:
        count = run.end_leftovers()

        assert count == 1
        assert ours.wait(60) == -15
        assert stranger.poll() is None
    finally:
        for process in (ours, stranger):
            process.kill()
            process.wait()


def test_numbers_that_nobody_has_are_not_alive() -> None:
    assert not is_alive(0)
    assert not is_alive(-1)
    assert is_alive(os.getpid())
