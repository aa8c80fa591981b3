"""Who waits although it could start: each waiting job is tried by itself, apart from the rules' classes and lines."""

from collections.abc import Iterator
from itertools import product

from queues.admission.world import Milliseconds, Near, Node, NodeState, Standing, Topology
from queues.simulation.engine import Engine
from queues.simulation.jobs import Job
from queues.simulation.tally import Room, Tally

MOST_JOBS = 300
MOST_TRIES = 20_000
"""So many jobs, and jobs x nodes, are tried after one cycle; of more the next ones after the next cycle."""


class Need:
    """Equal tasks of one group on one flavor."""

    def __init__(self, job: Job, group: int, flavor: int) -> None:
        """Take what one wave of the job asks for: of an independent job one task."""
        row = job.spec.groups[group]
        self.flavor = flavor
        self.tasks = 1 if job.independent else row.tasks
        self.units = row.units * self.tasks
        self.room: Room = (row.units, row.cpu, row.memory)
        self.labels = frozenset(row.labels)


class Idle:
    """Looks for waiting jobs that could start on what nobody uses, reserves, keeps or holds."""

    def __init__(self, engine: Engine) -> None:
        """Begin with the first job."""
        self._engine = engine
        self._turn = 0

    def find(self, tally: Tally) -> Job | None:
        """Return a job that could have started; the tally is made free of what keeps and holds want."""
        jobs = [job for job in self._engine.waiting() if job.row is not None]
        most = min(MOST_JOBS, max(1, MOST_TRIES // max(1, len(self._engine.nodes))))
        if len(jobs) > most:
            self._turn += most
            jobs = [jobs[(self._turn + place) % len(jobs)] for place in range(most)]
        return next((job for job in jobs if self._could(job, tally)), None)

    def _could(self, job: Job, tally: Tally) -> bool:
        engine = self._engine
        claims = sum(claim.job == job.id for claim in engine.outcome.claims)
        if job.held or engine.paused(job.spec) or claims >= (len(job.waiting) if job.independent else 1):
            return False
        ends = self._sure_end(job)
        if self._outlasts_a_hold(job, ends):
            return False
        wishes = [group.flavors or engine.flavors_of(job.spec.team) for group in job.spec.groups]
        for flavors in product(*wishes):
            needs = [Need(job, group, flavor) for group, flavor in enumerate(flavors)]
            with tally.as_found_by(job, ends):
                if self._allowed(job, needs, tally) and self._fits(job, needs, tally):
                    return True
        return False

    def _sure_end(self, job: Job) -> Milliseconds | None:
        """Return when the job would have ended; None as well where the task with the longest limit has just started."""
        engine = self._engine
        limit = job.limit(engine.time_limit(job.spec))
        if limit is None or any(row.job == job.id for row in engine.outcome.admissions):
            return None
        return engine.now + limit + engine.grace(job.spec)

    def _outlasts_a_hold(self, job: Job, ends: Milliseconds | None) -> bool:
        """Whether guaranteed demand of its team or department holds for a time at which the job might still run.

        What it uses may take the guarantee of the other then, which cannot be counted from what is in use now.
        """
        engine = self._engine
        own = set(engine.path(job.spec))
        for hold in engine.outcome.holds:
            other = engine.by_id[hold.job]
            if (
                other is job
                or hold.standing is Standing.BORROWER
                or hold.at is None
                or (ends or hold.at + 1) <= hold.at
            ):
                continue
            if not own.isdisjoint(engine.path(other.spec)):
                return True
        return False

    def _allowed(self, job: Job, needs: list[Need], tally: Tally) -> bool:
        """Whether quota and limits leave room, as SEMANTICS 2 says it."""
        engine, team = self._engine, job.spec.team
        units: dict[int, int] = {}
        for need in needs:
            units[need.flavor] = units.get(need.flavor, 0) + need.units
        total = sum(units.values())
        if any(limit is not None and used + total > limit for used, limit in tally.limits(job)):
            return False
        if any(tally.books[flavor].available(team) < ask for flavor, ask in units.items()):
            return False
        firm = not (job.spec.borrow and job.spec.preemptible)
        for flavor, ask in units.items() if firm else ():
            if tally.books[flavor].uncovered(team, ask) > tally.books[flavor].uncovered(team):
                return False
        if all(tally.books[flavor].inside(team, ask) for flavor, ask in units.items()):
            return True
        endless = engine.limit_needed(job.spec) and engine.time_limit(job.spec) is None
        return job.spec.borrow and not endless and not backs_off(engine, job)

    def _fits(self, job: Job, needs: list[Need], tally: Tally) -> bool:
        nodes = [node for node in self._engine.nodes.values() if node.state is NodeState.READY]
        wishes = [group.topology for group in job.spec.groups if group.topology is not None]
        if job.spec.topology is not None or len(needs) == 1:
            wish = job.spec.topology or next(iter(wishes), None)
        elif wishes:
            return False  # several groups with wishes of their own are not tried
        else:
            wish = None
        return any(placed(needs, part, tally.free) for part in _within(nodes, wish))


def backs_off(engine: Engine, job: Job) -> bool:
    """Whether a job that was evicted often has to wait longer before it borrows again (SEMANTICS 8)."""
    extra = job.evictions - engine.policy.max_evictions
    longer: Milliseconds = engine.hold_after(job.spec) * 2 ** max(0, extra)
    return extra >= 0 and engine.now - job.wait_from < longer


def _within(nodes: list[Node], wish: Topology | None) -> Iterator[list[Node]]:
    """Yield sets of nodes of which one must hold all tasks; a bound on skew is not tried."""
    if wish is None or wish.near is Near.PREFERRED or (wish.near is Near.SPREAD and wish.max_skew is None):
        yield nodes
    elif wish.near is Near.REQUIRED:
        rows: dict[tuple[str | int | None, ...], list[Node]] = {}
        for node in nodes:
            path = (*node.domains, node.id)[: wish.level + 1]
            if path[-1] is not None:
                rows.setdefault(path, []).append(node)
        yield from rows.values()


def placed(needs: list[Need], nodes: list[Node], free: dict[int, Room]) -> bool:
    """Whether tasks find room, the largest first, each node filled in turn: a witness, if not every one."""
    left = {node.id: free[node.id] for node in nodes}
    for need in sorted(needs, key=lambda row: row.room, reverse=True):
        missing = need.tasks
        for node in nodes:
            if missing and node.flavor == need.flavor and need.labels <= set(node.labels):
                room = left[node.id]
                part = min([missing, *(have // ask for have, ask in zip(room, need.room, strict=True) if ask)])
                if part > 0:
                    left[node.id] = _less(room, need.room, part)
                    missing -= part
        if missing:
            return False
    return True


def _less(room: Room, ask: Room, times: int) -> Room:
    return (room[0] - times * ask[0], room[1] - times * ask[1], room[2] - times * ask[2])
