"""The order inside a team: priority, then time; and the jobs of one user in one class as their turn comes."""

from collections.abc import Iterator

from queues.admission.board import Board
from queues.admission.plans import Asker, Case
from queues.admission.world import Aging, Heads, JobClass, Milliseconds, Queue, Waiting, World

Key = tuple[int, int, int, int]
"""Effective priority (negative), wait-from, first submission, id: smaller goes first."""


def effective_priority(aging: Aging, priority: int, wait_from: Milliseconds, now: Milliseconds) -> int:
    """Return the class value raised by the time waited, up to the cap."""
    waited = now - wait_from
    if waited < aging.every:
        return priority
    return priority + min(aging.cap, waited // aging.every * aging.step)


class Stream:
    """The waiting jobs of one user in one class, first to last; the head's turn comes first."""

    __slots__ = ("_asker", "_board", "_heads", "_rest", "case", "head", "job_class", "key", "left", "queue", "user")

    def __init__(
        self, board: Board, heads: Heads, case: Case, queue: Queue, job_class: JobClass, head: Waiting
    ) -> None:
        """Start at the user's first job of the class."""
        self._heads = heads
        self._rest: Iterator[Waiting] | None = None
        self._board = board
        self.case = case
        self.queue = queue
        self.job_class = job_class
        self.user = head.user
        self.key: Key = (0, 0, 0, 0)
        self._show(head)

    def _show(self, head: Waiting | None) -> None:
        self.head = head
        self.left = 0
        self._asker: Asker | None = None
        while self.head is not None:
            spoken = self._board.spoken_for.get(self.head.id, 0)
            self.left = (self.head.tasks if self.case.shape.independent else 1) - spoken
            if self.left > 0:
                self.key = turn_key(self._board.world, self.job_class, self.head)
                return
            self.head = self._next()

    def asker(self) -> Asker:
        """Return the head as one in search of room."""
        if self.head is None:
            raise AssertionError("no job is left")
        if self._asker is None:
            self._asker = asker_of(self._board.world, self.case, self.job_class, self.head)
        return self._asker

    def advance(self, steps: int = 1) -> None:
        """Take ``steps`` tasks of the head (of a gang: the whole job), and go to the next job after the last."""
        self.left -= steps
        if self.left > 0 or self.head is None:
            return
        self.skip()

    def skip(self) -> None:
        """Go to the next job, whatever is left of this one."""
        if self.head is not None:
            self._show(self._next())

    def _next(self) -> Waiting | None:
        if self.head is None:
            return None
        if self._rest is None:
            self._rest = self._behind(self.head)
        return next(self._rest, None)

    def _behind(self, head: Waiting) -> Iterator[Waiting]:
        return iter(self._heads.after(self.job_class.id, self.user, head))


def turn_key(world: World, job_class: JobClass, job: Waiting) -> Key:
    """Return by what a job competes in its team, users aside."""
    priority = effective_priority(world.policy.aging, job_class.priority, job.wait_from, world.now)
    return (-priority, job.wait_from, job.submitted, job.id)


def asker_of(world: World, case: Case, job_class: JobClass, job: Waiting) -> Asker:
    """Return a waiting job as one in search of room, with its sure end if it starts now."""
    limit = job.limit if job.limit is not None else job_class.ask.time_limit
    ends = None if limit is None else world.now + limit + job.grace
    return Asker(case, job.id, -turn_key(world, job_class, job)[0], ends)
