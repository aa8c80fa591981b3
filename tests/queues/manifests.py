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


def pytorch_job(name: str = "kube", **spec: Any) -> dict[str, Any]:  # noqa: ANN401  fields of a PyTorchJob
    """Return a PyTorchJob of a master and two workers with 8 units each."""
    replicas = {
        role: {"replicas": count, "restartPolicy": "OnFailure", "template": _named("pytorch", 8)}
        for role, count in (("Master", 1), ("Worker", 2))
    }
    return _of("kubeflow.org/v1", "PyTorchJob", name, {"pytorchReplicaSpecs": replicas, **spec})


def mpi_job(name: str = "kube", version: str = "v1", **spec: Any) -> dict[str, Any]:  # noqa: ANN401  fields of an MPIJob
    """Return an MPIJob of a launcher without units and two workers with 8 each."""
    replicas = {
        role: {"replicas": count, "template": _named("mpi", units)}
        for role, count, units in (("Launcher", 1, 0), ("Worker", 2, 8))
    }
    return _of(f"kubeflow.org/{version}", "MPIJob", name, {"mpiReplicaSpecs": replicas, "slotsPerWorker": 8, **spec})


def ray_job(name: str = "kube", **spec: Any) -> dict[str, Any]:  # noqa: ANN401  fields of a RayJob
    """Return a RayJob whose head has no units and whose two workers have 8 each."""
    cluster = {
        "rayVersion": "2.9.0",
        "headGroupSpec": {"rayStartParams": {}, "template": _named("ray-head", 0)},
        "workerGroupSpecs": [
            {"groupName": "gpus", "replicas": 2, "rayStartParams": {}, "template": _named("ray-worker", 8)}
        ],
    }
    return _of("ray.io/v1", "RayJob", name, {"entrypoint": "python train.py", "rayClusterSpec": cluster, **spec})


def train_job(name: str = "kube", **spec: Any) -> dict[str, Any]:  # noqa: ANN401  fields of a TrainJob
    """Return a TrainJob on two nodes with 8 units each."""
    trainer = {"image": "reg.example/train:1", "numNodes": 2, "resourcesPerNode": {"limits": {GPU: "8"}}}
    body = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer, **spec}
    return _of("trainer.kubeflow.org/v1alpha1", "TrainJob", name, body)


def _named(container: str, units: int) -> dict[str, Any]:
    template = pod(units)
    template["spec"]["containers"][0]["name"] = container
    return template


def _of(api: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}
