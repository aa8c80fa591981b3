"""The virtual clock: what falls due, the timeline's lines, the cycle, then what must be true."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import heappop, heappush

from queues.admission.board import Board
from queues.admission.decide import decide
from queues.admission.heads import SimpleHeads
from queues.admission.order import effective_priority
from queues.admission.outcome import Eviction, Growth, Outcome
from queues.admission.quota import Tree, lines
from queues.admission.world import (
    Aging,
    Ask,
    Attempt,
    Flavor,
    Group,
    JobClass,
    JobShape,
    Milliseconds,
    Node,
    NodeState,
    Placed,
    Policy,
    Queue,
    QueueOrder,
    Quota,
    Team,
    Waiting,
    World,
)
from queues.simulation.jobs import Job, Part, Run, State
from queues.simulation.scenario import JobSpec, Line, PolicySpec, QueueSpec, Scenario

Event = dict[str, object]
LIMIT_STEP: Milliseconds = 15 * 60_000


class Engine:
    """One world on a virtual clock."""

    def __init__(self, scenario: Scenario, clock: Callable[[], float]) -> None:
        """Build the world as the file describes it; ``clock`` measures how long decisions take."""
        self.scenario = scenario
        self.policy: PolicySpec = scenario.policy
        self.now: Milliseconds = 0
        self.events: list[Event] = []
        self.jobs: dict[str, Job] = {}
        self.by_id: dict[int, Job] = {}
        self.runs: dict[int, Run] = {}
        self.cycles = 0
        self.decide_seconds = 0.0
        self.evicted: list[tuple[Milliseconds, str]] = []
        self.evicted_tasks: list[tuple[int, int, int]] = []
        self.lost_unit_milliseconds = 0
        self.outcome = Outcome()
        self.flavors = tuple(
            Flavor(id=row.id, name=row.name, value=row.value, spread=row.spread) for row in scenario.flavors
        )
        self.teams = {
            row.id: Team(
                id=row.id,
                name=row.name,
                parent=row.parent,
                weight=row.weight,
                quotas=row.quotas,
                per_user_limit=row.per_user_limit,
                paused=row.paused,
            )
            for row in scenario.teams
        }
        self.nodes = {
            row.name: Node(
                id=row.id,
                name=row.name,
                cluster=1,
                flavor=row.flavor,
                units=row.units,
                cpu=row.cpu,
                memory=row.memory,
                pods=1 << 40,
                labels=row.labels,
                domains=row.domains,
                outside_units=row.outside,
            )
            for row in scenario.nodes
        }
        self.queues = {row.id: row for row in scenario.queues}
        self.heads = SimpleHeads(())
        self.lost: dict[int, Milliseconds] = {}
        self._clock = clock
        self._users: dict[str, int] = {}
        self._numbers = 0
        self._run_ids = 0
        self._classes: dict[tuple[int, int, Ask], JobClass] = {}
        self._counts: dict[int, int] = {}
        self._due: list[tuple[Milliseconds, int, Callable[[], None]]] = []
        self._timers: list[Milliseconds] = []
        self._serial = 0
        self._evicted_at: list[Milliseconds] = []
        self._defaults: dict[int, tuple[int, ...]] = {}
        self._queue_rows: dict[int, Queue] = {}
        self._reasons: dict[tuple[int, int | None], str] = {}
        self._job_reasons: dict[int, str] = {}
        self._recorded: set[tuple[Milliseconds, str, int]] = set()
        self._waiting: dict[int, Job] = {}
        self.fresh: set[int] = set()
        self._elastic = False
        self._decided_at: Milliseconds = 0
        self._victims: dict[int, tuple[int, int]] = {}
        self.dirty = True
        self.quiet = True

    # --- time

    def due(self, at: Milliseconds, what: Callable[[], None]) -> None:
        """Let something happen at a time."""
        self._serial += 1
        heappush(self._due, (at, self._serial, what))

    def timer(self, at: Milliseconds) -> None:
        """Remember that a decision may change at a time."""
        if at > self.now:
            heappush(self._timers, at)

    def next_due(self) -> Milliseconds | None:
        """Return when something falls due next."""
        return self._due[0][0] if self._due else None

    def next_timer(self) -> Milliseconds | None:
        """Return the next time at which a decision may change by itself."""
        return self._timers[0] if self._timers else None

    def advance(self, at: Milliseconds) -> None:
        """Go to a time and let what falls due then happen."""
        self.now = at
        while self._due and self._due[0][0] <= at:
            _, _, what = heappop(self._due)
            what()
            self.touch()
        while self._timers and self._timers[0] <= at:
            heappop(self._timers)
            self.touch()

    def touch(self) -> None:
        """Note that the world has changed otherwise than by a decision."""
        self.dirty = True
        self.quiet = False

    def note(self, job: Job | None, event: str, **more: object) -> None:
        """Write an event down."""
        row: Event = {"at": self.now / 1000}
        if job is not None:
            row["job"] = job.name
        self.events.append(row | {"event": event} | more)

    # --- lines of the timeline

    def apply(self, line: Line) -> None:
        """Let one line of the timeline take effect."""
        getattr(self, f"_do_{line.verb}")(line)
        self.touch()

    def _do_submit(self, line: Line) -> None:
        spec = line.job
        if spec is None:
            return
        user = self._users.setdefault(spec.user, len(self._users) + 1)
        parts = [Part() for _ in range(spec.groups[0].tasks if spec.shape == "independent" else 1)]
        number = len(self.jobs) + 1
        job = Job(number, spec, user, self.now, self.now, parts, queued_since=self.now)
        self.jobs[spec.name] = job
        self.by_id[number] = job
        self._elastic = self._elastic or spec.shape == "elastic"
        self.note(job, "submitted")
        self._enter(job)

    def _do_cancel(self, line: Line) -> None:
        job = self._job(line)
        if job.ended is not None:
            raise line.place.wrong(f"job {job.name!r} has ended")
        self._leave(job)
        job.waiting.clear()
        self.note(job, "cancelled")
        for run in list(job.runs.values()):
            if not run.leaving:
                self._let_go(run, State.CANCELLED)
            run.then = State.CANCELLED
        self._end_if_done(job, State.CANCELLED)

    def _do_set_quota(self, line: Line) -> None:
        for team_id, flavor, changes in line.quotas:
            team = self.teams[team_id]
            rows = {quota.flavor: quota for quota in team.quotas}
            rows[flavor] = replace(rows.get(flavor, Quota(flavor=flavor)), **changes)
            self.teams[team_id] = replace(team, quotas=tuple(rows[key] for key in sorted(rows)))
        self.check_guarantees(line)
        self._defaults.clear()
        self._reclassify()

    def check_guarantees(self, line: Line | None = None) -> None:
        """Refuse guarantees above installed units unless the policy overcommits."""
        if self.policy.overcommit:
            return
        for flavor in self.flavors:
            installed = sum(node.units for node in self.nodes.values() if node.flavor == flavor.id)
            quotas = [quota for team in self.teams.values() for quota in team.quotas if quota.flavor == flavor.id]
            promised = sum(quota.guaranteed for quota in quotas)
            if promised > installed:
                text = f"{promised} units of {flavor.name!r} are guaranteed, {installed} are installed"
                raise (line.place if line else self.scenario.place).wrong(text)

    def _do_node(self, line: Line) -> None:
        node = self.nodes.get(line.name)
        if node is None:
            raise line.place.wrong(f"node {line.name!r} was removed")
        if "outside" in line.changes:
            node = replace(node, outside_units=int(str(line.changes["outside"])))
        if "labels" in line.changes:
            labels = line.changes["labels"]
            merged = dict(node.labels) | dict(labels if isinstance(labels, tuple) else ())
            node = replace(node, labels=tuple(sorted(merged.items())))
        self.nodes[line.name] = node
        state = line.changes.get("state")
        if state == "removed":
            del self.nodes[line.name]
            self._requeue_from(node.id)
        elif state is not None:
            self._set_state(node, NodeState(str(state)))
        self._defaults.clear()
        self._reclassify()

    def _set_state(self, node: Node, state: NodeState) -> None:
        self.nodes[node.name] = replace(node, state=state)
        self.lost.pop(node.id, None)
        if state is NodeState.LOST:
            until = self.lost[node.id] = self.now + self.policy.node_lost_after
            for run in self._on(node.id):
                run.row = None
            self.due(until, lambda: self._still_lost(node.id, until))
        for run in self._on(node.id):
            run.row = None

    def _still_lost(self, node: int, until: Milliseconds) -> None:
        if self.lost.get(node) == until:
            self._requeue_from(node)

    def _on(self, node: int) -> list[Run]:
        return [run for run in self.runs.values() if any(row.node == node for row in (*run.placed, *run.surplus))]

    def _requeue_from(self, node: int) -> None:
        """Let everything that had tasks on a node go back to the queue, at once and without an eviction."""
        for run in self._on(node):
            job = run.job
            if any(row.node == node for row in run.placed):
                self._stop(run)
                self._gone(run)
                self.note(job, "requeued", node=node)
            else:
                run.surplus = tuple(row for row in run.surplus if row.node != node)
                run.row = None

    def _do_team(self, line: Line) -> None:
        team = next(team for team in self.teams.values() if team.name == line.name)
        self.teams[team.id] = replace(team, **line.changes)
        for job in self.jobs.values():
            self._note_wait(job)

    def _do_hold(self, line: Line) -> None:
        job = self._job(line)
        if job.state is not State.QUEUED:
            raise line.place.wrong(f"job {job.name!r} is {job.state.value}, not queued")
        self._leave(job)
        job.held = True
        self._enter(job)

    def _do_release(self, line: Line) -> None:
        job = self._job(line)
        if not job.held:
            raise line.place.wrong(f"job {job.name!r} is not held")
        job.held = False
        self._enter(job)

    def _do_end(self, line: Line) -> None:
        job = self._job(line)
        live = sorted((run for run in job.runs.values() if not run.leaving), key=lambda run: (run.since, run.id))
        if not live:
            raise line.place.wrong(f"job {job.name!r} does not run")
        if line.number is not None:
            if not job.independent:
                raise line.place.wrong("tasks is for independent jobs")
            if line.number > len(live):
                raise line.place.wrong(f"job {job.name!r} has only {len(live)} tasks that run")
            live = live[: line.number]
        elif job.independent:
            self._leave(job)
            job.waiting.clear()
        for run in live:
            self._finish(run, State(line.text))

    def _do_checkpoint(self, line: Line) -> None:
        job = self._job(line)
        live = [run for run in job.runs.values() if not run.leaving]
        if not live:
            raise line.place.wrong(f"job {job.name!r} does not run")
        for run in live:
            if run.part is not None:
                run.part.saved += self.now - run.saved_at
                run.saved_at = self.now
                run.row = None

    def _do_policy(self, line: Line) -> None:
        self.policy = replace(self.policy, **line.changes)
        self._queue_rows.clear()
        for job in self.jobs.values():
            if job.row is not None:
                self._set_timers(job)
        self._reclassify()

    def _job(self, line: Line) -> Job:
        job = self.jobs.get(line.name)
        if job is None:
            raise line.place.wrong(f"job {line.name!r} is not submitted yet")
        return job

    # --- jobs

    def queue_of(self, spec: JobSpec) -> QueueSpec:
        """Return the queue of a job."""
        return self.queues[spec.queue]

    def time_limit(self, spec: JobSpec) -> Milliseconds | None:
        """Return the time limit that holds for a job: its own or the queue's default, at most the queue's maximum."""
        queue = self.queue_of(spec)
        limit = spec.time_limit
        if not spec.own_time_limit:
            limit = queue.default_time_limit if queue.own_default_limit else self.policy.default_time_limit
        if queue.max_time_limit is not None:
            limit = queue.max_time_limit if limit is None else min(limit, queue.max_time_limit)
        return limit

    def grace(self, spec: JobSpec) -> Milliseconds:
        """Return how long an evicted or cancelled attempt of the job still holds its units."""
        most = self.queue_of(spec).max_grace
        if spec.grace is None:
            return self.policy.grace if most is None else most
        return spec.grace if most is None else min(spec.grace, most)

    def _min_runtime(self, spec: JobSpec) -> Milliseconds:
        own = self.queue_of(spec).min_runtime
        return self.policy.min_runtime if own is None else own

    def _paused(self, spec: JobSpec) -> bool:
        if self.queues[spec.queue].paused:
            return True
        team: int | None = spec.team
        while team is not None:
            if self.teams[team].paused:
                return True
            team = self.teams[team].parent
        return False

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
            self._counts[job_class.id] = self._counts.get(job_class.id, 0) + 1
            self.heads.add(row)
            self._waiting[job.id] = job
            self._set_timers(job)
        else:
            self._note_wait(job)

    def _note_wait(self, job: Job) -> None:
        """Move wait-from forward by the time in which the job was not allowed to wait or had nothing waiting."""
        waits = bool(job.waiting) and not job.held and job.ended is None and not self._paused(job.spec)
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
            self._counts[job.row.job_class] -= 1
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
        hold_after = self.queue_of(job.spec).hold_after
        self.timer(start + (self.policy.hold_after if hold_after is None else hold_after))
        if self.policy.aging_step:
            for step in range(1, -(-self.policy.aging_cap // self.policy.aging_step) + 1):
                self.timer(start + step * self.policy.aging_every)
        if job.evictions > self.policy.max_evictions:
            after = self.policy.hold_after if hold_after is None else hold_after
            self.timer(start + after * 2 ** (job.evictions - self.policy.max_evictions))

    def _class_of(self, job: Job) -> JobClass:
        spec = job.spec
        limit = self.time_limit(spec)
        if limit is not None:
            bucket = LIMIT_STEP
            while bucket < limit:
                bucket *= 2
            limit = bucket
        groups = tuple(
            Group(
                tasks=1 if job.independent else group.tasks,
                units=group.units,
                cpu=group.cpu,
                memory=group.memory,
                flavors=group.flavors or self._default_flavors(spec.team),
                labels=group.labels,
                most=group.most,
                topology=group.topology,
            )
            for group in spec.groups
        )
        ask = Ask(
            shape=JobShape(spec.shape),
            groups=groups,
            borrow=spec.borrow,
            preemptible=spec.preemptible,
            time_limit=limit,
            topology=spec.topology,
        )
        key = (spec.queue, spec.priority, ask)
        known = self._classes.get(key)
        if known is None:
            number = len(self._classes) + 1
            known = self._classes[key] = JobClass(id=number, queue=spec.queue, priority=spec.priority, ask=ask)
        return known

    def _default_flavors(self, team: int) -> tuple[int, ...]:
        """Return the flavors of which the team could ever get a unit, in order of creation."""
        if not self._defaults:
            world = World(
                now=self.now,
                flavors=self.flavors,
                teams=tuple(self.teams.values()),
                nodes=tuple(self.nodes.values()),
            )
            tree = Tree(world)
            rows = lines(world, tree)
            for number, place in tree.number.items():
                able = tuple(flavor for flavor, line in rows.items() if line.most(place) > 0)
                self._defaults[number] = able or tuple(rows)
        return self._defaults[team]

    # --- runs

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
        if run.part is None:
            return
        if run.then is State.QUEUED:
            job.waiting.append(run.part)
            job.waiting.sort(key=lambda part: (-part.saved, part.ran))
            if job.independent or not job.runs:
                if job.queued_since < 0:
                    job.queued_since = self.now
                self._again(job)
                self.fresh.add(job.id)
                self.touch()
            self.note(job, "evicted" if run.claimed else "requeued")
        else:
            self._end_if_done(job, run.then)

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
            self._let_go(run, State.FAILED)
        else:
            self._finish(run, run.end_state)

    # --- cycle

    def world(self) -> World:
        """Return the world as the rules see it now."""
        policy = self.policy
        return World(
            now=self.now,
            policy=Policy(
                aging=Aging(every=policy.aging_every, step=policy.aging_step, cap=policy.aging_cap),
                overcommit=policy.overcommit,
                recall=True,
                restart_cost=policy.restart_cost,
                evictions_per_minute=policy.evictions_per_minute,
                max_evictions=policy.max_evictions,
                hold_idle_limit=None if policy.hold_idle_limit is None else policy.hold_idle_limit * 1000,
            ),
            flavors=self.flavors,
            teams=tuple(self._team_row(team) for team in self.teams.values()),
            queues=tuple(self._queue_row(row) for row in self.queues.values()),
            nodes=tuple(self.nodes.values()),
            attempts=tuple(self._attempt(run) for run in self.runs.values()),
            classes=tuple(row for row in self._classes.values() if self._counts.get(row.id)),
            claims=tuple(row for row in self.outcome.claims if self.by_id[row.job].row is not None),
            holds=tuple(
                replace(row, idle=self.by_id[row.job].idle)
                for row in self.outcome.holds
                if self.by_id[row.job].row is not None
            ),
            evicted_at=tuple(at for at in self._evicted_at if at > self.now - 60_000),
        )

    def _team_row(self, team: Team) -> Team:
        if team.per_user_limit is None and self.policy.per_user_limit is not None:
            return replace(team, per_user_limit=self.policy.per_user_limit)
        return team

    def _queue_row(self, spec: QueueSpec) -> Queue:
        row = self._queue_rows.get(spec.id)
        if row is None:
            policy = self.policy
            fifo = policy.fifo if spec.fifo is None else spec.fifo
            within = spec.preempt_within_team
            needed = spec.limit_needed_to_borrow
            row = self._queue_rows[spec.id] = Queue(
                id=spec.id,
                name=spec.name,
                team=spec.team,
                order=QueueOrder.FIFO if fifo else QueueOrder.FAIR_USERS,
                per_user_limit=spec.per_user_limit if spec.own_user_limit else None,
                paused=spec.paused,
                hold_after=policy.hold_after if spec.hold_after is None else spec.hold_after,
                preempt_within_team=policy.preempt_within_team if within is None else within,
                limit_needed_to_borrow=policy.limit_needed_to_borrow if needed is None else needed,
            )
        return row

    def _attempt(self, run: Run) -> Attempt:
        if run.row is not None:
            return run.row
        job = run.job
        gone = set(self.lost)
        run.row = Attempt(
            id=run.id,
            number=run.number,
            job=job.id,
            team=job.spec.team,
            user=job.user,
            groups=self._class_of(job).ask.groups,
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
            grows_from=run.grows_from,
        )
        return run.row

    def cycle(self) -> bool:
        """Decide once and let it take effect; return whether another cycle may change anything."""
        self._add_idle()
        world = self.world()
        self.fresh.clear()
        before = self._clock()
        outcome = decide(world, self.heads)
        self.decide_seconds += self._clock() - before
        old, self.outcome = self.outcome, outcome
        for eviction in outcome.evictions:
            self._evict(eviction)
        for admission in outcome.admissions:
            self._admit(
                world, self.by_id[admission.job], admission.flavors, admission.placed, borrowed=admission.borrowed
            )
        for growth in outcome.growth:
            self._grow(growth)
        self._watch_idle()
        self._note_holds(old, outcome)
        self._note_reasons(outcome)
        changed = bool(outcome.admissions or outcome.evictions or outcome.growth)
        changed = changed or (old.claims, old.holds) != (outcome.claims, outcome.holds)
        return changed and (bool(self._waiting) or self._elastic)

    def _add_idle(self) -> None:
        """Charge jobs with the units that they have kept idle since the last cycle."""
        for number, units in self.outcome.idle:
            job = self.by_id[number]
            if job.row is not None and self.now > self._decided_at:
                job.idle += units * (self.now - self._decided_at)
                self._again(job)
        self._decided_at = self.now

    def _watch_idle(self) -> None:
        """Remember when a job will have kept units idle for long enough."""
        for number, units in self.outcome.idle:
            job = self.by_id[number]
            groups = job.spec.groups
            ask = groups[0].units if job.independent else sum(group.units * group.tasks for group in groups)
            limit = self.policy.hold_idle_limit
            left = (ask * 24 * 3_600_000 if limit is None else limit * 1000) - job.idle
            if left > 0:
                self.timer(self.now - -left // units)

    def _evict(self, eviction: Eviction) -> None:
        run = self.runs[eviction.attempt]
        job = run.job
        claimant = self.by_id[eviction.job]
        units = sum(row.tasks * job.spec.groups[row.group].units for row in eviction.placed)
        if eviction.surplus:
            self._shrink(run, eviction.placed)
            self.note(job, "shrunk", units=units, claimant=claimant.name)
            return
        self._evicted_at.append(self.now)
        self.timer(self.now + 60_000)
        if (self.now, job.name, eviction.claim) not in self._recorded:
            self._recorded.add((self.now, job.name, eviction.claim))
            self.evicted.append((self.now, job.name))
        job.evictions += 1
        self.note(job, "evicting", units=units, claimant=claimant.name, rule=eviction.rule)
        self.lost_unit_milliseconds += units * (self.now - run.saved_at)
        run.claimed = True
        self._victims[run.id] = (job.id, id(run.part))
        if run.surplus:
            self._shrink(run, run.surplus)
        self._let_go(run, State.QUEUED)

    def _shrink(self, run: Run, rows: tuple[Placed, ...]) -> None:
        """Let surplus tasks leave; the job does not grow for a while."""
        left = list(run.surplus)
        for row in rows:
            left.remove(row)
        run.surplus = tuple(left)
        run.grows_from = self.now + self.policy.elastic_pause
        run.row = None
        self.timer(run.grows_from)
        grace = self.grace(run.job.spec)
        if grace:
            self._run_ids += 1
            part = Run(
                self._run_ids, run.number, run.job, None, run.flavors, rows, run.since, run.priority, 0,
                leaving=True, gone_at=self.now + grace, claimed=True,
            )  # fmt: skip
            self.runs[part.id] = run.job.runs[part.id] = part
            self.due(part.gone_at, lambda: self._gone_if_there(part))

    def _grow(self, growth: Growth) -> None:
        run = self.runs[growth.attempt]
        run.surplus = (*run.surplus, *growth.placed)
        run.row = None

    def _admit(
        self, world: World, job: Job, flavors: tuple[int, ...], placed: tuple[Placed, ...], *, borrowed: bool
    ) -> None:
        self._numbers += 1
        row = job.row
        aging = world.policy.aging
        priority = effective_priority(aging, job.spec.priority, job.wait_from, self.now)
        job.idle = 0
        if job.started is None:
            job.started = self.now
        if job.queued_since >= 0:
            job.waited += self.now - job.queued_since
            job.queued_since = -1
        for part, rows in self._parts(job, placed):
            self._start(job, part, flavors, rows, priority)
        if row is not None:
            self._again(job)
        units = sum(row.tasks * job.spec.groups[row.group].units for row in placed)
        nodes: dict[str, int] = {}
        names = {node.id: node.name for node in self.nodes.values()}
        for row_ in placed:
            nodes[names[row_.node]] = nodes.get(names[row_.node], 0) + row_.tasks
        flavor = next(flavor.name for flavor in self.flavors if flavor.id == flavors[0])
        self.note(job, "admitted", flavor=flavor, nodes=nodes, units=units, borrowed=units if borrowed else 0)

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
        self.runs[run.id] = job.runs[run.id] = run

    # --- reasons

    def _note_holds(self, old: Outcome, new: Outcome) -> None:
        before = {row.job: row.at for row in old.holds}
        after = {row.job: row.at for row in new.holds}
        for job, at in after.items():
            if job not in before or before[job] != at:
                self.note(self.by_id[job], "hold", until=None if at is None else at / 1000)
        for job in before:
            if job not in after:
                self.note(self.by_id[job], "hold_ended")

    def _note_reasons(self, outcome: Outcome) -> None:
        by_job = {row.job: row.reason.code.value for row in outcome.verdicts if row.job is not None}
        self._job_reasons = by_job
        self._reasons = {
            (row.job_class, row.user): row.reason.code.value for row in outcome.verdicts if row.job is None
        }
        for job in list(self._waiting.values()):
            reason = self.reason(job)
            if job.row is None and not job.held:
                del self._waiting[job.id]
            if reason != job.reason:
                job.reason = reason
                if reason is not None:
                    self.note(job, "reason", reason=reason)

    def reason(self, job: Job) -> str | None:
        """Return why a job waits: its own state, its user's limit, its class."""
        if job.held:
            return "HELD"
        if job.row is None:
            return None
        own = self._job_reasons.get(job.id)
        if own is not None:
            return own
        key = job.row.job_class
        return self._reasons.get((key, job.user)) or self._reasons.get((key, None))

    # --- what others ask

    def waiting(self) -> Iterator[Job]:
        """Yield the jobs that wait."""
        yield from self._waiting.values()

    def victim(self, run: int) -> tuple[int, int]:
        """Return the job and the part of a run that was evicted."""
        return self._victims[run]

    def reserved(self, job: Job) -> int:
        """Return the units that claims of the job keep."""
        groups = job.spec.groups
        rows = [row for claim in self.outcome.claims if claim.job == job.id for row in claim.placed]
        return sum(row.tasks * groups[row.group].units for row in rows) if job.row is not None else 0

    def available(self, team: int, flavor: int) -> int:
        """Return what a team could take now on a flavor, claims counted."""
        board = Board(self.world())
        return board.lines[flavor].available(board.tree.number[team])
