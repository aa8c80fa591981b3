"""A wave's rows as the launch that a cluster is asked for."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.conf import settings

from clusters import names
from clusters.port import (
    Closeness,
    Elastic,
    GroupSpec,
    Launch,
    Mount,
    Near,
    Placement,
    RawObject,
    TaskSpec,
    Toleration,
    WaveRef,
)
from queues.admission.world import JobShape
from queues.limits import time_left
from queues.models import Job, Node, Task, TaskGroup, Wave
from queues.namespaces import namespace_of
from queues.spec import Run, Volume, runs
from tenants.models import Flavor, Quota

# Kubernetes' own deadline comes this much after ours.
FENCE_SLACK = timedelta(minutes=15)
# Resources that pods also ask for beside their counted one: a fence on them would count those.
NOT_FENCED = frozenset({"cpu", "memory"})


def ref_of(wave: Wave) -> WaveRef:
    """Return what names a wave to its cluster."""
    job = wave.job
    return WaveRef(
        wave=str(wave.uid),
        job=str(job.uid),
        number=wave.number,
        namespace=namespace_of(job.team.name),
        groups=len(wave.flavors),
        kind=job.kind,
        adopted=job.spec["spec"]["manifest"]["metadata"]["name"] if job.object_uid else "",
    )


def launches_of(waves: Sequence[Wave]) -> dict[int, Launch]:
    """Return the launch of each wave by its id, in a fixed number of queries.

    The waves come with job, team, queue, priority class and base.
    """
    tasks: dict[int, list[Task]] = defaultdict(list)
    rows = Task.objects.filter(wave__in=waves).select_related("node").order_by("wave_id", "group", "pod_index")
    # Of a node only what a launch tells is read, once for each of its tasks.
    for task in rows.only("wave_id", "group", "index", "pod_index", "node__name", "node__labels"):
        tasks[task.wave_id].append(task)
    groups: dict[int, list[TaskGroup]] = defaultdict(list)
    for group in TaskGroup.objects.filter(job__in=[wave.job_id for wave in waves]).order_by("job_id", "index"):
        groups[group.job_id].append(group)
    flavors = Flavor.objects.in_bulk()
    return {wave.id: launch_of(wave, tasks[wave.id], groups[wave.job_id], flavors) for wave in waves}


def launch_of(wave: Wave, tasks: Iterable[Task], groups: Sequence[TaskGroup], flavors: Mapping[int, Flavor]) -> Launch:
    """Return the launch of one wave from its rows."""
    job = wave.job
    inside: dict[int, list[TaskSpec]] = defaultdict(list)
    nodes: dict[int, list[Node]] = defaultdict(list)
    for task in tasks:
        inside[task.group].append(TaskSpec(index=task.pod_index, task=task.index, node=task.node.name))
        nodes[task.group].append(task.node)
    what = runs(job.spec)
    chosen = {group: flavors[wave.flavors[group]] for group in inside}
    return Launch(
        wave=str(wave.uid),
        job=str(job.uid),
        job_name=job.name,
        number=wave.number,
        attempt=wave.attempt,
        team=job.team.name,
        queue=job.queue.name,
        namespace=namespace_of(job.team.name),
        gang=job.shape != JobShape.INDEPENDENT and not wave.surplus,
        groups=tuple(
            replace(
                group_of(groups[number], what[number], chosen[number], tuple(inside[number])),
                closeness=tuple(closeness(job.spec["spec"], number, nodes)),
            )
            for number in sorted(inside)
        ),
        priority_class=job.priority_class.name,
        priority_value=job.priority_class.value,
        placement=_strictest(flavor.placement for flavor in chosen.values()),
        grace_seconds=int(job.grace.total_seconds()),
        fence_seconds=_fence(wave),
        task_count=sum(group.most or group.tasks for group in groups),
        elastic=_elastic(wave, groups) if job.shape == JobShape.ELASTIC else None,
        labels=tuple(sorted(job.labels.items())),
        raw=_raw(job),
    )


def closeness(body: Mapping[str, Any], group: int, nodes: Mapping[int, Sequence[Node]]) -> Iterator[Closeness]:
    """Yield how close together a stored spec wants the tasks of a group, with the domains of the nodes chosen."""
    rows = body.get("groups")
    own = rows[group].get("topology") if rows else None
    for wish, whole in ((own, False), (body.get("topology"), len(nodes) > 1)):
        for near in Near:
            if wish and near in wish:
                key = settings.TIDEGATE_LEVELS.get(wish[near], "")
                chosen = [node for part in nodes.values() for node in part] if whole else nodes[group]
                domains = {node.labels.get(key) if key else node.name for node in chosen}
                yield Closeness(
                    near=near,
                    key=key,
                    domains=tuple(sorted(domain for domain in domains if domain)),
                    max_skew=wish.get("max_skew"),
                    whole=whole,
                )


def _elastic(wave: Wave, groups: Sequence[TaskGroup]) -> Elastic:
    return Elastic(
        least=sum(group.tasks for group in groups),
        most=sum(group.most or group.tasks for group in groups),
        first=wave.number if wave.base is None else wave.base.number,
    )


def _raw(job: Job) -> RawObject | None:
    if not job.kind:
        return None
    return RawObject(kind=job.kind, manifest=job.spec["spec"]["manifest"], adopted=job.object_uid or "")


def ceilings(teams: Iterable[int]) -> dict[int, dict[str, int]]:
    """Return, per team, the most that it could ever use of each counted resource: what its namespace is fenced to."""
    installed = {flavor.id: flavor for flavor in Flavor.objects.order_by("id")}
    found: dict[int, dict[str, int]] = {team: defaultdict(int) for team in teams}
    limits = {(quota.team_id, quota.flavor_id): quota for quota in Quota.objects.filter(team__in=found).order_by("id")}
    for team, ceiling in found.items():
        for flavor in installed.values():
            if flavor.resource in NOT_FENCED:
                continue
            quota = limits.get((team, flavor.id))
            most = flavor.installed
            if quota is not None and quota.borrow_limit is not None:
                most = min(most, quota.guaranteed + quota.borrow_limit)
            ceiling[flavor.resource] += most
    return {team: dict(ceiling) for team, ceiling in found.items()}


def group_of(group: TaskGroup, run: Run, flavor: Flavor, tasks: tuple[TaskSpec, ...]) -> GroupSpec:
    """Return the tasks of one group on their nodes, with all that their pods carry."""
    return GroupSpec(
        group=group.index,
        name=group.name,
        tasks=tasks,
        resource=flavor.resource,
        units=group.units,
        cpu=group.cpu_milli,
        memory=group.memory,
        shm=run.shm,
        image=run.image,
        command=run.command,
        args=run.args,
        env=run.env,
        secrets=run.secrets,
        secret_env=run.secret_env,
        pull_secrets=run.pull_secrets,
        pre_stop=run.pre_stop,
        service_account=run.service_account,
        mounts=tuple(_mount(volume) for volume in run.volumes),
        node_labels=tuple(
            (label, value)
            for label, value in sorted((flavor.node_labels | group.node_labels).items())
            if label != names.LABEL_CLUSTER
        ),
        tolerations=tuple(_toleration(row) for row in flavor.tolerations),
        annotations=run.annotations,
    )


def _mount(volume: Volume) -> Mount:
    return Mount(
        path=volume.path,
        claim=volume.claim,
        host=volume.host,
        size=volume.size,
        memory=volume.memory,
        read_only=volume.read_only,
    )


def _toleration(row: Mapping[str, Any]) -> Toleration:
    words = {key: str(row[key]) for key in ("key", "operator", "value", "effect") if row.get(key)}
    return Toleration(**words)


def _strictest(placements: Iterable[str]) -> Placement:
    found = {Placement(word) for word in placements}
    return next(placement for placement in Placement if placement in found)


def _fence(wave: Wave) -> int | None:
    left = time_left(wave.job)
    if left is None:
        return None
    return int((left + wave.job.queue.start_limit + wave.job.grace + FENCE_SLACK).total_seconds())
