"""The pods of a Job: which it has, which it lacks, what a new one looks like. Pure."""

from dataclasses import dataclass
from itertools import islice
from typing import Any

from clusters.emulator.core import finished, holds, leaving
from clusters.emulator.registry import suffix
from clusters.emulator.store import Object

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
MOST_AT_ONCE = 500
_LONGEST_BASE = 57


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """A Job's pods by what they mean for it; ``wanted`` are the indexes to make now (None without indexes)."""

    active: list[Object]
    terminating: list[Object]
    ended_well: list[Object]
    ended_badly: list[Object]
    ready: int
    done_before: frozenset[int]
    wanted: list[int | None]

    @property
    def counted(self) -> list[Object]:
        """Return the pods that this look counts."""
        return [*self.ended_well, *self.ended_badly]


def take_census(job: Object, pods: list[Object]) -> Census:
    """Sort the Job's pods; an ended pod counts only while it carries the tracking finalizer."""
    patient = job["spec"]["podReplacementPolicy"] == "Failed"
    active = [pod for pod in pods if not finished(pod) and not leaving(pod)]
    terminating = [pod for pod in pods if not finished(pod) and leaving(pod)]
    tracked = [pod for pod in pods if TRACKING in (pod["metadata"].get("finalizers") or ())]
    well = [pod for pod in tracked if pod["status"]["phase"] == "Succeeded"]
    badly = [
        pod
        for pod in tracked
        if pod["status"]["phase"] == "Failed" or (not patient and leaving(pod) and not finished(pod))
    ]
    done = indexes((job.get("status") or {}).get("completedIndexes", ""))
    busy = [*active, *terminating] if patient else active
    return Census(
        active=active,
        terminating=terminating,
        ended_well=well,
        ended_badly=badly,
        ready=sum(holds(pod, "Ready") for pod in active),
        done_before=done,
        wanted=_wanted(job, busy, well, done),
    )


def _wanted(job: Object, busy: list[Object], well: list[Object], done: frozenset[int]) -> list[int | None]:
    """Return the indexes of the pods to make."""
    spec = job["spec"]
    room = spec["parallelism"] - len(busy)
    if spec["completionMode"] != "Indexed":
        finished_now = (job.get("status") or {}).get("succeeded", 0) + len(well)
        if "completions" in spec:
            room = min(room, spec["completions"] - finished_now - len(busy))
        elif finished_now:
            room = 0
        return [None] * min(max(room, 0), MOST_AT_ONCE)
    taken = done | {index_of(pod) for pod in (*busy, *well)}
    free = (index for index in range(spec["completions"]) if index not in taken)
    return list(islice(free, min(max(room, 0), MOST_AT_ONCE)))


def index_of(pod: Object) -> int | None:
    """Return a pod's completion index."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else None


def new_pod(job: Object, index: int | None) -> Object:
    """Return the pod that the Job lacks."""
    metadata, template = job["metadata"], job["spec"]["template"]
    labels = {**(template["metadata"].get("labels") or {})}
    annotations = {**(template["metadata"].get("annotations") or {})}
    spec = {**template["spec"]}
    base = metadata["name"]
    if index is not None:
        labels[INDEX] = annotations[INDEX] = str(index)
        spec["hostname"] = spec.get("hostname") or f"{metadata['name']}-{index}"
        spec["containers"] = [_with_index(each) for each in spec["containers"]]
        base = f"{base}-{index}"
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    known: dict[str, Any] = {"labels": labels, "ownerReferences": [owner], "finalizers": [TRACKING]}
    known["finalizers"] = [*(template["metadata"].get("finalizers") or []), TRACKING]
    known["name"] = f"{base[:_LONGEST_BASE]}-{suffix()}"
    known["generateName"] = f"{base}-"
    if annotations:
        known["annotations"] = annotations
    return {"metadata": known, "spec": spec}


def _with_index(container: Object) -> Object:
    """Return the container with its completion index in the environment."""
    environment = container.get("env") or []
    if any(variable["name"] == "JOB_COMPLETION_INDEX" for variable in environment):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*environment, {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]}


def indexes(text: str) -> frozenset[int]:
    """Read ``0-2,5``."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def ranges(found: set[int]) -> str:
    """Write ``0-2,5``; two neighbours stand apart by a comma, as the Job controller writes them."""
    parts: list[list[int]] = []
    for index in sorted(found):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(_range(first, last) for first, last in parts)


def _range(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
