"""Which classes have waited long, found without asking all of them: only those whose first jobs have changed."""

from heapq import heappop, heappush

from queues.admission.settled import others
from queues.admission.world import Heads, JobClass, Milliseconds


class Waits:
    """Since when the first jobs of each class wait, moved on from one decision to the next.

    A class that has waited long stays so until its first jobs change; the others stand in line by the time at which
    they will have.
    """

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._mark: object = None
        self._now: Milliseconds = 0
        self._evictions = 0
        self._classes: dict[int, JobClass] = {}
        self.long: set[int] = set()
        self.often: set[int] = set()
        self._due: dict[int, Milliseconds] = {}
        self._line: list[tuple[Milliseconds, int]] = []

    def look(
        self,
        classes: dict[int, JobClass],
        heads: Heads,
        now: Milliseconds,
        waited: dict[int, Milliseconds],
        evictions: int,
    ) -> None:
        """Find the classes of which some user's first job waited so ``long`` (by queue) or was evicted so ``often``."""
        for number in self._changed(classes, heads, now, evictions):
            self.long.discard(number)
            self.often.discard(number)
            self._due.pop(number, None)
            jobs = heads.users(number) if number in classes else ()
            if not jobs:
                continue
            due = min(job.wait_from for job in jobs) + waited[classes[number].queue]
            if max(job.evictions for job in jobs) >= evictions:
                self.often.add(number)
            if due <= now:
                self.long.add(number)
            else:
                self._due[number] = due
                heappush(self._line, (due, number))
        while self._line and self._line[0][0] <= now:
            due, number = heappop(self._line)
            if self._due.get(number) == due:
                del self._due[number]
                self.long.add(number)

    def _changed(self, classes: dict[int, JobClass], heads: Heads, now: Milliseconds, evictions: int) -> set[int]:
        """Return the classes to look at: those that came, went or changed; all where that is not known."""
        old, self._classes = self._classes, classes
        self._mark, changed = heads.changed(self._mark)
        forget = changed is None or now < self._now or evictions != self._evictions
        self._now, self._evictions = now, evictions
        if changed is None or forget:
            self.long.clear()
            self.often.clear()
            self._due.clear()
            self._line.clear()
            return set(classes)
        found = set(changed)
        if classes is not old:
            found.update(others(classes, old), old.keys() - classes.keys())
        return found
