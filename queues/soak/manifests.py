"""What people of a soak write themselves: Kubernetes objects, submitted or made suspended with a queue's label."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from clusters.kinds import JOB, JOB_SET, MPI_JOB, OLD_MPI_JOB, PYTORCH_JOB, RAY_JOB, TRAIN_JOB, Kind

IMAGE = "registry.example/soak:1"
# What every cluster has.
ALWAYS = (JOB,)
# Pods and units of each: at most 8 units, which every team may have.
SIZES = ((1, 1), (2, 1), (4, 1), (2, 2), (3, 2), (2, 4))
LABELS = ("tidegate.io/queue", "kueue.x-k8s.io/queue-name")
GPU = "nvidia.com/gpu"
NEVER = "tidegate.test/never-start"
PRIORITY = "kueue.x-k8s.io/priority-class"


def draw(
    random: Random, name: str, *, kinds: Sequence[Kind], units: int | None, notes: Mapping[str, str]
) -> dict[str, Any]:
    """Draw an object of one of these kinds; ``notes`` steer its pods, of which one asks for ``units`` if not None."""
    pods, each = (1, units) if units is not None else random.choice(SIZES)
    kind = random.choice(kinds)
    indexed = random.choice((True, False))
    if kind is JOB:
        spec = _job(pods, each, notes, indexed=indexed, more=0 if indexed else random.randint(0, 2))
    else:
        spec = SPECS[kind](pods, each, notes)
    return {"apiVersion": kind.api, "kind": kind.name, "metadata": {"name": name}, "spec": spec}


def suspended(manifest: Mapping[str, Any], wishes: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object as somebody makes it who gives it into the queue by labels; it says its wishes by itself."""
    metadata = {
        **manifest["metadata"],
        "labels": {LABELS[len(manifest["metadata"]["name"]) % 2]: "default", PRIORITY: wishes["priority"]},
        "annotations": {
            "tidegate.io/time-limit": wishes["time_limit"],
            "tidegate.io/borrow": str(wishes["borrow"]).lower(),
        },
    }
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], "suspend": True}}


def _pod(units: int, notes: Mapping[str, str]) -> dict[str, Any]:
    """Return a pod's template; one without units is a launcher or a head."""
    limits = {"cpu": "1", "memory": "1Gi", **({GPU: str(units)} if units else {})}
    return {
        "metadata": {"annotations": dict(notes)},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": IMAGE, "command": ["work"], "resources": {"limits": limits}}],
        },
    }


def _job(pods: int, units: int, notes: Mapping[str, str], *, indexed: bool, more: int = 0) -> dict[str, Any]:
    return {
        "completionMode": "Indexed" if indexed else "NonIndexed",
        "parallelism": pods,
        "completions": pods + more,
        "backoffLimit": 0,
        "template": _pod(units, notes),
    }


def _job_set(pods: int, units: int, notes: Mapping[str, str]) -> dict[str, Any]:
    """Return a JobSet of two parts where there are pods for two."""
    parts = {"lead": 1, "work": pods - 1} if pods > 1 else {"lead": 1}
    return {
        "replicatedJobs": [
            {"name": part, "replicas": 1, "template": {"spec": _job(count, units, notes, indexed=True)}}
            for part, count in parts.items()
        ]
    }


def _pytorch_job(pods: int, units: int, notes: Mapping[str, str]) -> dict[str, Any]:
    parts = {"Master": (1, notes), **({"Worker": (pods - 1, _behind(notes))} if pods > 1 else {})}
    return {"pytorchReplicaSpecs": {part: _replicas(count, units, its) for part, (count, its) in parts.items()}}


def _mpi_job(pods: int, units: int, notes: Mapping[str, str]) -> dict[str, Any]:
    parts = {"Launcher": _replicas(1, 0, notes), "Worker": _replicas(pods, units, _behind(notes))}
    return {"slotsPerWorker": units, "mpiReplicaSpecs": parts}


def _replicas(count: int, units: int, notes: Mapping[str, str]) -> dict[str, Any]:
    return {"replicas": count, "restartPolicy": "Never", "template": _pod(units, notes)}


def _ray_job(pods: int, units: int, notes: Mapping[str, str]) -> dict[str, Any]:
    workers = {"groupName": "work", "replicas": pods, "rayStartParams": {}, "template": _pod(units, _behind(notes))}
    head = {"rayStartParams": {}, "template": _pod(0, notes)}
    return {
        "entrypoint": "work",
        "rayClusterSpec": {"rayVersion": "2.9.0", "headGroupSpec": head, "workerGroupSpecs": [workers]},
    }


def _train_job(pods: int, units: int, notes: Mapping[str, str]) -> dict[str, Any]:
    trainer = {"image": IMAGE, "numNodes": pods, "resourcesPerNode": {"limits": {GPU: str(units)}}}
    return {"runtimeRef": {"name": "torch"}, "annotations": dict(notes), "trainer": trainer}


def _behind(notes: Mapping[str, str]) -> Mapping[str, str]:
    """Return how pods are steered that work until those before them have ended, but for what never starts."""
    return notes if NEVER in notes else {"tidegate.test/forever": "1"}


SPECS: Mapping[Kind, Callable[[int, int, Mapping[str, str]], dict[str, Any]]] = {
    JOB_SET: _job_set,
    PYTORCH_JOB: _pytorch_job,
    MPI_JOB: _mpi_job,
    OLD_MPI_JOB: _mpi_job,
    TRAIN_JOB: _train_job,
    RAY_JOB: _ray_job,
}
KNOWN = (JOB, *SPECS)
