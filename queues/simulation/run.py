"""Runs a scenario from its first instant to what comes after its last, and says what did not hold."""

from collections.abc import Callable
from dataclasses import dataclass, field

from queues.admission.quota import Line as QuotaLine
from queues.admission.quota import Tree, in_use
from queues.simulation.checks import Breach, Watch
from queues.simulation.engine import Engine, Event
from queues.simulation.expectations import Always, Expectation
from queues.simulation.jobs import Job, State
from queues.simulation.scenario import GroupSpec, Scenario

MOST_TIMERS = 1000
QUIET_CYCLES = 60


@dataclass(slots=True)
class Result:
    """What a run found."""

    scenario: Scenario
    failures: list[dict[str, object]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    summary: dict[str, object] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether all expectations and invariants held."""
        return not self.failures


def simulate(scenario: Scenario, clock: Callable[[], float]) -> Result:
    """Run the scenario with the production rules; ``clock`` measures how long decisions take, nothing else."""
    return Simulation(scenario, clock).run()


class Simulation:
    """One run."""

    def __init__(self, scenario: Scenario, clock: Callable[[], float]) -> None:
        """Set the world up."""
        self._scenario = scenario
        self._engine = Engine(scenario, clock)
        self._engine.check_guarantees()
        self._watch = Watch(self._engine)
        self._result = Result(scenario)
        self._lines = list(scenario.timeline)
        self._expects = sorted(
            (row for row in scenario.expects if row.at is not None), key=lambda row: row.at if row.at is not None else 0
        )
        self._always = [row for row in scenario.expects if row.always is not None]
        self._last_cycle = -1
        self._undisturbed = 0

    def run(self) -> Result:
        """Go to ``until``, then on until all is quiet."""
        engine, until = self._engine, self._scenario.until
        try:
            self._go(until)
            self._starts()
            self._result.events = list(engine.events)
            self._result.summary = self._summary()
            self._lines.clear()
            self._always.clear()
            self._quieten()
        except Breach as breach:
            found: dict[str, object] = {"invariant": breach.name, "numbers": breach.numbers}
            self._fail(breach.at, {"invariant": breach.name}, found)
            self._result.events = self._result.events or list(engine.events)
            self._result.summary = self._result.summary or self._summary()
        return self._result

    def _go(self, until: int) -> None:
        while (at := self._next()) is not None and at <= until:
            self._instant(at)

    def _next(self) -> int | None:
        engine = self._engine
        times = [engine.next_due(), self._tick()]
        if self._lines:
            times.append(self._lines[0].at)
        if self._expects:
            times.append(self._expects[0].at)
        if engine.policy.on_events:
            times.append(engine.next_timer())
        return min((at for at in times if at is not None), default=None)

    def _tick(self) -> int | None:
        """Return the next tick at which a decision could change anything."""
        engine = self._engine
        tick = engine.policy.tick
        if engine.dirty:
            return (
                (self._last_cycle // tick + 1) * tick
                if self._last_cycle >= engine.now
                else -(-engine.now // tick) * tick
            )
        timer = engine.next_timer()
        return None if timer is None else -(-timer // tick) * tick

    def _instant(self, at: int) -> None:
        engine = self._engine
        engine.advance(at)
        while self._lines and self._lines[0].at <= at:
            engine.apply(self._lines.pop(0))
        tick = at % engine.policy.tick == 0
        if engine.dirty and (tick or engine.policy.on_events):
            self._cycle()
        while self._expects and self._expects[0].at is not None and self._expects[0].at <= at:
            self._expect(self._expects.pop(0))

    def _cycle(self) -> None:
        engine = self._engine
        self._undisturbed = self._undisturbed + 1 if engine.quiet else 0
        engine.quiet = True
        self._last_cycle = engine.now
        engine.dirty = False
        engine.dirty = engine.cycle() or engine.dirty
        self._watch.after_cycle(undisturbed=self._undisturbed > 1)
        for row in self._always:
            if row.always is not None:
                self._bound(row, row.always)

    def _quieten(self) -> None:
        """Go on from timer to timer; evictions must come to an end."""
        engine = self._engine
        last_eviction = steps = 0
        seen = len(engine.evicted)
        while (at := self._next()) is not None and steps < MOST_TIMERS:
            self._instant(at)
            steps += 1
            if len(engine.evicted) > seen:
                seen, last_eviction = len(engine.evicted), steps
        if steps >= MOST_TIMERS and last_eviction > MOST_TIMERS - QUIET_CYCLES:
            raise Breach(engine.now, "I10", f"evictions go on after {steps} timers")

    # --- what must be true

    def _fail(self, at: int | None, expect: dict[str, object], found: dict[str, object]) -> None:
        self._result.failures.append({"at": None if at is None else at / 1000, "expect": expect, "found": found})

    def _starts(self) -> None:
        for row in self._scenario.expects:
            if row.kind != "starts":
                continue
            job = self._engine.jobs.get(row.name)
            started = job.started if job is not None else None
            if started is None or abs(started - row.starts) > row.within:
                self._fail(row.starts, row.written, {"starts": None if started is None else started / 1000})

    def _expect(self, row: Expectation) -> None:
        found = getattr(self, f"_find_{row.kind}")(row)
        wrong = any(not _same(key, wanted, found.get(key)) for key, wanted in row.values.items() if key != "of")
        if "of" in row.values and row.kind == "evictions":
            wrong = wrong or found["of"] != row.values["of"]
        if wrong:
            self._fail(row.at, row.written, found)

    def _find_job(self, row: Expectation) -> dict[str, object]:
        job = self._engine.jobs.get(row.name)
        if job is None:
            return {"state": None, "units": 0, "on": [], "reason": None, "reserved": 0}
        nodes = {node.id: node.name for node in self._scenario.nodes}
        on = {nodes[part.node] for run in job.runs.values() for part in self._engine.held(run)}
        return {
            "state": job.state.value,
            "units": self._engine.units(job),
            "on": sorted(on),
            "reason": "TIMED_OUT" if job.state is State.FAILED and job.timed_out else self._engine.reason(job),
            "reserved": self._engine.reserved(job),
        }

    def _find_count(self, row: Expectation) -> dict[str, object]:
        wanted = row.values["of"]
        rows = [
            job for job in self._engine.jobs.values() if self._matches(job, wanted if isinstance(wanted, dict) else {})
        ]
        number = len(rows)
        return {"equals": number, "min": number, "max": number, "units": sum(self._engine.units(job) for job in rows)}

    def _matches(self, job: Job, wanted: dict[str, str]) -> bool:
        for key, value in wanted.items():
            if key == "name":
                ok = job.name.startswith(value[:-1]) if value.endswith("*") else job.name == value
            elif key == "flavor":
                number = next(flavor.id for flavor in self._scenario.flavors if flavor.name == value)
                wished = {wish for group in job.spec.groups for wish in self._wishes(job, group)} if job.waiting else ()
                ok = number in wished or any(number in run.flavors for run in job.runs.values())
            elif key == "team":
                ok = self._below(job.spec.team, value)
            else:
                found = {
                    "user": {job.spec.user},
                    "queue": {self._engine.queues[job.spec.queue].name},
                    "state": {job.state.value},
                    "priority": {job.spec.priority_name, str(job.spec.priority)},
                }
                ok = value in found[key]
            if not ok:
                return False
        return True

    def _wishes(self, job: Job, group: GroupSpec) -> tuple[int, ...]:
        """Return the flavors that a waiting job accepts."""
        return group.flavors or self._engine.flavors_of(job.spec.team)

    def _below(self, team: int | None, name: str) -> bool:
        while team is not None:
            row = self._engine.teams[team]
            if row.name == name:
                return True
            team = row.parent
        return False

    def _find_evictions(self, row: Expectation) -> dict[str, object]:
        names = sorted(name for at, name in self._engine.evicted if row.at is None or at <= row.at)
        return {"evictions": len(names), "of": names}

    def _find_team(self, row: Expectation) -> dict[str, object]:
        flavors = [flavor for flavor in self._scenario.flavors if row.flavor in {None, flavor.name}]
        rows = [self._team(row.name, flavor.id) for flavor in flavors]
        return {key: sum(found[key] for found in rows) for key in ("used", "borrowed", "available")}

    def _team(self, name: str, flavor: int) -> dict[str, int]:
        engine = self._engine
        team = next(team.id for team in engine.teams.values() if team.name == name)
        tree, lines = in_use(engine.world())
        line, place = lines[flavor], tree.number[team]
        promised = line.subtree[place] if tree.children[place] else line.guaranteed[place]
        available = engine.available(team, flavor)
        return {
            "used": self._used(tree, line, place),
            "borrowed": max(0, line.usage[place] - promised),
            "available": available,
        }

    def _used(self, tree: Tree, line: QuotaLine, place: int) -> int:
        if not tree.children[place]:
            return line.usage[place]
        return sum(self._used(tree, line, child) for child in tree.children[place])

    def _find_node(self, row: Expectation) -> dict[str, object]:
        number = next(node.id for node in self._scenario.nodes if node.name == row.name)
        return {"used": self._used_where(lambda node, _: node == number)}

    def _find_flavor(self, row: Expectation) -> dict[str, object]:
        number = next(flavor.id for flavor in self._scenario.flavors if flavor.name == row.name)
        return {"used": self._used_where(lambda _, flavor: flavor == number)}

    def _used_where(self, wanted: Callable[[int, int], bool]) -> int:
        return sum(
            part.tasks * run.job.spec.groups[part.group].units
            for run in self._engine.runs.values()
            for part in self._engine.held(run)
            if wanted(part.node, run.flavors[part.group])
        )

    def _bound(self, row: Expectation, always: Always) -> None:
        wanted = Expectation(written={}, kind=always.what, name=always.name, flavor=always.flavor, values={})
        found = getattr(self, f"_find_{always.what}")(wanted)[always.value]
        if not always.holds(found):
            self._fail(self._engine.now, row.written, {always.value: found})
            self._always.remove(row)

    # --- the summary

    def _summary(self) -> dict[str, object]:
        engine = self._engine
        jobs = list(engine.jobs.values())
        waits = [job.started - job.submitted for job in jobs if job.started is not None]
        ends = [row["at"] for row in engine.events if row["event"] in {"ended", "cancelled"}]
        return {
            "jobs": len(jobs),
            "started": len(waits),
            "evictions": len(engine.evicted),
            "lost_unit_seconds": engine.lost_unit_milliseconds / 1000,
            "makespan": max((float(str(at)) for at in ends), default=0.0),
            "mean_wait": sum(waits) / len(waits) / 1000 if waits else 0.0,
            "max_wait": max(waits, default=0) / 1000,
            "cycles": self._scenario.until // engine.policy.tick + 1,
            "decide_seconds": round(engine.decide_seconds, 3),
        }


def _same(key: str, wanted: object, found: object) -> bool:
    if key == "reason":
        return isinstance(wanted, list) and found in wanted
    if key in {"min", "max"}:
        number, bound = int(str(found)), int(str(wanted))
        return number >= bound if key == "min" else number <= bound
    return wanted == found
