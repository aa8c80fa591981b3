"""The bound of a wait: until when a job with guaranteed standing starts at the latest (SEMANTICS 7)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

from queues.admission.board import Board
from queues.admission.holders import Holder, as_waiting, holder_of, holders_by_team
from queues.admission.holds import Planner
from queues.admission.order import effective_priority
from queues.admission.record import Record
from queues.admission.verdicts import Judge
from queues.admission.world import Heads, Hold, JobClass, JobShape, Milliseconds, Standing, Waiting, World

MOST_BEFORE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How long a job waits at most, as things are now: ``eligible`` + (``before`` + 1) x ``longest``.

    ``eligible`` is when it may hold, ``before`` counts who holds before it (tasks of independent jobs one by one),
    ``longest`` is the longest sure end on the flavor from now on. Where so many jobs are ``endless``, where too many
    are before it (``many``), or where it would borrow, nothing is certain and ``latest`` is None.
    """

    eligible: Milliseconds
    guaranteed: bool
    before: int = 0
    longest: Milliseconds = 0
    endless: int = 0
    many: bool = False

    @property
    def latest(self) -> Milliseconds | None:
        """Return the latest start."""
        if not self.guaranteed or self.endless or self.many:
            return None
        return self.eligible + (self.before + 1) * self.longest


def bound(world: World, heads: Heads, job: Waiting, flavor: int) -> Bound | None:
    """Return the bound of a waiting job on a flavor, with the heads of that world; None: it can never start."""
    queues = {queue.id: queue for queue in world.queues}
    classes = {row.id: row for row in world.classes}
    eligible = max(world.now, job.wait_from + queues[classes[job.job_class].queue].hold_after)
    later = Board(replace(world, now=eligible))
    if Judge(later).permanent(classes[job.job_class]) is not None:
        return None
    planner = Planner(later, Record())
    own = holder_of(later, classes[job.job_class], job)
    if not planner.guaranteed(own):
        return Bound(eligible=eligible, guaranteed=False)
    rivals = _Rivals(later, heads, own, flavor)
    if rivals.many:
        return Bound(eligible=eligible, guaranteed=True, before=MOST_BEFORE, many=True)
    first = _first(later, planner.in_order(holders_by_team([own, *rivals.found])), own)
    before = [holder for holder in rivals.found if holder.job.id in first or holder.job.id in rivals.urgent]
    # Who holds now is passed only by what ends in time; who does not yet may still be passed by any class.
    waiting = () if eligible == world.now else rivals.lengths()
    there = _running(later, flavor, job, world.now)
    ends = [*there, *(_length(holder.job_class, holder.job) for holder in before), *waiting]
    return Bound(
        eligible=eligible,
        guaranteed=True,
        before=sum(_turns(holder) for holder in before),
        longest=max((end for end in ends if end is not None), default=0),
        endless=sum(end is None for end in ends),
    )


def _first(board: Board, order: Iterable[Holder], own: Holder) -> set[int]:
    """Return whose hold comes before a job's: holds that are there stay in their order, less urgent ones give way."""
    job = own.job.id
    holds = [row.job for row in board.world.holds if row.job == job or _stands_before(board, row, own)]
    if job in holds:
        return set(holds[: holds.index(job)])
    return {*holds, *(holder.job.id for holder in takewhile(lambda holder: holder.job.id != job, order))}


def _stands_before(board: Board, hold: Hold, own: Holder) -> bool:
    """Whether a hold that is there does not give way to a job's: it is guaranteed, and not of a less urgent job."""
    job_class = board.classes.get(hold.job_class)
    if hold.standing is Standing.BORROWER or job_class is None:
        return False
    asker = holder_of(board, job_class, as_waiting(hold)).asker
    return asker.case.place != own.asker.case.place or asker.priority >= own.asker.priority


class _Rivals:
    """Who else waits for a flavor and may hold when the job may, or is of its own team and more ``urgent``."""

    def __init__(self, board: Board, heads: Heads, own: Holder, flavor: int) -> None:
        self._board, self._heads, self._own = board, heads, own
        judge = Judge(board)
        self._classes = [
            row
            for row in sorted(board.world.classes, key=lambda row: row.id)
            if any(flavor in group.flavors for group in row.ask.groups)
            and judge.paused(row) is None
            and judge.permanent(row) is None
        ]
        heads.expect(head for row in self._classes for head in heads.users(row.id) if any(self._before(row, head)))
        self.found: list[Holder] = []
        self.urgent: set[int] = set()
        self.many = not all(self._take(row) for row in self._classes)

    def lengths(self) -> Iterator[Milliseconds | None]:
        """Yield how long the jobs of each class hold units at most, by user."""
        for row in self._classes:
            for job in self._heads.users(row.id):
                if job.id != self._own.job.id:
                    # The limit of a class is rounded up: no job of it has a longer one.
                    yield _length(row, job) if row.ask.time_limit is None else row.ask.time_limit + job.grace

    def _take(self, job_class: JobClass) -> bool:
        """Collect the jobs of a class; return whether there was room for all."""
        for head in self._heads.users(job_class.id):
            for job in _line(self._heads, head):
                eligible, urgent = self._before(job_class, job)
                if not eligible and not urgent:
                    break
                if job.id != self._own.job.id:
                    self.found.append(holder_of(self._board, job_class, job))
                    self.urgent.update([job.id] if urgent else [])
                if len(self.found) > MOST_BEFORE:
                    return False
        return True

    def _before(self, job_class: JobClass, job: Waiting) -> tuple[bool, bool]:
        """Return whether a job may hold when the own one may, and whether it goes before it in its team anyway."""
        now, aging = self._board.world.now, self._board.world.policy.aging
        eligible = now - job.wait_from >= self._board.queues[job_class.queue].hold_after
        first = effective_priority(aging, job_class.priority, job.wait_from, now) > self._own.asker.priority
        return eligible, first and self._board.case(job_class).place == self._own.asker.case.place


def _line(heads: Heads, head: Waiting) -> Iterator[Waiting]:
    yield head
    yield from heads.after(head.job_class, head.user, head)


def _turns(holder: Holder) -> int:
    return holder.job.tasks if holder.job_class.ask.shape is JobShape.INDEPENDENT else 1


def _length(job_class: JobClass, job: Waiting) -> Milliseconds | None:
    """Return how long a waiting job holds units at most, from its admission on."""
    limit = job.limit if job.limit is not None else job_class.ask.time_limit
    return None if limit is None else limit + job.grace


def _running(board: Board, flavor: int, job: Waiting, now: Milliseconds) -> Iterable[Milliseconds | None]:
    """Yield how long what holds units of the flavor, or claims them, has them at most from now on; None: for ever."""
    ends = [
        attempt.ends_by
        for attempt in board.world.attempts
        if flavor in attempt.flavors and not (attempt.leaving and attempt.ends_by is None)
    ]
    claims = [claim for claim in board.claims.values() if flavor in claim.flavors and claim.job != job.id]
    ends += [board.claim_ends[claim.id] for claim in claims]
    for at in ends:
        yield None if at is None else max(0, at - now)
