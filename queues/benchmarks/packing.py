"""Packing: pods of a published trace onto its nodes, one after the other, where the rules' measure loses least.

Thousandths of a device exist here only: a node is its devices, and a pod takes a part of one or several whole ones.
"""

import csv
from bisect import insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from queues.benchmarks.results import Result, Setting

WHOLE = 1000
COMMON = 95
"""Shapes count in the mix until they make up so many percent of the pods, as in the published experiment."""

LISTS = {
    "default": ("95.23 / 95.39", 95.23, 95.39),
    "gpuspec33": ("87.84 / 94.55", 87.84, 94.55),
    "multigpu50": ("97.09 / 97.18", 97.09, 97.18),
}
POINTS = (100, 130)
Devices = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pod:
    """What one pod needs: ``count`` devices, ``milli`` thousandths of each, of one of these models (none: of any)."""

    cpu: int
    memory: int
    count: int
    milli: int
    models: frozenset[str]

    @property
    def units(self) -> int:
        """Return the thousandths of devices that it takes."""
        return self.count * self.milli


@dataclass(frozen=True, slots=True)
class State:
    """Nodes of equal hosts with equal free room; devices sorted, fullest first."""

    model: str
    devices: Devices
    cpu: int
    memory: int


@cache
def room(devices: Devices, count: int, milli: int) -> int:
    """Return how many tasks of that many devices and thousandths fit on the devices."""
    if count == 1:
        return sum(free // milli for free in devices)
    return sum(1 for free in devices if free >= milli) // count


@cache
def total(devices: Devices) -> int:
    """Return the free thousandths."""
    return sum(devices)


class Fleet:
    """The nodes while pods arrive, equal ones counted together."""

    def __init__(self, nodes: list[State], mix: list[tuple[Pod, int]], ranks: list[int]) -> None:
        """``ranks`` are the places of the nodes where all else ties."""
        self._mix = {model: _known(mix, model) for model in {node.model for node in nodes}}
        self._members: dict[State, list[int]] = {}
        for node, number in zip(nodes, ranks, strict=True):
            insort(self._members.setdefault(node, []), number)
        self._unusable: dict[State, int] = {}
        self._growth: dict[Pod, dict[State, tuple[int, State] | None]] = {}

    def unusable(self, state: State) -> int:
        """Return what the mix could not use there: the same sum as ``queues.admission.placement.unusable``."""
        known = self._unusable.get(state)
        if known is None:
            free, known = total(state.devices), 0
            for count, milli, rows in self._mix[state.model]:
                units = count * milli
                fit = units * room(state.devices, count, milli)
                for cpu, memory, weight in rows:
                    by_cpu = state.cpu * units // cpu if cpu else fit
                    by_memory = state.memory * units // memory if memory else fit
                    known += weight * (free - min(fit, by_cpu, by_memory))
            self._unusable[state] = known
        return known

    def place(self, pod: Pod) -> bool:
        """Put a pod where the loss grows least, then where least is free, then at the first rank."""
        known = self._growth.setdefault(pod, {})
        best: tuple[int, int, int] | None = None
        chosen: tuple[State, State] | None = None
        for state, ranks in self._members.items():
            if state not in known:
                known[state] = self._try(state, pod)
            found = known[state]
            if found is not None and (best is None or found[0] <= best[0]):
                key = (found[0], total(state.devices), ranks[0])
                if best is None or key < best:
                    best, chosen = key, (state, found[1])
        if chosen is None:
            return False
        old, new = chosen
        rank = self._members[old].pop(0)
        if not self._members[old]:
            del self._members[old]
        insort(self._members.setdefault(new, []), rank)
        return True

    def _try(self, state: State, pod: Pod) -> tuple[int, State] | None:
        """Return the least growth on such a node and what it would be then; None: no room."""
        if pod.cpu > state.cpu or pod.memory > state.memory or (pod.models and state.model not in pod.models):
            return None
        before = self.unusable(state)
        best: tuple[int, int, State] | None = None
        for number, devices in enumerate(_choices(state.devices, pod)):
            after = State(state.model, devices, state.cpu - pod.cpu, state.memory - pod.memory)
            key = (self.unusable(after) - before, number)
            if best is None or key < best[:2]:
                best = (*key, after)
        return None if best is None else (best[0], best[2])


def _choices(devices: Devices, pod: Pod) -> Iterator[Devices]:
    """Yield what may be left of the devices, that first which takes the fullest."""
    if not pod.count:
        yield devices
    elif pod.count > 1 or pod.milli == WHOLE:
        if sum(1 for free in devices if free >= pod.milli) >= pod.count:
            yield tuple(
                sorted((*devices[: len(devices) - pod.count], *(free - pod.milli for free in devices[-pod.count :])))
            )
    else:
        for free in sorted(set(devices)):
            if free >= pod.milli:
                left = list(devices)
                left[left.index(free)] = free - pod.milli
                yield tuple(sorted(left))


Rows = list[tuple[int, int, int]]


def _known(mix: list[tuple[Pod, int]], model: str) -> list[tuple[int, int, Rows]]:
    """Return the mix as a node of the model sees it, by devices asked for, without the pods that may not use it."""
    result: dict[tuple[int, int], Rows] = {}
    for pod, weight in mix:
        if not pod.models or model in pod.models:
            result.setdefault((pod.count, pod.milli), []).append((pod.cpu, pod.memory, weight))
    return [(count, milli, rows) for (count, milli), rows in result.items()]


def nodes_of(path: Path) -> list[State]:
    """Read the nodes, all empty."""
    with path.open() as file:
        return [
            State(row["model"], (WHOLE,) * int(row["gpu"]), int(row["cpu_milli"]), int(row["memory_mib"]))
            for row in csv.DictReader(file)
        ]


def pods_of(path: Path) -> list[Pod]:
    """Read a list of pods."""
    with path.open() as file:
        return [
            Pod(
                int(row["cpu_milli"]),
                int(row["memory_mib"]),
                int(row["num_gpu"]),
                int(row["gpu_milli"]) if int(row["num_gpu"]) else 0,
                frozenset(filter(None, (row.get("gpu_spec") or "").split("|"))),
            )
            for row in csv.DictReader(file)
        ]


def mix_of(pods: list[Pod]) -> list[tuple[Pod, int]]:
    """Return the common shapes that ask for devices, with their number."""
    counts = Counter(pod for pod in pods if pod.count)
    most, result, seen = counts.total() * COMMON, [], 0
    for pod, number in sorted(counts.items(), key=lambda row: (-row[1], row[0].cpu, row[0].memory, row[0].units)):
        if seen * 100 >= most:
            break
        result.append((pod, number))
        seen += number
    return result


def fill(nodes: list[State], pods: list[Pod], random: Random) -> dict[int, float]:
    """Let pods arrive in random order until 130 % is asked for; return the allocation in % at 100 and 130 %."""
    capacity = sum(total(node.devices) for node in nodes)
    order = list(pods)
    random.shuffle(order)
    ranks = list(range(len(nodes)))
    random.shuffle(ranks)
    fleet = Fleet(nodes, mix_of(pods), ranks)
    arrived = placed = place = 0
    found: dict[int, float] = {}
    for point in POINTS:
        while arrived * 100 < capacity * point:
            pod = order[place] if place < len(order) else random.choice(pods)
            place += 1
            arrived += pod.units
            if fleet.place(pod):
                placed += pod.units
        found[point] = 100 * placed / capacity
    return found


def packing(setting: Setting) -> Iterator[Result]:
    """Pack three lists of pods onto 1,213 nodes; GPUs allocated in % of all when 100 and 130 % have arrived."""
    nodes = nodes_of(setting.trace("openb/openb_node_list_gpu_node.csv"))[:: setting.part]
    for name, (_, *published) in LISTS.items():
        pods = pods_of(setting.trace(f"openb/openb_pod_list_{name}.csv"))
        found = fill(nodes, pods, Random(setting.seed))  # noqa: S311  a repeatable order of arrival, no secret
        for point, peer in zip(POINTS, published, strict=True):
            yield Result(
                name=f"packing/{name}/{point}",
                value=found[point],
                unit="% of GPUs",
                peer=f"{peer} (FGD, ATC 2023)",
                limit="100 %",
                target=f">= {peer - 0.2:.2f}",
            )
