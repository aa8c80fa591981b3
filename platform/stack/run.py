"""`make run`: everything on one machine, started in order, watched, and stopped together."""

import argparse
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from stack import programs
from stack.programs import ROOT, Plan
from stack.running import Note, Run, is_alive
from stack.servers import StartFailed
from stack.supervisor import Supervisor

START_SECONDS = 90.0
STOP_SECONDS = 40.0
DEMO = ("postgres", "valkey", "static", "cluster", "kubeconfig", "demo.json", "beat*")


class Stopped(Exception):
    """Somebody asked for the end."""


def main(arguments: list[str] | None = None) -> int:
    """Run until asked to stop; return the exit code."""
    options = parser().parse_args(arguments)
    read_env(ROOT / ".env")
    data = Path(os.environ.get("TIDEGATE_DATA") or ROOT / ".data").resolve()
    if options.stop:
        return stop(Run(data))
    try:
        run = Run(data)
        if not run.take():
            return already(run.note())
    except PermissionError as error:
        print(f"{error.filename} belongs to another user: run as that user, remove {data}, or set TIDEGATE_DATA.")
        return 1
    wish = Wish(parent=os.getppid() if options.with_parent else None)
    supervisor = Supervisor(data / "logs", out=sys.stdout, lock=run.file, look=wish.look)
    code = 0
    try:
        start(run, supervisor, fresh=options.fresh, verbose=options.verbose)
        while True:
            supervisor.pump(0.5)
    except Stopped:
        supervisor.say("\nStopping …")
    except (StartFailed, OSError) as failure:
        supervisor.say(f"\nTidegate did not start: {failure}")
        code = 1
    finally:
        supervisor.stop()
        run.leave()
    supervisor.say(f"All stopped. The data stay in {data}; `make run` goes on from there." if not code else "")
    return code


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="make run", description="Start the demo on this machine.")
    parser.add_argument("--fresh", action="store_true", help="forget the data of earlier runs")
    parser.add_argument("--verbose", action="store_true", help="show what the processes say below warnings")
    parser.add_argument("--with-parent", action="store_true", help="stop when the process that started this ends")
    parser.add_argument("--stop", action="store_true", help="stop the run of this checkout, where there is one")
    return parser


def start(run: Run, supervisor: Supervisor, *, fresh: bool, verbose: bool) -> None:
    """Start all in order and say where it is."""
    began, data = time.monotonic(), run.path.parent
    if left := run.end_leftovers():
        supervisor.say(f"Ended {left} processes that an earlier run had left.")
    if fresh:
        forget(data)
    plan = programs.plan(data, verbose=verbose)

    def note() -> None:
        run.write(
            Note(
                pid=os.getpid(),
                address=plan.address,
                groups=supervisor.groups,
                stopping=supervisor.stopping,
            )
        )

    supervisor.changed = note
    note()
    supervisor.say("Starting PostgreSQL, Valkey and the cluster …")
    for server in plan.servers:
        server.prepare()
    for program in programs.servers(plan):
        supervisor.start(program)
    for name in tuple(supervisor.children):
        supervisor.wait(name, seconds=START_SECONDS)
    for what, program in programs.preparations(plan):
        supervisor.say(f"{what} …")
        supervisor.call(program)
    supervisor.say("Starting web, worker, beat and watcher …")
    for program in programs.processes(plan):
        supervisor.start(program)
    supervisor.wait("web", seconds=START_SECONDS, restart=True)
    if plan.emulator is not None:
        supervisor.start(programs.feeder(plan))
    supervisor.say(banner(plan, seconds=time.monotonic() - began))


def banner(plan: Plan, *, seconds: float) -> str:
    """Return the block that a newcomer needs: address, logins, how to stop."""
    lines = ["", "─" * 72, f"  Tidegate is at  {plan.address}   (ready after {seconds:.0f} s)", ""]
    width = max((len(name) for name, _, _ in programs.logins(plan.data)), default=0)
    lines += [f"    {name:<{width}}  {password:<14}  {who}" for name, password, who in programs.logins(plan.data)]
    if plan.emulator is not None:
        lines += ["", "  The cluster is emulated; a feeder submits jobs, so that the pages move."]
    else:
        lines += [
            "",
            "  The cluster is yours: only what you submit runs there. Its GPUs are under Nodes within a minute.",
        ]
    lines += [f"  Logs: {plan.data / 'logs'}    Stop: Ctrl-C", "─" * 72, ""]
    return "\n".join(lines)


class Wish:
    """Whether somebody wants the end: a signal came, or the process that started this one is gone."""

    def __init__(self, *, parent: int | None) -> None:
        """Listen to Ctrl-C, SIGTERM and a closed terminal (but not where nohup asked to live on)."""
        self.parent, self.wanted = parent, False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._hear)

    def _hear(self, number: int, frame: object) -> None:
        del number, frame
        self.wanted = True

    def look(self) -> None:
        """Raise Stopped where the end is wanted."""
        if self.wanted or (self.parent is not None and os.getppid() != self.parent):
            raise Stopped


def already(note: Note) -> int:
    """Say what runs in this checkout."""
    where = note.address or "still starting"
    print(f"Tidegate already runs in this checkout: {where} (process {note.pid}).")
    print(f"Stop it with Ctrl-C in its terminal, or with: kill {note.pid}")
    return 0


def stop(run: Run) -> int:
    """Stop the run of this checkout and wait until it is gone."""
    if not run.held():
        return 0
    note = run.note()
    print(f"Stopping the run of process {note.pid} …", flush=True)
    if is_alive(note.pid):
        os.kill(note.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while run.held():
        if time.monotonic() > deadline:
            print(f"It did not stop within {STOP_SECONDS:.0f} s.")
            return 1
        time.sleep(0.1)
    return 0


def forget(data: Path) -> None:
    """Remove the data of earlier runs, and nothing else that may lie in the folder."""
    for path in [path for pattern in DEMO for path in data.glob(pattern)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def read_env(path: Path) -> None:
    """Set what a `.env` file says and the environment does not: KEY=VALUE lines, # comments."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            os.environ.setdefault(name.strip(), value.strip().strip("'\""))


if __name__ == "__main__":
    sys.exit(main())
