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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """What the machines of a rack are."""

    name: str
    product: str
    units: int
    memory: int
    room: Mapping[str, str]

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels that GPU feature discovery would set."""
        return {
            PRODUCT: self.product,
            "nvidia.com/gpu.count": str(self.units),
            "nvidia.com/gpu.memory": str(self.memory),
        }


_H100 = _Machine(
    name="h100",
    product="NVIDIA-H100-80GB-HBM3",
    units=8,
    memory=81559,
    room={"cpu": "128", "memory": "2048Gi", "pods": "110", GPU: "8"},
)
_L40S = _Machine(
    name="l40s",
    product="NVIDIA-L40S",
    units=4,
    memory=46068,
    room={"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "4"},
)
_DEMO_RACKS = (
    (1, "eu-a", _H100),
    (2, "eu-a", _H100),
    (3, "eu-b", _H100),
    (4, "eu-b", _H100),
    (5, "eu-a", _L40S),
    (6, "eu-b", _L40S),
)


class WorldError(ValueError):
    """The description of the nodes makes no sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Equal nodes; ``{n}`` in the name counts from ``first``; ``capacity`` equals ``allocatable`` unless given."""

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
    return tuple(
        NodeGroup(
            name=f"{machine.name}-{rack}-{{n}}",
            count=4,
            first=1,
            labels={RACK: f"r{rack}", ZONE: zone, **machine.labels},
            allocatable=machine.room,
        )
        for rack, zone, machine in _DEMO_RACKS
    )


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
