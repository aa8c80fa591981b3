"""A launch as Kubernetes objects: plain dicts, made from the launch alone."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from clusters import classes, names, rendezvous
from clusters.containers import container, volumes
from clusters.port import GroupSpec, Launch, Pin
from clusters.steering import affinity, steering, toleration

Manifest: TypeAlias = dict[str, Any]

_HIGHEST_PRIORITY = 1_000_000_000
_LOWEST_PRIORITY = -2_147_483_648


def job(launch: Launch, group: GroupSpec) -> Manifest:
    """Return the batch/v1 Job of one group of the wave."""
    size = len(group.tasks)
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": size,
        "parallelism": size,
        **_failure_limits(launch, group),
        "podReplacementPolicy": "Failed",
        "template": _template(launch, group),
    }
    if launch.fence_seconds is not None:
        spec["activeDeadlineSeconds"] = launch.fence_seconds
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": names.object_name(launch.job, launch.number, group.group),
            "namespace": launch.namespace,
            "labels": _labels(launch, group),
            "annotations": annotations(launch),
        },
        "spec": spec,
    }


def service(launch: Launch, *, owner: Manifest) -> Manifest:
    """Return the headless Service of a gang; it goes when its owner, the Job of the wave's first group, goes.

    That of an elastic job also finds the pods of waves to come.
    """
    shared = shared_labels(launch)
    found_by = names.LABEL_WAVE if launch.elastic is None else names.LABEL_JOB
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.service_name(launch.job, launch.number),
            "namespace": launch.namespace,
            "labels": shared,
            "ownerReferences": [_owner(owner)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {found_by: shared[found_by]},
            "ports": [{"name": "rendezvous", "port": rendezvous.MASTER_PORT}],
        },
    }


def claim_template(launch: Launch, group: GroupSpec, *, owner: Manifest, version: str) -> Manifest:
    """Return what the claim of each pod of a group is made from; it goes when its owner, the group's Job, goes."""
    labels = _labels(launch, group)
    wanted = {"deviceClassName": classes.class_of(group.resource), "allocationMode": "ExactCount", "count": group.units}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": names.object_name(launch.job, launch.number, group.group),
            "namespace": launch.namespace,
            "labels": labels,
            "ownerReferences": [_owner(owner)],
        },
        "spec": {
            # By these labels we know our claims from those of others.
            "metadata": {"labels": labels},
            "spec": {"devices": {"requests": [{"name": classes.CLAIM, "exactly": wanted}]}},
        },
    }


def namespace(name: str, *, team: str) -> Manifest:
    """Return a team's namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {names.LABEL_TEAM: names.label_value(team)},
            "annotations": {names.ANNOTATION_TEAM: team},
        },
    }


def fence(namespace: str, *, ceiling: Mapping[str, int]) -> Manifest:
    """Return the ResourceQuota that caps what a namespace's pods may request of each counted resource.

    Of devices twice as many: a claim outlives its pod for a moment, in which it may not keep out the next one's.
    """
    hard = {
        classes.quota_of(resource): str(2 * units if classes.class_of(resource) else units)
        for resource, units in sorted(ceiling.items())
    }
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": names.FENCE, "namespace": namespace},
        "spec": {"hard": hard},
    }


def priority_class(name: str, value: int) -> Manifest:
    """Return the mirror of a priority class; it never preempts, since who gives way is decided here."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": names.priority_class_name(name, value)},
        "value": max(_LOWEST_PRIORITY, min(value, _HIGHEST_PRIORITY)),
        "preemptionPolicy": "Never",
        "description": "Mirrored by Tidegate.",
    }


def release(pin: Pin) -> Manifest:
    """Return the strategic merge patch that narrows a gated pod to its node, tells its task and takes our gate away."""
    spec: Manifest = {"schedulingGates": [{"$patch": "delete", "name": names.GATE}]}
    narrowed = affinity(pin.node, pin.placement)
    if narrowed:
        spec["affinity"] = narrowed
    return {"metadata": {"annotations": {names.ANNOTATION_TASK: str(pin.task)}}, "spec": spec}


def _owner(job: Manifest) -> Manifest:
    meta = job["metadata"]
    return {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}


def _failure_limits(launch: Launch, group: GroupSpec) -> Manifest:
    # Retries are ours. A failed task ends its gang, but of independent tasks each fails alone.
    if launch.gang or len(group.tasks) == 1:
        return {"backoffLimit": 0}
    return {"backoffLimitPerIndex": 0}


def _template(launch: Launch, group: GroupSpec) -> Manifest:
    return {
        "metadata": {
            "labels": {**names.pod_labels(launch.labels), **_labels(launch, group)},
            "annotations": {**dict(group.annotations), **annotations(launch), **_devices(group)},
        },
        "spec": _pod(launch, group),
    }


def _devices(group: GroupSpec) -> dict[str, str]:
    """Say on a pod what it claims: its claim's template may be gone when the pod is looked at."""
    name = classes.class_of(group.resource)
    return {names.ANNOTATION_DEVICES: f"{name}={group.units}"} if name else {}


def _pod(launch: Launch, group: GroupSpec) -> Manifest:
    pod: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": names.priority_class_name(launch.priority_class, launch.priority_value),
        "terminationGracePeriodSeconds": launch.grace_seconds,
        "containers": [container(launch, group)],
    }
    if rendezvous.meets(launch):
        pod["subdomain"] = rendezvous.subdomain(launch)
    if classes.class_of(group.resource):
        template = names.object_name(launch.job, launch.number, group.group)
        pod["resourceClaims"] = [{"name": classes.CLAIM, "resourceClaimTemplateName": template}]
    if group.node_labels:
        pod["nodeSelector"] = dict(group.node_labels)
    if group.tolerations:
        pod["tolerations"] = [toleration(each) for each in group.tolerations]
    if group.service_account:
        pod |= {"serviceAccountName": group.service_account, "automountServiceAccountToken": True}
    if group.pull_secrets:
        pod["imagePullSecrets"] = [{"name": secret} for secret in group.pull_secrets]
    if mounted := volumes(group):
        pod["volumes"] = mounted
    return pod | steering(launch, group)


def shared_labels(launch: Launch) -> dict[str, str]:
    """Return the labels of everything that belongs to a wave."""
    return {
        names.LABEL_JOB: names.label_value(launch.job),
        names.LABEL_WAVE: names.label_value(launch.wave),
        names.LABEL_TEAM: names.label_value(launch.team),
        names.LABEL_QUEUE: names.label_value(launch.queue),
    }


def _labels(launch: Launch, group: GroupSpec) -> dict[str, str]:
    return {**shared_labels(launch), names.LABEL_GROUP: str(group.group)}


def annotations(launch: Launch) -> dict[str, str]:
    """Return what everything that belongs to a wave tells people about it."""
    return {
        names.ANNOTATION_JOB_NAME: launch.job_name,
        names.ANNOTATION_TEAM: launch.team,
        names.ANNOTATION_QUEUE: launch.queue,
        names.ANNOTATION_ATTEMPT: str(launch.attempt),
    }
