"""How many requests one process makes of one API server: evenly, and none while the server wishes for a pause."""

import time
from collections.abc import Callable
from threading import Lock

from clusters.port import Unreachable

PER_SECOND = 200.0
BURST = 400
# Who would have to wait longer for its turn is sent away, to come again.
PATIENCE_SECONDS = 5.0
PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0


class Budget:
    """A bucket of requests that fills with time; ``per_second`` 0 means no limit. Safe to share between threads."""

    def __init__(
        self,
        *,
        per_second: float = PER_SECOND,
        burst: int = BURST,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Start with a full bucket."""
        self._gap = 1 / per_second if per_second else 0.0
        self._room = burst * self._gap
        self._clock, self._sleep = clock, sleep
        self._lock = Lock()
        self._next = clock() - self._room
        self._shut_until = 0.0

    def enter(self) -> None:
        """Wait for this request's turn; raise Unreachable during a pause, or where the wait would be long."""
        with self._lock:
            now = self._clock()
            if self._shut_until > now:
                left = self._shut_until - now
                raise Unreachable(f"the API server asked for a pause: {left:.1f} s are left", retry_after=left)
            turn = max(self._next, now - self._room)
            if turn - now > PATIENCE_SECONDS:
                raise Unreachable("too many requests wait for their turn", retry_after=turn - now)
            self._next = turn + self._gap
        if turn > now:
            self._sleep(turn - now)

    def pause(self, seconds: float | None) -> None:
        """Let nobody in for as long as the server asked (429), or for a second where it named no time."""
        wanted = PAUSE_SECONDS if seconds is None else min(seconds, LONGEST_PAUSE_SECONDS)
        with self._lock:
            self._shut_until = max(self._shut_until, self._clock() + wanted)
