"""Ending with the parent process, so that a killed test run or `make run` leaves nothing behind."""

import os
import select
import threading
import time
from collections.abc import Callable

_EVERY = 1.0


def end_with_parent(end: Callable[[], None]) -> None:
    """Call ``end`` from a thread once the process that started us is gone."""
    parent = os.getppid()
    threading.Thread(target=_wait, args=(parent, end), name="parent watch", daemon=True).start()


def _wait(parent: int, end: Callable[[], None]) -> None:
    try:
        handle = os.pidfd_open(parent)
    except (AttributeError, OSError):
        # Not Linux, or the parent is gone already: then our parent's id has changed or will.
        while os.getppid() == parent:
            time.sleep(_EVERY)
    else:
        if os.getppid() == parent:
            select.select([handle], [], [])
        os.close(handle)
    end()
