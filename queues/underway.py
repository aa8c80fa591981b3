"""What one worker tells clusters at once: waves are its own by a lease, renewed for as long as it waits for answers.

A worker that dies renews no more, and another one tells those waves again when the lease is over. Until then nobody
tells them anything else, so that no stop overtakes a launch.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from django.db import transaction

from queues.models import Wave

LEASE = timedelta(seconds=10)
# So many times within a lease it is renewed.
RENEWALS = 3

Row = TypeVar("Row")
Told = TypeVar("Told")


class Answer(NamedTuple):
    """What came of telling a cluster about a wave: an error, or that it was done."""

    wave: Wave
    error: Exception | None = None


@dataclass(slots=True, kw_only=True)
class Telling:
    """A batch of waves that are being told: until when it is ours, and the answers as they come."""

    waves: Sequence[Wave]
    lease: datetime
    answers: list[Future[Answer]] = field(default_factory=list)


class Run:
    """The batches that a worker has under way, told in threads; they stay its own whenever it waits here."""

    def __init__(self, clock: Callable[[], datetime], threads: ThreadPoolExecutor) -> None:
        """Have nothing under way."""
        self.clock = clock
        self._threads = threads
        self._tellings: list[Telling] = []

    def begin(self, waves: Sequence[Wave], lease: datetime) -> Telling:
        """Keep these leased waves."""
        telling = Telling(waves=waves, lease=lease)
        self._tellings.append(telling)
        return telling

    def tell(self, telling: Telling, say: Callable[[Wave], Answer]) -> None:
        """Begin to tell each wave of a batch."""
        telling.answers = [self._threads.submit(say, wave) for wave in telling.waves]

    def end(self, telling: Telling) -> list[Answer]:
        """Wait for a batch's answers; what they mean has to be written under its lease."""
        answers = self._wait_for(telling.answers)
        self._tellings.remove(telling)
        return answers

    def each(self, do: Callable[[Row], Told], rows: Iterable[Row]) -> list[Told]:
        """Do the same with each row, several at once; return what came of it, in order."""
        return self._wait_for([self._threads.submit(do, row) for row in rows])

    def _wait_for(self, futures: Sequence[Future[Told]]) -> list[Told]:
        left = set(futures)
        while left:
            self._renew()
            left = wait(left, timeout=(LEASE / RENEWALS).total_seconds()).not_done
        return [future.result() for future in futures]

    def _renew(self) -> None:
        """Keep what is still ours; what we were too late for is somebody else's."""
        now = self.clock()
        for telling in self._tellings:
            if now < telling.lease <= now + LEASE * (1 - 1 / RENEWALS):
                renew(telling, now + LEASE)


def renew(telling: Telling, lease: datetime) -> None:
    """Move a batch's lease on."""
    with transaction.atomic():
        ours = Wave.objects.filter(id__in=[wave.id for wave in telling.waves]).order_by("id")
        # In one order, as everybody locks them.
        list(ours.select_for_update(no_key=True).values_list("id", flat=True))
        ours.filter(wish_due_at=telling.lease).update(wish_due_at=lease)
        ours.filter(launching_until=telling.lease).update(launching_until=lease)
    telling.lease = lease
