"""A process that dies at any line, as a seed says: an exception that nothing catches. Every other time it lives."""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Thread
from types import FrameType
from typing import Any

from django.db import connection, connections

ROOT = Path(__file__).resolve().parents[2]


class Killed(BaseException):
    """The process is no more: no handler of errors sees this, transactions that are open roll back."""


class Killer:
    """Kills what runs at a line of some files; ``struck`` are those lines."""

    def __init__(self, seed: int, *files: str) -> None:
        self.struck: list[tuple[str, int]] = []
        self._random = Random(seed)
        self._files = frozenset(str(ROOT / file) for file in files)

    def maybe(self, run: Callable[[], object], *, lines: int) -> bool:
        """Run in a thread with connections of its own; return whether it died, within so many lines of the files."""
        struck, errors = len(self.struck), []
        left = self._random.choice((0, self._random.randint(1, lines)))

        def live() -> None:
            try:
                with self._armed(left):
                    run()
            except BaseException as error:  # noqa: BLE001  whatever a dying process says, it is dead
                errors.append(error)
            finally:
                if errors and connection.connection is not None:
                    connection.connection.close()
                connections.close_all()

        thread = Thread(target=live, name="mortal")
        thread.start()
        thread.join()
        if errors and len(self.struck) == struck and not isinstance(errors[0], Killed):
            raise errors[0]
        return bool(errors)

    @contextmanager
    def _armed(self, left: int) -> Iterator[None]:
        if not left:
            yield  # it lives: nobody has to look at its lines
            return

        def step(frame: FrameType, event: str, _: Any) -> Any:  # noqa: ANN401  as sys.settrace has it
            nonlocal left
            if frame.f_code.co_filename not in self._files:
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    self.struck.append((Path(frame.f_code.co_filename).name, frame.f_lineno))
                    raise Killed
            return step

        before = sys.gettrace()
        sys.settrace(step)
        threading.settrace(step)  # and in threads that it starts
        try:
            yield
        finally:
            threading.settrace(None)
            sys.settrace(before)


READS = frozenset({"get", "list", "watch", "logs"})


class Calls:
    """An API whose every change, told for the first time, kills who tells it before it is sent, then once behind."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self.armed, self.deaths = False, 0
        self._ask, self._told = ask, Counter[str]()

    def __call__(self, verb: str, path: str, **more: Any) -> Any:  # noqa: ANN401  parts of requests and answers
        if verb in READS or not self.armed:
            return self._ask(verb, path, **more)
        key = f"{verb} {path} {more.get('query')} {((more.get('body') or {}).get('metadata') or {}).get('name')}"
        self._told[key] += 1
        if self._told[key] > 2:
            return self._ask(verb, path, **more)
        self.deaths += 1
        if self._told[key] == 2:
            self._ask(verb, path, **more)
        raise Killed
