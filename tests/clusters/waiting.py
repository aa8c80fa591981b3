"""Waiting for a condition with a time limit."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SECONDS = 90.0
_PAUSE = 0.03


def until(ask: Callable[[], T | None], *, seconds: float = SECONDS) -> T:
    """Ask until the answer is neither None, False nor empty, and return it."""
    deadline = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"still {answer!r} after {seconds} s")
        time.sleep(_PAUSE)
