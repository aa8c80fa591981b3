"""The standing parts of a simulated world: policy, flavors, teams, queues, nodes, and what follows from them."""

from collections.abc import Iterator
from dataclasses import replace

from queues.admission.quota import Tree, lines
from queues.admission.world import (
    Ask,
    Flavor,
    Group,
    JobClass,
    JobShape,
    Milliseconds,
    Node,
    Queue,
    QueueOrder,
    Team,
    World,
)
from queues.simulation.clock import Clock
from queues.simulation.jobs import Job
from queues.simulation.scenario import JobSpec, Line, PolicySpec, QueueSpec, Scenario

LIMIT_STEP: Milliseconds = 15 * 60_000


class Stage(Clock):
    """Policy, flavors, teams, queues and nodes as they are now."""

    def __init__(self, scenario: Scenario) -> None:
        """Build the world as the file describes it."""
        super().__init__()
        self.scenario = scenario
        self.policy: PolicySpec = scenario.policy
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
        self.removed: dict[str, Node] = {}
        self._departments = {row.parent for row in scenario.teams}
        self.own_user_limit = {row.id for row in scenario.teams if row.own_user_limit}
        self.queues = {row.id: row for row in scenario.queues}
        self.lost: dict[int, Milliseconds] = {}
        self._classes: dict[tuple[int, int, Ask], JobClass] = {}
        self._defaults: dict[int, tuple[int, ...]] = {}
        self._queue_rows: dict[int, Queue] = {}

    def check_guarantees(self, line: Line | None = None) -> None:
        """Refuse guarantees above installed units unless the policy overcommits; asked after each line that matters."""
        if self.policy.overcommit:
            return
        for flavor in self.flavors:
            installed = sum(node.units for node in self.nodes.values() if node.flavor == flavor.id)
            quotas = [quota for team in self.teams.values() for quota in team.quotas if quota.flavor == flavor.id]
            promised = sum(quota.guaranteed for quota in quotas)
            if promised > installed:
                text = f"{promised} units of {flavor.name!r} are guaranteed, {installed} are installed"
                raise (line.place if line else self.scenario.place).wrong(text)

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

    def hold_after(self, spec: JobSpec) -> Milliseconds:
        """Return how long a job may be passed before it may hold."""
        own = self.queue_of(spec).hold_after
        return self.policy.hold_after if own is None else own

    def limit_needed(self, spec: JobSpec) -> bool:
        """Whether only jobs with a time limit may borrow."""
        own = self.queue_of(spec).limit_needed_to_borrow
        return self.policy.limit_needed_to_borrow if own is None else own

    def user_limit_of_queue(self, spec: JobSpec) -> int | None:
        """Return the most units of one user in the job's queue."""
        queue = self.queue_of(spec)
        return queue.per_user_limit if queue.own_user_limit else None

    def user_limits_of_teams(self, spec: JobSpec) -> Iterator[tuple[int, int | None]]:
        """Yield the job's team and the departments above it with the most units of one user below each."""
        for team in self.path(spec):
            yield team, self._user_limit(self.teams[team])

    def path(self, spec: JobSpec) -> Iterator[int]:
        """Yield the job's team and the departments above it."""
        team: int | None = spec.team
        while team is not None:
            yield team
            team = self.teams[team].parent

    def paused(self, spec: JobSpec) -> bool:
        """Whether the job's queue, its team or a department above starts nothing."""
        return self.queues[spec.queue].paused or any(self.teams[team].paused for team in self.path(spec))

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
                flavors=group.flavors or self.flavors_of(spec.team),
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

    def flavors_of(self, team: int) -> tuple[int, ...]:
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

    def _user_limit(self, team: Team) -> int | None:
        """Return the most units of one user below a team: its own, or in a leaf that has none the policy's."""
        own = team.id in self.own_user_limit or team.id in self._departments
        return team.per_user_limit if own else self.policy.per_user_limit

    def _team_row(self, team: Team) -> Team:
        limit = self._user_limit(team)
        return team if limit == team.per_user_limit else replace(team, per_user_limit=limit)

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
