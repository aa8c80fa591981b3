"""Rules that make the API server answer 422."""

import re
from collections.abc import Iterator

from clusters.emulator.errors import invalid
from clusters.emulator.kinds import JOBS, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, SERVICES, Kind
from clusters.emulator.quantities import milli
from clusters.emulator.store import Object

Causes = Iterator[tuple[str, str]]

LABEL_LENGTH = 63
NAME_LENGTH = 253
LARGEST_WEIGHT = 100
LARGEST_INDEXED = 100_000
_COUNTS = (
    "parallelism",
    "completions",
    "backoffLimit",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_KEY_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_ENV = re.compile(r"[^=\x00]+")
_EFFECTS = {"NoSchedule", "PreferNoSchedule", "NoExecute"}
_NATIVE = {"cpu", "memory", "ephemeral-storage", "pods", "storage"}
_OPERATORS = {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}

NOT_A_LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
NOT_A_SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"


def creation(kind: Kind, body: Object) -> None:
    """Raise 422 unless a new object, defaults filled in, obeys the rules."""
    causes = [*_metadata(kind, body["metadata"])]
    if kind is PODS:
        causes += pod_spec(body["spec"], "spec")
    elif kind is JOBS:
        causes += _job(body)
    elif kind is RESOURCE_QUOTAS:
        causes += _amounts(body["spec"].get("hard") or {}, "spec.hard")
    elif kind is NODES:
        causes += _taints(body["spec"].get("taints") or [])
    if causes:
        raise invalid(kind, body["metadata"]["name"], causes)


def _metadata(kind: Kind, metadata: Object) -> Causes:
    name = metadata["name"]
    if kind is NAMESPACES:
        yield from dns_label(name, "metadata.name")
    elif kind is SERVICES:
        if not _SERVICE.fullmatch(name) or len(name) > LABEL_LENGTH:
            yield "metadata.name", f'Invalid value: "{name}": a DNS-1035 label must start with a letter'
    elif not _SUBDOMAIN.fullmatch(name):
        yield "metadata.name", f'Invalid value: "{name}": {NOT_A_SUBDOMAIN}'
    elif len(name) > NAME_LENGTH:
        yield "metadata.name", f'Invalid value: "{name}": must be no more than {NAME_LENGTH} bytes'
    yield from labels(metadata.get("labels") or {}, "metadata.labels")
    for index, owner in enumerate(metadata.get("ownerReferences") or []):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield f"metadata.ownerReferences[{index}].{key}", "Required value: must not be empty"
    for key in metadata.get("annotations") or {}:
        yield from _key(key.lower(), "metadata.annotations")


def dns_label(name: str, field: str) -> Causes:
    """Complain about a name that is no DNS label of at most 63 characters."""
    if len(name) > LABEL_LENGTH:
        yield field, f'Invalid value: "{name}": must be no more than {LABEL_LENGTH} bytes'
    if not _LABEL.fullmatch(name):
        yield field, f'Invalid value: "{name}": {NOT_A_LABEL}'


def labels(given: Object, field: str) -> Causes:
    """Complain about label keys and values."""
    for key, value in given.items():
        yield from _key(key, field)
        if len(value) > LABEL_LENGTH:
            yield field, f'Invalid value: "{value}": must be no more than {LABEL_LENGTH} bytes'
        elif not _VALUE.fullmatch(value):
            yield field, f'Invalid value: "{value}": a valid label must be an empty string or alphanumeric characters'


def _key(key: str, field: str) -> Causes:
    prefix, _, name = key.rpartition("/")
    if not _KEY_NAME.fullmatch(name) or len(name) > LABEL_LENGTH or (prefix and not _SUBDOMAIN.fullmatch(prefix)):
        yield field, f"Invalid value: \"{key}\": name part must consist of alphanumeric characters, '-', '_' or '.'"


def pod_spec(spec: Object, field: str) -> Causes:
    """Complain about a pod's spec."""
    containers = spec.get("containers") or []
    if not containers:
        yield f"{field}.containers", "Required value"
    seen: set[str] = set()
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or []):
            yield from _container(container, f"{field}.{part}[{index}]", seen)
    if spec["restartPolicy"] not in {"Always", "OnFailure", "Never"}:
        yield f"{field}.restartPolicy", f'Unsupported value: "{spec["restartPolicy"]}"'
    yield from labels(spec.get("nodeSelector") or {}, f"{field}.nodeSelector")
    if spec["terminationGracePeriodSeconds"] < 0:
        yield f"{field}.terminationGracePeriodSeconds", "Invalid value: must be greater than or equal to 0"
    for index, toleration in enumerate(spec.get("tolerations") or []):
        yield from _toleration(toleration, f"{field}.tolerations[{index}]")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield f"{field}.nodeName", "Forbidden: cannot be set until all schedulingGates have been cleared"
    yield from _affinity(spec, f"{field}.affinity.nodeAffinity")
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            yield from dns_label(spec[name], f"{field}.{name}")


def _container(container: Object, field: str, seen: set[str]) -> Causes:
    name = container.get("name", "")
    if not name:
        yield f"{field}.name", "Required value"
    elif name in seen:
        yield f"{field}.name", f'Duplicate value: "{name}"'
    else:
        yield from dns_label(name, f"{field}.name")
    seen.add(name)
    if not container.get("image", "").strip():
        yield f"{field}.image", "Required value"
    for index, variable in enumerate(container.get("env") or []):
        if not _ENV.fullmatch(variable.get("name", "")):
            yield f"{field}.env[{index}].name", "Required value"
    yield from _resources(container.get("resources") or {}, f"{field}.resources")


def _resources(resources: Object, field: str) -> Causes:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        yield from _amounts(amounts, f"{field}.{part}")
        for key in amounts:
            if "/" not in key and key not in _NATIVE and not key.startswith("hugepages-"):
                yield f"{field}.{part}[{key}]", f'Invalid value: "{key}": must be a standard resource for containers'
    for key, value in requests.items():
        if key in limits and milli(value) > milli(limits[key]):
            yield (
                f"{field}.requests",
                f'Invalid value: "{value}": must be less than or equal to {key} limit of {limits[key]}',
            )
        elif "/" in key and key not in limits:
            yield f"{field}.limits", "Required value: Limit must be set for non overcommitable resources"
        elif "/" in key and milli(value) != milli(limits[key]):
            yield f"{field}.requests", f'Invalid value: "{value}": must be equal to {key} limit of {limits[key]}'


def _amounts(amounts: Object, field: str) -> Causes:
    for key, value in amounts.items():
        thousandths = milli(str(value))
        if thousandths < 0:
            yield f"{field}[{key}]", f'Invalid value: "{value}": must be greater than or equal to 0'
        elif "/" in key and thousandths % 1000:
            yield f"{field}[{key}]", f'Invalid value: "{value}": must be an integer'


def _toleration(toleration: Object, field: str) -> Causes:
    operator = toleration.get("operator", "Equal")
    if operator not in {"Equal", "Exists", "Lt", "Gt"}:
        yield f"{field}.operator", f'Unsupported value: "{operator}"'
    if not toleration.get("key") and operator != "Exists":
        yield f"{field}.operator", "Invalid value: operator must be Exists when `key` is empty"
    if operator == "Exists" and toleration.get("value"):
        yield f"{field}.operator", "Invalid value: value must be empty when `operator` is 'Exists'"
    if toleration.get("effect", "") not in _EFFECTS | {""}:
        yield f"{field}.effect", f'Unsupported value: "{toleration["effect"]}"'
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        yield f"{field}.effect", "Invalid value: effect must be 'NoExecute' when `tolerationSeconds` is set"


def _affinity(spec: Object, field: str) -> Causes:
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node.get(_REQUIRED)
    preferred = node.get(_PREFERRED) or []
    for each in preferred:
        if not 1 <= each.get("weight", 0) <= LARGEST_WEIGHT:
            yield f"{field}.weight", f"Invalid value: {each.get('weight', 0)}: must be in the range 1-100"
    terms = (required or {}).get("nodeSelectorTerms") or []
    if required is not None and not terms:
        yield f"{field}.required.nodeSelectorTerms", "Required value: must have at least one node selector term"
    for term in [*terms, *(each.get("preference") or {} for each in preferred)]:
        for expression in term.get("matchExpressions") or []:
            yield from _expression(expression, field)
        for expression in term.get("matchFields") or []:
            yield from _expression(expression, field)
            if expression.get("key") != "metadata.name" or len(expression.get("values") or []) != 1:
                yield f"{field}.matchFields", "Invalid value: only metadata.name with exactly one value is supported"


def _expression(expression: Object, field: str) -> Causes:
    operator, values = expression.get("operator"), expression.get("values") or []
    if not expression.get("key"):
        yield f"{field}.key", "Required value"
    if operator not in _OPERATORS:
        yield field, f'Invalid value: "{operator}": not a valid selector operator'
    elif operator in {"In", "NotIn"} and not values:
        yield field, "Required value: must be specified when `operator` is 'In' or 'NotIn'"
    elif operator in {"Exists", "DoesNotExist"} and values:
        yield field, "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def _taints(taints: list[Object]) -> Causes:
    for index, taint in enumerate(taints):
        yield from _key(taint.get("key", ""), f"metadata.taints[{index}].key")
        if taint.get("effect") not in _EFFECTS:
            yield f"metadata.taints[{index}].effect", f'Unsupported value: "{taint.get("effect", "")}"'


def _job(body: Object) -> Causes:
    spec, name = body["spec"], body["metadata"]["name"]
    template = spec.get("template") or {}
    if not template.get("spec"):
        yield "spec.template.spec.containers", "Required value"
        return
    yield from pod_spec(template["spec"], "spec.template.spec")
    yield from labels(template["metadata"].get("labels") or {}, "spec.template.labels")
    if template["spec"]["restartPolicy"] not in {"OnFailure", "Never"}:
        yield "spec.template.spec.restartPolicy", 'Required value: valid values: "OnFailure", "Never"'
    if len(name) > LABEL_LENGTH:
        yield "spec.template.labels", f'Invalid value: "{name}": must be no more than {LABEL_LENGTH} bytes'
    for key in _COUNTS:
        if spec.get(key, 0) < 0:
            yield f"spec.{key}", f"Invalid value: {spec[key]}: must be greater than or equal to 0"
    if spec["completionMode"] not in {"Indexed", "NonIndexed"}:
        yield "spec.completionMode", f'Unsupported value: "{spec["completionMode"]}"'
    if spec["completionMode"] == "Indexed":
        yield from _indexed(spec, name)
    yield from _per_index(spec)
    if spec["podReplacementPolicy"] not in {"Failed", "TerminatingOrFailed"}:
        yield "spec.podReplacementPolicy", f'Unsupported value: "{spec["podReplacementPolicy"]}"'


def _per_index(spec: Object) -> Causes:
    limit, most = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if limit is not None and spec["completionMode"] != "Indexed":
        yield "spec.backoffLimitPerIndex", f"Invalid value: {limit}: requires indexed completion mode"
    if limit is not None and spec["template"]["spec"]["restartPolicy"] != "Never":
        yield "spec.template.spec.restartPolicy", "Invalid value: only Never is allowed with backoffLimitPerIndex"
    if most is not None and limit is None:
        yield "spec.backoffLimitPerIndex", "Required value: when maxFailedIndexes is specified"
    if most is not None and most > spec.get("completions", 0):
        yield "spec.maxFailedIndexes", f"Invalid value: {most}: must be less than or equal to completions"


def _indexed(spec: Object, name: str) -> Causes:
    if "completions" not in spec:
        yield "spec.completions", "Required value: when completion mode is Indexed"
        return
    if spec["parallelism"] > LARGEST_INDEXED:
        yield (
            "spec.parallelism",
            f"Invalid value: {spec['parallelism']}: must be less than or equal to {LARGEST_INDEXED}",
        )
    last = f"{name}-{max(spec['completions'] - 1, 0)}"
    if len(last) > LABEL_LENGTH:
        yield "metadata.name", f'Invalid value: "{last}": will not able to create pod with invalid DNS label'
