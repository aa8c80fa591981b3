"""What the API server fills in where an object is silent."""

from typing import Any

from clusters.emulator.kinds import (
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
    Kind,
)
from clusters.emulator.store import Object

DEFAULT_GRACE = 30
_UNLIMITED = 2**31 - 1
JOB_NAME = "batch.kubernetes.io/job-name"
JOB_UID = "batch.kubernetes.io/controller-uid"


def fill(kind: Kind, body: Object) -> Object:
    """Return the object with its defaults, the given one untouched."""
    if kind is PODS:
        return {**body, "spec": pod_spec(body.get("spec") or {})}
    if kind is JOBS:
        return {**body, "spec": _job_spec(body)}
    if kind is PRIORITY_CLASSES:
        return {"value": 0, "preemptionPolicy": "PreemptLowerPriority", **body}
    if kind is SECRETS:
        return {"type": "Opaque", **body}
    if kind is SERVICES:
        return {**body, "spec": _service_spec(body.get("spec") or {})}
    if kind is NAMESPACES:
        labels = {**(body["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": body["metadata"]["name"]}
        metadata = {**body["metadata"], "labels": labels}
        return {**body, "metadata": metadata, "spec": {"finalizers": ["kubernetes"], **(body.get("spec") or {})}}
    if kind in {NODES, RESOURCE_QUOTAS}:
        return {"spec": {}, **body}
    return body


def pod_spec(given: Object) -> Object:
    """Return a pod's spec with defaults; requests follow limits."""
    spec = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": DEFAULT_GRACE,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **given,
    }
    for part in ("containers", "initContainers"):
        if spec.get(part):
            spec[part] = [_container(each) for each in spec[part]]
    return spec


def _container(given: Object) -> Object:
    resources = given.get("resources") or {}
    limits = {key: str(value) for key, value in (resources.get("limits") or {}).items()}
    requests = {key: str(value) for key, value in (resources.get("requests") or {}).items()}
    known: dict[str, Any] = {}
    if limits:
        known["limits"] = limits
    if limits or requests:
        known["requests"] = {**limits, **requests}
    policy = (
        "Always" if given.get("image", "").endswith(":latest") or ":" not in given.get("image", "") else "IfNotPresent"
    )
    return {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": policy,
        **given,
        "resources": {**resources, **known},
    }


def _job_spec(body: Object) -> Object:
    """Return a Job's spec with defaults; selector and labels wait for the uid."""
    given = body.get("spec") or {}
    spec = {
        # A limit for each index alone leaves the sum unlimited.
        "backoffLimit": _UNLIMITED if given.get("backoffLimitPerIndex") is not None else 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        **given,
    }
    if "parallelism" not in spec and "completions" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    template = spec.get("template") or {}
    if template.get("spec"):
        # A template has no default restart policy: a Job that leaves it out is refused.
        inner = pod_spec({"restartPolicy": "Always", **template["spec"]})
        spec["template"] = {**template, "metadata": template.get("metadata") or {}, "spec": inner}
    return spec


def tie_job(body: Object) -> Object:
    """Give a new Job its selector and its template the labels that follow from name and uid."""
    metadata, spec = body["metadata"], body["spec"]
    if spec.get("manualSelector"):
        return body
    template = spec["template"]
    marks = {
        "controller-uid": metadata["uid"],
        "job-name": metadata["name"],
        JOB_UID: metadata["uid"],
        JOB_NAME: metadata["name"],
    }
    labels = {**(template["metadata"].get("labels") or {}), **marks}
    template = {**template, "metadata": {**template["metadata"], "labels": labels}}
    selector = {"matchLabels": {JOB_UID: metadata["uid"]}}
    return {**body, "spec": {**spec, "selector": selector, "template": template}}


def _service_spec(given: Object) -> Object:
    spec = {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", **given}
    spec.setdefault("clusterIP", "10.0.0.10")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    if spec.get("ports"):
        spec["ports"] = [{"protocol": "TCP", "targetPort": port.get("port"), **port} for port in spec["ports"]]
    return spec
