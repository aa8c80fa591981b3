"""The invariants that can be seen on a virtual clock, checked after every cycle (SEMANTICS 13)."""

from queues.admission.outcome import Outcome
from queues.admission.quota import Line, Tree, demand, in_use, ledger
from queues.admission.world import World
from queues.simulation.engine import Engine
from queues.simulation.jobs import State


class Breach(Exception):
    """An invariant does not hold."""

    def __init__(self, at: int, name: str, numbers: str) -> None:
        """Name the cycle, the invariant and what was found."""
        super().__init__(f"{name}: {numbers}")
        self.at = at
        self.name = name
        self.numbers = numbers


class Watch:
    """Looks at each cycle and remembers who was evicted for whom."""

    def __init__(self, engine: Engine) -> None:
        """Begin with nothing seen."""
        self._engine = engine
        self._evicted_for: dict[int, set[tuple[int, int]]] = {}

    def after_cycle(self, *, undisturbed: bool) -> None:
        """Check everything; ``undisturbed``: for two cycles nothing but decisions has changed the world."""
        engine = self._engine
        outcome = engine.outcome
        world = engine.world()
        counted = in_use(world)
        self._recount(world, counted)
        self._nodes(world, outcome)
        if outcome.admissions:
            self._quota(world, outcome, counted)
        self._gangs()
        self._reasons()
        self._evictions(outcome)
        if undisturbed and outcome.admissions:
            names = [engine.by_id[row.job].name for row in outcome.admissions]
            raise Breach(engine.now, "I9", f"{names} could have started a cycle earlier")

    def _nodes(self, world: World, outcome: Outcome) -> None:
        used = dict.fromkeys((node.id for node in world.nodes), 0)
        for attempt in world.attempts:
            for row in (*attempt.placed, *attempt.surplus):
                if row.node in used:
                    used[row.node] += row.tasks * attempt.groups[row.group].units
        touched = {row.node for admission in outcome.admissions for row in admission.placed}
        touched |= {row.node for growth in outcome.growth for row in growth.placed}
        for node in world.nodes:
            if node.id in touched and used[node.id] + node.outside_units > node.units:
                numbers = f"node {node.name} has {node.units} units, {used[node.id]} used"
                raise Breach(self._engine.now, "I1", numbers)

    def _quota(self, world: World, outcome: Outcome, counted: tuple[Tree, dict[int, Line]]) -> None:
        """No admission takes a team over its limits; victims of claims are no longer counted here."""
        tree, lines = counted
        for attempt in world.attempts:
            for flavor, units in demand(attempt).items() if attempt.claimed else ():
                lines[flavor].take(tree.number[attempt.team], -units)
        without = {flavor: line.copy() for flavor, line in lines.items()}
        for admission in outcome.admissions:
            job = self._engine.by_id[admission.job]
            for row in admission.placed:
                units = row.tasks * job.spec.groups[row.group].units
                without[admission.flavors[row.group]].take(tree.number[job.spec.team], -units)
        for flavor, line in lines.items():
            for node in range(1, len(tree.parent)):
                limit = line.borrow[node]
                grown = line.usage[node] > without[flavor].usage[node]
                if grown and limit is not None and line.usage[node] > line.subtree[node] + limit:
                    numbers = f"{line.flavor.name}: {line.usage[node]} used, limit {line.subtree[node] + limit}"
                    raise Breach(self._engine.now, "I2", numbers)

    def _gangs(self) -> None:
        for run in self._engine.runs.values():
            job = run.job
            if job.independent or run.leaving or self._engine.lost:
                continue
            wanted = sum(group.tasks for group in job.spec.groups)
            if sum(row.tasks for row in run.placed) != wanted:
                raise Breach(self._engine.now, "I3", f"{job.name} holds {run.placed}, wants {wanted} tasks")

    def _recount(self, world: World, counted: tuple[Tree, dict[int, Line]]) -> None:
        engine = self._engine
        for loan in ledger(world, counted).loans:
            borrowed, lent = sum(units for _, units in loan.borrowed), sum(units for _, units in loan.lent)
            if borrowed != lent + loan.over_lending:
                raise Breach(engine.now, "I6", f"{borrowed} borrowed, {lent} lent, {loan.over_lending} over lending")
        if not engine.lost:
            tree, lines = counted
            booked = sum(
                line.usage[place] for line in lines.values() for place in tree.upward if not tree.children[place]
            )
            runs = sum(run.units() for run in engine.runs.values())
            if booked != runs:
                raise Breach(engine.now, "I5", f"{booked} booked, {runs} held by runs")

    def _reasons(self) -> None:
        for job in self._engine.waiting():
            if job.row is not None and job.id not in self._engine.fresh and self._engine.reason(job) is None:
                raise Breach(self._engine.now, "I7", f"{job.name} waits without a reason")

    def _evictions(self, outcome: Outcome) -> None:
        """Nobody is evicted twice for the same claimant while that one waits on (I10)."""
        engine = self._engine
        for admission in outcome.admissions:
            self._evicted_for.pop(admission.job, None)
        standing = {row.job for row in outcome.claims}
        for job in list(self._evicted_for):
            if job not in standing:
                del self._evicted_for[job]
        for eviction in outcome.evictions:
            claimant = engine.by_id[eviction.job]
            if eviction.surplus or claimant.independent or claimant.state is State.RUNNING:
                continue
            seen = self._evicted_for.setdefault(eviction.job, set())
            victim = engine.victim(eviction.attempt)
            if victim in seen:
                raise Breach(engine.now, "I10", f"{engine.by_id[victim[0]].name} evicted twice for {claimant.name}")
            seen.add(victim)
