"""Kubernetes quantities (``1500m``, ``2Gi``, ``1e3``) as exact whole numbers."""

import re
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any

_SCALES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_FORM = re.compile(
    r"(?P<number>[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40}))(?:[eE](?P<power>[+-]?\d{1,2})|(?P<scale>[numkMGTPE]|[KMGTPE]i)?)",
    re.ASCII,
)


@lru_cache(maxsize=4096)
def parse(text: str) -> Fraction:
    """Return what a quantity stands for, exactly; raise ValueError where it is none."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"not a Kubernetes quantity: {text!r}")
    number = Fraction(found["number"])
    if found["power"] is not None:
        return number * Fraction(10) ** int(found["power"])
    return number * _SCALES[found["scale"] or ""]


def whole(quantity: str | int) -> int:
    """Return a quantity in whole units (bytes, GPUs, pods), rounded up as Kubernetes does."""
    return ceil(parse(str(quantity)))


def milli(quantity: str | int) -> int:
    """Return a quantity in thousandths (of a core), rounded up as Kubernetes does."""
    return ceil(parse(str(quantity)) * 1000)


def counted(resources: Mapping[str, str | int]) -> dict[str, int]:
    """Return the extended resources (``nvidia.com/gpu``) among resources, without zeros."""
    amounts = {name: whole(quantity) for name, quantity in resources.items() if "/" in name}
    return {name: amount for name, amount in amounts.items() if amount}


def of_pod(spec: Mapping[str, Any]) -> Counter[str]:
    """Return what a pod's spec asks for, as kube-scheduler counts it: CPU in thousandths, all else in whole units.

    Containers add up; init containers count where one alone needs more, sidecars as long as they run.
    """
    total: Counter[str] = Counter()
    for container in spec.get("containers") or ():
        total.update(_asked(container))
    peak, sidecars = Counter[str](), Counter[str]()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars.update(_asked(container))
            peak |= sidecars
        else:
            peak |= sidecars + _asked(container)
    total = (total + sidecars) | peak
    for resource, amount in _asked(spec).items():
        total[resource] = amount
    return total + _amounts(spec.get("overhead") or {})


def _asked(container: Mapping[str, Any]) -> Counter[str]:
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(resources: Mapping[str, Any]) -> Counter[str]:
    amounts = Counter({resource: whole(q) for resource, q in resources.items() if resource != "cpu"})
    if "cpu" in resources:
        amounts["cpu"] = milli(resources["cpu"])
    return amounts
