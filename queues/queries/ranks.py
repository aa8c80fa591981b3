"""Places in the queue order: one snapshot, ranked by the rules."""

from dataclasses import dataclass
from datetime import datetime

from queues import snapshot
from queues.admission.order import Rank, ranking
from queues.admission.world import World
from queues.models import Job, TaskGroup
from queues.queries.rows import Position

EXACT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A flavor's order at one moment: who is in it, and the world as it was."""

    world: World
    ranks: tuple[Rank, ...]

    def position(self, job: Job) -> Position | None:
        """Return a job's place; behind the ranked ones a lower bound, None where it takes no rank."""
        for rank in self.ranks:
            if rank.job == job.id:
                return Position(rank=rank.position, units_ahead=rank.units_ahead)
        if len(self.ranks) < EXACT or not job.ready:
            return None
        return Position(rank=len(self.ranks) + 1, units_ahead=self.ranks[-1].units_ahead, about=True)


def line(flavor: int, *, now: datetime, limit: int = EXACT) -> Line:
    """Return the queue order of a flavor from one snapshot."""
    with snapshot.load(now) as seen:
        return Line(world=seen.world, ranks=ranking(seen.world, seen.heads, flavor=flavor, limit=limit))


def position(job: Job, groups: list[TaskGroup], *, now: datetime) -> Position | None:
    """Return a waiting job's place among those of the first flavor of its wish on which it has one."""
    for flavor in dict.fromkeys(flavor for group in groups for flavor in group.flavors):
        found = line(flavor, now=now).position(job)
        if found is not None:
            return found
    return None
