"""Which JSON type each field must have: what a decoder refuses with 400 before any rule is asked."""

from typing import Any

from clusters.emulator.errors import bad_request
from clusters.emulator.kinds import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    JOBS,
    LEASES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    SECRETS,
    SERVICES,
    Kind,
)
from clusters.emulator.quantities import QuantityError, milli
from clusters.emulator.store import Object


class MapOf:
    """A JSON object with free keys."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - a shape is a type, a dict, a list or a MapOf
        """Every value has the shape ``inner``."""
        self.inner = inner


class Quantity:
    """A string or number such as 500m or 8Gi."""


_TEXTS = MapOf(str)
_AMOUNTS = MapOf(Quantity)
_OWNER = {"apiVersion": str, "kind": str, "name": str, "uid": str, "controller": bool, "blockOwnerDeletion": bool}
_METADATA = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "uid": str,
    "resourceVersion": str,
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "finalizers": [str],
    "ownerReferences": [_OWNER],
}
_EXPRESSION = {"key": str, "operator": str, "values": [str]}
_TERM = {"matchExpressions": [_EXPRESSION], "matchFields": [_EXPRESSION]}
_NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]},
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": int, "preference": _TERM}],
}
_CONTAINER = {
    "name": str,
    "image": str,
    "command": [str],
    "args": [str],
    "workingDir": str,
    "env": [{"name": str, "value": str, "valueFrom": dict}],
    "envFrom": [dict],
    "ports": [{"name": str, "containerPort": int, "protocol": str}],
    "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS, "claims": [{"name": str, "request": str}]},
    "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool}],
    "imagePullPolicy": str,
}
_TOLERATION = {"key": str, "operator": str, "value": str, "effect": str, "tolerationSeconds": int}
_POD_SPEC = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "restartPolicy": str,
    "nodeName": str,
    "nodeSelector": _TEXTS,
    "affinity": {"nodeAffinity": _NODE_AFFINITY, "podAffinity": dict, "podAntiAffinity": dict},
    "tolerations": [_TOLERATION],
    "schedulingGates": [{"name": str}],
    "terminationGracePeriodSeconds": int,
    "activeDeadlineSeconds": int,
    "priorityClassName": str,
    "priority": int,
    "preemptionPolicy": str,
    "schedulerName": str,
    "serviceAccountName": str,
    "automountServiceAccountToken": bool,
    "hostname": str,
    "subdomain": str,
    "hostNetwork": bool,
    "volumes": [{"name": str, "emptyDir": dict}],
    "imagePullSecrets": [{"name": str}],
    "resourceClaims": [{"name": str, "resourceClaimName": str, "resourceClaimTemplateName": str}],
    "overhead": _AMOUNTS,
}
_REQUEST = {"name": str, "exactly": {"deviceClassName": str, "allocationMode": str, "count": int}}
_CLAIM_SPEC = {"devices": {"requests": [_REQUEST]}}
_SELECTOR = {"matchLabels": _TEXTS, "matchExpressions": [_EXPRESSION]}
_SHAPES: dict[Kind, dict[str, Any]] = {
    PODS: {"spec": _POD_SPEC, "status": {"phase": str, "conditions": [dict], "containerStatuses": [dict]}},
    JOBS: {
        "spec": {
            "parallelism": int,
            "completions": int,
            "backoffLimit": int,
            "backoffLimitPerIndex": int,
            "maxFailedIndexes": int,
            "activeDeadlineSeconds": int,
            "ttlSecondsAfterFinished": int,
            "completionMode": str,
            "suspend": bool,
            "podReplacementPolicy": str,
            "manualSelector": bool,
            "selector": _SELECTOR,
            "template": {"metadata": _METADATA, "spec": _POD_SPEC},
        },
        "status": {"active": int, "succeeded": int, "failed": int, "conditions": [dict], "completedIndexes": str},
    },
    NODES: {
        "spec": {"unschedulable": bool, "taints": [{"key": str, "value": str, "effect": str}], "providerID": str},
        "status": {"capacity": _AMOUNTS, "allocatable": _AMOUNTS, "conditions": [dict], "addresses": [dict]},
    },
    RESOURCE_QUOTAS: {"spec": {"hard": _AMOUNTS, "scopes": [str]}, "status": {"hard": _AMOUNTS, "used": _AMOUNTS}},
    SERVICES: {"spec": {"clusterIP": str, "selector": _TEXTS, "type": str, "ports": [{"name": str, "port": int}]}},
    PRIORITY_CLASSES: {"value": int, "globalDefault": bool, "description": str, "preemptionPolicy": str},
    LEASES: {"spec": {"holderIdentity": str, "leaseDurationSeconds": int, "leaseTransitions": int}},
    RESOURCE_SLICES: {
        "spec": {
            "driver": str,
            "pool": {"name": str, "generation": int, "resourceSliceCount": int},
            "nodeName": str,
            "allNodes": bool,
            "devices": [{"name": str}],
        }
    },
    DEVICE_CLASSES: {"spec": {"selectors": [{"cel": {"expression": str}}]}},
    RESOURCE_CLAIMS: {"spec": _CLAIM_SPEC, "status": {"reservedFor": [dict], "allocation": dict}},
    RESOURCE_CLAIM_TEMPLATES: {"spec": {"metadata": _METADATA, "spec": _CLAIM_SPEC}},
    SECRETS: {"data": _TEXTS, "stringData": _TEXTS, "type": str, "immutable": bool},
    CONFIG_MAPS: {"data": _TEXTS, "binaryData": _TEXTS, "immutable": bool},
}
_LARGEST = 2**63 - 1
_WORDS = {str: "string", int: "int32", bool: "bool", dict: "struct"}


def check(kind: Kind, body: Object) -> None:
    """Raise 400 for a field of the wrong JSON type; fields without a shape pass."""
    complaint = _wrong(body, {"apiVersion": str, "kind": str, "metadata": _METADATA, **_SHAPES.get(kind, {})}, "")
    if complaint:
        raise bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {complaint}')


_PARAMETERS: dict[str, dict[str, Any]] = {
    "DeleteOptions": {
        "gracePeriodSeconds": int,
        "propagationPolicy": str,
        "orphanDependents": bool,
        "dryRun": [str],
        "preconditions": {"uid": str, "resourceVersion": str},
    },
    "Binding": {"metadata": _METADATA, "target": {"kind": str, "name": str}},
}
_PARAMETERS["Eviction"] = {"metadata": _METADATA, "deleteOptions": _PARAMETERS["DeleteOptions"]}


def check_parameters(title: str, body: Object) -> Object:
    """Return the body of a request that stores no object; raise 400 for a field of the wrong JSON type."""
    complaint = _wrong(body, _PARAMETERS[title], "")
    if complaint:
        raise bad_request(f'{title} in version "v1" cannot be handled as a {title}: {complaint}')
    return body


def _wrong(value: object, shape: Any, path: str) -> str:  # noqa: ANN401 - see MapOf
    """Return the first complaint about ``value``, or nothing; nulls are left only inside lists."""
    if value is None:
        return _mismatch(value, path, "element")
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return _mismatch(value, path, "struct")
        return next(
            (told for key in value if key in shape and (told := _wrong(value[key], shape[key], f"{path}.{key}"))), ""
        )
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _mismatch(value, path, "slice")
        return next((told for each in value if (told := _wrong(each, shape[0], path))), "")
    if isinstance(shape, MapOf):
        if not isinstance(value, dict):
            return _mismatch(value, path, "map")
        return next((told for key in value if (told := _wrong(value[key], shape.inner, f"{path}.{key}"))), "")
    if shape is Quantity:
        return _wrong_quantity(value, path)
    fits = isinstance(value, shape) and not (shape is int and not _whole(value))
    return "" if fits else _mismatch(value, path, _WORDS[shape])


def _whole(value: object) -> bool:
    """Tell whether a value is a whole number that Go could hold."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _wrong_quantity(value: object, path: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return _mismatch(value, path, "Quantity")
    try:
        milli(str(value))
    except QuantityError as complaint:
        return str(complaint)
    return ""


def _mismatch(value: object, path: str, wanted: str) -> str:
    given = {
        type(None): "null",
        str: "string",
        bool: "bool",
        int: "number",
        float: "number",
        list: "array",
        dict: "object",
    }[type(value)]
    return f"json: cannot unmarshal {given} into Go struct field {path.lstrip('.')} of type {wanted}"


def without_nulls(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON value without the object fields that are null, which mean the same as absent ones."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value
