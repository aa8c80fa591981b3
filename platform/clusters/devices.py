"""Devices of dynamic resource allocation (DRA): which drivers announce, who holds them, and claims for our pods."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from threading import Lock
from typing import Any, TypeAlias

from clusters import answers, classes, manifests, names, quantities
from clusters.asking import Asker, Failure, Json, path_of
from clusters.port import ClusterError, DevicesSeen, GroupSpec, Launch, NotThere, Refused, Unreachable

log = logging.getLogger(__name__)

GROUP = "/apis/resource.k8s.io"
SLICES = "resourceslices"
BY_LIMITS = "resource.kubernetes.io/extended-resource-claim"
# Driver, pool, and name in the pool.
Device: TypeAlias = tuple[str, str, str]
# Driver, pool, set of counters, and counter.
Share: TypeAlias = tuple[str, str, str, str]
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
        self._slices: dict[str, Json] = {}
        self._reached = ""
        self._lock = Lock()
        self._places: Mapping[Device, tuple[str, Json]] = {}
        self._held: frozenset[Device] = frozenset()
        self._classes: tuple[classes.DeviceClass, ...] = ()

    def listed(self) -> dict[str, dict[str, int]]:
        """Return how many devices there are, by node and driver; raise Unreachable."""
        slices, self._reached = self._listed_slices()
        with self._lock:
            self._slices = {found["metadata"]["name"]: found["spec"] for found in slices}
            self._places = places(self._slices.values())
        return self._count(self._places)

    @property
    def position(self) -> Mapping[str, str]:
        """Return from where the slices listed last may be watched; nothing where they were not listed."""
        return {SLICES: self._reached} if self._reached else {}

    @property
    def path(self) -> str:
        """Return the path of all slices."""
        return f"{GROUP}/{self._version}/{SLICES}"

    def event(self, found: Mapping[str, Any]) -> Callable[[bool], DevicesSeen]:
        """Return what an event of a watched slice means."""
        return lambda deleted: self._follow(found, deleted=deleted)

    def claimed(self) -> dict[str, dict[str, int]]:
        """Return how many of the devices listed last others hold by claims, by node and driver; raise Unreachable."""
        claims = self._list("resourceclaims", "claims") if self._places else None
        self._held = frozenset(allocated(claims[0] if claims else ()))
        return self._count(self._held & self._places.keys())

    def offered(self) -> dict[str, dict[str, int]]:
        """Return how many of the devices listed last may be claimed, by node and resource; raise Unreachable."""
        found = self._list("deviceclasses", "device classes") if self._places and self._version in WRITTEN else None
        self._classes = tuple(read for each in (found[0] if found else ()) if (read := classes.read(each)) is not None)
        return self._count(self._places, self._resources)

    def taken(self) -> dict[str, dict[str, int]]:
        """Return how many of these others hold by claims, or keep from anybody by what they hold of the same cards."""
        held = self._held & self._places.keys()
        return self._count(held | blocked(self._slices.values(), self._places, held), self._resources)

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

    def _follow(self, found: Mapping[str, Any], *, deleted: bool) -> DevicesSeen:
        """Return all devices as they are with a slice that came, changed or went."""
        name, version = found["metadata"]["name"], found["metadata"]["resourceVersion"]
        with self._lock:
            first = not self._places
            # A watch that was left may still say what the list behind it has shown.
            if not _is_older(version, self._reached):
                self._reached = version
                self._slices = {**self._slices, name: found["spec"]}
                if deleted:
                    del self._slices[name]
                self._places = places(self._slices.values())
        if first:
            # Classes and claims are of no interest where there are no devices.
            self.claimed()
            self.offered()
        return DevicesSeen(
            devices=self._count(self._places),
            claimed=self._count(self._held & self._places.keys()),
            offered=self._count(self._places, self._resources),
            taken=self.taken(),
        )

    def _listed_slices(self) -> tuple[list[Json], str]:
        try:
            if not self._served():
                return [], ""
        except NotThere:
            return [], ""
        found = self._list(SLICES, "devices")
        if found is None:
            # The version that was served is served no more: the next list asks anew.
            self._version = ""
        return found or ([], "")

    def _served(self) -> str:
        if not self._version:
            served = {entry["version"] for entry in self._asker.ask("get", GROUP).get("versions") or ()}
            self._version = next((version for version in VERSIONS if version in served), "")
        return self._version

    def _list(self, plural: str, what: str) -> tuple[list[Json], str] | None:
        """List all of a kind, with the position; None where it is not served, nothing where not to us, told once."""
        try:
            return self._asker.listed(f"{GROUP}/{self._version}/{plural}", {})
        except NotThere:
            return None
        except ClusterError as error:
            if not _is_forbidden(error):
                raise
            if what not in self._told:
                self._told.add(what)
                log.warning("cluster %s: %s of DRA are not read: %s", self._cluster, what, error)
            return [], ""

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


def places(specs: Iterable[Json]) -> dict[Device, tuple[str, Json]]:
    """Return the node of each device of slices' specs, and the device; those of no single node are left out."""
    return {(*_pool(spec), device["name"]): (node, device) for spec in _newest(specs) for node, device in _nodes(spec)}


def blocked(
    specs: Iterable[Json], there: Mapping[Device, tuple[str, Json]], held: Collection[Device]
) -> frozenset[Device]:
    """Return the devices that nobody holds and nobody can get, since what is held of their card leaves too little.

    Cards and their partitions are devices of one pool that consume the same counters.
    """
    left: dict[Share, int] = {
        (*_pool(spec), group["name"], name): quantities.milli(counter["value"])
        for spec in _newest(specs)
        for group in spec.get("sharedCounters") or ()
        for name, counter in (group.get("counters") or {}).items()
    }
    needs = {device: dict(_needs(device, found)) for device, (_, found) in there.items()}
    for device in held:
        for share in needs.get(device, {}).keys() & left.keys():
            left[share] -= needs[device][share]
    return frozenset(
        device
        for device, wanted in needs.items()
        if device not in held and any(wanted[share] > left[share] for share in wanted.keys() & left.keys())
    )


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


def _newest(specs: Iterable[Json]) -> list[Json]:
    """Leave out slices of an old generation: while a driver replaces a pool they are still there and mean nothing."""
    found = list(specs)
    newest: Counter[tuple[str, str]] = Counter()
    for spec in found:
        newest[_pool(spec)] = max(newest[_pool(spec)], _generation(spec))
    return [spec for spec in found if _generation(spec) == newest[_pool(spec)]]


def _needs(device: Device, found: Json) -> Iterator[tuple[Share, int]]:
    """Yield how much of each counter of its pool a device takes."""
    driver, pool, _ = device
    for each in (found.get("basic") or found).get("consumesCounters") or ():
        for name, counter in (each.get("counters") or {}).items():
            yield (driver, pool, each["counterSet"], name), quantities.milli(counter["value"])


def _nodes(spec: Json) -> Iterator[tuple[str, Json]]:
    """Yield each device that has a node, with it: the slice's, or its own."""
    for device in spec.get("devices") or ():
        details: Mapping[str, object] = device.get("basic") or device
        node = spec.get("nodeName") or details.get("nodeName")
        if node:
            yield str(node), device


def _is_older(version: str, than: str) -> bool:
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def _pool(spec: Json) -> tuple[str, str]:
    return spec["driver"], spec["pool"]["name"]


def _generation(spec: Json) -> int:
    return int(spec["pool"].get("generation") or 0)


def _is_forbidden(error: ClusterError) -> bool:
    return isinstance(error.__cause__, Failure) and error.__cause__.status == answers.FORBIDDEN
