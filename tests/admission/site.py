"""Small worlds written by hand: a site with teams, nodes, running and waiting jobs, numbered in order of creation."""

from dataclasses import dataclass, field

from queues.admission.decide import Outcome, decide
from queues.admission.heads import SimpleHeads
from queues.admission.ranking import Rank, ranking
from queues.admission.reasons import Code, Reason
from queues.admission.world import (
    HOUR,
    Ask,
    Attempt,
    Claim,
    Flavor,
    Group,
    Hold,
    JobClass,
    JobShape,
    Node,
    NodeState,
    Placed,
    Policy,
    Queue,
    QueueOrder,
    Quota,
    Team,
    Topology,
    Waiting,
    World,
)

NOW = 100 * HOUR
GI = 1 << 30


@dataclass
class Site:
    """Collects rows and gives the world."""

    policy: Policy = field(default_factory=Policy)
    flavors: list[Flavor] = field(default_factory=list)
    teams: list[Team] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    classes: list[JobClass] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    jobs: int = 0

    def flavor(self, name: str = "g", **more: object) -> int:
        number = len(self.flavors) + 1
        self.flavors.append(Flavor(id=number, name=name, **more))  # type: ignore[arg-type]
        return number

    def node(self, units: int, count: int = 1, **more: object) -> list[int]:
        made = []
        fields = {"cluster": 1, "flavor": 1, "cpu": 1_000_000, "memory": 1000 * GI} | more
        if not self.flavors:
            self.flavor()
        for _ in range(count):
            number = len(self.nodes) + 1
            self.nodes.append(Node(id=number, name=f"n{number}", units=units, **fields))  # type: ignore[arg-type]
            made.append(number)
        return made

    def team(
        self,
        guaranteed: int = 0,
        *,
        parent: int | None = None,
        borrow: int | None = None,
        lend: int | None = None,
        quotas: tuple[Quota, ...] | None = None,
        order: QueueOrder = QueueOrder.FAIR_USERS,
        queue_limit: int | None = None,
        queue_paused: bool = False,
        **more: object,
    ) -> int:
        number = len(self.teams) + 1
        if quotas is None:
            quotas = (Quota(flavor=1, guaranteed=guaranteed, borrow_limit=borrow, lend_limit=lend),)
        self.teams.append(Team(id=number, name=f"t{number}", parent=parent, quotas=quotas, **more))  # type: ignore[arg-type]
        self.queues.append(
            Queue(
                id=number,
                name=f"q{number}",
                team=number,
                order=order,
                per_user_limit=queue_limit,
                paused=queue_paused,
            )
        )
        return number

    def runs(
        self,
        team: int,
        *nodes: int,
        units: int = 1,
        tasks: int = 1,
        user: int | None = None,
        flavor: int = 1,
        **more: object,
    ) -> int:
        """Let ``tasks`` tasks of ``units`` units run on each of the nodes."""
        self.jobs += 1
        number = len(self.attempts) + 1
        group = Group(tasks=tasks * len(nodes), units=units, flavors=(flavor,))
        placed = tuple(Placed(group=0, node=node, tasks=tasks) for node in nodes)
        fields = {"since": NOW - HOUR, "queue": team} | more
        self.attempts.append(
            Attempt(
                id=number,
                number=number,
                job=self.jobs,
                team=team,
                user=team if user is None else user,
                groups=(group,),
                flavors=(flavor,),
                placed=placed,
                **fields,  # type: ignore[arg-type]
            )
        )
        return self.jobs

    def waits(
        self,
        team: int,
        units: int = 1,
        *,
        gang: int | None = None,
        tasks: int = 1,
        groups: tuple[Group, ...] | None = None,
        flavors: tuple[int, ...] = (1,),
        cpu: int = 0,
        memory: int = 0,
        labels: tuple[tuple[str, str], ...] = (),
        priority: int = 0,
        user: int | None = None,
        minutes: int = 0,
        queue: int | None = None,
        borrow: bool = True,
        preemptible: bool = True,
        limit: int | None = None,
        topology: Topology | None = None,
        together: Topology | None = None,
        evictions: int = 0,
    ) -> int:
        """Let a job wait since ``minutes`` ago: a gang of so many tasks, or an independent job."""
        self.jobs += 1
        if groups is None:
            wants = {"cpu": cpu, "memory": memory, "flavors": flavors, "labels": labels, "topology": topology}
            groups = (Group(tasks=gang or 1, units=units, **wants),)  # type: ignore[arg-type]
            shape = JobShape.INDEPENDENT if gang is None else JobShape.GANG
        else:
            shape = JobShape.GANG
        ask = Ask(shape=shape, groups=groups, borrow=borrow, preemptible=preemptible, topology=together)
        number = self._class(team if queue is None else queue, priority, ask)
        since = NOW - minutes * 60_000
        self.waiting.append(
            Waiting(
                id=self.jobs,
                job_class=number,
                user=team if user is None else user,
                wait_from=since,
                submitted=since,
                tasks=tasks,
                limit=None if limit is None else limit * 60_000,
                evictions=evictions,
            )
        )
        return self.jobs

    def _class(self, queue: int, priority: int, ask: Ask) -> int:
        for row in self.classes:
            if (row.queue, row.priority, row.ask) == (queue, priority, ask):
                return row.id
        self.classes.append(JobClass(id=len(self.classes) + 1, queue=queue, priority=priority, ask=ask))
        return len(self.classes)

    def claims_on(self, job: int, *nodes: int, tasks: int = 1, flavor: int = 1, **more: object) -> Claim:
        """Reserve ``tasks`` tasks of a waiting job on each of the nodes."""
        waiting, team = self._waiting(job)
        self.claims.append(
            Claim(
                id=len(self.claims) + 1,
                job=job,
                job_class=waiting.job_class,
                team=team,
                user=waiting.user,
                flavors=(flavor,),
                placed=tuple(Placed(group=0, node=node, tasks=tasks) for node in nodes),
                **more,  # type: ignore[arg-type]
            )
        )
        return self.claims[-1]

    def holds_on(self, job: int, *nodes: int, at: int | None, tasks: int = 1, **more: object) -> Hold:
        """Let a waiting job hold ``tasks`` tasks on each of the nodes; ``at`` is the planned start."""
        waiting, _ = self._waiting(job)
        self.holds.append(
            Hold(
                job=job,
                job_class=waiting.job_class,
                user=waiting.user,
                flavors=(1,),
                placed=tuple(Placed(group=0, node=node, tasks=tasks) for node in nodes),
                at=at,
                wait_from=waiting.wait_from,
                limit=waiting.limit,
                evictions=waiting.evictions,
                **more,  # type: ignore[arg-type]
            )
        )
        return self.holds[-1]

    def _waiting(self, job: int) -> tuple[Waiting, int]:
        waiting = next(row for row in self.waiting if row.id == job)
        return waiting, self.queues[self.classes[waiting.job_class - 1].queue - 1].team

    def cordon(self, node: int, state: NodeState = NodeState.CORDONED) -> None:
        old = self.nodes[node - 1]
        self.nodes[node - 1] = Node(**{name: getattr(old, name) for name in old.__slots__} | {"state": state})

    def world(self) -> World:
        return World(
            now=NOW,
            policy=self.policy,
            flavors=tuple(self.flavors),
            teams=tuple(self.teams),
            queues=tuple(self.queues),
            nodes=tuple(self.nodes),
            attempts=tuple(self.attempts),
            classes=tuple(self.classes),
            claims=tuple(self.claims),
            holds=tuple(self.holds),
        )

    def heads(self) -> SimpleHeads:
        return SimpleHeads(self.waiting)

    def decide(self) -> "Decided":
        return Decided(self, decide(self.world(), self.heads()))

    def ranking(self, **more: int) -> tuple[Rank, ...]:
        return ranking(self.world(), self.heads(), **more)


@dataclass
class Decided:
    """An outcome asked by job."""

    site: Site
    outcome: Outcome

    def started(self) -> list[int]:
        return [row.job for row in self.outcome.admissions]

    def tasks(self, job: int) -> int:
        return sum(row.tasks for row in self.outcome.admissions if row.job == job)

    def victims(self) -> list[int]:
        jobs = {row.id: row.job for row in self.site.attempts}
        return sorted(jobs[row.attempt] for row in self.outcome.evictions)

    def nodes(self, job: int) -> dict[int, int]:
        result: dict[int, int] = {}
        for row in self.outcome.admissions:
            if row.job == job:
                for placed in row.placed:
                    result[placed.node] = result.get(placed.node, 0) + placed.tasks
        return result

    def reason(self, job: int) -> Reason:
        waiting = next(row for row in self.site.waiting if row.id == job)
        rows = {row.user: row.reason for row in self.outcome.verdicts if row.job_class == waiting.job_class}
        return rows.get(waiting.user, rows[None])

    def code(self, job: int) -> Code:
        return self.reason(job).code

    def numbers(self, job: int) -> dict[str, int | str]:
        return dict(self.reason(job).numbers)
