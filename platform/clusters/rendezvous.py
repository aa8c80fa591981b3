"""How the tasks of a gang find each other: who they are, and where the first of them is reached."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from clusters import names
from clusters.port import GroupSpec, Launch, TaskSpec

Manifest: TypeAlias = dict[str, Any]

MASTER_PORT = 29500


def needs_service(launch: Launch) -> bool:
    """Tell whether the wave brings the Service at which tasks find each other: a gang of more than one does."""
    return launch.gang and meets(launch)


def variables(launch: Launch) -> Iterator[Manifest]:
    """Yield the variables that say where tasks meet, if they do."""
    if meets(launch):
        yield {"name": "MASTER_ADDR", "value": _master(launch)}
        yield {"name": "MASTER_PORT", "value": str(MASTER_PORT)}


def subdomain(launch: Launch) -> str:
    """Return the name of the Service at which tasks are found; all waves of an elastic job share the first one's."""
    return names.service_name(launch.job, launch.number if launch.elastic is None else launch.elastic.first)


def meets(launch: Launch) -> bool:
    """Tell whether the wave's tasks have to find each other, or those of waves before and after it."""
    return launch.elastic.most > 1 if launch.elastic is not None else launch.gang and size(launch) > 1


def size(launch: Launch) -> int:
    """Return how many tasks the wave has."""
    return sum(len(group.tasks) for group in launch.groups)


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
