"""Gangs of a published trace on a published tree of racks: how many racks each takes, against the fewest possible."""

import csv
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import fmean

from queues.admission.world import Near, Topology
from queues.benchmarks.results import Result, Setting
from queues.benchmarks.stage import Arrival, Laps, Play, job, node, rank, scenario, team
from queues.simulation.engine import Engine
from queues.simulation.scenario import NodeSpec, PolicySpec

GPUS = 8
LEVEL = 2
"""The place of racks among a node's domains: spine, pod, rack."""

BUSY = 26
"""Arrivals so many times as dense: the trace asks for 3 % of the Lingjun machines, this for about 80 %."""


def nodes_of(path: Path) -> list[NodeSpec]:
    """Read the hosts with spine, pod and rack."""
    with path.open() as file:
        rows = sorted((row["DSW"], row["PSW"], row["ASW"], row["ip"]) for row in csv.DictReader(file))
    return [node(number, GPUS, row[:3]) for number, row in enumerate(rows, 1)]


def gangs_of(path: Path, *, denser: int) -> list[Arrival]:
    """Read the gangs: whole hosts as tasks of eight, smaller ones as one task."""
    wish = Topology(near=Near.PREFERRED, level=LEVEL)
    result = []
    with path.open() as file:
        for row in csv.DictReader(file):
            tasks, units = int(row["gpu_workers"]), int(float(row["gpu_per_worker"]))
            runs = int(1000 * float(row["num_iteration"]) * float(row["iteration_computing_time"]))
            spec = job(f"g{row['job_id']}", 1, runs=max(1, runs), tasks=tasks, units=units, topology=wish)
            result.append((int(1000 * float(row["arrival_time"])) // denser, spec))
    return sorted(result, key=lambda row: row[0])


@dataclass(slots=True)
class Racks:
    """Counts the racks of each gang when it starts."""

    nodes: list[NodeSpec]
    ratios: list[Fraction]
    possible: list[Fraction]

    def watch(self, engine: Engine) -> None:
        """Look at what the last decision has started."""
        where = {row.id: row.domains for row in self.nodes}
        started = {admission.job for admission in engine.outcome.admissions}
        free = _free(engine, self.nodes, without=started)
        for admission in engine.outcome.admissions:
            group = engine.by_id[admission.job].spec.groups[0]
            racks = {where[row.node] for row in admission.placed}
            self.ratios.append(Fraction(len(racks), fewest(self._sizes(group.units), group.tasks)))
            if len(started) == 1:
                rooms = _rooms(self.nodes, free, group.units)
                self.possible.append(Fraction(len(racks), fewest(rooms, group.tasks)))

    def _sizes(self, units: int) -> list[int]:
        return _rooms(self.nodes, {row.id: row.units for row in self.nodes}, units)


def _free(engine: Engine, nodes: list[NodeSpec], *, without: set[int]) -> dict[int, int]:
    free = {row.id: row.units for row in nodes}
    for run in engine.runs.values():
        for row in run.placed if run.job.id not in without else ():
            free[row.node] -= row.tasks * run.job.spec.groups[row.group].units
    return free


def _rooms(nodes: list[NodeSpec], free: dict[int, int], units: int) -> list[int]:
    rooms: dict[tuple[str | None, ...], int] = defaultdict(int)
    for row in nodes:
        rooms[row.domains] += free[row.id] // units
    return list(rooms.values())


def fewest(rooms: list[int], tasks: int) -> int:
    """Return how few racks hold the tasks."""
    for count, room in enumerate(sorted(rooms, reverse=True), 1):
        tasks -= room
        if tasks <= 0:
            return count
    raise ValueError("the gang is larger than the machine")


def topology(setting: Setting) -> Iterator[Result]:
    """Place 319 gangs of up to 1,024 GPUs on 847 hosts in racks: racks used over the fewest possible."""
    nodes = nodes_of(setting.trace("lingjun/lingjun_2023_topo.csv"))
    for name, denser in (("trace", 1), ("busy", BUSY)):
        arrivals = gangs_of(setting.trace("kalos/converted_kalos_trace_319.csv"), denser=denser)
        arrivals = arrivals[: len(arrivals) // setting.part]
        capacity = sum(row.units for row in nodes)
        laps, racks = Laps(time.perf_counter), Racks(nodes, [], [])
        world = scenario(nodes, [team(1, guaranteed=capacity)], PolicySpec(on_events=True))
        Play(Engine(world, laps.read), arrivals, racks.watch).run()
        ratios = sorted(float(ratio) for ratio in racks.ratios)
        label = f"topology/{name}"
        yield Result(name=f"{label}/mean", value=fmean(ratios), unit="racks / fewest", limit="1.00", target="<= 1.15")
        yield Result(name=f"{label}/p95", value=rank(ratios, 0.95), unit="racks / fewest", limit="1.00")
        yield Result(name=f"{label}/max", value=ratios[-1], unit="racks / fewest", limit="1.00")
        if racks.possible:
            mean = float(sum(racks.possible) / len(racks.possible))
            yield Result(name=f"{label}/possible", value=mean, unit="racks / fewest with what was free", limit="1.00")
        rate = len(ratios) / sum(laps.seconds)
        yield Result(name=f"{label}/rate", value=rate, unit="gangs/s decided", peer="37/s wall (Kueue TAS, CI)")
        count = Counter(ratio > 1 for ratio in racks.ratios)[True]
        yield Result(name=f"{label}/more", value=count, unit=f"of {len(ratios)} gangs take more than the fewest")
