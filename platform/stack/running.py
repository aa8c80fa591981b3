"""One run a data folder: a lock that its holder cannot leave behind, and a note of what runs."""

import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from stack import guard

MARK = "TIDEGATE_RUN"
HANDOVER_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What runs: the supervisor's process, the address, and the children's process groups with their stop signals.

    ``stopping``: it will be gone soon.
    """

    pid: int
    stopping: bool = False
    address: str = ""
    groups: tuple[tuple[int, int], ...] = ()


class Run:
    """The right to run over a data folder; the operating system takes it back when its holders end."""

    def __init__(self, data: Path) -> None:
        """Remember where; nothing is taken yet."""
        self.path, self.note_path = data / "run.lock", data / "run.json"
        self.file: TextIO | None = None

    def take(self) -> bool:
        """Take the lock, or return False where another run holds it.

        A run that is stopping, or the guard of one that was killed, holds it until the children are gone: wait for it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.file = self.path.open("a")
        deadline = time.monotonic() + HANDOVER_SECONDS
        while not self._locked():
            note = self.note()
            if (is_alive(note.pid) and not note.stopping) or time.monotonic() > deadline:
                self.file.close()
                self.file = None
                return False
            time.sleep(0.1)
        return True

    def _locked(self) -> bool:
        if self.file is None:
            return False
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def held(self) -> bool:
        """Return whether some run holds the lock now."""
        if not self.path.exists():
            return False
        with self.path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def note(self) -> Note:
        """Return the last note; an unreadable one counts as none."""
        try:
            told = json.loads(self.note_path.read_text())
            return Note(
                pid=int(told["pid"]),
                stopping=bool(told["stopping"]),
                address=str(told["address"]),
                groups=tuple((int(group), int(number)) for group, number in told["groups"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return Note(pid=0)

    def write(self, note: Note) -> None:
        """Replace the note."""
        new = self.note_path.with_suffix(".new")
        new.write_text(json.dumps(asdict(note)))
        new.replace(self.note_path)

    def end_leftovers(self) -> int:
        """End the groups of an earlier run whose supervisor and guard were both killed; return how many were there."""
        left = {group: number for group, number in self.note().groups if self._ours(group)}
        guard.end(left)
        return len(left)

    def _ours(self, group: int) -> bool:
        # A number alone proves nothing: it may belong to somebody else by now.
        try:
            environment = Path(f"/proc/{group}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return f"{MARK}={self.path.parent}".encode() in environment

    def leave(self) -> None:
        """Give the lock back."""
        self.note_path.unlink(missing_ok=True)
        if self.file is not None:
            self.file.close()
            self.file = None


def is_alive(pid: int) -> bool:
    """Return whether a process has this number."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
