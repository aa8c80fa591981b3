"""A small laboratory for tests: two departments' teams, people, GPU types, nodes, and jobs in any state."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from django.contrib.auth.hashers import make_password

from queues import services, steps
from queues.models import ClusterState, Job, Node, PriorityClass, Queue, Task, TaskGroup, Wave
from queues.states import JobState, TaskState, WaveState
from tenants.models import Flavor, GlobalRole, Membership, Quota, Role, Team, User
from tenants.permissions import Actor

NO_PASSWORD = make_password(None)
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

_numbers = itertools.count(1)


class Lab:
    """Teams nlp and cv below ai, bio below life; ann and art in nlp, carl in cv; lea leads nlp, root is admin."""

    def __init__(self) -> None:
        """Write each kind of row in one statement: some thousand tests begin with this."""
        self.ai, self.life = Team.objects.bulk_create([_team("ai"), _team("life")])
        below = (("nlp", self.ai), ("cv", self.ai), ("bio", self.life))
        self.nlp, self.cv, self.bio = leaves = Team.objects.bulk_create([_team(name, parent) for name, parent in below])
        Queue.objects.bulk_create(
            Queue(team=row, name="default", created_at=NOW) for row in (self.ai, self.life, *leaves)
        )
        PriorityClass.objects.bulk_create(
            PriorityClass(name=name, value=value) for name, value in (("low", -1), ("normal", 0), ("high", 1))
        )
        self.h100, self.l40s = Flavor.objects.bulk_create([_flavor("h100", 32), _flavor("l40s", 16)])
        Quota.objects.bulk_create(
            Quota(team=row, flavor=self.h100, guaranteed=units) for row, units in zip(leaves, (16, 8, 8), strict=True)
        )
        self.cluster = ClusterState.objects.create(name="default", heard_at=NOW, listed_at=NOW)
        self.nodes = Node.objects.bulk_create(
            [
                *(_node(self.cluster, f"h{number}", self.h100, rack=f"r{number % 2}") for number in range(4)),
                *(_node(self.cluster, f"l{number}", self.l40s, rack="r9") for number in range(2)),
            ]
        )
        self._people()

    def _people(self) -> None:
        roles = {"ann": Role.MEMBER, "art": Role.MEMBER, "vic": Role.VIEWER, "lea": Role.LEAD, "carl": Role.MEMBER}
        users = User.objects.bulk_create(
            [
                *(User(username=name, password=NO_PASSWORD) for name in roles),
                User(username="root", password=NO_PASSWORD, global_role=GlobalRole.ADMIN),
                User(username="audrey", password=NO_PASSWORD, global_role=GlobalRole.AUDITOR),
            ]
        )
        Membership.objects.bulk_create(
            Membership(user=user, team=self.cv if user.username == "carl" else self.nlp, role=role, created_at=NOW)
            for user, role in zip(users, roles.values(), strict=False)
        )
        self.ann, self.art, self.vic, self.lea, self.carl, self.root, self.auditor = (
            Actor(user=user) for user in users
        )

    def submit(self, by: Actor | None = None, **changes: Any) -> Job:  # noqa: ANN401  fields of a spec
        """Submit a job of ``compact`` with changes."""
        now = changes.pop("now", NOW)
        return services.submit(spec=compact(**changes), by=by or self.ann, now=now).job

    def start(self, job: Job, *nodes: Node, now: datetime = NOW, running: bool = True) -> Wave:
        """Admit all that waits of a job, its tasks on the nodes in turn, as apply and reconcile would."""
        groups = list(TaskGroup.objects.filter(job=job).order_by("index"))
        wave = Wave.objects.create(
            uid=uuid4(),
            job=job,
            cluster=self.cluster,
            number=Wave.objects.filter(job=job).count() + 1,
            attempt=job.attempt,
            flavors=[group.flavors[0] for group in groups],
            cycle=next(_numbers),
            state=WaveState.RUNNING if running else WaveState.ADMITTED,
            admitted_at=now,
            launched_at=now,
            started_at=now if running else None,
        )
        places = itertools.cycle(nodes or self.nodes)
        index = itertools.count()
        Task.objects.bulk_create(
            Task(
                wave=wave,
                group=group.index,
                index=next(index),
                pod_index=number,
                node=next(places),
                flavor_id=group.flavors[0],
                units=group.units,
                cpu_milli=group.cpu_milli,
                memory=group.memory,
                state=TaskState.RUNNING if running else TaskState.PENDING,
                started_at=now if running else None,
            )
            for group in groups
            for number in range(group.tasks)
        )
        state = JobState.RUNNING if running else JobState.ADMITTED
        Job.objects.filter(id=job.id).update(
            state=state, state_since=now, started_at=now, waiting_tasks=0, **steps.waits_no_more(now)
        )
        job.refresh_from_db()
        return wave

    def grow(self, base: Wave, *nodes: Node, now: datetime = NOW, running: bool = True) -> Wave:
        """Give the elastic job of a wave one surplus task on each node, as apply and reconcile would."""
        group = TaskGroup.objects.get(job=base.job_id, index=0)
        wave = Wave.objects.create(
            uid=uuid4(),
            job_id=base.job_id,
            cluster=self.cluster,
            base=base,
            number=Wave.objects.filter(job=base.job_id).count() + 1,
            attempt=base.attempt,
            flavors=base.flavors,
            cycle=next(_numbers),
            state=WaveState.RUNNING if running else WaveState.ADMITTED,
            admitted_at=now,
            launched_at=now,
            started_at=now if running else None,
        )
        first = Task.objects.filter(wave__job=base.job_id).count()
        Task.objects.bulk_create(
            Task(
                wave=wave,
                index=first + place,
                pod_index=place,
                node=node,
                flavor_id=group.flavors[0],
                units=group.units,
                cpu_milli=group.cpu_milli,
                memory=group.memory,
                state=TaskState.RUNNING if running else TaskState.PENDING,
                started_at=now if running else None,
            )
            for place, node in enumerate(nodes)
        )
        return wave


def team(name: str, parent: Team | None = None) -> Team:
    row = _team(name, parent)
    row.save()
    Queue.objects.create(team=row, name="default", created_at=NOW)
    return row


def _team(name: str, parent: Team | None = None) -> Team:
    return Team(name=name, title=name.upper(), parent=parent, created_at=NOW)


def flavor(name: str, *, installed: int) -> Flavor:
    row = _flavor(name, installed)
    row.save()
    return row


def _flavor(name: str, installed: int) -> Flavor:
    return Flavor(name=name, installed=installed, usable=installed, created_at=NOW)


def node(cluster: ClusterState, name: str, kind: Flavor, *, units: int = 8, rack: str = "r0") -> Node:
    row = _node(cluster, name, kind, units=units, rack=rack)
    row.save()
    return row


def _node(cluster: ClusterState, name: str, kind: Flavor, *, units: int = 8, rack: str = "r0") -> Node:
    return Node(
        cluster=cluster,
        name=name,
        flavor=kind,
        units=units,
        cpu_milli=96_000,
        memory=2**40,
        labels={"rack": rack, "kubernetes.io/hostname": name},
        ready=True,
        first_seen_at=NOW,
        changed_at=NOW,
    )


def member(name: str, of: Team, role: Role = Role.MEMBER) -> Actor:
    user = User.objects.create_user(name)
    Membership.objects.create(user=user, team=of, role=role, created_at=NOW)
    return Actor(user=user)


def compact(
    *,
    name: object = "train",
    team: str | None = "nlp",
    metadata: dict[str, Any] | None = None,
    **body: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """Return a small sound spec; ``body`` replaces or (None) removes fields of ``spec``."""
    fields = {"gpus": "h100:1", "run": {"image": "reg.example/train:1"}, **body}
    head = {"name": name, "team": team, **(metadata or {})}
    return {
        "apiVersion": "tidegate/v1",
        "kind": "Job",
        "metadata": {key: value for key, value in head.items() if value is not None},
        "spec": {key: value for key, value in fields.items() if value is not None},
    }
