"""The rules run forward from a snapshot on a virtual clock: when waiting jobs are expected to start (SEMANTICS 11).

Nothing new is submitted and no node changes. What runs ends when its time limit says so or, where enough like it have
finished, when so many of them had. Times are milliseconds on the world's clock. There is no clock here: who runs it
forward takes as many steps as it can pay for. What lies far ahead is told less exactly, so that they stay few.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from queues.admission.decide import decide
from queues.admission.heads import SimpleHeads
from queues.admission.order import effective_priority
from queues.admission.outcome import Admission, Eviction, Outcome
from queues.admission.reasons import Code
from queues.admission.shapes import bound_groups
from queues.admission.world import HOUR, MINUTE, Attempt, JobClass, JobShape, Milliseconds, Placed, Waiting
from queues.simulation.expected import Basis, Cause, Expected, Present, Unknown

HORIZON: Milliseconds = 7 * 24 * HOUR
MOST_STARTS = 2000
EXACT_STEPS = 100
"""Decisions from which on those are taken together that lie within 1/``GRAIN`` of how far ahead they are."""
GRAIN = 20
CYCLE: Milliseconds = 10_000
"""How long after a decision the next one is made where only what it decided has changed."""

P50, P90 = 50, 90
PAUSED = frozenset({Code.QUEUE_PAUSED, Code.HELD})


@dataclass(slots=True)
class _Live:
    """An attempt on the virtual clock: when it is gone (None: never), and the job as it would wait again."""

    attempt: Attempt
    row: Waiting | None
    ends: Milliseconds | None
    by_history: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class _Start:
    at: Milliseconds
    basis: Basis


class Forward:
    """One run of the rules into the future, in which run times are this percentile of what is known of them."""

    def __init__(
        self, present: Present, percent: int, *, horizon: Milliseconds = HORIZON, most: int = MOST_STARTS
    ) -> None:
        """Begin now."""
        world = present.world
        self.starts: dict[int, _Start] = {}
        self.stopped: Cause | None = None
        self._present = present
        self._world = world
        self._percent = percent
        self._until = world.now + horizon
        self._most = most
        self._now = world.now
        self._steps = 0
        self._heads = SimpleHeads(present.waiting)
        self._rows = {row.id: row for row in present.waiting}
        self._counts = Counter(row.job_class for row in present.waiting)
        self._left = Counter((row.job_class, row.user) for row in present.waiting)
        self._live: dict[int, _Live] = {}
        self._due: list[tuple[Milliseconds, int]] = []
        self._timers: list[Milliseconds] = []
        self._timed: set[Milliseconds] = set()
        self._queues = {queue.id: queue for queue in world.queues}
        self._told: set[int] = set()
        self._outcome = Outcome(claims=world.claims, holds=world.holds)
        self._ids = max((attempt.id for attempt in world.attempts), default=0)
        for attempt in world.attempts:
            self._add(attempt, present.running.get(attempt.job), attempt.ends_by, again=attempt.claimed)
        for row in present.waiting:
            self._set_timers(row)

    def step(self) -> bool:
        """Decide once and go on to the next moment at which that may change; False when there is none to tell."""
        if self.stopped is not None:
            return False
        self._decide()
        self._steps += 1
        self.stopped = self._over() or self._go_on()
        return self.stopped is None

    def _over(self) -> Cause | None:
        if len(self.starts) >= self._most or self._ran_out():
            return Cause.TOO_FAR
        return None if self._rows else Cause.BLOCKED

    def _ran_out(self) -> bool:
        """Whether somebody's jobs that were listed have all started, and others that were not would be next."""
        return any(not self._left[key] for key in self._present.cut)

    def _go_on(self) -> Cause | None:
        """Go to the next moment; return why there is none."""
        while self._timers and self._timers[0] <= self._now:
            heappop(self._timers)
        times = [self._due[0][0]] if self._due else []
        times += self._timers[:1]
        if not times:
            return Cause.BLOCKED
        if min(times) > self._until:
            return Cause.TOO_LATE
        together = (self._now - self._world.now) // GRAIN if self._steps >= EXACT_STEPS else 0
        self._now = max(self._now + together, min(times))
        while self._due and self._due[0][0] <= self._now:
            self._gone(heappop(self._due)[1])
        return None

    # --- what runs

    def _add(self, attempt: Attempt, row: Waiting | None, limit: Milliseconds | None, *, again: bool = False) -> None:
        """Let an attempt hold its units until it is expected to be gone, at ``limit`` if nothing ends it before."""
        ends, by_history = self._ends(attempt, row, limit)
        self._live[attempt.id] = _Live(attempt, row, ends, by_history, again)
        if ends is not None:
            heappush(self._due, (ends, attempt.id))
        self._timer(attempt.safe_until)
        if attempt.grows_from <= self._until:
            self._timer(attempt.grows_from)

    def _ends(
        self, attempt: Attempt, row: Waiting | None, limit: Milliseconds | None
    ) -> tuple[Milliseconds | None, bool]:
        """Return when an attempt is expected to be gone, and whether that is because others like it had ended."""
        if attempt.leaving:
            # One that leaves without a deadline is about to be gone.
            return max(self._now, attempt.ends_by or self._now + MINUTE), False
        lengths = self._present.lengths.get(row.job_class, ()) if row is not None else ()
        longer = lengths[bisect_right(lengths, self._now - attempt.since) :]
        if not longer:
            return None if limit is None else max(self._now, limit), False
        by_history = attempt.since + longer[-(-self._percent * len(longer) // 100) - 1]
        if limit is not None and limit <= by_history:
            return max(self._now, limit), False
        return by_history, True

    def _gone(self, number: int) -> None:
        """Give an attempt's units back; an evicted job waits again."""
        live = self._live.pop(number, None)
        if live is None:
            return
        if live.by_history:
            self._told.update(live.attempt.flavors)
        if live.again and live.row is not None:
            self._wait_again(live)

    def _wait_again(self, live: _Live) -> None:
        row, attempt = live.row, live.attempt
        if row is None:
            return
        ran = self._now - attempt.since
        same = self._rows.get(row.id)
        if same is not None:
            self._leave(same)
            tasks = same.tasks + _tasks(attempt.placed)
            self._enter(replace(same, tasks=tasks, evictions=attempt.evictions + 1))
            return
        independent = self._present.classes[row.job_class].ask.shape is JobShape.INDEPENDENT
        self._enter(
            replace(
                row,
                tasks=_tasks(attempt.placed) if independent else 1,
                wait_from=row.wait_from + ran,
                limit=row.limit if row.limit is None or independent else max(0, row.limit - ran),
                evictions=attempt.evictions + 1,
            )
        )

    # --- who waits

    def _enter(self, row: Waiting) -> None:
        self._rows[row.id] = row
        self._heads.add(row)
        self._counts[row.job_class] += 1
        self._left[row.job_class, row.user] += 1
        self._set_timers(row)

    def _leave(self, row: Waiting) -> None:
        del self._rows[row.id]
        self._heads.remove(row)
        self._counts[row.job_class] -= 1
        self._left[row.job_class, row.user] -= 1

    def _set_timers(self, row: Waiting) -> None:
        """Remember when waiting longer may change what is decided about a job."""
        queue = self._queues[self._present.classes[row.job_class].queue]
        doublings = max(0, row.evictions - self._world.policy.max_evictions)
        at = row.wait_from + queue.hold_after * 2**doublings
        # To the minute, so that many jobs share a decision.
        self._timer(-(-at // MINUTE) * MINUTE)

    def _timer(self, at: Milliseconds) -> None:
        """Let there be a decision at a time to come."""
        if at > self._now and at not in self._timed:
            self._timed.add(at)
            heappush(self._timers, at)

    # --- one decision

    def _decide(self) -> None:
        classes = self._present.classes
        world = replace(
            self._world,
            now=self._now,
            attempts=tuple(live.attempt for live in self._live.values()),
            classes=tuple(classes[number] for number in sorted(self._counts) if self._counts[number]),
            claims=tuple(row for row in self._outcome.claims if row.job in self._rows),
            holds=tuple(row for row in self._outcome.holds if row.job in self._rows),
        )
        self._outcome = outcome = decide(world, self._heads)
        for eviction in outcome.evictions:
            self._evict(eviction)
        for admission in outcome.admissions:
            self._admit(admission)
        for growth in outcome.growth:
            live = self._live[growth.attempt]
            live.attempt = replace(live.attempt, surplus=(*live.attempt.surplus, *growth.placed))
        for hold in outcome.holds:
            if hold.at is not None:
                self._timer(hold.at)
        if any(claim.pending for claim in outcome.claims):
            self._timer(self._now + MINUTE)
        if outcome.admissions and (outcome.keeps or self._steps < EXACT_STEPS):
            # Who keeps may now have a right against those who have just started, and a hold may wait for one of them.
            self._timer(self._now + CYCLE)

    def _admit(self, admission: Admission) -> None:
        row = self._rows[admission.job]
        if admission.job not in self.starts:
            self.starts[admission.job] = _Start(self._now, self._basis(admission.flavors))
        self._leave(row)
        job_class = self._present.classes[row.job_class]
        if job_class.ask.shape is JobShape.INDEPENDENT and row.tasks > admission.tasks:
            self._enter(replace(row, tasks=row.tasks - admission.tasks))
        self._ids += 1
        limit = job_class.ask.time_limit if row.limit is None else row.limit
        attempt = self._attempt(row, job_class, admission, limit)
        self._add(attempt, row, None if limit is None else self._now + limit)

    def _attempt(self, row: Waiting, job_class: JobClass, admission: Admission, limit: Milliseconds | None) -> Attempt:
        """Return an admission as what runs; it is judged by its sure end, which is later than the expected one."""
        world, ask = self._world, job_class.ask
        grace = row.grace - self._present.start_limits.get(job_class.queue, 0)
        placed = Counter[int]()
        for each in admission.placed:
            placed[each.group] += each.tasks
        return Attempt(
            id=self._ids,
            number=self._ids,
            job=row.id,
            team=self._queues[job_class.queue].team,
            user=row.user,
            groups=tuple(
                replace(group, tasks=placed[number], flavors=(admission.flavors[number],))
                for number, group in enumerate(bound_groups(ask))
            ),
            flavors=admission.flavors,
            placed=admission.placed,
            since=self._now,
            borrow=ask.borrow,
            preemptible=ask.preemptible,
            queue=job_class.queue,
            ends_by=None if limit is None else self._now + limit + row.grace,
            shape=ask.shape,
            priority=effective_priority(world.policy.aging, job_class.priority, row.wait_from, self._now),
            saved=self._now,
            evictions=row.evictions,
            grace=max(0, grace),
        )

    def _shrink(self, live: _Live, rows: tuple[Placed, ...]) -> None:
        """Let surplus leave: it holds its units for its grace, does not wait again, and its job grows only later."""
        attempt = live.attempt
        grows_from = self._now + self._present.elastic_pause
        live.attempt = replace(attempt, surplus=_without(attempt.surplus, rows), grows_from=grows_from)
        self._timer(grows_from)
        if attempt.grace:
            self._ids += 1
            ends = self._now + attempt.grace
            gone = replace(attempt, id=self._ids, placed=rows, surplus=(), leaving=True, claimed=True, ends_by=ends)
            self._add(gone, None, ends)

    def _evict(self, eviction: Eviction) -> None:
        """Let tasks of an attempt leave: they hold their units for their grace, and then wait again."""
        live = self._live[eviction.attempt]
        if eviction.surplus:
            self._shrink(live, eviction.placed)
            return
        if live.attempt.surplus:
            self._shrink(live, live.attempt.surplus)
        attempt = live.attempt
        stay = _without(attempt.placed, eviction.placed)
        leaves = replace(
            attempt, placed=eviction.placed, surplus=(), leaving=True, claimed=True, ends_by=self._now + attempt.grace
        )
        if stay:
            live.attempt = replace(attempt, placed=stay)
            self._ids += 1
            leaves = replace(leaves, id=self._ids)
        else:
            del self._live[attempt.id]
            self._due = [row for row in self._due if row[1] != attempt.id]
            self._due.sort()
        self._add(leaves, live.row, leaves.ends_by, again=True)

    # --- what is told

    def _basis(self, flavors: Iterable[int]) -> Basis:
        if self._now == self._world.now:
            return Basis.ROOM
        return Basis.RUN_TIMES if self._told.intersection(flavors) else Basis.TIME_LIMITS

    def unknown(self, job_class: int, user: int | None = None) -> Unknown:
        """Return why the start of a job that still waits cannot be told."""
        codes = {row.user: row.reason for row in self._outcome.verdicts if row.job_class == job_class and not row.job}
        reason = codes.get(user) or codes.get(None)
        if reason is not None and reason.permanent:
            return Unknown(cause=Cause.NEVER)
        if reason is not None and reason.code in PAUSED:
            return Unknown(cause=Cause.PAUSED)
        if self.stopped in {None, Cause.TOO_FAR}:
            return Unknown(cause=Cause.TOO_FAR)
        flavors = {flavor for group in self._present.classes[job_class].ask.groups for flavor in group.flavors}
        attempts = [live.attempt for live in self._live.values() if live.ends is None]
        endless = {attempt.job for attempt in attempts if flavors.intersection(attempt.flavors)}
        if endless:
            before = len(endless & self.starts.keys())
            return Unknown(cause=Cause.ENDLESS, running=len(endless) - before, before=before)
        return Unknown(cause=self.stopped or Cause.BLOCKED)


class Forecast:
    """Two runs, and what follows from both."""

    def __init__(self, present: Present, *, horizon: Milliseconds = HORIZON, most: int = MOST_STARTS) -> None:
        """Begin both runs; where nothing is known of run times they are one."""
        self._middle = Forward(present, P50, horizon=horizon, most=most)
        self._late = Forward(present, P90, horizon=horizon, most=most) if present.lengths else self._middle

    def run(self, go_on: Callable[[], bool], *, job: int | None = None) -> None:
        """Step both runs while ``go_on`` says so, at most until ``job`` has started in both."""
        runs = [self._middle] if self._late is self._middle else [self._middle, self._late]
        while runs and go_on():
            # In turn, so that both have come about as far when the time is up.
            runs = [run for run in runs if run.step() and (job is None or job not in run.starts)]

    def starts(self) -> dict[int, Expected]:
        """Return the expected start of each job that starts in both runs."""
        found = {}
        for job, start in self._middle.starts.items():
            other = self._late.starts.get(job)
            if other is not None:
                early, late = sorted((start.at, other.at))
                basis = other.basis if start.basis is Basis.ROOM else start.basis
                found[job] = Expected(p50=early, p90=late, basis=basis)
        return found

    def unknown(self, job_class: int, user: int | None = None) -> Unknown:
        """Return why the start of a job that does not start in both runs cannot be told."""
        return self._late.unknown(job_class, user)


def _tasks(placed: Iterable[Placed]) -> int:
    return sum(row.tasks for row in placed)


def _without(placed: tuple[Placed, ...], gone: Iterable[Placed]) -> tuple[Placed, ...]:
    """Return what is left when some tasks go."""
    left: Counter[tuple[int, int]] = Counter()
    for row in placed:
        left[row.group, row.node] += row.tasks
    for row in gone:
        left[row.group, row.node] -= row.tasks
    return tuple(Placed(group=group, node=node, tasks=left[group, node]) for group, node in left if left[group, node])
