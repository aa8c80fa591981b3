"""The nodes that an emulator starts with: from YAML, or the demo's."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from clusters.emulator.store import Object

GPU = "nvidia.com/gpu"
RACK = "tidegate.io/rack"
PRODUCT = "nvidia.com/gpu.product"
ZONE = "topology.kubernetes.io/zone"


class WorldError(ValueError):
    """The description of the nodes makes no sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Equal nodes; ``{n}`` in the name counts from ``first``. ``capacity`` is the same as ``allocatable`` unless given."""

    name: str
    count: int = 1
    first: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    allocatable: Mapping[str, str] = field(default_factory=lambda: {"cpu": "64", "memory": "512Gi", "pods": "110"})
    capacity: Mapping[str, str] | None = None


def read(path: Path) -> tuple[NodeGroup, ...]:
    """Read groups of nodes from a YAML file: a list, or a list under ``nodes``; raise WorldError."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise WorldError(f"{path}: {error}") from error
    rows = found.get("nodes") if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise WorldError(f"{path}: expected a list of node groups")
    return tuple(group(row) for row in rows)


def group(row: Mapping[str, Any]) -> NodeGroup:
    """Read one group; raise WorldError for fields that do not exist or have no name."""
    try:
        read_row = dict(row)
        for key in ("labels", "allocatable", "capacity"):
            if key in read_row:
                read_row[key] = {str(name): str(value) for name, value in read_row[key].items()}
        read_row["taints"] = tuple(read_row.get("taints", ()))
        return NodeGroup(**read_row)
    except (TypeError, ValueError, AttributeError) as error:
        raise WorldError(f"node group {row!r}: {error}") from error


def demo() -> tuple[NodeGroup, ...]:
    """Return the demo's 24 nodes: 16 with eight H100 in four racks, 8 with four L40S in two racks."""
    groups = [
        _rack(f"h100-{rack}-{{n}}", f"r{rack}", "eu-a" if rack <= 2 else "eu-b", "NVIDIA-H100-80GB-HBM3", 8, 81559)  # noqa: PLR2004 - two racks a zone
        for rack in (1, 2, 3, 4)
    ]
    groups += [
        _rack(f"l40s-{rack}-{{n}}", f"r{rack}", "eu-a" if rack == 5 else "eu-b", "NVIDIA-L40S", 4, 46068)
        for rack in (5, 6)
    ]
    return tuple(groups)


def _rack(name: str, rack: str, zone: str, product: str, units: int, memory: int) -> NodeGroup:
    """Return a rack of four nodes."""
    labels = {
        RACK: rack,
        ZONE: zone,
        PRODUCT: product,
        "nvidia.com/gpu.count": str(units),
        "nvidia.com/gpu.memory": str(memory),
    }
    large = units == 8  # noqa: PLR2004 - an eight-way machine
    room = {
        "cpu": "128" if large else "64",
        "memory": "2048Gi" if large else "512Gi",
        "pods": "110",
        GPU: str(units),
    }
    return NodeGroup(name=name, count=4, first=1, labels=labels, allocatable=room)


def bodies(groups: Iterable[NodeGroup]) -> Iterator[Object]:
    """Yield the node objects of the groups."""
    for each in groups:
        for number in range(each.first, each.first + each.count):
            name = each.name.replace("{n}", str(number))
            labels = {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **each.labels,
            }
            spec = {"taints": [dict(taint) for taint in each.taints]} if each.taints else {}
            status = {
                "allocatable": dict(each.allocatable),
                "capacity": dict(each.capacity or each.allocatable),
            }
            yield {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}
