"""The virtual clock around the rules: one cycle decides, and what it decides takes effect."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from queues.admission.board import Board
from queues.admission.decide import Memory, decide
from queues.admission.order import effective_priority
from queues.admission.outcome import Admission, Eviction, Growth, Outcome
from queues.admission.reasons import Reason, pauses, would_borrow
from queues.admission.world import (
    Aging,
    Milliseconds,
    Placed,
    Policy,
    World,
)
from queues.simulation.clock import Event
from queues.simulation.jobs import Job, Run, State
from queues.simulation.scenario import Scenario
from queues.simulation.timeline import Timeline

__all__ = ["Engine", "Event"]


class Engine(Timeline):
    """One world on a virtual clock."""

    def __init__(self, scenario: Scenario, clock: Callable[[], float]) -> None:
        """Build the world as the file describes it; ``clock`` measures how long decisions take."""
        super().__init__(scenario)
        self.decide_seconds = 0.0
        self.evicted: list[tuple[Milliseconds, str]] = []
        self.lost_unit_milliseconds = 0
        self.outcome = Outcome()
        self._clock = clock
        self._memory = Memory()
        self._node_names = {node.id: node.name for node in scenario.nodes}
        self._evicted_at: list[Milliseconds] = []
        self._reasons: dict[tuple[int, int | None], Reason] = {}
        self._job_reasons: dict[int, str] = {}
        self._recorded: set[tuple[Milliseconds, str, int]] = set()
        self._victims: dict[int, tuple[int, int]] = {}
        self._decided_at: Milliseconds = 0

    def world(self) -> World:
        """Return the world as the rules see it now."""
        policy = self.policy
        return World(
            now=self.now,
            policy=Policy(
                aging=Aging(every=policy.aging_every, step=policy.aging_step, cap=policy.aging_cap),
                overcommit=policy.overcommit,
                restart_cost=policy.restart_cost,
                evictions_per_minute=policy.evictions_per_minute,
                max_evictions=policy.max_evictions,
                hold_idle_limit=None if policy.hold_idle_limit is None else policy.hold_idle_limit * 1000,
            ),
            flavors=self.flavors,
            teams=tuple(self._team_row(team) for team in self.teams.values()),
            queues=tuple(self._queue_row(row) for row in self.queues.values()),
            nodes=tuple(self.nodes.values()),
            attempts=tuple([run.row or self._attempt(run) for run in self.runs.values()]),
            classes=tuple(self._present.values()),
            resting=tuple(self._resting()),
            claims=tuple(row for row in self.outcome.claims if self.by_id[row.job].row is not None),
            holds=tuple(
                replace(row, idle=self.by_id[row.job].idle)
                for row in self.outcome.holds
                if self.by_id[row.job].row is not None
            ),
            evicted_at=tuple(at for at in self._evicted_at if at > self.now - 60_000),
        )

    def cycle(self) -> bool:
        """Decide once and let it take effect; return whether another cycle may change anything."""
        self._add_idle()
        world = self.world()
        self.fresh.clear()
        before = self._clock()
        outcome = decide(world, self.heads, self._memory)
        self.decide_seconds += self._clock() - before
        old, self.outcome = self.outcome, outcome
        for eviction in outcome.evictions:
            self._evict(eviction)
        used = self._used({self.by_id[row.job].spec.team for row in outcome.admissions})
        for admission in outcome.admissions:
            borrowed = self._borrows(used, admission)
            self._admit(world, self.by_id[admission.job], admission.flavors, admission.placed, borrowed)
        for growth in outcome.growth:
            self._grow(growth)
        self._watch_idle()
        self._note_holds(old, outcome)
        self._note_reasons(outcome)
        changed = bool(outcome.admissions or outcome.evictions or outcome.growth)
        changed = changed or (old.claims, old.holds) != (outcome.claims, outcome.holds)
        return changed and (bool(self._waiting) or self._elastic)

    def _used(self, teams: set[int]) -> Counter[tuple[int, int]]:
        """Count the units that some leaves have in use of each flavor."""
        used: Counter[tuple[int, int]] = Counter()
        for team in teams:
            for run in self._of_team.get(team, {}).values():
                groups = run.job.spec.groups
                for row in self.held(run):
                    used[team, run.flavors[row.group]] += row.tasks * groups[row.group].units
        return used

    def _borrows(self, used: Counter[tuple[int, int]], admission: Admission) -> int:
        """Count an admission in; return how many of its units are above the guarantee of its team."""
        spec = self.by_id[admission.job].spec
        above = 0
        for row in admission.placed:
            flavor = admission.flavors[row.group]
            units = row.tasks * spec.groups[row.group].units
            used[spec.team, flavor] += units
            own = next((quota.guaranteed for quota in self.teams[spec.team].quotas if quota.flavor == flavor), 0)
            above += min(units, max(0, used[spec.team, flavor] - own))
        return above

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
            left = self.may_idle(self.by_id[number])
            if left > 0:
                self.timer(self.now - -left // units)

    def may_idle(self, job: Job) -> int:
        """Return the unit-milliseconds that a job may still keep units idle."""
        groups = job.spec.groups
        ask = groups[0].units if job.independent else sum(group.units * group.tasks for group in groups)
        limit = self.policy.hold_idle_limit
        return (ask * 24 * 3_600_000 if limit is None else limit * 1000) - job.idle

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
        self._evictees[job.id] = job
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
            self._add(part)
            self.due(part.gone_at, lambda: self._gone_if_there(part))

    def _grow(self, growth: Growth) -> None:
        run = self.runs[growth.attempt]
        run.surplus = (*run.surplus, *growth.placed)
        run.row = None

    def _admit(
        self, world: World, job: Job, flavors: tuple[int, ...], placed: tuple[Placed, ...], borrowed: int
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
        nodes: Counter[str] = Counter()
        for row_ in placed:
            nodes[self._node_names[row_.node]] += row_.tasks
        flavor = next(flavor.name for flavor in self.flavors if flavor.id == flavors[0])
        self.note(job, "admitted", flavor=flavor, nodes=dict(nodes), units=units, borrowed=borrowed)

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
        """Note new reasons, of the jobs only whose own state or whose class's reason may have changed."""
        before, own = self._reasons, self._job_reasons
        self._job_reasons = {row.job: row.reason.code.value for row in outcome.verdicts if row.job is not None}
        self._reasons = {(row.job_class, row.user): row.reason for row in outcome.verdicts if row.job is None}
        jobs, self._moved = self._moved, {}
        jobs.update((number, self.by_id[number]) for number in own.keys() | self._job_reasons.keys())
        jobs.update(self._held)
        for key, now in self._reasons.items():
            then = before.get(key)
            if then is not now and (then is None or then.code is not now.code):
                jobs.update(self._in_class[key[0]])
        for key in before.keys() - self._reasons.keys():
            jobs.update(self._in_class[key[0]])
        most = self.policy.max_evictions
        jobs.update((number, job) for number, job in self._evictees.items() if job.evictions >= most)
        for job in sorted(jobs.values(), key=_place):
            if job.id not in self._waiting:
                continue
            reason = self.reason(job)
            if job.row is None and not job.held:
                del self._waiting[job.id]
                self._evictees.pop(job.id, None)
            if reason != job.reason:
                job.reason = reason
                if reason is not None:
                    self.note(job, "reason", reason=reason)

    def reason(self, job: Job) -> str | None:
        """Return why a job waits: its own state, its user's limit, its class."""
        if job.held:
            of_class = self._reasons.get((self._class_of(job).id, None))
            return of_class.code.value if of_class is not None and of_class.permanent else "HELD"
        if job.row is None:
            return None
        own = self._job_reasons.get(job.id)
        if own is not None:
            return own
        of_class = self._reasons.get((job.row.job_class, None))
        if of_class is not None and self._pauses(job) and would_borrow(of_class.code, dict(of_class.numbers)):
            return "BACKING_OFF"
        found = self._reasons.get((job.row.job_class, job.user)) or of_class
        return found.code.value if found is not None else None

    def _pauses(self, job: Job) -> bool:
        policy, after = self.policy, self.hold_after(job.spec)
        waited = self.now - job.wait_from
        return pauses(evictions=job.evictions, most=policy.max_evictions, hold_after=after, waited=waited)

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


def _place(job: Job) -> int:
    return job.place
