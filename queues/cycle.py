"""One turn of the loop: lock, load, decide, apply."""

from collections.abc import Callable
from datetime import datetime

Clock = Callable[[], datetime]


def run_cycle(clock: Clock) -> int:
    """Run cycles until no wake-up is left; return how many ran, 0 when another worker holds the lock."""
    raise NotImplementedError
