"""What containers ask for, looked at before it is counted: lists, mappings and quantities as they must be."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from clusters import quantities
from queues.spec.fields import kind, show

Fault: TypeAlias = tuple[tuple[str, ...], str, str]
"""A path inside the pod, a code, and words."""


def faults(pod: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield all that cannot be counted, where it stands."""
    for part in ("containers", "initContainers"):
        found = pod.get(part)
        if isinstance(found, list):
            for place, container in enumerate(found):
                yield from _container(container, (part, str(place)))
        elif found is not None:
            yield (part,), "not_a_list", f"{part} is a list of containers, not {kind(found)}"
    tolerations = pod.get("tolerations")
    if tolerations is not None and not isinstance(tolerations, list):
        yield ("tolerations",), "not_a_list", f"tolerations is a list, not {kind(tolerations)}"


def _container(container: object, path: tuple[str, ...]) -> Iterator[Fault]:
    if not isinstance(container, Mapping):
        yield path, "not_a_mapping", f"a container is a mapping of fields, not {kind(container)}"
        return
    resources = container.get("resources")
    if resources is not None and not isinstance(resources, Mapping):
        yield (*path, "resources"), "not_a_mapping", f"resources is limits and requests, not {kind(resources)}"
        return
    for side in ("limits", "requests"):
        amounts = (resources or {}).get(side)
        if isinstance(amounts, Mapping):
            for resource, amount in amounts.items():
                yield from _amount(str(resource), amount, (*path, "resources", side, str(resource)))
        elif amounts is not None:
            yield (*path, "resources", side), "not_a_mapping", f"{side} is a mapping of amounts, not {kind(amounts)}"


def _amount(resource: str, amount: object, path: tuple[str, ...]) -> Iterator[Fault]:
    try:
        value = quantities.parse(str(amount))
    except ValueError:
        yield path, "bad_form", f"{show(resource)} is an amount such as 4, 500m or 16Gi; not {show(amount)!r}"
        return
    if value < 0:
        yield path, "out_of_range", f"{show(resource)} is not below 0; it is {show(amount)}"
    elif "/" in resource and value.denominator != 1:
        yield path, "not_a_whole_number", f"{show(resource)} is counted in whole units; not {show(amount)}"
