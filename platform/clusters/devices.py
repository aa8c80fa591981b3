"""Devices of dynamic resource allocation (DRA): which drivers announce, who holds them, and claims for our pods."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from clusters import answers, classes, manifests, names
from clusters.asking import Asker, Failure, Json, path_of
from clusters.port import ClusterError, GroupSpec, Launch, NotThere, Refused, Unreachable

log = logging.getLogger(__name__)

GROUP = "/apis/resource.k8s.io"
BY_LIMITS = "resource.kubernetes.io/extended-resource-claim"
# Driver, pool, and name in the pool.
Device: TypeAlias = tuple[str, str, str]
# The newest first; what we read of them is the same in all.
VERSIONS = ("v1", "v1beta2", "v1beta1")
# In these claims have the form that we write.
WRITTEN = frozenset({"v1", "v1beta2"})


class Devices:
    """What one API server knows of devices, read at each list; none where it serves no slices or lets us see none."""

    def __init__(self, asker: Asker, *, cluster: str) -> None:
        """Speak through this asker; nothing is asked yet."""
        self._asker = asker
        self._cluster = cluster
        self._version = ""
        self._told: set[str] = set()
        self._places: Mapping[Device, tuple[str, Json]] = {}
        self._held: frozenset[Device] = frozenset()
        self._classes: tuple[classes.DeviceClass, ...] = ()

    def listed(self) -> dict[str, dict[str, int]]:
        """Return how many devices there are, by node and driver; raise Unreachable."""
        self._places = {}
        try:
            if not self._served():
                return {}
        except NotThere:
            return {}
        slices = self._list("resourceslices", "devices")
        if slices is None:
            # The version that was served is served no more: the next list asks anew.
            self._version = ""
        self._places = places(slices or ())
        return self._count(self._places)

    def claimed(self) -> dict[str, dict[str, int]]:
        """Return how many of the devices listed last others hold by claims, by node and driver; raise Unreachable."""
        claims = self._list("resourceclaims", "claims") if self._places else None
        self._held = frozenset(allocated(claims or ()))
        return self._count(self._held & self._places.keys())

    def offered(self) -> dict[str, dict[str, int]]:
        """Return how many of the devices listed last may be claimed, by node and resource; raise Unreachable."""
        found = self._list("deviceclasses", "device classes") if self._places and self._version in WRITTEN else None
        self._classes = tuple(read for each in found or () if (read := classes.read(each)) is not None)
        return self._count(self._places, self._resources)

    def taken(self) -> dict[str, dict[str, int]]:
        """Return how many of these others hold by claims, by node and resource."""
        return self._count(self._held & self._places.keys(), self._resources)

    def ensure_served(self) -> None:
        """Raise Refused where the cluster knows no claims as we write them, Unreachable where it does not say."""
        try:
            version = self._served()
        except NotThere:
            version = ""
        if version not in WRITTEN:
            raise Refused("Devices cannot be claimed: this cluster serves no resource.k8s.io/v1.")

    def ensure_template(self, launch: Launch, group: GroupSpec, *, owner: Json) -> None:
        """Create what a group's claims are made from, or find it there; raise Failure, Refused or Unreachable."""
        version = self._version
        templates = path_of(f"{GROUP}/{version}", launch.namespace, "resourceclaimtemplates")
        wanted = manifests.claim_template(launch, group, owner=owner, version=version)
        try:
            self._asker.create_owned(templates, wanted)
        except Failure as failure:
            if failure.status == answers.NOT_FOUND and not answers.is_missing_namespace(failure.body):
                self._version = ""
                raise Unreachable(f"resource.k8s.io/{version} is served no more") from failure
            raise

    def _served(self) -> str:
        if not self._version:
            served = {entry["version"] for entry in self._asker.ask("get", GROUP).get("versions") or ()}
            self._version = next((version for version in VERSIONS if version in served), "")
        return self._version

    def _list(self, plural: str, what: str) -> list[Json] | None:
        """List all of a kind; None where it is not served, or not to us, which is told once."""
        try:
            return self._asker.listed(f"{GROUP}/{self._version}/{plural}", {})[0]
        except NotThere:
            return None
        except ClusterError as error:
            if not _is_forbidden(error):
                raise
            if what not in self._told:
                self._told.add(what)
                log.warning("cluster %s: %s of DRA are not read: %s", self._cluster, what, error)
            return []

    def _resources(self, device: Device) -> list[str]:
        _, details = self._places[device]
        return [each.resource for each in self._classes if each.selects(device[0], details)]

    def _count(
        self, devices: Iterable[Device], keys: Callable[[Device], Iterable[str]] = lambda device: device[:1]
    ) -> dict[str, dict[str, int]]:
        """Count devices by node and by what they count as: their driver, unless said otherwise."""
        found: dict[str, Counter[str]] = {}
        for device in devices:
            for key in keys(device):
                found.setdefault(self._places[device][0], Counter())[key] += 1
        return {node: dict(sorted(counts.items())) for node, counts in sorted(found.items())}


def places(slices: Iterable[Json]) -> dict[Device, tuple[str, Json]]:
    """Return the node of each device of slices, and the device; those of no single node are left out."""
    specs = [found["spec"] for found in slices]
    newest: Counter[tuple[str, str]] = Counter()
    for spec in specs:
        newest[_pool(spec)] = max(newest[_pool(spec)], _generation(spec))
    return {
        (*_pool(spec), device["name"]): (node, device)
        for spec in specs
        # While a driver replaces a pool, slices of the old generation are still there and mean nothing.
        if _generation(spec) == newest[_pool(spec)]
        for node, device in _nodes(spec)
    }


def allocated(claims: Iterable[Json]) -> Iterator[Device]:
    """Yield the devices that claims of others hold; those that only look (admin access) hold none.

    Nor do our own, and those that Kubernetes makes for a pod that asks by limits: there the pod is counted.
    """
    for claim in claims:
        meta = claim["metadata"]
        ours = names.LABEL_WAVE in (meta.get("labels") or {})
        allocation = (claim.get("status") or {}).get("allocation") or {}
        if not ours and (meta.get("annotations") or {}).get(BY_LIMITS) != "true":
            for result in (allocation.get("devices") or {}).get("results") or ():
                if not result.get("adminAccess"):
                    yield result["driver"], result["pool"], result["device"]


def _nodes(spec: Json) -> Iterator[tuple[str, Json]]:
    """Yield each device that has a node, with it: the slice's, or its own."""
    for device in spec.get("devices") or ():
        details: Mapping[str, object] = device.get("basic") or device
        node = spec.get("nodeName") or details.get("nodeName")
        if node:
            yield str(node), device


def _pool(spec: Json) -> tuple[str, str]:
    return spec["driver"], spec["pool"]["name"]


def _generation(spec: Json) -> int:
    return int(spec["pool"].get("generation") or 0)


def _is_forbidden(error: ClusterError) -> bool:
    return isinstance(error.__cause__, Failure) and error.__cause__.status == answers.FORBIDDEN
