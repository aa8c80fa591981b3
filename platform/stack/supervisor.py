"""Starts programs, shows what they say, restarts those that end, and stops them all: one thread, one loop."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TextIO

from stack import guard
from stack.servers import StartFailed

FIRST_PAUSE, LONGEST_PAUSE, CALM_SECONDS, LOOK_SECONDS = 1.0, 30.0, 60.0, 0.15
LAST_LINES = 12
COLOURS = (36, 33, 35, 32, 34, 96, 93, 95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run: ``stop`` is the signal that ends it in good order within ``patience`` seconds.

    What a ``quiet`` one says goes to its log alone; ``sockets`` are numbers of open ones that it inherits.
    """

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ready: Callable[[], bool] = lambda: True
    stop: signal.Signals = signal.SIGTERM
    patience: float = 12.0
    quiet: bool = False
    sockets: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class Child:
    """A program that was started: its process, and when to start it again where it ended (monotonic seconds)."""

    program: Program
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    started: float
    colour: int
    pause: float = FIRST_PAUSE
    again_at: float | None = None
    rest: bytes = b""
    hushed: bool = False


class Supervisor:
    """The programs of one run. Each is a session of its own, so that Ctrl-C reaches the supervisor alone."""

    def __init__(
        self, logs: Path, *, out: TextIO, lock: TextIO | None = None, look: Callable[[], None] = lambda: None
    ) -> None:
        """Start the guard, which keeps ``lock`` open so that no new run begins before it is done.

        ``look`` is called often and raises where the run shall end.
        """
        self.logs, self.out, self.look = logs, out, look
        self.children: dict[str, Child] = {}
        self.changed: Callable[[], None] = lambda: None
        self.stopping = False
        logs.mkdir(parents=True, exist_ok=True)
        self.selector = selectors.DefaultSelector()
        keep = (lock.fileno(),) if lock else ()
        guardian = [sys.executable, "-m", "stack.guard"]
        self.guard = subprocess.Popen(guardian, stdin=subprocess.PIPE, pass_fds=keep, start_new_session=True)

    @property
    def groups(self) -> tuple[tuple[int, int], ...]:
        """Return the process group and stop signal of each child."""
        return tuple((child.process.pid, int(child.program.stop)) for child in self.children.values())

    def say(self, line: str) -> None:
        """Write a line of the supervisor's own."""
        with suppress(OSError):
            self.out.write(f"{line}\n")
            self.out.flush()

    def start(self, program: Program) -> None:
        """Start a program under its name."""
        old = self.children.get(program.name)
        log = self._fresh_log(program.name) if old is None else old.log
        process = subprocess.Popen(
            program.command,
            env={**os.environ, **program.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=program.sockets,
        )
        self._tell_guard(f"+ {process.pid} {int(program.stop)}")
        colour = COLOURS[len(self.children) % len(COLOURS)] if old is None else old.colour
        child = Child(program=program, process=process, log=log, started=time.monotonic(), colour=colour)
        child.pause = old.pause if old else FIRST_PAUSE
        self.children[program.name] = child
        if process.stdout is not None:
            os.set_blocking(process.stdout.fileno(), False)
            self.selector.register(process.stdout, selectors.EVENT_READ, program.name)
        self.changed()

    def call(self, program: Program) -> None:
        """Run a program to its end; raise StartFailed where it fails."""
        self.start(program)
        while self.children[program.name].process.poll() is None:
            self.pump(0.1, restart=False)
        child = self._forget(program.name)
        if child.process.returncode:
            raise StartFailed(f"{program.name} ended with {ending(child.process.returncode)} {self._last_words(child)}")

    def wait(self, name: str, *, seconds: float, restart: bool = False) -> None:
        """Wait until a program is ready; raise StartFailed where it ends or takes too long.

        Meanwhile it speaks to its log alone: that it is not ready yet is no news.
        """
        deadline = time.monotonic() + seconds
        while not self._is_ready(child := self.children[name]):
            child.hushed = True
            if child.process.poll() is not None and not restart:
                self.pump(0.1, restart=False)
                raise StartFailed(f"{name} ended with {ending(child.process.returncode)} {self._last_words(child)}")
            if time.monotonic() > deadline:
                said = getattr(child.program.ready, "said", "")
                raise StartFailed(f"{name} was not ready within {seconds:.0f} s {said} {self._last_words(child)}")
            # Not at once again because something was said: each look costs the program something.
            look = time.monotonic() + LOOK_SECONDS
            while (left := look - time.monotonic()) > 0:
                self.pump(left, restart=restart)
        child.hushed = False

    def _is_ready(self, child: Child) -> bool:
        # The process first: another program may answer on a port that this one did not get.
        return child.process.poll() is None and child.program.ready()

    def pump(self, seconds: float, *, restart: bool = True) -> None:
        """Show what programs say for at most ``seconds``; start again what ended and has waited its pause."""
        for key, _ in self.selector.select(seconds):
            self._read(str(key.data))
        if self.stopping:
            return
        self.look()
        if not restart:
            return
        for child in tuple(self.children.values()):
            self._look_after(child)

    def stop(self) -> None:
        """Stop all, the last started first, each in its own time limit."""
        self.stopping = True
        self.changed()
        while self.children:
            name = next(reversed(self.children))
            child = self.children[name]
            guard.send(child.process.pid, child.program.stop)
            deadline = time.monotonic() + child.program.patience
            while child.process.poll() is None and time.monotonic() < deadline:
                self.pump(0.05)
            self._forget(name)
        if self.guard.stdin is not None:
            self.guard.stdin.close()
        self.guard.wait()

    def _look_after(self, child: Child) -> None:
        now = time.monotonic()
        if child.again_at is None and child.process.poll() is not None:
            if now - child.started > CALM_SECONDS:
                child.pause = FIRST_PAUSE
            child.again_at = now + child.pause
            what = f"{child.program.name} ended with {ending(child.process.returncode)}"
            self.say(f"{what}; it starts again in {child.pause:.0f} s (log: {child.log.name})")
            child.pause = min(child.pause * 2, LONGEST_PAUSE)
            self._close(child)
        elif child.again_at is not None and now >= child.again_at:
            self.start(child.program)

    def _read(self, name: str) -> None:
        child = self.children[name]
        data = child.process.stdout.read(65536) if child.process.stdout else None
        if data == b"" and child.process.stdout:
            self.selector.unregister(child.process.stdout)
        if not data:
            return
        child.log.write(data)
        child.log.flush()
        *lines, child.rest = (child.rest + data).split(b"\n")
        for line in lines:
            self._show(child, line.decode(errors="replace").rstrip())

    def _show(self, child: Child, line: str) -> None:
        if line and not child.program.quiet and not child.hushed:
            name = f"{child.program.name:<9}│"
            self.say(f"\033[{child.colour}m{name}\033[0m {line}" if self.out.isatty() else f"{name} {line}")

    def _last_words(self, child: Child) -> str:
        path = Path(child.log.name)
        words = path.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return "\n  ".join([f"(log: {path})", *words])

    def _forget(self, name: str) -> Child:
        child = self.children[name]
        guard.send(child.process.pid, signal.SIGKILL)
        child.process.wait()
        self._close(child)
        del self.children[name]
        child.log.close()
        self.changed()
        return child

    def _close(self, child: Child) -> None:
        guard.send(child.process.pid, signal.SIGKILL)
        self._tell_guard(f"- {child.process.pid}")
        out = child.process.stdout
        if out is None or out.closed:
            return
        with suppress(KeyError, ValueError):
            self._read(child.program.name)
            self.selector.unregister(out)
        out.close()

    def _tell_guard(self, line: str) -> None:
        with suppress(OSError):
            if self.guard.stdin is not None:
                self.guard.stdin.write(f"{line}\n".encode())
                self.guard.stdin.flush()

    def _fresh_log(self, name: str) -> IO[bytes]:
        path = self.logs / f"{name}.log"
        if path.exists():
            path.replace(path.with_suffix(".log.1"))
        return path.open("wb")


def ending(code: int) -> str:
    """Return an exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
