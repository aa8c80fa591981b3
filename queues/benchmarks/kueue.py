"""Kueue's own scheduler workloads in virtual time: what remains when its machinery is left out."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import yaml

from queues.admission.world import Milliseconds
from queues.benchmarks.results import Result, Setting
from queues.benchmarks.stage import Arrival, Play, job, node, rank, scenario, team, waits
from queues.simulation.engine import Engine
from queues.simulation.scenario import PolicySpec, TeamSpec

ENDLESS = 1 << 40
LIMIT = 24 * 3_600_000
"""The time limit that a queue gives by default: without one, holds have no planned start and keep what frees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How much may be taken back: nothing, within a team only (then nobody lends), what was lent, or all of it.

    ``min_runtime`` is the time for which no job is: endless where nothing may be.
    """

    name: str
    min_runtime: Milliseconds
    within: bool
    lends: bool


NONE = Variant(name="no-preemption", min_runtime=ENDLESS, within=False, lends=True)
WITHIN = Variant(name="within-queue", min_runtime=0, within=True, lends=False)
RECALL = Variant(name="recall", min_runtime=0, within=False, lends=True)
"""What a queue does that nobody has set up otherwise: guarantees come back, no job makes way in its own team."""
FULL = Variant(name="full", min_runtime=0, within=True, lends=True)
MINUTE = Variant(name="full-minute", min_runtime=60_000, within=True, lends=True)
"""As the side-by-side is played: all may be taken back, but only from who has run for a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A generator file turned into teams and arrivals; ``work`` is the sum of run time x units of one cohort."""

    teams: tuple[TeamSpec, ...]
    arrivals: tuple[Arrival, ...]
    units: int
    work: int


def read(path: Path, *, part: int, lends: bool) -> Load:
    """Read a generator file: cohorts are departments that lend nothing to others, queues are their teams."""
    teams: list[TeamSpec] = []
    arrivals: list[Arrival] = []
    units = work = 0
    for cohort in yaml.safe_load(path.read_text())["cohorts"]:
        for _ in range(max(1, cohort["count"] // part)):
            parent = len(teams) + 1
            teams.append(team(parent, lend=0))
            for queues in cohort["queuesSets"]:
                for _ in range(queues["count"]):
                    number = len(teams) + 1
                    borrow = queues["borrowingLimit"] if lends else 0
                    teams.append(team(number, parent=parent, guaranteed=queues["nominalQuota"], borrow=borrow))
                    units += queues["nominalQuota"]
                    arrivals += _arrivals(number, queues["workloadsSets"])
    arrivals.sort(key=lambda row: row[0])
    work = sum((spec.runs or 0) * spec.groups[0].units for _, spec in arrivals)
    return Load(teams=tuple(teams), arrivals=tuple(arrivals), units=units, work=work)


def _arrivals(number: int, sets: list[dict[str, object]]) -> Iterator[Arrival]:
    """Yield each class's jobs, one after every interval as the generator creates them."""
    for row in sets:
        interval, count, kinds = row["creationIntervalMs"], row["count"], row["workloads"]
        if not (isinstance(interval, int) and isinstance(count, int) and isinstance(kinds, list)):
            raise TypeError("a workload set needs an interval, a count and workloads")
        for place in range(count):
            for kind in kinds:
                name, runs, units = kind["className"], kind["runtimeMs"], kind["request"]
                spec = job(
                    f"{name}-{number}-{place}", number, runs=runs, units=units, priority=kind["priority"], limit=LIMIT
                )
                yield (place + 1) * interval, spec


def play(load: Load, variant: Variant) -> Engine:
    """Play the load to its end, on a queue's defaults but for what the variant says."""
    policy = PolicySpec(on_events=True, min_runtime=variant.min_runtime, preempt_within_team=variant.within)
    engine = Engine(scenario([node(1, load.units)], load.teams, policy), time.perf_counter)
    Play(engine, list(load.arrivals)).run()
    return engine


def baseline(setting: Setting) -> Iterator[Result]:
    """Play 15,000 jobs of 30 queues in five variants."""
    path = setting.trace("kueue-perf/baseline.generator.yaml")
    peers = {
        "makespan": "351 s wall (Kueue CI)",
        "small": "215 s (Kueue CI)",
        "medium": "77 s (Kueue CI)",
        "large": "16.5 s (Kueue CI)",
    }
    targets = {"makespan": "<= 72 s", "large": "<= 1 s", "lost": "<= 5 %", "wall": "<= 5 s"}
    for variant in (NONE, WITHIN, RECALL, FULL, MINUTE):
        yield from _results("kueue-baseline", path, setting, variant, peers, targets)


def large(setting: Setting) -> Iterator[Result]:
    """Play 50,000 jobs of 1,000 queues with everything allowed."""
    path = setting.trace("kueue-perf/large-scale.generator.yaml")
    peers = {"makespan": "1,179 s wall (Kueue CI)"}
    targets = {"makespan": "<= 1.1 x limit", "wall": "<= 20 s"}
    yield from _results("kueue-large", path, setting, FULL, peers, targets)


def _results(
    name: str,
    path: Path,
    setting: Setting,
    variant: Variant,
    peers: dict[str, str],
    targets: dict[str, str],
) -> Iterator[Result]:
    load = read(path, part=setting.part, lends=variant.lends)
    since = time.perf_counter()
    engine = play(load, variant)
    wall = time.perf_counter() - since
    jobs = list(engine.jobs.values())

    def result(key: str, value: float, unit: str, limit: str = "-") -> Result:
        label = f"{name}/{variant.name}/{key}"
        kind = key.split("-", maxsplit=1)[0]
        target = targets.get(kind, "-") if key in targets or kind in {"lost", "wall"} else "-"
        return Result(name=label, value=value, unit=unit, peer=peers.get(key, "-"), limit=limit, target=target)

    bound = load.work / load.units / 1000
    yield result("makespan", engine.now / 1000, "s virtual", f"{bound:.1f} s (work bound)")
    for kind in ("small", "medium", "large"):
        found = waits([row for row in jobs if row.name.startswith(kind)])
        yield result(kind, fmean(found) / 1000, "s mean to admission")
        for share, label in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"), (1.0, "max")):
            yield result(f"{kind}-{label}", rank(found, share) / 1000, "s")
    yield result("evictions", len(engine.evicted), "")
    yield result("lost", 100 * engine.lost_unit_milliseconds / load.work, "% of the work")
    yield result("unfinished", sum(1 for row in jobs if row.ended is None), "jobs")
    yield result("wall", wall, "s wall")
    yield result("decide", engine.decide_seconds, "s wall in decisions")
