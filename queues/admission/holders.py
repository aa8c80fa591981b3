"""Who may hold, for how long, and how a hold is handed from cycle to cycle."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from queues.admission.board import Board
from queues.admission.order import Key, asker_of, turn_key
from queues.admission.plans import Asker, Plan
from queues.admission.reasons import pauses
from queues.admission.shapes import Option
from queues.admission.world import HOUR, Hold, JobClass, Waiting


@dataclass(frozen=True, slots=True)
class Holder:
    """A waiting job that may hold."""

    job: Waiting
    job_class: JobClass
    asker: Asker
    key: Key


class Holders:
    """Those who may hold, by team: nobody of a team is read before it has to be known who they are."""

    def __init__(self, teams: Mapping[int, Iterable[Holder]], urgency: Mapping[int, int], flavors: set[int]) -> None:
        """Take who may hold of each team: how urgent any of a team is at most, and on which flavors somebody may."""
        self._unread = dict(teams)
        self._rows: dict[int, list[Holder]] = {}
        self.urgency = urgency
        self.flavors = flavors

    def of(self, place: int) -> list[Holder]:
        """Return those of a team."""
        unread = self._unread.pop(place, None)
        if unread is not None:
            self._rows[place] = list(unread)
        return self._rows.get(place, [])

    def only(self, places: Iterable[int], wanted: Callable[[Holder], bool]) -> "Holders":
        """Return those of some teams who are wanted."""
        return holders_by_team(row for place in places for row in self.of(place) if wanted(row))


def holders_by_team(holders: Iterable[Holder]) -> Holders:
    """Return those who may hold by team, all of whom are known."""
    teams: dict[int, list[Holder]] = {}
    urgency: dict[int, int] = {}
    flavors: set[int] = set()
    for holder in holders:
        place = holder.asker.case.place
        teams.setdefault(place, []).append(holder)
        urgency[place] = max(holder.asker.priority, urgency.get(place, holder.asker.priority))
        flavors.update(holder.asker.case.shape.flavors)
    return Holders(teams, urgency, flavors)


def holder_of(board: Board, job_class: JobClass, job: Waiting) -> Holder:
    """Return a waiting job as one that may hold."""
    asker = asker_of(board.world, board.case(job_class), job_class, job)
    return Holder(job, job_class, asker, turn_key(board.world, job_class, job))


def as_hold(plan: Plan) -> Hold:
    """Return a plan as the caller keeps it until the next cycle."""
    return Hold(
        job=plan.job,
        job_class=plan.job_class,
        user=plan.user,
        flavors=plan.option.flavors,
        placed=plan.placed,
        at=plan.at,
        wait_from=plan.wait_from,
        limit=plan.limit,
        grace=plan.grace,
        evictions=plan.evictions,
        standing=plan.standing,
        moved=plan.moved,
        idle=plan.idle,
    )


def as_waiting(hold: Hold) -> Waiting:
    """Return the job of a hold as it waits, as far as the hold remembers it."""
    return Waiting(
        id=hold.job,
        job_class=hold.job_class,
        user=hold.user,
        wait_from=hold.wait_from,
        submitted=hold.wait_from,
        limit=hold.limit,
        grace=hold.grace,
        evictions=hold.evictions,
        idle=hold.idle,
    )


def tired(board: Board, job: Waiting, option: Option) -> bool:
    """Whether a job has kept so many units idle for so long that others get their turn."""
    limit = board.world.policy.hold_idle_limit
    return job.idle >= (option.units * 24 * HOUR if limit is None else limit)


def backs_off(board: Board, job_class: JobClass, job: Waiting) -> bool:
    """Whether a job that was evicted often has to wait longer before it borrows again."""
    return pauses(
        evictions=job.evictions,
        most=board.world.policy.max_evictions,
        hold_after=board.queues[job_class.queue].hold_after,
        waited=board.world.now - job.wait_from,
    )
