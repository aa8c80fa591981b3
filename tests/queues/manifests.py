"""Kubernetes objects as people write them, small and sound."""

from typing import Any

GPU = "nvidia.com/gpu"


def pod(units: int = 1, *, notes: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:  # noqa: ANN401  fields of a pod
    """Return a pod template that asks for units."""
    resources = {"limits": {"cpu": "1", "memory": "1Gi", **({GPU: str(units)} if units else {})}}
    container = {"name": "main", "image": "reg.example/train:1", "resources": resources}
    meta = {"metadata": {"annotations": notes}} if notes else {}
    return {**meta, "spec": {"restartPolicy": "Never", "containers": [container], **spec}}


def job(
    name: str = "kube",
    *,
    pods: int = 1,
    units: int = 1,
    notes: dict[str, str] | None = None,
    meta: dict[str, Any] | None = None,
    **spec: Any,  # noqa: ANN401  fields of a Job
) -> dict[str, Any]:
    """Return an indexed batch/v1 Job; ``notes`` are annotations of its pods, ``meta`` further metadata."""
    body = {"completionMode": "Indexed", "parallelism": pods, "completions": pods, "backoffLimit": 0}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **(meta or {})},
        "spec": {**body, "template": pod(units, notes=notes), **spec},
    }


def job_set(
    name: str = "kube",
    *,
    parts: dict[str, tuple[int, int, int]],
    notes: dict[str, str] | None = None,
    meta: dict[str, Any] | None = None,
    **spec: Any,  # noqa: ANN401  fields of a JobSet
) -> dict[str, Any]:
    """Return a JobSet; ``parts`` says of each replicated Job how many copies, pods and units there are."""
    replicated = [
        {
            "name": part,
            "replicas": copies,
            "template": {"spec": job(pods=pods, units=units, notes=notes)["spec"]},
        }
        for part, (copies, pods, units) in parts.items()
    ]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, **(meta or {})},
        "spec": {"replicatedJobs": replicated, **spec},
    }


def steer(**how: object) -> dict[str, str]:
    """Return annotations that tell the fake kubelet how pods run: ``run_for``, ``exit_code``, ``forever`` …"""
    return {f"tidegate.test/{key.replace('_', '-')}": str(value) for key, value in how.items()}
