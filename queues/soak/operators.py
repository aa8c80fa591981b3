"""Plays the controllers of kinds that a cluster serves while nobody runs them there: pods of each part, and the end.

A PyTorchJob ends with its master, an MPIJob with its launcher, a RayJob with its head (which stands for the one that
submits to it), a TrainJob when all its nodes have ended; each fails with the first pod that does. A pod that somebody
took away is made anew. What runs on behind the end is deleted with it.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from types import TracebackType
from typing import Any, Self

from clusters import kinds, names, paths
from clusters.asking import Failure, path_of
from clusters.kinds import Kind
from clusters.kube import KubeCluster
from clusters.port import ClusterError

TURN_SECONDS = 0.3
PLAYED = (kinds.PYTORCH_JOB, kinds.MPI_JOB, kinds.OLD_MPI_JOB, kinds.TRAIN_JOB, kinds.RAY_JOB)
# The parts whose pods tell the end; where none is named, all do.
LEADERS = frozenset({"master", "launcher", "head"})
ROLE = "tidegate.test/role"
# Where a TrainJob's pods lie, and how they are steered: its runtime passes its annotations on.
RUNTIME_IMAGE = "registry.example/runtime:1"
_NEVER = "2026-01-01T00:00:00Z"

Object = dict[str, Any]


class Operators:
    """Plays them in a thread, over a connection of its own which it closes; a context manager that starts and stops."""

    def __init__(self, cluster: KubeCluster, served: Sequence[Kind]) -> None:
        """Choose what is to be played of the kinds that the cluster serves."""
        self._cluster, self._played = cluster, [kind for kind in served if kind in PLAYED]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="operators", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Play no more."""
        self._stop.set()
        self._thread.join(60)
        self._cluster.close()

    def _run(self) -> None:
        while not self._stop.wait(TURN_SECONDS):
            for kind in self._played:
                try:
                    self.turn(kind)
                except (Failure, ClusterError):
                    # Somebody else was quicker, or the server is away: the next turn sees what has become of it.
                    continue

    def turn(self, kind: Kind) -> None:
        """Look at all objects of a kind once, and do what is to be done."""
        objects = self._cluster.api.ask("list", kind.path)["items"]
        pods: dict[str, dict[str, Object]] = {}
        for pod in (
            self._cluster.api.ask("list", "/api/v1/pods", query={"labelSelector": ROLE})["items"] if objects else ()
        ):
            for owner in pod["metadata"].get("ownerReferences") or ():
                pods.setdefault(owner["uid"], {})[pod["metadata"]["name"]] = pod
        for live in objects:
            if "deletionTimestamp" not in live["metadata"]:
                try:
                    self._tend(kind, live, pods.get(live["metadata"]["uid"], {}))
                except Failure:
                    continue

    def _tend(self, kind: Kind, live: Object, there: Mapping[str, Object]) -> None:
        over = kinds.has_succeeded(kind, live) or kinds.has_failed(kind, live)
        if over or paths.at(live, kind.suspend) is True:
            for pod in there.values():
                if _phase(pod) in {"Pending", "Running"} and "deletionTimestamp" not in pod["metadata"]:
                    self._cluster.api.ask("delete", _address(pod))
            return
        if (status := end(kind, list(there.values()), len(list(pods_of(kind, live))))) is not None:
            where = path_of(f"/apis/{kind.api}", live["metadata"]["namespace"], kind.plural)
            body = {**live, "status": {**(live.get("status") or {}), **status}}
            self._cluster.api.ask("replace", f"{where}/{live['metadata']['name']}/status", body=body)
            return
        for pod in pods_of(kind, live):
            if pod["metadata"]["name"] not in there:
                self._cluster.api.ask("create", path_of("/api/v1", live["metadata"]["namespace"], "pods"), body=pod)


def pods_of(kind: Kind, live: Mapping[str, Any], *, owned: bool = True) -> Iterator[Object]:
    """Yield all pods that an object asks for, ``owned`` by it, as its operator would make them."""
    meta = live["metadata"]
    owner = {"apiVersion": kind.api, "kind": kind.name, "name": meta["name"], "uid": meta["uid"], "controller": True}
    for part in kinds.parts(kind, live):
        for index in range(part.pods):
            pod = _of_runtime(kind, live, part.spec) if kind.overrides else deepcopy(dict(part.template))
            metadata = pod.setdefault("metadata", {})
            metadata["name"] = f"{meta['name']}-{part.name}-{index}"
            metadata["labels"] = {**(metadata.get("labels") or {}), ROLE: part.name}
            if kind.index:
                where = "annotations" if kind.index == names.COMPLETION_INDEX else "labels"
                metadata[where] = {**(metadata.get(where) or {}), kind.index: str(index)}
            if owned:
                metadata["ownerReferences"] = [owner]
            yield {"apiVersion": "v1", "kind": "Pod", **pod}


def end(kind: Kind, pods: Sequence[Object], wanted: int) -> Object | None:
    """Return the status of an object that is over by its pods, None while it is not; ``wanted`` pods it asks for."""
    if any(_phase(pod) == "Failed" for pod in pods):
        return told(kind, well=False)
    leading = [pod for pod in pods if pod["metadata"]["labels"][ROLE] in LEADERS]
    telling = leading or (pods if len(pods) == wanted else [])
    return told(kind, well=True) if telling and all(_phase(pod) == "Succeeded" for pod in telling) else None


def told(kind: Kind, *, well: bool) -> Object:
    """Return how an object of a kind says that it is over."""
    if kind is kinds.RAY_JOB:
        word, state = ("SUCCEEDED", "Complete") if well else ("FAILED", "Failed")
        return {"jobStatus": word, "jobDeploymentStatus": state, "message": "as its head tells"}
    sign = (kind.succeeded if well else kind.failed)[0]
    condition = {"type": sign.condition, "status": "True", "reason": "Played", "message": "as its pods tell"}
    times = {"lastTransitionTime": _NEVER, **({} if kind is kinds.TRAIN_JOB else {"lastUpdateTime": _NEVER})}
    counts: Object = {} if kind is kinds.TRAIN_JOB else {"replicaStatuses": {}}
    return {"conditions": [{**condition, **times}], **counts}


def _of_runtime(kind: Kind, live: Mapping[str, Any], spec: Mapping[str, Any]) -> Object:
    """Return a pod whose template is its runtime's, changed as the object says."""
    found = paths.at(live, kind.overrides)
    changed = [
        change for change in (found if isinstance(found, list) else []) if {"name": "node"} in change["targetJobs"]
    ]
    own = {key: value for change in changed for key, value in change.items() if key != "targetJobs"}
    container = {"name": "node", "image": RUNTIME_IMAGE, "resources": spec["containers"][0]["resources"]}
    body = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **own}
    notes = {**(live["spec"].get("annotations") or {})}
    return {"metadata": {"labels": {kind.family: live["metadata"]["name"]}, "annotations": notes}, "spec": body}


def _phase(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _address(pod: Mapping[str, Any]) -> str:
    return f"{path_of('/api/v1', pod['metadata']['namespace'], 'pods')}/{pod['metadata']['name']}"
