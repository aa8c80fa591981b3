"""The pods of a Job: which it has, which it lacks, what a new one looks like. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import Any

from clusters.emulator.core import finished, holds, leaving
from clusters.emulator.registry import suffix
from clusters.emulator.store import Object

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
MOST_AT_ONCE = 500
_LONGEST_BASE = 57


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """A Job's pods by what they mean for it; the ended ones are those that were not counted before."""

    active: list[Object]
    terminating: list[Object]
    ended_well: list[Object]
    ended_badly: list[Object]
    ready: int

    @property
    def counted(self) -> list[Object]:
        """Return the pods that this look counts."""
        return [*self.ended_well, *self.ended_badly]


def take_census(job: Object, pods: list[Object]) -> Census:
    """Sort the Job's pods; an ended pod counts only while it carries the tracking finalizer."""
    active: list[Object] = []
    terminating: list[Object] = []
    well, badly = [], []
    for pod in pods:
        phase, tracked = pod["status"]["phase"], TRACKING in (pod["metadata"].get("finalizers") or ())
        if not finished(pod):
            (terminating if leaving(pod) else active).append(pod)
        if tracked and phase == "Succeeded":
            well.append(pod)
        elif tracked and (phase == "Failed" or (leaving(pod) and not _is_patient(job))):
            badly.append(pod)
    ready = sum(holds(pod, "Ready") for pod in active)
    return Census(active=active, terminating=terminating, ended_well=well, ended_badly=badly, ready=ready)


def _is_patient(job: Object) -> bool:
    """Tell whether the Job waits for a pod to have ended before it counts and replaces it."""
    return bool(job["spec"]["podReplacementPolicy"] == "Failed")


def count(job: Object, status: Object, census: Census) -> Object:
    """Return the Job's status with the pods that ended since the last look."""
    spec, new = job["spec"], {**status}
    if census.ended_badly:
        new["failed"] = new.get("failed", 0) + len(census.ended_badly)
    if spec["completionMode"] != "Indexed":
        if census.ended_well:
            new["succeeded"] = new.get("succeeded", 0) + len(census.ended_well)
        return new
    done = indexes(status.get("completedIndexes", "")) | {_index(pod) for pod in census.ended_well}
    if done:
        new |= {"succeeded": len(done), "completedIndexes": ranges(done)}
    limit = spec.get("backoffLimitPerIndex")
    if limit is not None:
        lost = {_index(pod) for pod in census.ended_badly if _failures(pod) >= limit}
        new["failedIndexes"] = ranges((indexes(status.get("failedIndexes", "")) | lost) - done)
    return new


def missing(job: Object, status: Object, census: Census) -> list[int | None]:
    """Return the indexes of the pods to make now (None for Jobs without indexes), after counting."""
    spec = job["spec"]
    busy = [*census.active, *census.terminating] if _is_patient(job) else census.active
    room = spec["parallelism"] - len(busy)
    if spec["completionMode"] != "Indexed":
        done = status.get("succeeded", 0)
        if "completions" in spec:
            room = min(room, spec["completions"] - done - len(busy))
        elif done:
            room = 0
        return [None] * min(max(room, 0), MOST_AT_ONCE)
    over = indexes(status.get("completedIndexes", "")) | indexes(status.get("failedIndexes", ""))
    taken = over | {_index(pod) for pod in busy}
    free = (index for index in range(spec["completions"]) if index not in taken)
    return list(islice(free, min(max(room, 0), MOST_AT_ONCE)))


def all_decided(job: Object, status: Object) -> bool:
    """Tell whether every index has succeeded or failed for good, and one at least has failed."""
    lost = indexes(status.get("failedIndexes", ""))
    return bool(lost) and len(lost) + status.get("succeeded", 0) >= job["spec"]["completions"]


def too_many_lost(job: Object, status: Object) -> bool:
    """Tell whether more indexes have failed for good than the Job allows."""
    most = job["spec"].get("maxFailedIndexes")
    return most is not None and len(indexes(status.get("failedIndexes", ""))) > most


def _index(pod: Object) -> int:
    """Return a pod's index; one without counts as outside of every Job."""
    found = index_of(pod)
    return -1 if found is None else found


def _failures(pod: Object) -> int:
    """Return how often the pod's index had failed before the pod was made."""
    text = (pod["metadata"].get("annotations") or {}).get(FAILURES, "")
    return int(text) if text.isdigit() else 0


def failures_of(index: int | None, pods: list[Object]) -> int:
    """Return how often an index has failed, by the pods that are left."""
    return max(
        (_failures(pod) + 1 for pod in pods if index_of(pod) == index and pod["status"]["phase"] == "Failed"), default=0
    )


def index_of(pod: Object) -> int | None:
    """Return a pod's completion index."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else None


def new_pod(job: Object, index: int | None, failures: int) -> Object:
    """Return the pod that the Job lacks; its index has failed ``failures`` times."""
    metadata, template = job["metadata"], job["spec"]["template"]
    labels = {**(template["metadata"].get("labels") or {})}
    annotations = {**(template["metadata"].get("annotations") or {})}
    spec = {**template["spec"]}
    base = metadata["name"]
    if index is not None:
        labels[INDEX] = annotations[INDEX] = str(index)
        if "backoffLimitPerIndex" in job["spec"]:
            annotations[FAILURES] = str(failures)
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


def ranges(found: Collection[int]) -> str:
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
