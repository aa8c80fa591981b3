"""Label, field and node selectors."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clusters.emulator.errors import bad_request
from clusters.emulator.kinds import EVENTS, JOBS, NODES, PODS, SECRETS, Kind
from clusters.emulator.store import Object

Test = Callable[[Object], bool]

_SET = re.compile(r"\s*([^\s,=!()]+)\s+(in|notin)\s*\(([^)]*)\)\s*")
_COMPARE = re.compile(r"\s*([^\s,=!()]+)\s*(==|=|!=)\s*([^\s,=!()]*)\s*")
_EXISTS = re.compile(r"\s*(!?)\s*([^\s,=!()]+)\s*")
_LABEL_PART = re.compile(r"(?:[^,(]|\([^)]*\))+")
_ORDERED = {"Gt": 1, "Lt": -1}

_FIELDS: dict[Kind, tuple[str, ...]] = {
    PODS: (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    NODES: ("spec.unschedulable",),
    EVENTS: (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    JOBS: ("status.successful",),
    SECRETS: ("type",),
}


def everything(_body: Object) -> bool:
    """Match every object."""
    return True


def parse_labels(text: str) -> Test:
    """Read a label selector as query strings carry it; raise 400."""
    if not text.strip():
        return everything
    tests = [_label_test(part, text) for part in _LABEL_PART.findall(text)]
    return lambda body: all(test(body["metadata"].get("labels") or {}) for test in tests)


def _label_test(part: str, whole: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.fullmatch(part):
        key, word, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        if word == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _COMPARE.fullmatch(part):
        key, sign, value = found.groups()
        if sign == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.fullmatch(part):
        negated, key = found.groups()
        return lambda labels: (key in labels) != bool(negated)
    raise bad_request(f"unable to parse requirement: invalid label selector {whole!r}")


def parse_fields(kind: Kind, text: str) -> Test:
    """Read a field selector as query strings carry it; raise 400 for fields that the kind does not index."""
    if not text.strip():
        return everything
    tests = []
    for part in text.split(","):
        found = _COMPARE.fullmatch(part)
        if not found:
            raise bad_request(f"invalid field selector {text!r}: can't understand {part!r}")
        key, sign, value = found.groups()
        if key not in ("metadata.name", "metadata.namespace", *_FIELDS.get(kind, ())):
            raise bad_request(f"field label not supported: {key}")
        tests.append((key.split("."), sign != "!=", value))
    return lambda body: all((_field(body, path) == value) == wanted for path, wanted, value in tests)


def _field(body: Object, path: Sequence[str]) -> str:
    """Return a field as text; what is absent is empty."""
    if path == ["status", "successful"]:
        return str((body.get("status") or {}).get("succeeded", 0))
    value: Any = body
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    if path == ["spec", "unschedulable"]:
        return "true" if value else "false"
    if path == ["source"] and isinstance(value, dict):
        value = value.get("component")
    return "" if value is None else str(value)


def matches_term(term: Object, node: Object) -> bool:
    """Tell whether a node meets one node selector term; an empty term matches nothing."""
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not expressions and not fields:
        return False
    labels = node["metadata"].get("labels") or {}
    names = {"metadata.name": node["metadata"]["name"]}
    return all(_meets(each, labels) for each in expressions) and all(_meets(each, names) for each in fields)


def _meets(expression: Object, labels: Mapping[str, str]) -> bool:
    """Tell whether labels meet one expression of a node selector."""
    value = labels.get(expression["key"])
    operator = expression.get("operator")
    values = expression.get("values") or []
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    return _ordered(value, str(operator), values)


def _ordered(value: str | None, operator: str, values: Sequence[str]) -> bool:
    try:
        given, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return (given - bound) * _ORDERED.get(operator, 0) > 0
