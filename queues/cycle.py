"""One turn of the loop: lock, load, decide, apply. Start here to read Tidegate.

A wake-up moves a version on before it asks for a turn. Whoever holds the lock compares the version after giving the
lock back and goes again: no wake-up is lost, and many become one turn.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial

from django.db import connection

from queues import hints, snapshot, timers
from queues.admission import decide as rules
from queues.admission.world import Heads, World
from queues.apply import Applied, apply
from queues.models import Decision
from queues.topics import topics_of

LOCK = 0x71DE  # any number that nothing else in the database locks
MOST_TURNS = 20
# A run ends in time for others; the next wake-up goes on.
LONGEST_RUN_SECONDS = 20.0
# After a turn the loop rests so many times as long as that took: a stream of wake-ups is answered by fewer, fuller
# turns, and what it admitted gets its share of the machine.
BREATH = 2
LONGEST_BREATH_SECONDS = 0.5

Clock = Callable[[], datetime]
Decide = Callable[[World, Heads], rules.Outcome]
REMEMBERING: Decide = partial(rules.decide, memory=rules.Memory())
"""The rules with what this worker remembers of teams, quotas and shapes: the same decisions, sooner."""


def run_cycle(clock: Clock, *, decide: Decide = REMEMBERING) -> int:
    """Turn until no wake-up is left; return how many turns, 0 when another worker is at it."""
    turns, end = 0, time.monotonic() + LONGEST_RUN_SECONDS
    while turns < MOST_TURNS and time.monotonic() < end:
        wanted, begun = hints.version(), time.monotonic()
        with lock() as mine:
            if not mine:
                return turns
            turn(clock(), decide)
            # With the lock: else another worker would take the next wake-up at once.
            time.sleep(min(BREATH * (time.monotonic() - begun), LONGEST_BREATH_SECONDS))
        turns += 1
        if hints.version() == wanted:
            return turns
    hints.wake()
    return turns


def turn(now: datetime, decide: Decide = REMEMBERING) -> Applied:
    """Let what is due fall due, then decide once on one snapshot and write it down."""
    watch = Stopwatch()
    if timers.fire(now):
        hints.tell_clusters()
    watch.lap("timers")
    with snapshot.load(now) as seen:
        watch.lap("load")
        outcome = decide(seen.world, seen.heads)
        watch.lap("decide")
        digest = snapshot.digest(seen)
    applied = apply(outcome, seen.world, now=now, digest=digest)
    watch.lap("apply")
    Decision.objects.filter(id=applied.decision.id).update(durations=watch.laps)
    tell(applied)
    return applied


@contextmanager
def lock() -> Iterator[bool]:
    """Hold the loop's lock, which goes with the connection, or find that another worker has it (False)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        mine = bool(cursor.fetchone()[0])
    try:
        yield mine
    finally:
        if mine and connection.connection is not None and not connection.connection.closed:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def tell(applied: Applied) -> None:
    """Ask for what was admitted or evicted to be told the clusters, and pages to look again."""
    moved = [admission.job for admission in applied.admissions] + list(applied.moved)
    if moved:
        hints.tell_clusters()
    if moved or applied.verdicts:
        hints.tell_pages("jobs", "queue", "decisions", *topics_of(moved))


class Stopwatch:
    """Milliseconds by stage, for the decision's row."""

    def __init__(self) -> None:
        """Start now."""
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """End a stage."""
        now = time.perf_counter()
        self.laps[stage] = round((now - self._last) * 1000, 1)
        self._last = now
