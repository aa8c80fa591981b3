"""The order of turns: a tournament down the team tree, then priority, users and time inside a team (SEMANTICS 4)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from queues.admission.board import Board
from queues.admission.plans import Asker, Case
from queues.admission.quota import ROOT
from queues.admission.shapes import Option
from queues.admission.shares import Share, counted, fill
from queues.admission.verdicts import Judge
from queues.admission.world import Aging, Heads, JobClass, Milliseconds, Queue, QueueOrder, Waiting, World

EXACT_STEPS = 20
"""Steps of the tournament for each rank asked for; beyond them a ranking takes the tasks of a job at once."""

Key = tuple[int, int, int, int]
"""Effective priority (negative), wait-from, first submission, id: smaller goes first."""


def effective_priority(aging: Aging, priority: int, wait_from: Milliseconds, now: Milliseconds) -> int:
    """Return the class value raised by the time waited, up to the cap."""
    return priority + min(aging.cap, max(0, now - wait_from) // aging.every * aging.step)


class Stream:
    """The waiting jobs of one user in one class, first to last; the head's turn comes first."""

    __slots__ = ("_board", "_heads", "_rest", "case", "head", "job_class", "key", "left", "queue", "user")

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
        return asker_of(self._board.world, self.case, self.job_class, self.head)

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
            self._rest = iter(self._heads.after(self.job_class.id, self.user, self.head))
        return next(self._rest, None)


def turn_key(world: World, job_class: JobClass, job: Waiting) -> Key:
    """Return by what a job competes in its team, users aside."""
    priority = effective_priority(world.policy.aging, job_class.priority, job.wait_from, world.now)
    return (-priority, job.wait_from, job.submitted, job.id)


def asker_of(world: World, case: Case, job_class: JobClass, job: Waiting) -> Asker:
    """Return a waiting job as one in search of room, with its sure end if it starts now."""
    limit = job.limit if job.limit is not None else job_class.ask.time_limit
    ends = None if limit is None else world.now + limit + job.grace
    return Asker(case, job.id, -turn_key(world, job_class, job)[0], ends)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Whose turn it is in a team, and what it would take."""

    stream: Stream
    option: Option
    key: Key

    @property
    def place(self) -> int:
        """Return the team's number in the tree."""
        return self.stream.case.place


Choose = Callable[[Stream], Option | None]


class Lane:
    """The candidates of one leaf: by user where users share fairly, in one line where a queue says fifo."""

    def __init__(self, board: Board, place: int, choose: Choose, *, user_limits: bool) -> None:
        """Begin with nobody."""
        self._user_limits = user_limits
        self._board = board
        self._place = place
        self._choose = choose
        self._fair: dict[int, list[tuple[Key, Stream]]] = {}
        self._fifo: list[tuple[Key, Stream]] = []

    def add(self, stream: Stream) -> None:
        """Let a stream with a head compete."""
        row = (stream.key, stream)
        if stream.queue.order is QueueOrder.FIFO:
            heappush(self._fifo, row)
        else:
            heappush(self._fair.setdefault(stream.user, []), row)

    def best(self) -> Candidate | None:
        """Return whose turn it is; streams whose class cannot take part any more are dropped for good."""
        in_line = self._top(self._fifo)
        best: tuple[tuple[int, int, int, int, int], Candidate] | None = None
        for user in list(self._fair):
            candidate = self._top(self._fair[user])
            if candidate is None:
                del self._fair[user]
                continue
            priority, *rest = candidate.key
            key = (priority, self._board.used_value.get((self._place, user), 0), rest[0], rest[1], rest[2])
            if best is None or key < best[0]:
                best = (key, candidate)
        if best is None or (in_line is not None and in_line.key < best[1].key):
            return in_line
        return best[1]

    def _top(self, rows: list[tuple[Key, Stream]]) -> Candidate | None:
        while rows:
            key, stream = rows[0]
            if stream.head is None or stream.key != key:
                heappop(rows)
                if stream.head is not None:
                    heappush(rows, (stream.key, stream))
                continue
            option = self._choose(stream)
            if stream.key != key or stream.head is None:
                continue  # who asked lets those behind go first
            if option is not None:
                room = self._board.hard_room(self._place, stream.queue, stream.user)
                if room is None or room >= option.units or not self._user_limits:
                    return Candidate(stream, option, key)
            heappop(rows)
        return None

    def drop(self, case: Case) -> None:
        """Take a case out of the competition."""
        for rows in (self._fifo, *self._fair.values()):
            rows[:] = [row for row in rows if row[1].case != case]
            heapify(rows)


class Tournament:
    """Whose turn it is in the whole tree, candidate counted, step by step."""

    def __init__(
        self,
        board: Board,
        streams: Iterable[Stream],
        choose: Choose,
        *,
        guaranteed: bool,
        user_limits: bool = True,
    ) -> None:
        """Let the streams compete; ``guaranteed`` is pass 1, where shares count the candidate's flavors only."""
        self._board = board
        self._choose = choose
        self._guaranteed = guaranteed
        self._user_limits = user_limits
        self._lanes: dict[int, Lane] = {}
        self._best: dict[int, Candidate | None] = {}
        self._stale: set[int] = set()
        for stream in streams:
            self.add(stream)

    def add(self, stream: Stream) -> None:
        """Let one more stream compete."""
        place = stream.case.place
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = Lane(self._board, place, self._choose, user_limits=self._user_limits)
        lane.add(stream)
        self.touch(place)

    def drop(self, case: Case) -> None:
        """Take a case out of the competition."""
        self._lanes[case.place].drop(case)
        self.touch(case.place)

    def touch(self, place: int) -> None:
        """Ask again who is first in a team, and in all above it."""
        self._stale.add(place)

    def winner(self) -> Candidate | None:
        """Return whose turn it is now, or None when nobody is left."""
        self._refresh()
        return self._best.get(ROOT)

    def _refresh(self) -> None:
        """Ask again in every team whose first candidate is not what it was, then in the departments above."""
        tree = self._board.tree
        again = set()
        for place, lane in self._lanes.items():
            best = self._best.get(place)
            if place in self._stale or (best is not None and self._choose(best.stream) is not best.option):
                self._best[place] = lane.best()
                again.add(place)
                if self._best[place] is None:
                    self._lanes = {other: kept for other, kept in self._lanes.items() if other != place}
        self._stale.clear()
        above = {node for place in again for node in tree.path[place][1:]}
        for node in sorted(above, key=lambda node: (-len(tree.path[node]), node)):
            self._best[node] = self._first(node)
        if again:
            self._best[ROOT] = self._first(ROOT)

    def _first(self, node: int) -> Candidate | None:
        """Return the candidate of the child that is first among the children of a node."""
        best: _Standing | None = None
        for child in self._board.tree.children[node]:
            candidate = self._best.get(child)
            if candidate is not None:
                standing = _Standing(self._board, child, candidate, only_needs=self._guaranteed)
                if best is None or standing.before(best):
                    best = standing
        return None if best is None else best.candidate


class _Standing:
    """A child in the comparison with its siblings, its candidate counted."""

    def __init__(self, board: Board, child: int, candidate: Candidate, *, only_needs: bool) -> None:
        self.candidate = candidate
        needs = candidate.option.needs
        value = counted(board.hard, candidate.place, needs, only_needs=only_needs)
        self.share = Share(value.get(child, 0), board.tree.weight[child])
        self.fill = fill(board.hard, candidate.place, needs).get(child) if only_needs else None
        self.tie = candidate.key

    def before(self, other: "_Standing") -> bool:
        """Whether this child's candidate goes first."""
        if self.fill is not None and other.fill is not None:
            if self.fill.below(other.fill):
                return True
            if other.fill.below(self.fill):
                return False
        if self.share.below(other.share):
            return True
        if other.share.below(self.share):
            return False
        return self.tie < other.tie


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A waiting job's place in the queue order, 1 first, and the units asked for by what goes before it."""

    position: int
    job: int
    units_ahead: int


def ranking(world: World, heads: Heads, *, flavor: int | None = None, limit: int = 200) -> tuple[Rank, ...]:
    """Return the order in which the tournament would take the waiting jobs, regardless of room, the first ``limit``.

    Jobs that can never start or whose queue is paused have no rank. ``flavor``: only jobs that would take it first.
    An independent job ranks where its first task is taken; its further tasks take their turns like others.
    """
    board = Board(world)
    judge = Judge(board)
    streams = []
    for job_class in sorted(world.classes, key=lambda row: row.id):
        case = board.case(job_class)
        if judge.paused(job_class) or judge.permanent(job_class):
            continue
        if flavor is not None and all(flavor != taken for taken, _ in judge.first_option(case).needs):
            continue
        queue = board.queues[job_class.queue]
        streams += [Stream(board, heads, case, queue, job_class, head) for head in heads.users(job_class.id)]

    def inside(stream: Stream) -> Option | None:
        case = stream.case
        return next((row for row in case.shape.options if board.inside(case, row) and board.covered(case, row)), None)

    def any_option(stream: Stream) -> Option | None:
        return judge.first_option(stream.case)

    ranks: list[Rank] = []
    seen: set[int] = set()
    ahead = steps = 0
    for choose, guaranteed in ((inside, True), (any_option, False)):
        alive = [stream for stream in streams if stream.head is not None]
        tournament = Tournament(board, alive, choose, guaranteed=guaranteed, user_limits=False)
        while len(ranks) < limit and (candidate := tournament.winner()):
            job = candidate.key[3]
            if job not in seen:
                seen.add(job)
                ranks.append(Rank(position=len(ranks) + 1, job=job, units_ahead=ahead))
            steps += 1
            tasks = 1 if steps < EXACT_STEPS * limit else candidate.stream.left
            ahead += tasks * candidate.option.units
            board.suppose(candidate.stream.case, candidate.option, candidate.stream.user, tasks)
            candidate.stream.advance(tasks)
            tournament.touch(candidate.place)
    return tuple(ranks)
