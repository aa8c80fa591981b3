"""Philly's jobs on 64 and 80 nodes of eight: what lending is worth, how long gangs wait, how fair the shares are."""

import csv
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import fmean

from queues.benchmarks.policies import Policy, Pool, Request, pieces, play
from queues.benchmarks.results import Result, Setting
from queues.benchmarks.stage import Arrival, Laps, Play, job, node, rank, scenario, team
from queues.simulation.engine import Engine
from queues.simulation.scenario import PolicySpec

FIRST = "2017-10-01"
GPUS = 8
GANG = 8
"""A job above so many GPUs counts as a gang."""

PEERS = {
    ("borrowing/fixed partitions", "all"): "75,418 s mean (BENCHMARKS' run)",
    ("borrowing/greedy", "all"): "3,149 s mean (BENCHMARKS' run)",
    ("borrowing/greedy", "gangs"): "615,913 s max (BENCHMARKS' run)",
    ("borrowing/easy", "all"): "3,693 s mean (BENCHMARKS' run)",
    ("borrowing/easy", "gangs"): "140,539 s max (BENCHMARKS' run)",
}
Starts = dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The jobs in order of arrival and the guarantee of each team."""

    requests: list[Request]
    guaranteed: dict[str, int]
    units: int


def read(setting: Setting, nodes: int) -> Trace:
    """Read jobs of the teams that own nodes; guarantees in proportion to those, largest remainder first."""
    with setting.trace("philly/philly_vc_nodes.csv").open() as file:
        owned = {row["vc"]: int(row["node num"]) for row in csv.DictReader(file)}
    rows = _rows(setting.trace("philly/philly_jobs_pollux_sia.csv"), owned)
    rows = rows[: len(rows) // setting.part]
    return Trace(requests=_requests(rows), guaranteed=shared(nodes * GPUS, owned), units=nodes * GPUS)


def _rows(path: Path, owned: Mapping[str, int]) -> list[tuple[str, str, int, float]]:
    with path.open() as file:
        return sorted(
            (row["timestamp"], row["cluster"], int(row["num_gpus"]), float(row["duration"]))
            for row in csv.DictReader(file)
            if row["timestamp"] >= FIRST and row["cluster"] in owned
        )


def _requests(rows: list[tuple[str, str, int, float]]) -> list[Request]:
    zero = datetime.fromisoformat(f"{FIRST}T00:00:00+00:00")
    result = []
    for number, (stamp, name, units, seconds) in enumerate(rows, 1):
        at = datetime.fromisoformat(f"{stamp.replace(' ', 'T')}+00:00") - zero
        runs = max(1000, int(seconds) * 1000)
        result.append(Request(number, name, int(at.total_seconds()) * 1000, units, runs, runs * 3 // 2))
    return result


def shared(units: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Return whole parts in proportion to the weights that sum up to the units."""
    whole = sum(weights.values())
    parts = {name: units * weight // whole for name, weight in weights.items()}
    by_rest = sorted(weights, key=lambda name: (-(units * weights[name] % whole), name))
    for name in by_rest[: units - sum(parts.values())]:
        parts[name] += 1
    return parts


def alone(trace: Trace) -> Starts:
    """Let every team live in its own part; a job larger than the part never starts."""
    starts: Starts = {}
    for name, units in trace.guaranteed.items():
        rows = [row for row in trace.requests if row.team == name and row.units <= units]
        starts |= play(rows, units, Policy.GREEDY, trace.guaranteed)
    return starts


def references(nodes: int) -> Iterator[tuple[Policy, int, str]]:
    """Yield each reference policy on a pool without nodes, as published figures count, and on nodes as ours has."""
    for policy in Policy:
        yield policy, 1, policy.value
        yield policy, nodes, f"{policy.value} on nodes"


@dataclass(slots=True)
class Shares:
    """Adds up the under-served share of the capacity: what teams with unmet demand lack to their fair share."""

    units: int
    guaranteed: Mapping[str, int]
    since: int = 0
    lack: float = 0.0
    time: int = 0
    samples: list[tuple[float, int]] = field(default_factory=list)

    def look(self, now: int, used: Mapping[str, int], asked: Mapping[str, int]) -> None:
        """Count the time since the last look as it was then, and look again."""
        if self.time and now > self.since:
            self.samples.append((self.lack, now - self.since))
        self.since, self.time = now, 1
        wants = {name: used.get(name, 0) + asked.get(name, 0) for name in self.guaranteed}
        fair = fair_shares(self.units, wants, self.guaranteed)
        short = sum(max(0.0, fair[name] - used.get(name, 0)) for name in wants if asked.get(name, 0))
        self.lack = short / self.units if any(asked.values()) else -1.0

    def seen(self, now: int, pool: Pool) -> None:
        """Look at a reference policy's pool."""
        self.look(now, pool.used, pool.asked)

    def mean(self) -> float:
        """Return the time-weighted mean while somebody waits."""
        rows = [row for row in self.samples if row[0] >= 0]
        return sum(lack * length for lack, length in rows) / max(1, sum(length for _, length in rows))

    def at(self, part: float) -> float:
        """Return the value below or at which that part of the time lies."""
        rows = sorted(row for row in self.samples if row[0] >= 0)
        left = part * sum(length for _, length in rows)
        for lack, length in rows:
            left -= length
            if left <= 0:
                return lack
        return 0.0


def fair_shares(units: int, wants: Mapping[str, int], weights: Mapping[str, int]) -> dict[str, float]:
    """Return the weighted max-min shares: nobody gets more than it wants, the rest goes on in proportion."""
    shares = dict.fromkeys(wants, 0.0)
    left, open_ = float(units), {name for name in wants if wants[name] and weights[name]}
    while open_ and left > 0:
        weight = sum(weights[name] for name in open_)
        full = {name for name in open_ if wants[name] <= left * weights[name] / weight}
        if not full:
            return shares | {name: left * weights[name] / weight for name in open_}
        for name in full:
            shares[name] = float(wants[name])
        left -= sum(wants[name] for name in full)
        open_ -= full
    return shares


@dataclass(slots=True)
class Ours:
    """Our rules on the trace."""

    starts: Starts
    evictions: int
    most_evicted: int
    lost: float
    wall: float
    decide: list[float]


def ours(trace: Trace, tick: int, shares: Shares | None = None) -> Ours:
    """Play the trace with everything that the rules allow; a cycle every ``tick`` in which anything changed."""
    numbers = {name: number for number, name in enumerate(sorted(trace.guaranteed), 1)}
    names = {number: name for name, number in numbers.items()}
    teams = [team(number, guaranteed=trace.guaranteed[name]) for name, number in numbers.items()]
    nodes = [node(number, GPUS) for number in range(1, trace.units // GPUS + 1)]
    arrivals: list[Arrival] = []
    for row in trace.requests:
        tasks, units = pieces(row.units)
        spec = job(
            str(row.id), numbers[row.team], runs=row.runs, tasks=tasks, units=units, limit=row.limit, user=row.team
        )
        arrivals.append((row.at, spec))
    laps = Laps(time.perf_counter)
    engine = Engine(scenario(nodes, teams, PolicySpec(on_events=True)), laps.read)

    def look(engine: Engine) -> None:
        used = dict.fromkeys(trace.guaranteed, 0)
        asked = dict.fromkeys(trace.guaranteed, 0)
        for run in engine.runs.values():
            used[names[run.job.spec.team]] += engine.units_of(run)
        for row in engine.waiting():
            if row.row is not None:
                asked[names[row.spec.team]] += row.spec.groups[0].units * row.spec.groups[0].tasks
        if shares is not None:
            shares.look(engine.now, used, asked)

    since = time.perf_counter()
    Play(engine, arrivals, look, tick=tick).run()
    wall = time.perf_counter() - since
    starts = {int(row.name): row.started for row in engine.jobs.values() if row.started is not None}
    work = sum(row.units * row.runs for row in trace.requests)
    most = max(row.evictions for row in engine.jobs.values())
    lost = 100 * engine.lost_unit_milliseconds / work
    return Ours(starts, len(engine.evicted), most, lost, wall, sorted(laps.seconds))


def borrowing(setting: Setting) -> Iterator[Result]:
    """Replay 76,580 jobs of 11 teams on 80 nodes: waits, gangs, fairness, and what recalls cost."""
    trace = read(setting, 80)
    by_id = {row.id: row for row in trace.requests}
    measured: dict[str, tuple[Starts, Shares]] = {}
    single = alone(trace)
    for policy, nodes, label in references(80):
        shares = Shares(trace.units, trace.guaranteed)
        starts = play(trace.requests, trace.units, policy, trace.guaranteed, nodes=nodes, seen=shares.seen)
        measured[label] = (starts, shares)
    yield from _waits("borrowing/fixed partitions", single, by_id)
    for name, (starts, _) in measured.items():
        yield from _waits(f"borrowing/{name}", starts, by_id)
    shares = Shares(trace.units, trace.guaranteed)
    our = ours(trace, setting.tick, shares)
    measured["ours"] = (our.starts, shares)
    yield from _waits("borrowing/ours", our.starts, by_id)
    yield from _worse(our.starts, single, by_id, trace)
    for name, (_, found) in measured.items():
        yield Result(
            name=f"fairness/{name}/under-served",
            value=found.mean(),
            unit="of the capacity, mean while somebody waits",
            peer="greedy 0.139, weighted fair 0.122",
            target="<= weighted fair, <= 0.05",
        )
        yield Result(name=f"fairness/{name}/under-served-p95", value=found.at(0.95), unit="of the capacity")
    yield Result(name="reclaim/philly/lost", value=our.lost, unit="% of the work", limit="0", target="<= 5 %")
    yield Result(name="reclaim/philly/evictions", value=our.evictions, unit="evictions")
    most = float(our.most_evicted)
    yield Result(name="reclaim/philly/most", value=most, unit="evictions of one job", target="<= 3")
    yield Result(name="borrowing/ours/cycles", value=len(our.decide), unit="decisions")
    for part, label in ((0.5, "p50"), (0.99, "p99"), (1.0, "max")):
        yield Result(name=f"borrowing/ours/decide-{label}", value=1000 * rank(our.decide, part), unit="ms wall")
    yield Result(name="borrowing/ours/wall", value=our.wall, unit="s wall")


def gangs(setting: Setting) -> Iterator[Result]:
    """Replay the same jobs on 64 nodes, where load is higher: waits of all and of gangs."""
    trace = read(setting, 64)
    by_id = {row.id: row for row in trace.requests}
    for policy, count, label in references(64):
        if policy in (Policy.GREEDY, Policy.EASY):
            starts = play(trace.requests, trace.units, policy, trace.guaranteed, nodes=count)
            yield from _waits(f"gangs/{label}", starts, by_id)
    our = ours(trace, setting.tick)
    yield from _waits("gangs/ours", our.starts, by_id)
    yield Result(name="gangs/ours/evictions", value=our.evictions, unit="evictions")
    yield Result(name="gangs/ours/wall", value=our.wall, unit="s wall")


def _waits(name: str, starts: Starts, by_id: Mapping[int, Request]) -> Iterator[Result]:
    every = sorted((at - by_id[number].at) / 1000 for number, at in starts.items())
    many = sorted((at - by_id[number].at) / 1000 for number, at in starts.items() if by_id[number].units > GANG)
    for label, rows in (("all", every), ("gangs", many)):
        peer = PEERS.get((name, label), "-")
        if rows:
            yield Result(name=f"{name}/{label}/mean", value=fmean(rows), unit="s wait", peer=peer)
            for part, key in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"), (1.0, "max")):
                yield Result(name=f"{name}/{label}/{key}", value=rank(rows, part), unit="s wait")


def _worse(starts: Starts, single: Starts, by_id: Mapping[int, Request], trace: Trace) -> Iterator[Result]:
    """Count the teams whose mean wait is longer than alone, over the jobs that could start there."""
    worse = 0
    for name in trace.guaranteed:
        rows = [number for number in single if by_id[number].team == name and number in starts]
        if rows:
            apart = fmean((single[number] - by_id[number].at) / 1000 for number in rows)
            together = fmean((starts[number] - by_id[number].at) / 1000 for number in rows)
            worse += together > max(apart * 1.01, apart + 60)
    yield Result(name="borrowing/ours/worse", value=worse, unit="teams worse off than alone", target="0")
