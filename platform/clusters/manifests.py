"""A launch as Kubernetes objects: plain dicts, made from the launch alone."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from clusters import names, rendezvous
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
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                }
            ],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {found_by: shared[found_by]},
            "ports": [{"name": "rendezvous", "port": rendezvous.MASTER_PORT}],
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
    """Return the ResourceQuota that caps what a namespace's pods may request of each counted resource."""
    hard = {f"requests.{resource}": str(units) for resource, units in sorted(ceiling.items())}
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


def _failure_limits(launch: Launch, group: GroupSpec) -> Manifest:
    # Retries are ours. A failed task ends its gang, but of independent tasks each fails alone.
    if launch.gang or len(group.tasks) == 1:
        return {"backoffLimit": 0}
    return {"backoffLimitPerIndex": 0}


def _template(launch: Launch, group: GroupSpec) -> Manifest:
    return {
        "metadata": {
            "labels": {**names.pod_labels(launch.labels), **_labels(launch, group)},
            "annotations": {**dict(group.annotations), **annotations(launch)},
        },
        "spec": _pod(launch, group),
    }


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
