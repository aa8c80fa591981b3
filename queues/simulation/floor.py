"""Jobs that wait and runs that hold units."""

from collections.abc import Iterator
from dataclasses import replace

from queues.admission.heads import SimpleHeads
from queues.admission.shapes import bound_groups
from queues.admission.world import (
    Attempt,
    JobClass,
    JobShape,
    Milliseconds,
    Placed,
    Waiting,
)
from queues.simulation.jobs import Job, Part, Run, State
from queues.simulation.scenario import Scenario
from queues.simulation.stage import Stage

NEVER: Milliseconds = 1 << 60


class Floor(Stage):
    """What waits and what runs."""

    def __init__(self, scenario: Scenario) -> None:
        """Nobody has come yet."""
        super().__init__(scenario)
        self.jobs: dict[str, Job] = {}
        self.by_id: dict[int, Job] = {}
        self.runs: dict[int, Run] = {}
        self.heads = SimpleHeads(())
        self.fresh: set[int] = set()
        self._users: dict[str, int] = {}
        self._numbers = 0
        self._run_ids = 0
        self._waiting: dict[int, Job] = {}
        self._in_class: dict[int, dict[int, Job]] = {}
        self._present: dict[int, JobClass] = {}
        self._held: dict[int, Job] = {}
        self._moved: dict[int, Job] = {}
        self._of_team: dict[int, dict[int, Run]] = {}
        self._evictees: dict[int, Job] = {}
        self._places = 0
        self._elastic = False

    def waiting(self) -> Iterator[Job]:
        """Yield the jobs that wait."""
        yield from self._waiting.values()

    def size(self) -> int:
        """Return the number of runs, waiting jobs and nodes."""
        return len(self.runs) + len(self._waiting) + len(self.nodes)

    def _enter(self, job: Job) -> None:
        """Let a job wait, or note that it is off while it may not."""
        if job.waiting and not job.held and job.ended is None and job.row is None:
            self._note_wait(job)
            job_class = self._class_of(job)
            row = job.row = Waiting(
                id=job.id,
                job_class=job_class.id,
                user=job.user,
                wait_from=job.wait_from,
                submitted=job.submitted,
                tasks=len(job.waiting),
                limit=job.limit(self.time_limit(job.spec)),
                grace=self.grace(job.spec),
                evictions=job.evictions,
                idle=job.idle,
            )
            self._in_class.setdefault(job_class.id, {})[job.id] = job
            self._present[job_class.id] = job_class
            self.heads.add(row)
            if job.id not in self._waiting:
                self._places += 1
                job.place = self._places
            self._waiting[job.id] = self._moved[job.id] = job
            if job.evictions:
                self._evictees[job.id] = job
            self._set_timers(job)
        else:
            if job.held:
                self._held[job.id] = job
            self._note_wait(job)

    def _resting(self) -> Iterator[JobClass]:
        """Yield the classes of which jobs are held, each once."""
        held = self._held = {job.id: job for job in self._held.values() if job.held and job.ended is None}
        yield from {row.id: row for row in map(self._class_of, held.values())}.values()

    def _note_wait(self, job: Job) -> None:
        """Move wait-from forward by the time in which the job was not allowed to wait or had nothing waiting."""
        waits = bool(job.waiting) and not job.held and job.ended is None and not self.paused(job.spec)
        if waits and job.off_since is not None:
            moved = job.wait_from + self.now - job.off_since
            job.off_since = None
            if job.row is not None:
                self._leave(job)
                job.wait_from = moved
                self._enter(job)
            job.wait_from = moved
        elif not waits and job.off_since is None:
            job.off_since = self.now

    def _leave(self, job: Job) -> None:
        """Take a job out of the waiting ones."""
        if job.row is not None:
            self.heads.remove(job.row)
            jobs = self._in_class[job.row.job_class]
            del jobs[job.id]
            if not jobs:
                del self._present[job.row.job_class]
            self._moved[job.id] = job
            job.row = None

    def _again(self, job: Job) -> None:
        self._leave(job)
        self._enter(job)

    def _reclassify(self) -> None:
        for job in self.jobs.values():
            if job.row is not None:
                self._again(job)

    def _set_timers(self, job: Job) -> None:
        """Remember when waiting longer may change what is decided about a job."""
        start = job.wait_from
        after = self.hold_after(job.spec)
        self.timer(start + after)
        if self.policy.aging_step:
            for step in range(1, -(-self.policy.aging_cap // self.policy.aging_step) + 1):
                self.timer(start + step * self.policy.aging_every)
        if job.evictions >= self.policy.max_evictions:
            self.timer(start + after * 2 ** (job.evictions - self.policy.max_evictions))

    def _stop(self, run: Run) -> None:
        """Count what a run has run until now; it does so no more."""
        if run.part is not None and not run.leaving:
            run.part.ran += self.now - run.since
        run.leaving = True
        run.row = None

    def _let_go(self, run: Run, then: State) -> None:
        """Let a run leave: it holds its units until its grace is over."""
        self._stop(run)
        run.then = then
        run.gone_at = self.now + self.grace(run.job.spec)
        if run.gone_at <= self.now:
            self._gone(run)
        else:
            self.due(run.gone_at, lambda: self._gone_if_there(run))

    def _gone_if_there(self, run: Run) -> None:
        if run.id in self.runs:
            self._gone(run)

    def _gone(self, run: Run) -> None:
        """Give a run's units back; what it did goes back to the queue or ends."""
        job = run.job
        del self.runs[run.id]
        del job.runs[run.id]
        del self._of_team[job.spec.team][run.id]
        if run.part is None:
            if job.closing is not None:
                self._end_if_done(job, job.closing)
            elif job.waiting and not job.runs:
                self._queue_again(job)
            return
        if run.then is State.QUEUED:
            job.waiting.append(run.part)
            job.waiting.sort(key=lambda part: (-part.saved, part.ran))
            if job.independent or not job.runs:
                self._queue_again(job)
            self.note(job, "evicted" if run.claimed else "requeued")
        else:
            self._end_if_done(job, run.then)

    def _queue_again(self, job: Job) -> None:
        if job.queued_since < 0:
            job.queued_since = self.now
        self._again(job)
        self.fresh.add(job.id)
        self.touch()

    def _finish(self, run: Run, state: State) -> None:
        """End a run by itself."""
        if run.id not in self.runs:
            return
        if run.part is not None:
            run.part.ran += self.now - run.since
        run.then = state
        self._gone(run)

    def _end_if_done(self, job: Job, state: State) -> None:
        job.failed_tasks = job.failed_tasks or state is State.FAILED
        if job.runs or job.waiting:
            job.closing = None if job.waiting else state
            self._note_wait(job)
            return
        if state is not State.CANCELLED and job.failed_tasks:
            state = State.FAILED
        job.ended = state
        self._leave(job)
        self.note(job, "ended", state=state.value)

    def _fall_due(self, run: Run) -> None:
        """End a run whose time has come, if it still runs."""
        if run.id not in self.runs or run.leaving or run.ends != self.now:
            return
        if run.end_state is State.FAILED:
            run.job.timed_out = True
            self._let_go(run, State.FAILED)
        else:
            self._finish(run, run.end_state)

    def _attempt(self, run: Run) -> Attempt:
        if run.row is not None:
            return run.row
        job = run.job
        gone = set(self.lost)
        whole = gone.isdisjoint(row.node for row in (*run.placed, *run.surplus))
        run.row = Attempt(
            id=run.id,
            number=run.number,
            job=job.id,
            team=job.spec.team,
            user=job.user,
            groups=bound_groups(self._class_of(job).ask),
            flavors=run.flavors,
            placed=tuple(row for row in run.placed if row.node not in gone),
            since=run.since,
            borrow=job.spec.borrow,
            preemptible=job.spec.preemptible,
            leaving=run.leaving,
            queue=job.spec.queue,
            ends_by=run.gone_at if run.leaving else run.ends_by,
            shape=JobShape(job.spec.shape),
            priority=run.priority,
            safe_until=run.safe_until,
            saved=run.saved_at,
            evictions=job.evictions,
            grace=self.grace(job.spec),
            claimed=run.claimed,
            surplus=tuple(row for row in run.surplus if row.node not in gone),
            grows_from=run.grows_from if whole else NEVER,
        )
        return run.row

    def _parts(self, job: Job, placed: tuple[Placed, ...]) -> Iterator[tuple[Part, tuple[Placed, ...]]]:
        if not job.independent:
            yield job.waiting.pop(0), placed
            return
        for row in placed:
            for _ in range(row.tasks):
                yield job.waiting.pop(0), (replace(row, tasks=1),)

    def _start(self, job: Job, part: Part, flavors: tuple[int, ...], placed: tuple[Placed, ...], priority: int) -> None:
        self._run_ids += 1
        limit = self.time_limit(job.spec)
        left = None if limit is None else max(0, limit - part.ran)
        needs = None if job.spec.runs is None else max(0, job.spec.runs - part.saved)
        run = Run(
            self._run_ids, self._numbers, job, part, flavors, placed, self.now, priority,
            self.now + self._min_runtime(job.spec), saved_at=self.now,
        )  # fmt: skip
        self.timer(run.safe_until)
        run.ends_by = None if left is None else self.now + left + self.grace(job.spec)
        if needs is not None and (left is None or needs <= left):
            run.ends = self.now + needs
        elif left is not None:
            run.ends, run.end_state = self.now + left, State.FAILED
        if run.ends is not None:
            self.due(run.ends, lambda: self._fall_due(run))
        self._add(run)

    def _add(self, run: Run) -> None:
        """Let a run hold units."""
        job = run.job
        self.runs[run.id] = job.runs[run.id] = run
        self._of_team.setdefault(job.spec.team, {})[run.id] = run

    def held(self, run: Run) -> tuple[Placed, ...]:
        """Return the tasks of a run that hold units: those on lost nodes hold none."""
        rows = (*run.placed, *run.surplus) if run.surplus else run.placed
        return tuple(row for row in rows if row.node not in self.lost) if self.lost else rows

    def units(self, job: Job) -> int:
        """Return the units that a job has in use."""
        return sum(self.units_of(run) for run in job.runs.values())

    def units_of(self, run: Run) -> int:
        """Return the units that a run holds."""
        groups = run.job.spec.groups
        return sum(row.tasks * groups[row.group].units for row in self.held(run))

    def _on(self, node: int) -> list[Run]:
        return [run for run in self.runs.values() if any(row.node == node for row in (*run.placed, *run.surplus))]

    def _requeue_from(self, node: int) -> None:
        """Let everything that had tasks on a node go back to the queue, at once and without an eviction."""
        for run in self._on(node):
            self._stop(run)
            self._gone(run)
