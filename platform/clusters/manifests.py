"""A launch as Kubernetes objects: plain dicts, made from the launch alone."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from clusters import names
from clusters.port import GroupSpec, Launch, Mount, Pin, Placement, TaskSpec, Toleration

Manifest: TypeAlias = dict[str, Any]

CONTAINER = "main"
MASTER_PORT = 29500
SHARED_MEMORY = "/dev/shm"  # noqa: S108  the container's, not ours
_HIGHEST_PRIORITY = 1_000_000_000
_LOWEST_PRIORITY = -2_147_483_648


def job(launch: Launch, group: GroupSpec) -> Manifest:
    """Return the batch/v1 Job of one group of the wave."""
    size = len(group.tasks)
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": size,
        "parallelism": size,
        **_failure_limits(launch, group),
        "podReplacementPolicy": "Failed",
        "template": _template(launch, group),
    }
    if launch.fence_seconds is not None:
        spec["activeDeadlineSeconds"] = launch.fence_seconds
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": names.object_name(launch.job, launch.number, group.group),
            "namespace": launch.namespace,
            "labels": _labels(launch, group),
            "annotations": annotations(launch),
        },
        "spec": spec,
    }


def service(launch: Launch, *, owner: Manifest) -> Manifest:
    """Return the headless Service of a gang; it goes when its owner, the Job of the wave's first group, goes.

    That of an elastic job also finds the pods of waves to come.
    """
    shared = shared_labels(launch)
    found_by = names.LABEL_WAVE if launch.elastic is None else names.LABEL_JOB
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.service_name(launch.job, launch.number),
            "namespace": launch.namespace,
            "labels": shared,
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                }
            ],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {found_by: shared[found_by]},
            "ports": [{"name": "rendezvous", "port": MASTER_PORT}],
        },
    }


def namespace(name: str, *, team: str) -> Manifest:
    """Return a team's namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {names.LABEL_TEAM: names.label_value(team)},
            "annotations": {names.ANNOTATION_TEAM: team},
        },
    }


def fence(namespace: str, *, ceiling: Mapping[str, int]) -> Manifest:
    """Return the ResourceQuota that caps what a namespace's pods may request of each counted resource."""
    hard = {f"requests.{resource}": str(units) for resource, units in sorted(ceiling.items())}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": names.FENCE, "namespace": namespace},
        "spec": {"hard": hard},
    }


def priority_class(name: str, value: int) -> Manifest:
    """Return the mirror of a priority class; it never preempts, since who gives way is decided here."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": names.priority_class_name(name, value)},
        "value": max(_LOWEST_PRIORITY, min(value, _HIGHEST_PRIORITY)),
        "preemptionPolicy": "Never",
        "description": "Mirrored by Tidegate.",
    }


def release(pin: Pin) -> Manifest:
    """Return the strategic merge patch that narrows a gated pod to its node, tells its task and takes our gate away."""
    spec: Manifest = {"schedulingGates": [{"$patch": "delete", "name": names.GATE}]}
    narrowed = affinity(pin.node, pin.placement)
    if narrowed:
        spec["affinity"] = narrowed
    return {"metadata": {"annotations": {names.ANNOTATION_TASK: str(pin.task)}}, "spec": spec}


def needs_service(launch: Launch) -> bool:
    """Tell whether the wave brings the Service at which tasks find each other: a gang of more than one does."""
    return launch.gang and _meets(launch)


def is_gated(launch: Launch, group: GroupSpec) -> bool:
    """Tell whether pods wait for their pin: tasks on several nodes, or indices that only a pin can tell."""
    several_nodes = len({task.node for task in group.tasks}) > 1
    return (several_nodes and launch.placement is not Placement.FREE) or not _index_is_known(group)


def _failure_limits(launch: Launch, group: GroupSpec) -> Manifest:
    # Retries are ours. A failed task ends its gang, but of independent tasks each fails alone.
    if launch.gang or len(group.tasks) == 1:
        return {"backoffLimit": 0}
    return {"backoffLimitPerIndex": 0}


def _template(launch: Launch, group: GroupSpec) -> Manifest:
    return {
        "metadata": {
            "labels": {**names.pod_labels(launch.labels), **_labels(launch, group)},
            "annotations": {**dict(group.annotations), **annotations(launch)},
        },
        "spec": _pod(launch, group),
    }


def _pod(launch: Launch, group: GroupSpec) -> Manifest:
    pod: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": names.priority_class_name(launch.priority_class, launch.priority_value),
        "terminationGracePeriodSeconds": launch.grace_seconds,
        "containers": [_container(launch, group)],
    }
    if _meets(launch):
        pod["subdomain"] = names.service_name(launch.job, _first(launch))
    if group.node_labels:
        pod["nodeSelector"] = dict(group.node_labels)
    if group.tolerations:
        pod["tolerations"] = [toleration(each) for each in group.tolerations]
    if group.service_account:
        pod |= {"serviceAccountName": group.service_account, "automountServiceAccountToken": True}
    if group.pull_secrets:
        pod["imagePullSecrets"] = [{"name": secret} for secret in group.pull_secrets]
    volumes = [_volume(place, mount) for place, mount in enumerate(_mounts(group))]
    if volumes:
        pod["volumes"] = volumes
    if is_gated(launch, group):
        pod["schedulingGates"] = [{"name": names.GATE}]
    elif narrowed := affinity(group.tasks[0].node, launch.placement):
        pod["affinity"] = narrowed
    return pod


def _container(launch: Launch, group: GroupSpec) -> Manifest:
    resources = _resources(group)
    container: Manifest = {
        "name": CONTAINER,
        "image": group.image,
        "env": _environment(launch, group),
        "resources": {"requests": resources, "limits": dict(resources)},
        "securityContext": {"allowPrivilegeEscalation": False},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if group.command:
        container["command"] = list(group.command)
    if group.args:
        container["args"] = list(group.args)
    if group.secrets:
        container["envFrom"] = [{"secretRef": {"name": secret}} for secret in group.secrets]
    if group.pre_stop:
        container["lifecycle"] = {"preStop": {"exec": {"command": list(group.pre_stop)}}}
    mounted = [
        {"name": _volume_name(place, mount), "mountPath": mount.path, **({"readOnly": True} if mount.read_only else {})}
        for place, mount in enumerate(_mounts(group))
    ]
    if mounted:
        container["volumeMounts"] = mounted
    return container


def _mounts(group: GroupSpec) -> tuple[Mount, ...]:
    """Return all that is mounted: shared memory first, which is scratch space at a known path."""
    shm = (Mount(path=SHARED_MEMORY, size=group.shm, memory=True),) if group.shm else ()
    return (*shm, *group.mounts)


def _volume(place: int, mount: Mount) -> Manifest:
    name = {"name": _volume_name(place, mount)}
    if mount.claim:
        return {**name, "persistentVolumeClaim": {"claimName": mount.claim}}
    if mount.host:
        return {**name, "hostPath": {"path": mount.host}}
    medium = {"medium": "Memory"} if mount.memory else {}
    return {**name, "emptyDir": {**medium, "sizeLimit": str(mount.size)}}


def _volume_name(place: int, mount: Mount) -> str:
    return "shm" if mount.path == SHARED_MEMORY else f"volume-{place}"


def _resources(group: GroupSpec) -> dict[str, str]:
    cpu = group.cpu if group.resource != "cpu" else max(group.cpu, group.units * 1000)
    memory = group.memory if group.resource != "memory" else max(group.memory, group.units)
    wanted = {"cpu": (cpu, f"{cpu}m"), "memory": (memory, str(memory))}
    if group.resource not in wanted:
        wanted[group.resource] = (group.units, str(group.units))
    return {resource: quantity for resource, (amount, quantity) in wanted.items() if amount}


def _environment(launch: Launch, group: GroupSpec) -> list[Manifest]:
    """List our variables first, so that the user's may refer to them; only those of the rendezvous may be replaced."""
    chosen = dict(group.env)
    ours = list(_own_environment(launch, group))
    fixed = {entry["name"] for entry in ours if entry["name"].startswith("TIDEGATE_")}
    kept = [entry for entry in ours if entry["name"] in fixed or entry["name"] not in chosen]
    theirs = [{"name": name, "value": value} for name, value in chosen.items() if name not in fixed]
    return kept + theirs + [_from_secret(name, source) for name, source in group.secret_env if name not in fixed]


def _from_secret(name: str, source: str) -> Manifest:
    secret, _, key = source.partition("/")
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _own_environment(launch: Launch, group: GroupSpec) -> Iterator[Manifest]:
    yield {"name": "TIDEGATE_JOB_ID", "value": launch.job}
    yield {"name": "TIDEGATE_ATTEMPT", "value": str(launch.attempt)}
    yield {"name": "TIDEGATE_TASK_INDEX", **_task_index(group)}
    yield {"name": "TIDEGATE_TASK_COUNT", "value": str(launch.task_count or _size(launch))}
    yield {"name": "TIDEGATE_GPUS_PER_TASK", "value": str(group.units)}
    if launch.elastic is not None:
        yield {"name": "TIDEGATE_MIN_TASKS", "value": str(launch.elastic.least)}
        yield {"name": "TIDEGATE_MAX_TASKS", "value": str(launch.elastic.most)}
    if _meets(launch):
        yield {"name": "MASTER_ADDR", "value": _master(launch)}
        yield {"name": "MASTER_PORT", "value": str(MASTER_PORT)}
    if _meets(launch) and launch.elastic is None:
        # Of an elastic job both change as it grows and shrinks: its tasks agree on them where they meet.
        yield {"name": "WORLD_SIZE", "value": str(_size(launch))}
        yield {"name": "RANK", **_task_index(group)}


def _task_index(group: GroupSpec) -> Manifest:
    """Tell a pod its index in the job: as it is, as the completion index, or as its pin will write it."""
    if len(group.tasks) == 1:
        return {"value": str(group.tasks[0].task)}
    source = names.COMPLETION_INDEX if _index_is_known(group) else names.ANNOTATION_TASK
    return {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{source}']"}}}


def _index_is_known(group: GroupSpec) -> bool:
    return len(group.tasks) == 1 or all(task.task == task.index for task in group.tasks)


def _master(launch: Launch) -> str:
    """Return the host name of the task with the lowest index; of an elastic job that is in its first wave."""
    if launch.elastic is not None:
        number = launch.elastic.first
        return f"{names.object_name(launch.job, number, 0)}-0.{names.service_name(launch.job, number)}"
    group, first = min(((g, task) for g in launch.groups for task in g.tasks), key=_by_task)
    host = f"{names.object_name(launch.job, launch.number, group.group)}-{first.index}"
    return f"{host}.{names.service_name(launch.job, launch.number)}"


def _by_task(place: tuple[GroupSpec, TaskSpec]) -> tuple[int, int]:
    group, task = place
    return task.task, group.group


def affinity(node: str, placement: Placement) -> Manifest | None:
    """Return what sends a pod to a node, None where it may go anywhere."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    match placement:
        case Placement.PIN:
            return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
        case Placement.PREFER:
            preferred = [{"weight": 100, "preference": term}]
            return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        case Placement.FREE:
            return None


def toleration(wanted: Toleration) -> dict[str, str]:
    """Return a toleration as a pod writes it."""
    fields = {"key": wanted.key, "operator": wanted.operator, "value": wanted.value, "effect": wanted.effect}
    return {name: value for name, value in fields.items() if value}


def shared_labels(launch: Launch) -> dict[str, str]:
    """Return the labels of everything that belongs to a wave."""
    return {
        names.LABEL_JOB: names.label_value(launch.job),
        names.LABEL_WAVE: names.label_value(launch.wave),
        names.LABEL_TEAM: names.label_value(launch.team),
        names.LABEL_QUEUE: names.label_value(launch.queue),
    }


def _labels(launch: Launch, group: GroupSpec) -> dict[str, str]:
    return {**shared_labels(launch), names.LABEL_GROUP: str(group.group)}


def annotations(launch: Launch) -> dict[str, str]:
    """Return what everything that belongs to a wave tells people about it."""
    return {
        names.ANNOTATION_JOB_NAME: launch.job_name,
        names.ANNOTATION_TEAM: launch.team,
        names.ANNOTATION_QUEUE: launch.queue,
        names.ANNOTATION_ATTEMPT: str(launch.attempt),
    }


def _meets(launch: Launch) -> bool:
    """Tell whether the wave's tasks have to find each other, or those of waves before and after it."""
    return launch.elastic.most > 1 if launch.elastic is not None else launch.gang and _size(launch) > 1


def _first(launch: Launch) -> int:
    return launch.number if launch.elastic is None else launch.elastic.first


def _size(launch: Launch) -> int:
    return sum(len(group.tasks) for group in launch.groups)
