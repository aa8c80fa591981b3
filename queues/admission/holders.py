"""Who may hold, for how long, and how a hold is handed from cycle to cycle."""

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
