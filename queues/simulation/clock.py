"""Virtual time: what falls due, and when a decision may change by itself."""

from collections.abc import Callable
from heapq import heappop, heappush

from queues.admission.world import (
    Milliseconds,
)
from queues.simulation.jobs import Job

Event = dict[str, object]


class Clock:
    """The clock of one world, and the notes of what happened."""

    def __init__(self) -> None:
        """Begin at zero, with a first cycle to make."""
        self.now: Milliseconds = 0
        self.events: list[Event] = []
        self.dirty = True
        self.quiet = True
        self.acted = False
        self._due: list[tuple[Milliseconds, int, Callable[[], None]]] = []
        self._timers: list[Milliseconds] = []
        self._serial = 0

    def due(self, at: Milliseconds, what: Callable[[], None]) -> None:
        """Let something happen at a time."""
        self._serial += 1
        heappush(self._due, (at, self._serial, what))

    def timer(self, at: Milliseconds) -> None:
        """Remember that a decision may change at a time."""
        if at > self.now:
            heappush(self._timers, at)

    def next_due(self) -> Milliseconds | None:
        """Return when something falls due next."""
        return self._due[0][0] if self._due else None

    def next_timer(self) -> Milliseconds | None:
        """Return the next time at which a decision may change by itself."""
        return self._timers[0] if self._timers else None

    def advance(self, at: Milliseconds) -> None:
        """Go to a time and let what falls due then happen."""
        self.now = at
        while self._due and self._due[0][0] <= at:
            _, _, what = heappop(self._due)
            what()
            self.touch()
        while self._timers and self._timers[0] <= at:
            heappop(self._timers)
            self.touch()

    def touch(self) -> None:
        """Note that the world has changed otherwise than by a decision."""
        self.dirty = True
        self.quiet = False

    def note(self, job: Job | None, event: str, **more: object) -> None:
        """Write an event down."""
        row: Event = {"at": self.now / 1000}
        if job is not None:
            row["job"] = job.name
        self.events.append(row | {"event": event} | more)
