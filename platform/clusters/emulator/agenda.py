"""What is due now or later, on the server's event loop: no polling anywhere."""

import asyncio
from collections.abc import Callable, Hashable


class Agenda:
    """Work by key: a key is never due twice at once, and arming it again replaces its time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start with nothing due."""
        self._loop = loop
        self._now: set[Hashable] = set()
        self._later: dict[Hashable, asyncio.TimerHandle] = {}

    def soon(self, key: Hashable, work: Callable[[], None]) -> None:
        """Do ``work`` after what runs now; asking again before then changes nothing."""
        if key not in self._now:
            self._now.add(key)
            self._loop.call_soon(self._do, key, work)

    def later(self, key: Hashable, seconds: float, work: Callable[[], None]) -> None:
        """Do ``work`` in ``seconds`` (at once when that is past) instead of what ``key`` waited for."""
        self.cancel(key)
        self._later[key] = self._loop.call_later(max(seconds, 0.0), self._ring, key, work)

    def cancel(self, key: Hashable) -> None:
        """Forget what ``key`` waits for."""
        handle = self._later.pop(key, None)
        if handle is not None:
            handle.cancel()

    def monotonic(self) -> float:
        """Return the loop's clock in seconds."""
        return self._loop.time()

    def waits(self, key: Hashable) -> bool:
        """Tell whether ``key`` waits for a time."""
        return key in self._later

    def close(self) -> None:
        """Forget all that is due later."""
        for key in list(self._later):
            self.cancel(key)

    def _do(self, key: Hashable, work: Callable[[], None]) -> None:
        self._now.discard(key)
        work()

    def _ring(self, key: Hashable, work: Callable[[], None]) -> None:
        self._later.pop(key, None)
        work()
