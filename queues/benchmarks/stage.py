"""Worlds built in code and played on the simulator's virtual clock, without its checks of expectations."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import yaml

from queues.admission.world import Milliseconds, Quota, Topology
from queues.simulation.engine import Engine
from queues.simulation.jobs import Job
from queues.simulation.reading import Field
from queues.simulation.scenario import (
    FlavorSpec,
    GroupSpec,
    JobSpec,
    Line,
    NodeSpec,
    PolicySpec,
    QueueSpec,
    Scenario,
    TeamSpec,
)

PLENTY = 1 << 50
NOWHERE = Field("benchmark", yaml.ScalarNode("tag:yaml.org,2002:null", "", yaml.Mark("", 0, 0, 0, "", 0)), "")
"""The place of lines that no file contains."""

Arrival = tuple[Milliseconds, JobSpec]
FLAVOR = 1


def node(number: int, units: int, domains: tuple[str | None, ...] = ()) -> NodeSpec:
    """Return a node of the only flavor with CPU and memory for everything."""
    return NodeSpec(
        id=number,
        name=f"n{number}",
        flavor=FLAVOR,
        units=units,
        cpu=PLENTY,
        memory=PLENTY,
        outside=0,
        domains=domains,
        labels=(),
    )


def team(
    number: int,
    *,
    parent: int | None = None,
    guaranteed: int = 0,
    borrow: int | None = None,
    lend: int | None = None,
) -> TeamSpec:
    """Return a team with a quota on the only flavor."""
    quota = Quota(flavor=FLAVOR, guaranteed=guaranteed, borrow_limit=borrow, lend_limit=lend)
    return TeamSpec(
        id=number,
        name=f"t{number}",
        parent=parent,
        weight=1000,
        quotas=(quota,),
        per_user_limit=None,
        paused=False,
    )


def job(
    name: str,
    team: int,
    *,
    runs: Milliseconds,
    tasks: int = 1,
    units: int = 1,
    priority: int = 0,
    limit: Milliseconds | None = None,
    topology: Topology | None = None,
    user: str = "u",
) -> JobSpec:
    """Return a gang of equal tasks; the queue of team n is queue n."""
    group = GroupSpec(tasks=tasks, units=units, cpu=0, memory=0, flavors=(FLAVOR,), labels=(), topology=topology)
    return JobSpec(
        name=name,
        team=team,
        user=user,
        queue=team,
        priority=priority,
        priority_name=str(priority),
        shape="gang",
        groups=(group,),
        topology=None,
        time_limit=limit,
        own_time_limit=True,
        runs=runs,
        borrow=True,
        preemptible=True,
        grace=None,
    )


def scenario(nodes: Sequence[NodeSpec], teams: Sequence[TeamSpec], policy: PolicySpec) -> Scenario:
    """Return a world without a timeline; each team has one queue with its number."""
    return Scenario(
        file="benchmark",
        name="benchmark",
        policy=policy,
        flavors=(FlavorSpec(id=FLAVOR, name="gpu"),),
        levels=(),
        nodes=tuple(nodes),
        teams=tuple(teams),
        queues=tuple(QueueSpec(id=row.id, name="default", team=row.id) for row in teams),
        timeline=(),
        expects=(),
        until=0,
        place=NOWHERE,
    )


@dataclass(slots=True)
class Laps:
    """A clock that remembers how long each decision took: the engine reads it before and after one."""

    clock: Callable[[], float]
    seconds: list[float] = field(default_factory=list)
    _since: float | None = None

    def read(self) -> float:
        """Return the time; every second reading ends a lap."""
        now = self.clock()
        if self._since is None:
            self._since = now
        else:
            self.seconds.append(now - self._since)
            self._since = None
        return now


@dataclass(slots=True)
class Play:
    """A world that is played from its first arrival to the end of its last job."""

    engine: Engine
    arrivals: list[Arrival]
    watch: Callable[[Engine], None] | None = None
    tick: Milliseconds = 1
    place: int = 0
    decided: Milliseconds = -1

    def run(self, *, until: Milliseconds | None = None) -> None:
        """Go from event to event; a cycle decides on each multiple of ``tick`` at which anything has changed."""
        while (at := self._next()) is not None and (until is None or at <= until):
            self.step(at)

    def step(self, at: Milliseconds) -> None:
        """Let one instant happen."""
        engine = self.engine
        engine.advance(at)
        for arrival in self._arrived(at):
            engine.apply(Line(at, "submit", NOWHERE, job=arrival))
        if engine.dirty and at % self.tick == 0:
            self.decided = at
            engine.dirty = False
            engine.dirty = engine.cycle() or engine.dirty
            engine.events.clear()
            if self.watch is not None:
                self.watch(engine)

    def _arrived(self, at: Milliseconds) -> Iterator[JobSpec]:
        while self.place < len(self.arrivals) and self.arrivals[self.place][0] <= at:
            yield self.arrivals[self.place][1]
            self.place += 1

    def _next(self) -> Milliseconds | None:
        engine = self.engine
        times: list[Milliseconds | None] = [engine.next_due()]
        if self.place < len(self.arrivals):
            times.append(self.arrivals[self.place][0])
        if engine.dirty:
            times.append((max(engine.now, self.decided + 1) + self.tick - 1) // self.tick * self.tick)
        elif any(True for _ in engine.waiting()):
            times.append(engine.next_timer())
        return min((at for at in times if at is not None), default=None)


def waits(jobs: Sequence[Job]) -> list[Milliseconds]:
    """Return how long each job that has started waited for its first start, shortest first."""
    return sorted(row.started - row.submitted for row in jobs if row.started is not None)


def rank(values: Sequence[float], share: float) -> float:
    """Return the value below or at which that share of the sorted values lies (nearest rank)."""
    return values[max(0, min(len(values) - 1, -int(-share * len(values) // 1) - 1))] if values else 0.0
