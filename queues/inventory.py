"""What machines should have against what they offer: pure rules on resources, capacity and labels."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

# Kubernetes names of GPUs and accelerators; other counted resources (network cards, storage) are none.
GPU = re.compile(
    r"(?:[a-z0-9.-]+/(?:gpu|tpu|gaudi|neuron|neurondevice|xe|i915)|nvidia\.com/(?:gpu\.shared|mig-[a-z0-9.]+)"
    r"|deviceclass\.resource\.kubernetes\.io/(?:[a-z0-9-]+\.)*(?:gpu|mig|tpu|gaudi|neuron)(?:[.-][a-z0-9.-]+)?)"
)
CLASS = "deviceclass.resource.kubernetes.io/"
# Drivers of dynamic resource allocation (DRA) that announce them; others announce network cards and the like.
DRIVER = re.compile(r"(?:gpu|tpu|gaudi|neuron)\.[a-z0-9.-]+|[a-z0-9.-]+/(?:gpu|tpu)")
NVIDIA = "nvidia.com/gpu"
PRODUCT_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator")
# Where a card is cut, GPU Feature Discovery counts something else than the resource does.
CUT = frozenset({"single", "mixed"})


class Drift(StrEnum):
    """How a machine differs from what is expected."""

    NO_FLAVOR = "no_flavor"
    TWO_FLAVORS = "two_flavors"
    MISSING_UNITS = "missing_units"
    DRA_DEVICES = "dra_devices"
    OVER_USED = "over_used"
    RECOUNT = "recount"


class Machine(Protocol):
    """What the rules read of a machine's row."""

    flavor_id: int | None
    counted: dict[str, int]
    short: int
    rivals: int
    devices: dict[str, int]
    over: int
    recount: list[tuple[str, int, int]]


def is_gpu(resource: str) -> bool:
    """Tell whether a counted resource is a GPU, a slice of one, or another accelerator."""
    return GPU.fullmatch(resource) is not None


def unscheduled(machine: Machine) -> int:
    """Return how many GPUs only DRA announces: what the machine counts is likely the same cards, seen by a plugin."""
    return 0 if machine.counted else _gpus(machine.devices)


def claimed(resource: str | None, held: Mapping[str, int], taken: Mapping[str, int]) -> int:
    """Return how many units of a machine, counted as this resource, claims of others hold: by driver, or by class."""
    if resource and resource.startswith(CLASS):
        return taken.get(resource, 0)
    return _gpus(held) if resource and is_gpu(resource) else 0


def counted(plugged: Mapping[str, int], offered: Mapping[str, int]) -> Mapping[str, int]:
    """Return what a machine counts: by its plugins, and by device classes where no plugin counts the same cards."""
    return plugged if any(map(is_gpu, plugged)) else {**plugged, **offered}


def sum_of(gpus: Mapping[str, int]) -> int:
    """Return how many GPUs a machine has of these resources; several device classes may select the same."""
    by_class = [units for resource, units in gpus.items() if resource.startswith(CLASS)]
    return max(by_class, default=0) + sum(gpus.values()) - sum(by_class)


def missing(
    counted: Mapping[str, int],
    capacity: Mapping[str, int],
    labels: Mapping[str, str],
    *,
    announced: Mapping[str, int] | None = None,
) -> int:
    """Return how many GPUs a machine has by capacity or label and does not offer: sick, or its plugin is down.

    What is ``announced`` by DRA, by driver, is not missing.
    """
    short = sum(max(0, units - counted.get(resource, 0)) for resource, units in capacity.items() if is_gpu(resource))
    return max(short, labelled(labels) - max(counted.get(NVIDIA, 0), _gpus(announced or {})))


def labelled(labels: Mapping[str, str]) -> int:
    """Return how many GPUs the labels of GPU Feature Discovery tell; 0 where they tell nothing comparable."""
    if labels.get("nvidia.com/mig.strategy") in CUT or labels.get("nvidia.com/mps.capable") == "true":
        return 0
    return _number(labels.get("nvidia.com/gpu.count")) * max(1, _number(labels.get("nvidia.com/gpu.replicas")))


def drifts(machine: Machine) -> tuple[Drift, ...]:
    """Return how a machine differs from what is expected."""
    found = (
        (Drift.NO_FLAVOR, machine.flavor_id is None and bool(machine.counted)),
        (Drift.TWO_FLAVORS, machine.rivals > 0),
        (Drift.MISSING_UNITS, machine.short > 0),
        (Drift.DRA_DEVICES, unscheduled(machine) > 0),
        (Drift.OVER_USED, machine.over > 0),
        (Drift.RECOUNT, bool(machine.recount)),
    )
    return tuple(kind for kind, holds in found if holds)


def numbers(machine: Machine) -> dict[str, Any]:
    """Return by how much a machine differs, what is as expected left out."""
    found = {
        "short": machine.short,
        "rivals": machine.rivals,
        "dra_devices": unscheduled(machine),
        "over": machine.over,
        "recount": machine.recount,
    }
    return {name: value for name, value in found.items() if value}


def kind_of(labels: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the label that names a machine's kind of GPU, with its value."""
    return next(((label, labels[label]) for label in PRODUCT_LABELS if labels.get(label)), None)


def name_for(product: str, resource: str) -> str:
    """Return a short name for a kind of GPU: ``h100-80gb-hbm3`` for NVIDIA-H100-80GB-HBM3."""
    words = re.sub(r"[^a-z0-9]+", "-", product.lower()).strip("-")
    short = re.sub(r"^(?:(?:nvidia|amd|intel|tesla)-)+", "", words)
    cut = resource.partition("/mig-")[2]
    return f"{short}-mig-{cut.replace('.', '-')}"[:63] if cut else short[:63] or "gpu"


def _gpus(devices: Mapping[str, int]) -> int:
    return sum(units for driver, units in devices.items() if DRIVER.fullmatch(driver))


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 6 else 0  # noqa: PLR2004  digits
