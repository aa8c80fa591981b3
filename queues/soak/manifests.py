"""What people of a soak write themselves: Kubernetes objects, submitted or made suspended with a queue's label."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from clusters.kinds import JOB, JOB_SET

IMAGE = "registry.example/soak:1"
# Kinds whose controllers end them by themselves, and those of them that every cluster has.
KNOWN = (JOB, JOB_SET)
ALWAYS = (JOB.name,)
# Pods and units of each: at most 8 units, which every team may have.
SIZES = ((1, 1), (2, 1), (4, 1), (2, 2), (3, 2), (2, 4))
LABELS = ("tidegate.io/queue", "kueue.x-k8s.io/queue-name")
PRIORITY = "kueue.x-k8s.io/priority-class"


def draw(
    random: Random, name: str, *, kinds: Sequence[str], units: int | None, notes: Mapping[str, str]
) -> dict[str, Any]:
    """Draw an object of one of these kinds; ``notes`` steer its pods, of which one asks for ``units`` if not None."""
    pods, each = (1, units) if units is not None else random.choice(SIZES)
    if random.choice(kinds) == "JobSet":
        return _job_set(name, pods=pods, units=each, notes=notes)
    indexed = random.choice((True, False))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": _job(pods, each, notes, indexed=indexed, more=0 if indexed else random.randint(0, 2)),
    }


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


def _job(pods: int, units: int, notes: Mapping[str, str], *, indexed: bool, more: int = 0) -> dict[str, Any]:
    resources = {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(units)}}
    return {
        "completionMode": "Indexed" if indexed else "NonIndexed",
        "parallelism": pods,
        "completions": pods + more,
        "backoffLimit": 0,
        "template": {
            "metadata": {"annotations": dict(notes)},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": IMAGE, "command": ["work"], "resources": resources}],
            },
        },
    }


def _job_set(name: str, *, pods: int, units: int, notes: Mapping[str, str]) -> dict[str, Any]:
    """Return a JobSet of two parts where there are pods for two."""
    parts = {"lead": 1, "work": pods - 1} if pods > 1 else {"lead": 1}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            "replicatedJobs": [
                {"name": part, "replicas": 1, "template": {"spec": _job(count, units, notes, indexed=True)}}
                for part, count in parts.items()
            ]
        },
    }
