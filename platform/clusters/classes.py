"""Device classes of dynamic resource allocation (DRA) as counted resources: their names, and which devices they select.

A class is counted under the name that Kubernetes itself gives it as an extended resource.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = Mapping[str, Any]

PREFIX = "deviceclass.resource.kubernetes.io/"
# How the claim of a pod's devices is called in it.
CLAIM = "gpus"
_KEEPING_AWAY = frozenset({"NoSchedule", "NoExecute"})
_TEXT = r"(?:'[^'\\]*'|\"[^\"\\]*\")"
_TERM = (
    rf"device\.(?:driver|attributes\[(?P<domain>{_TEXT})\]\.(?P<name>[A-Za-z_]\w*))\s*==\s*"
    rf"(?P<value>{_TEXT}|true|false|-?\d{{1,18}})"
)
_ONE = re.compile(_TERM)
_BARE = re.sub(r"\?P<\w+>", "?:", _TERM)
_ALL = re.compile(rf"\s*{_BARE}(?:\s*&&\s*{_BARE})*\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What a device must be: of this driver (``name`` is empty), or with this value of an attribute."""

    domain: str = ""
    name: str = ""
    value: str | bool | int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """A class that can be counted: a device belongs to it that meets every condition."""

    name: str
    conditions: tuple[Condition, ...]

    @property
    def resource(self) -> str:
        """Return the resource that it is counted as."""
        return PREFIX + self.name

    def selects(self, driver: str, device: Json) -> bool:
        """Tell whether a device of a driver belongs to it and may be given away."""
        details = device.get("basic") or device
        if any(taint.get("effect") in _KEEPING_AWAY for taint in details.get("taints") or ()):
            return False
        attributes = details.get("attributes") or {}
        return all(_value(each, driver, attributes) == (type(each.value), each.value) for each in self.conditions)


def read(found: Json) -> DeviceClass | None:
    """Return a DeviceClass whose selectors are equalities joined by ``&&``; None for others: they cannot be counted."""
    conditions: list[Condition] = []
    for selector in (found.get("spec") or {}).get("selectors") or ():
        expression = (selector.get("cel") or {}).get("expression") or ""
        if not _ALL.fullmatch(expression):
            return None
        conditions += (
            Condition(domain=(term["domain"] or "")[1:-1], name=term["name"] or "", value=_literal(term["value"]))
            for term in _ONE.finditer(expression)
        )
    return DeviceClass(name=found["metadata"]["name"], conditions=tuple(conditions))


def class_of(resource: str) -> str:
    """Return the device class that a resource counts, nothing where it is another kind of resource."""
    return resource.removeprefix(PREFIX) if resource.startswith(PREFIX) else ""


def quota_of(resource: str) -> str:
    """Return what a ResourceQuota calls it when pods ask for a resource, by requests or by claims."""
    name = class_of(resource)
    return f"{name}.deviceclass.resource.k8s.io/devices" if name else f"requests.{resource}"


def claimed_by(annotation: str, claims: Sequence[Json]) -> dict[str, int]:
    """Return what a pod of ours claims (resource and units), as its annotation says it."""
    name, _, units = annotation.partition("=")
    return {PREFIX + name: int(units)} if claims and name and units.isdecimal() and int(units) else {}


def _value(condition: Condition, driver: str, attributes: Json) -> tuple[type, object] | None:
    """Return type and value of a device where the condition looks; an attribute without a domain is its driver's."""
    if not condition.name:
        return str, driver
    found = attributes.get(f"{condition.domain}/{condition.name}")
    if found is None and condition.domain == driver:
        found = attributes.get(condition.name)
    value = next(iter((found or {}).values()), None)
    return None if value is None else (type(value), value)


def _literal(text: str) -> str | bool | int:
    if text in {"true", "false"}:
        return text == "true"
    return text[1:-1] if text[0] in "'\"" else int(text)
