"""The order inside a team: priority, then time; and the jobs of one user in one class as their turn comes."""

from collections.abc import Iterator
from itertools import chain

from queues.admission.board import Board
from queues.admission.plans import Asker, Case
from queues.admission.world import MINUTE, Aging, Heads, JobClass, Milliseconds, Queue, Waiting, World

SHORTEST_GROUP = 15 * MINUTE
"""Time limits are grouped by this times a power of two (SEMANTICS 4)."""

MOST_PASSED = 32
"""So many jobs of a line are passed over in search of one that ends before a planned start."""

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

    __slots__ = (
        "_asker", "_board", "_heads", "_lefts", "_passed", "_rest", "_soonest", "case", "head", "job_class", "key",
        "left", "queue", "user",
    )  # fmt: skip

    def __init__(
        self, board: Board, heads: Heads, case: Case, queue: Queue, job_class: JobClass, head: Waiting
    ) -> None:
        """Start at the user's first job of the class."""
        self._heads = heads
        self._rest: Iterator[Waiting] | None = None
        self._passed: list[tuple[Waiting, int]] = []
        self._lefts: dict[int, int] = {}
        self._soonest: Milliseconds | None = None
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
            left = (self.head.tasks if self.case.shape.independent else 1) - spoken
            self.left = self._lefts.pop(self.head.id, left)
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

    def pass_over(self) -> bool:
        """Go on to a job that planned starts may bind less than those before: it ends sooner, or holds itself.

        Return whether there is one; ``go_back`` puts the line in order again.
        """
        holders = self._holders_behind()
        if not holders and not self._may_end_sooner():
            return False
        while (head := self.head) is not None and len(self._passed) < MOST_PASSED:
            if self._ends_sooner():
                self._soonest = self.asker().ends
            self._passed.append((head, self.left))
            self.skip()
            if self._holds_or_ends_sooner(holders):
                return True
        return False

    def _holds_or_ends_sooner(self, holders: set[int]) -> bool:
        return self.head is not None and (self.head.id in holders or self._ends_sooner())

    def _ends_sooner(self) -> bool:
        ends = self.asker().ends
        return ends is not None and (self._soonest is None or ends < self._soonest)

    def _holders_behind(self) -> set[int]:
        holders = self._board.planned_of(self.job_class.id, self.user)
        if not holders:
            return set()
        holders = holders - {job.id for job, _ in self._passed}
        return holders - {self.head.id if self.head is not None else 0}

    def _may_end_sooner(self) -> bool:
        """Whether some job of the class may end before a planned start: its limit was rounded up, at most to twice."""
        limit, now = self.job_class.ask.time_limit, self._board.world.now
        if limit is None:
            return False
        least = now + (limit // 2 if limit > SHORTEST_GROUP else 0)
        last = self._board.last_start()
        return last is not None and last > least

    def go_back(self) -> None:
        """Put those who were passed over in front again."""
        if not self._passed:
            return
        if self.head is not None:
            self._passed.append((self.head, self.left))
        first, *others = [job for job, _ in self._passed]
        self._lefts = {job.id: left for job, left in self._passed}
        self._rest = chain(others, self._rest or ())
        self._passed, self._soonest = [], None
        self._show(first)

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
