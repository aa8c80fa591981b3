"""What a pod of ours runs: its container, its environment, and what is mounted."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from clusters import classes, names, rendezvous
from clusters.port import GroupSpec, Launch, Mount
from clusters.steering import index_is_known

Manifest: TypeAlias = dict[str, Any]

CONTAINER = "main"
SHARED_MEMORY = "/dev/shm"  # noqa: S108  the container's, not ours


def container(launch: Launch, group: GroupSpec) -> Manifest:
    """Return the one container of a pod."""
    resources = _resources(group)
    made: Manifest = {
        "name": CONTAINER,
        "image": group.image,
        "env": _environment(launch, group),
        "resources": {"requests": resources, "limits": dict(resources), **_claims(group)},
        "securityContext": {"allowPrivilegeEscalation": False},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if group.command:
        made["command"] = list(group.command)
    if group.args:
        made["args"] = list(group.args)
    if group.secrets:
        made["envFrom"] = [{"secretRef": {"name": secret}} for secret in group.secrets]
    if group.pre_stop:
        made["lifecycle"] = {"preStop": {"exec": {"command": list(group.pre_stop)}}}
    mounted = [
        {"name": _volume_name(place, mount), "mountPath": mount.path, **({"readOnly": True} if mount.read_only else {})}
        for place, mount in enumerate(_mounts(group))
    ]
    if mounted:
        made["volumeMounts"] = mounted
    return made


def volumes(group: GroupSpec) -> list[Manifest]:
    """Return what a pod of the group has to mount."""
    return [_volume(place, mount) for place, mount in enumerate(_mounts(group))]


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
    if group.resource not in wanted and not classes.class_of(group.resource):
        wanted[group.resource] = (group.units, str(group.units))
    return {resource: quantity for resource, (amount, quantity) in wanted.items() if amount}


def _claims(group: GroupSpec) -> Manifest:
    return {"claims": [{"name": classes.CLAIM}]} if classes.class_of(group.resource) else {}


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
    yield {"name": "TIDEGATE_TASK_COUNT", "value": str(launch.task_count or rendezvous.size(launch))}
    yield {"name": "TIDEGATE_GPUS_PER_TASK", "value": str(group.units)}
    if launch.elastic is not None:
        yield {"name": "TIDEGATE_MIN_TASKS", "value": str(launch.elastic.least)}
        yield {"name": "TIDEGATE_MAX_TASKS", "value": str(launch.elastic.most)}
    yield from rendezvous.variables(launch)
    if rendezvous.meets(launch) and launch.elastic is None:
        # Of an elastic job both change as it grows and shrinks: its tasks agree on them where they meet.
        yield {"name": "WORLD_SIZE", "value": str(rendezvous.size(launch))}
        yield {"name": "RANK", **_task_index(group)}


def _task_index(group: GroupSpec) -> Manifest:
    """Tell a pod its index in the job: as it is, as the completion index, or as its pin will write it."""
    if len(group.tasks) == 1:
        return {"value": str(group.tasks[0].task)}
    source = names.COMPLETION_INDEX if index_is_known(group) else names.ANNOTATION_TASK
    return {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{source}']"}}}
