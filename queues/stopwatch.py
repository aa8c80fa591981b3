"""How long something may take, for those who may read a clock: views, tasks and commands."""

import time
from collections.abc import Callable


def within(seconds: float) -> Callable[[], bool]:
    """Return what tells, each time that it is asked, whether so many seconds from now are not over yet."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() < until
