"""Classes: what jobs ask for, rounded so that classes stay few, and the row that stands for each (SEMANTICS 4)."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from queues.admission.world import Ask, Group, JobShape, Near, Topology
from queues.models import JobClass
from queues.spec import Spec, SpecGroup
from queues.spec.values import SpecTopology

QUARTER_MS = 15 * 60 * 1000

Key = tuple[int, int, str]
"""Queue id, base priority, digest of the ask."""


def ask_of(spec: Spec) -> Ask:
    """Return what one job (of an independent one: one task) asks for, rounded up."""
    return Ask(
        shape=spec.shape,
        groups=tuple(_group(group, whole=spec.shape is not JobShape.INDEPENDENT) for group in spec.groups),
        borrow=spec.borrow,
        preemptible=spec.priority.preemptible,
        time_limit=grouped(spec.time_limit),
        topology=_topology(spec.topology),
    )


def _topology(wish: SpecTopology | None) -> Topology | None:
    return None if wish is None else Topology(near=wish.near, level=wish.place, max_skew=wish.max_skew)


def grouped(limit: timedelta | None) -> int | None:
    """Return a time limit rounded up to 15 minutes times a power of two, in milliseconds; None stays None."""
    if limit is None:
        return None
    step = QUARTER_MS
    while step < limit / timedelta(milliseconds=1):
        step *= 2
    return step


def _group(group: SpecGroup, *, whole: bool) -> Group:
    first = group.flavors[0]
    return Group(
        tasks=group.tasks if whole else 1,
        most=group.most,
        units=group.units,
        cpu=_up(group.cpu_milli, first.cpu_step_milli),
        memory=_up(group.memory, first.memory_step),
        flavors=tuple(flavor.id for flavor in group.flavors),
        labels=group.run.node_labels,
        topology=_topology(group.topology),
    )


def _up(amount: int, step: int) -> int:
    return -(-amount // step) * step


def ask_to_json(ask: Ask) -> dict[str, Any]:
    """Return an ask as plain JSON."""
    return {
        "shape": ask.shape.value,
        "groups": [
            {
                "tasks": group.tasks,
                "units": group.units,
                "cpu": group.cpu,
                "memory": group.memory,
                "flavors": list(group.flavors),
                "labels": [list(pair) for pair in group.labels],
                **({} if group.most is None else {"most": group.most}),
                **_topology_to_json(group.topology),
            }
            for group in ask.groups
        ],
        "borrow": ask.borrow,
        "preemptible": ask.preemptible,
        "time_limit": ask.time_limit,
        **_topology_to_json(ask.topology),
    }


def _topology_to_json(wish: Topology | None) -> dict[str, Any]:
    """Return a wish, nothing where there is none: so digests stay as they were before there were wishes."""
    return {} if wish is None else {"topology": [wish.near.value, wish.level, wish.max_skew]}


def _topology_from_json(stored: Mapping[str, Any]) -> Topology | None:
    if "topology" not in stored:
        return None
    near, level, skew = stored["topology"]
    return Topology(near=Near(near), level=level, max_skew=skew)


def ask_from_json(stored: Mapping[str, Any]) -> Ask:
    """Return the ask of a stored class."""
    return Ask(
        shape=JobShape(stored["shape"]),
        groups=tuple(
            Group(
                tasks=group["tasks"],
                units=group["units"],
                cpu=group["cpu"],
                memory=group["memory"],
                flavors=tuple(group["flavors"]),
                labels=tuple((key, value) for key, value in group["labels"]),
                most=group.get("most"),
                topology=_topology_from_json(group),
            )
            for group in stored["groups"]
        ),
        borrow=stored["borrow"],
        preemptible=stored["preemptible"],
        time_limit=stored["time_limit"],
        topology=_topology_from_json(stored),
    )


def digest(ask: Ask) -> str:
    """Return what tells asks apart: equal asks have equal digests on every machine."""
    text = json.dumps(ask_to_json(ask), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def ensure(wanted: Iterable[tuple[int, int, Ask]]) -> dict[Key, int]:
    """Return the id of the class of each (queue, base priority, ask), made where there was none.

    Safe when many do so at once.
    """
    asks: dict[Key, Ask] = {(queue, priority, digest(ask)): ask for queue, priority, ask in wanted}
    found = _find(asks)
    missing = {key: ask for key, ask in asks.items() if key not in found}
    if not missing:
        return found
    JobClass.objects.bulk_create(
        (
            JobClass(queue_id=queue, priority=priority, digest=of_ask, ask=ask_to_json(ask))
            # In order of the key, so that two who make the same ones wait for each other and never in a circle.
            for (queue, priority, of_ask), ask in sorted(missing.items(), key=lambda row: row[0])
        ),
        ignore_conflicts=True,
    )
    return found | _find(missing)


def with_priority(job_class: JobClass, priority: int, *, preemptible: bool) -> int:
    """Return the id of the class that differs from ``job_class`` in base priority only (and in being firm)."""
    ask = replace(ask_from_json(job_class.ask), preemptible=preemptible)
    (found,) = ensure([(job_class.queue_id, priority, ask)]).values()
    return found


def with_most(job_class: JobClass, most: int) -> int:
    """Return the id of the class that differs from an elastic one of a single group in its maximum only."""
    ask = ask_from_json(job_class.ask)
    (group,) = ask.groups
    (found,) = ensure(
        [(job_class.queue_id, job_class.priority, replace(ask, groups=(replace(group, most=most),)))]
    ).values()
    return found


def _find(keys: Iterable[Key]) -> dict[Key, int]:
    wanted = set(keys)
    rows = JobClass.objects.filter(
        digest__in={key[2] for key in wanted}, queue__in={key[0] for key in wanted}
    ).values_list("queue_id", "priority", "digest", "id")
    return {
        (queue, priority, of_ask): pk for queue, priority, of_ask, pk in rows if (queue, priority, of_ask) in wanted
    }
