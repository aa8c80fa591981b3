"""Devices that drivers of dynamic resource allocation (DRA) announce as ResourceSlices, counted by node and driver."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from clusters import answers
from clusters.asking import Asker, Failure, Json
from clusters.port import ClusterError, NotThere

log = logging.getLogger(__name__)

GROUP = "/apis/resource.k8s.io"
# The newest first; what we read of them is the same in all.
VERSIONS = ("v1", "v1beta2", "v1beta1")


class Devices:
    """What one API server knows of devices, read at each list; none where it serves no slices or lets us see none."""

    def __init__(self, asker: Asker, *, cluster: str) -> None:
        """Speak through this asker; nothing is asked yet."""
        self._asker = asker
        self._cluster = cluster
        self._version = ""
        self._told = False

    def listed(self) -> dict[str, dict[str, int]]:
        """Return how many devices there are, by node and driver; raise Unreachable."""
        try:
            self._version = self._version or self._newest()
            if not self._version:
                return {}
            return counted(self._asker.listed(f"{GROUP}/{self._version}/resourceslices", {})[0])
        except NotThere:
            # The version that was served is served no more: the next list asks anew.
            self._version = ""
        except ClusterError as error:
            if not _is_forbidden(error):
                raise
            self._tell_once(error)
        return {}

    def _newest(self) -> str:
        served = {entry["version"] for entry in self._asker.ask("get", GROUP).get("versions") or ()}
        return next((version for version in VERSIONS if version in served), "")

    def _tell_once(self, error: ClusterError) -> None:
        if not self._told:
            self._told = True
            log.warning("cluster %s: devices of DRA are not read: %s", self._cluster, error)


def counted(slices: Iterable[Json]) -> dict[str, dict[str, int]]:
    """Return how many devices of slices are on which node, by driver; those of no single node are left out."""
    specs = [found["spec"] for found in slices]
    newest: Counter[tuple[str, str]] = Counter()
    for spec in specs:
        newest[_pool(spec)] = max(newest[_pool(spec)], _generation(spec))
    found: dict[str, dict[str, int]] = {}
    for spec in specs:
        # While a driver replaces a pool, slices of the old generation are still there and mean nothing.
        if _generation(spec) == newest[_pool(spec)]:
            for node in _nodes(spec):
                on_node = found.setdefault(node, {})
                on_node[spec["driver"]] = on_node.get(spec["driver"], 0) + 1
    return found


def _nodes(spec: Json) -> Iterator[str]:
    """Yield the node of each device that has one: the slice's, or its own."""
    for device in spec.get("devices") or ():
        details: Mapping[str, object] = device.get("basic") or device
        node = spec.get("nodeName") or details.get("nodeName")
        if node:
            yield str(node)


def _pool(spec: Json) -> tuple[str, str]:
    return spec["driver"], spec["pool"]["name"]


def _generation(spec: Json) -> int:
    return int(spec["pool"].get("generation") or 0)


def _is_forbidden(error: ClusterError) -> bool:
    return isinstance(error.__cause__, Failure) and error.__cause__.status == answers.FORBIDDEN
