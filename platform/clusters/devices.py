"""Devices that drivers of dynamic resource allocation (DRA) announce as ResourceSlices, counted by node and driver."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from clusters import answers
from clusters.asking import Asker, Failure, Json
from clusters.port import ClusterError, NotThere

log = logging.getLogger(__name__)

GROUP = "/apis/resource.k8s.io"
BY_LIMITS = "resource.kubernetes.io/extended-resource-claim"
# Driver, pool, and name in the pool.
Device: TypeAlias = tuple[str, str, str]
# The newest first; what we read of them is the same in all.
VERSIONS = ("v1", "v1beta2", "v1beta1")


class Devices:
    """What one API server knows of devices, read at each list; none where it serves no slices or lets us see none."""

    def __init__(self, asker: Asker, *, cluster: str) -> None:
        """Speak through this asker; nothing is asked yet."""
        self._asker = asker
        self._cluster = cluster
        self._version = ""
        self._told: set[str] = set()
        self._places: Mapping[Device, str] = {}

    def listed(self) -> dict[str, dict[str, int]]:
        """Return how many devices there are, by node and driver; raise Unreachable."""
        self._places = {}
        try:
            self._version = self._version or self._newest()
            if not self._version:
                return {}
            self._places = places(self._asker.listed(f"{GROUP}/{self._version}/resourceslices", {})[0])
            return _by_node(self._places)
        except NotThere:
            # The version that was served is served no more: the next list asks anew.
            self._version = ""
        except ClusterError as error:
            if not _is_forbidden(error):
                raise
            self._tell_once("devices", error)
        return {}

    def claimed(self) -> dict[str, dict[str, int]]:
        """Return how many of the devices listed last are held by claims, by node and driver; raise Unreachable."""
        if not self._places:
            return {}
        try:
            claims = self._asker.listed(f"{GROUP}/{self._version}/resourceclaims", {})[0]
        except NotThere:
            return {}
        except ClusterError as error:
            if not _is_forbidden(error):
                raise
            self._tell_once("claims", error)
            return {}
        held = set(allocated(claims))
        return _by_node({device: node for device, node in self._places.items() if device in held})

    def _newest(self) -> str:
        served = {entry["version"] for entry in self._asker.ask("get", GROUP).get("versions") or ()}
        return next((version for version in VERSIONS if version in served), "")

    def _tell_once(self, what: str, error: ClusterError) -> None:
        if what not in self._told:
            self._told.add(what)
            log.warning("cluster %s: %s of DRA are not read: %s", self._cluster, what, error)


def places(slices: Iterable[Json]) -> dict[Device, str]:
    """Return the node of each device of slices; those of no single node are left out."""
    specs = [found["spec"] for found in slices]
    newest: Counter[tuple[str, str]] = Counter()
    for spec in specs:
        newest[_pool(spec)] = max(newest[_pool(spec)], _generation(spec))
    return {
        (*_pool(spec), device): node
        for spec in specs
        # While a driver replaces a pool, slices of the old generation are still there and mean nothing.
        if _generation(spec) == newest[_pool(spec)]
        for device, node in _nodes(spec)
    }


def allocated(claims: Iterable[Json]) -> Iterator[Device]:
    """Yield the devices that claims hold; those that only look (admin access) hold none.

    Nor do claims that Kubernetes makes for a pod that asks by limits: there the pod is counted.
    """
    for claim in claims:
        notes = claim["metadata"].get("annotations") or {}
        allocation = (claim.get("status") or {}).get("allocation") or {}
        if notes.get(BY_LIMITS) != "true":
            for result in (allocation.get("devices") or {}).get("results") or ():
                if not result.get("adminAccess"):
                    yield result["driver"], result["pool"], result["device"]


def _by_node(devices: Mapping[Device, str]) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {}
    for (driver, _, _), node in devices.items():
        found.setdefault(node, Counter())[driver] += 1
    return {node: dict(drivers) for node, drivers in found.items()}


def _nodes(spec: Json) -> Iterator[tuple[str, str]]:
    """Yield each device that has a node, with it: the slice's, or its own."""
    for device in spec.get("devices") or ():
        details: Mapping[str, object] = device.get("basic") or device
        node = spec.get("nodeName") or details.get("nodeName")
        if node:
            yield device["name"], str(node)


def _pool(spec: Json) -> tuple[str, str]:
    return spec["driver"], spec["pool"]["name"]


def _generation(spec: Json) -> int:
    return int(spec["pool"].get("generation") or 0)


def _is_forbidden(error: ClusterError) -> bool:
    return isinstance(error.__cause__, Failure) and error.__cause__.status == answers.FORBIDDEN
