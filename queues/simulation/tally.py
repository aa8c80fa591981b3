"""All that holds, reserves, keeps and holds back units after a cycle, counted anew from the runs themselves."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from queues.admission.world import Milliseconds, NodeState, Placed
from queues.simulation.books import Book
from queues.simulation.engine import Engine
from queues.simulation.jobs import Job

Room = tuple[int, int, int]
"""Counted units, CPU, memory."""
Wish = tuple[Job, tuple[int, ...], tuple[Placed, ...], Milliseconds | None]
"""A job with the flavors of its groups, the tasks that it wants somewhere, and from when on where that is planned."""


class Tally:
    """Quota by flavor, room by node and units by user; victims of claims count on nodes only, claims in quota too."""

    def __init__(self, engine: Engine) -> None:
        """Count everything."""
        self._engine = engine
        self.on_nodes: dict[int, Room] = {}
        self.users: Counter[tuple[int, int]] = Counter()
        self.in_queues: Counter[tuple[int, int]] = Counter()
        elsewhere: Counter[int] = Counter()
        unusable = {node.id for node in engine.nodes.values() if node.state is not NodeState.READY}
        for run in engine.runs.values():
            for row in engine.held(run):
                self.on_nodes[row.node] = _plus(self.on_nodes.get(row.node, (0, 0, 0)), _room(run.job, row))
                if row.node in unusable and not run.claimed:
                    elsewhere[run.flavors[row.group]] += _units(run.job, row)
        claims = (claim for claim in engine.outcome.claims if engine.by_id[claim.job].row is not None)
        for victim in (victim for claim in claims for victim in claim.pending):
            still = engine.runs.get(victim.attempt)
            for row in victim.placed if still is not None else ():
                if still is not None and row.node in unusable and row.node not in engine.lost:
                    elsewhere[still.flavors[row.group]] -= _units(still.job, row)
        nodes = tuple(engine.nodes.values())
        flavors = [flavor.id for flavor in engine.flavors]
        self.books = {flavor: Book(flavor, engine.teams, nodes, elsewhere[flavor]) for flavor in flavors}
        self.held = {flavor: Book(flavor, engine.teams, nodes, elsewhere[flavor]) for flavor in flavors}
        for run in engine.runs.values():
            for soft, rows in ((False, run.placed), (True, run.surplus)) if run.surplus else ((False, run.placed),):
                there = [row for row in rows if row.node not in engine.lost] if engine.lost else rows
                self._use(self.held, run.job, run.flavors, there, 1, soft=soft)
                if not run.claimed:
                    self.use(run.job, run.flavors, there, 1, soft=soft)
        self.free: dict[int, Room] = {
            node.id: _minus(
                (node.units - node.outside_units, node.cpu - node.outside_cpu, node.memory - node.outside_memory),
                self.on_nodes.get(node.id, (0, 0, 0)),
            )
            for node in nodes
        }
        self._claims()
        self.wishes: list[Wish] = []

    def use(self, job: Job, flavors: tuple[int, ...], rows: Iterable[Placed], sign: int, *, soft: bool = False) -> None:
        """Count tasks in (``sign`` -1: out) for quota and users; soft ones are never firm."""
        for units in self._use(self.books, job, flavors, rows, sign, soft=soft):
            for team, _ in self._engine.user_limits_of_teams(job.spec):
                self.users[team, job.user] += sign * units
            self.in_queues[job.spec.queue, job.user] += sign * units

    def _use(
        self,
        books: dict[int, Book],
        job: Job,
        flavors: tuple[int, ...],
        rows: Iterable[Placed],
        sign: int,
        *,
        soft: bool = False,
    ) -> list[int]:
        firm = not soft and not (job.spec.borrow and job.spec.preemptible)
        counted = [(flavors[row.group], _units(job, row)) for row in rows]
        for flavor, units in counted:
            books[flavor].used[job.spec.team] += sign * units
            if firm:
                books[flavor].firm[job.spec.team] += sign * units
        return [units for _, units in counted]

    def _claims(self) -> None:
        """Count claims as usage, their victims that have not left yet no longer; take what is reserved beyond these."""
        engine = self._engine
        reserved: dict[int, Room] = {}
        for run in engine.runs.values():
            for row in engine.held(run) if run.claimed else ():
                reserved[row.node] = _minus(reserved.get(row.node, (0, 0, 0)), _room(run.job, row))
        for claim in engine.outcome.claims:
            job = engine.by_id[claim.job]
            if job.row is None:
                continue
            self.use(job, claim.flavors, claim.placed, 1)
            for row in claim.placed:
                reserved[row.node] = _plus(reserved.get(row.node, (0, 0, 0)), _room(job, row))
            for victim in claim.pending:
                still = engine.runs.get(victim.attempt)
                if still is not None:
                    self.use(still.job, still.flavors, victim.placed, -1)
                    for row in victim.placed:
                        reserved[row.node] = _minus(reserved.get(row.node, (0, 0, 0)), _room(still.job, row))
        for node, room in reserved.items():
            if node in self.free:
                self.free[node] = _minus(self.free[node], _above_nothing(room))

    def limits(self, job: Job) -> Iterator[tuple[int, int | None]]:
        """Yield what the job's user has, and may have at most, in its team, in each department above, in its queue."""
        for team, limit in self._engine.user_limits_of_teams(job.spec):
            yield self.users[team, job.user], limit
        yield self.in_queues[job.spec.queue, job.user], self._engine.user_limit_of_queue(job.spec)

    def take_wishes(self) -> None:
        """Count what keeps and holds want, wherever and whenever, as if it were in use now."""
        outcome, by_id = self._engine.outcome, self._engine.by_id
        rows: list[Wish] = [(by_id[row.job], row.flavors, row.placed, row.at) for row in outcome.holds]
        rows += [(by_id[row.job], row.flavors, row.placed, None) for row in outcome.keeps]
        self.wishes = [wish for wish in rows if wish[0].row is not None]
        for wish in self.wishes:
            self._wish(wish, 1)

    def _wish(self, wish: Wish, sign: int) -> None:
        job, flavors, rows, _ = wish
        self.use(job, flavors, rows, sign)
        for row in rows:
            if row.node in self.free:
                change = _minus if sign > 0 else _plus
                self.free[row.node] = change(self.free[row.node], _room(job, row))

    @contextmanager
    def as_found_by(self, job: Job, ends: Milliseconds | None) -> Iterator[None]:
        """Leave out what is not in a job's way: what it keeps or holds itself, and what starts after its end."""
        out = [
            (other, flavors, rows, at)
            for other, flavors, rows, at in self.wishes
            if other is job or (ends is not None and at is not None and ends <= at)
        ]
        for wish in out:
            self._wish(wish, -1)
        yield
        for wish in out:
            self._wish(wish, 1)


def _units(job: Job, row: Placed) -> int:
    return row.tasks * job.spec.groups[row.group].units


def _room(job: Job, row: Placed) -> Room:
    group = job.spec.groups[row.group]
    return (row.tasks * group.units, row.tasks * group.cpu, row.tasks * group.memory)


def _plus(one: Room, other: Room) -> Room:
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])


def _minus(one: Room, other: Room) -> Room:
    return (one[0] - other[0], one[1] - other[1], one[2] - other[2])


def _above_nothing(room: Room) -> Room:
    return (max(0, room[0]), max(0, room[1]), max(0, room[2]))
