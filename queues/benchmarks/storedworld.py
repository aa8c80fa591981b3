"""A large installation as rows, made by the database itself: nodes, teams, classes and waiting jobs."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import uuid4

from django.db import connection

from queues import classes
from queues.admission.world import Ask, Group, JobShape, Milliseconds
from queues.benchmarks.deciding import DEPARTMENTS, FULL, LEAVES, SHAPES, shape
from queues.models import ClusterState, Job, JobClass, Node, PriorityClass, Queue, TaskGroup
from queues.states import JobState
from tenants.models import Flavor, Quota, Team, User

USERS = 5
PER_NODE = 8
GIB = 2**30

# Each class has a held job that stands for it; the waiting ones are its copies. A job's number says its class, its user
# and its millisecond.
_JOBS = """
INSERT INTO queues_job ({columns})
SELECT {values} FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number
JOIN (SELECT *, row_number() OVER (ORDER BY id) - 1 AS place FROM queues_job WHERE name = 'template') job
    ON job.place = number %% %(classes)s
"""
_CHANGED = {
    "uid": "gen_random_uuid()",
    "name": "'j' || number",
    "user_id": "(%(users)s::bigint[])[1 + (number / %(classes)s) %% %(per)s]",
    "state": "'queued'",
    "ready": "TRUE",
    "not_waiting_since": "NULL",
    "submitted_at": "%(at)s + number * interval '1 ms'",
    "wait_from": "%(at)s + number * interval '1 ms'",
}
_GROUPS = """
INSERT INTO queues_taskgroup ({columns})
SELECT {values} FROM queues_job job
JOIN queues_job template ON template.job_class_id = job.job_class_id AND template.name = 'template'
JOIN queues_taskgroup asked ON asked.job_id = template.id
WHERE NOT EXISTS (SELECT FROM queues_taskgroup known WHERE known.job_id = job.id)
"""


@dataclass(slots=True)
class StoredWorld:
    """What was made, and how many jobs there are so far."""

    users: list[int]
    classes: int
    jobs: int = 0

    def add_jobs(self, count: int, at: datetime) -> None:
        """Let so many further jobs of the same classes wait."""
        values: dict[str, Any] = {
            "users": self.users,
            "per": len(self.users),
            "classes": self.classes,
            "at": at,
            "first": self.jobs,
            "last": self.jobs + count - 1,
        }
        with connection.cursor() as cursor:
            cursor.execute(_copy(_JOBS, Job, "job", _CHANGED), values)
            cursor.execute(_copy(_GROUPS, TaskGroup, "asked", {"job_id": "job.id"}))
            cursor.execute("ANALYZE")
        self.jobs += count


def build(nodes: int, *, random: Random, at: datetime, shapes: int = SHAPES) -> StoredWorld:
    """Make 20 departments of 10 leaves with ``shapes`` shapes each, and nodes of 8."""
    flavor = Flavor.objects.create(name="bench", installed=PER_NODE * nodes, usable=PER_NODE * nodes, created_at=at)
    cluster = ClusterState.objects.create(name="bench", heard_at=at, listed_at=at)
    Node.objects.bulk_create(_nodes(nodes, cluster, flavor, at), batch_size=5000)
    users = User.objects.bulk_create(User(username=f"bench{number}") for number in range(USERS))
    priority = PriorityClass.objects.create(name="bench", value=0)
    part = max(1, PER_NODE * nodes * FULL // 100 // (DEPARTMENTS * LEAVES))
    queues = [queue for number in range(DEPARTMENTS) for queue in _department(number, flavor, part, at)]
    wanted = [
        (queue.id, urgency, _ask(flavor.id, tasks, units, limit))
        for queue in queues
        for tasks, units, limit, urgency in (shape(random) for _ in range(shapes))
    ]
    classes.ensure(wanted)
    _templates(users[0], priority, at)
    return StoredWorld(users=[user.id for user in users], classes=JobClass.objects.count())


def _templates(user: User, priority: PriorityClass, at: datetime) -> None:
    """Make the held job of each class."""
    rows = list(JobClass.objects.select_related("queue").order_by("id"))
    asks = [classes.ask_from_json(row.ask) for row in rows]
    jobs = Job.objects.bulk_create(
        Job(
            uid=uuid4(),
            name="template",
            team_id=row.queue.team_id,
            queue=row.queue,
            user=user,
            priority_class=priority,
            priority=row.priority,
            job_class=row,
            shape=ask.shape,
            units=sum(group.tasks * group.units for group in ask.groups),
            spec={},
            time_limit=None if ask.time_limit is None else timedelta(milliseconds=ask.time_limit),
            grace=timedelta(),
            ran_for=timedelta(),
            state=JobState.HELD,
            state_since=at,
            waiting_tasks=1,
            ready=False,
            not_waiting_since=at,
            submitted_at=at,
            wait_from=at,
        )
        for row, ask in zip(rows, asks, strict=True)
    )
    TaskGroup.objects.bulk_create(
        TaskGroup(
            job=job,
            index=0,
            tasks=group.tasks,
            units=group.units,
            cpu_milli=group.cpu,
            memory=group.memory,
            flavors=list(group.flavors),
        )
        for job, ask in zip(jobs, asks, strict=True)
        for group in ask.groups
    )


def _copy(sql: str, model: type[Job] | type[TaskGroup], alias: str, changed: dict[str, str]) -> str:
    columns = [str(field.column) for field in model._meta.concrete_fields if field.column != "id"]  # noqa: SLF001  Django's public way
    return sql.format(
        columns=", ".join(columns), values=", ".join(changed.get(each, f"{alias}.{each}") for each in columns)
    )


def _nodes(count: int, cluster: ClusterState, flavor: Flavor, at: datetime) -> Iterator[Node]:
    for number in range(count):
        name = f"bench-{number}"
        yield Node(
            cluster=cluster,
            name=name,
            flavor=flavor,
            units=PER_NODE,
            cpu_milli=96_000,
            memory=1024 * GIB,
            labels={"kubernetes.io/hostname": name, "topology.kubernetes.io/rack": f"r{number // 32}"},
            ready=True,
            first_seen_at=at,
            changed_at=at,
        )


def _department(number: int, flavor: Flavor, part: int, at: datetime) -> list[Queue]:
    parent = Team.objects.create(name=f"bench-{number}", created_at=at)
    leaves = [
        Team.objects.create(name=f"bench-{number}-{place}", parent=parent, created_at=at) for place in range(LEAVES)
    ]
    Quota.objects.bulk_create(Quota(team=leaf, flavor=flavor, guaranteed=part, borrow_limit=0) for leaf in leaves)
    return Queue.objects.bulk_create(
        Queue(team=leaf, name="default", hold_after=timedelta(minutes=30), created_at=at) for leaf in leaves
    )


def _ask(flavor: int, tasks: int, units: int, limit: Milliseconds) -> Ask:
    return Ask(
        shape=JobShape.GANG if tasks > 1 else JobShape.INDEPENDENT,
        groups=(Group(tasks=tasks, units=units, cpu=1000, memory=1, flavors=(flavor,)),),
        time_limit=classes.grouped(timedelta(milliseconds=limit)),
    )
