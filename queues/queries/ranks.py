"""Places in the queue order: one snapshot, ranked by the rules."""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta

from queues import snapshot
from queues.admission.ranking import Rank, ranking
from queues.admission.world import World
from queues.models import Job, TaskGroup
from queues.queries.rows.reasons import Position
from queues.snapshot import Snapshot

EXACT = 200
# Seconds from which on finding an order is not done for every look at it.
LONG = 1.0
LONGEST_KEPT = timedelta(seconds=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A flavor's order at one moment: who is in it, and the world as it was."""

    world: World
    ranks: tuple[Rank, ...]
    as_of: datetime

    def position(self, job: Job) -> Position | None:
        """Return a job's place; behind the ranked ones a lower bound, None where it takes no rank."""
        for rank in self.ranks:
            if rank.job == job.id:
                return Position(rank=rank.position, units_ahead=rank.units_ahead)
        if len(self.ranks) < EXACT or not job.ready:
            return None
        return Position(rank=len(self.ranks) + 1, units_ahead=self.ranks[-1].units_ahead, about=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    line: Line
    until: datetime


_kept: dict[tuple[int, int], _Kept] = {}


def line(flavor: int, *, now: datetime, limit: int = EXACT, seen: Snapshot | None = None) -> Line:
    """Return the queue order of a flavor from one snapshot (``seen``, if it is open already).

    An order that took long to find is shown again for a while.
    """
    kept = _kept.get((flavor, limit))
    if kept is not None and kept.line.as_of <= now < kept.until:
        return kept.line
    begun = time.perf_counter()
    with nullcontext(seen) if seen is not None else snapshot.load(now) as (world, heads):
        found = Line(world=world, ranks=ranking(world, heads, flavor=flavor, limit=limit), as_of=now)
    took = time.perf_counter() - begun
    if took > LONG:
        _kept[flavor, limit] = _Kept(line=found, until=now + min(timedelta(seconds=10 * took), LONGEST_KEPT))
    return found


def position(job: Job, groups: list[TaskGroup], *, now: datetime) -> Position | None:
    """Return a waiting job's place among those of the first flavor of its wish on which it has one."""
    for flavor in dict.fromkeys(flavor for group in groups for flavor in group.flavors):
        found = line(flavor, now=now).position(job)
        if found is not None:
            return found
    return None
