"""How long one decision takes in a large installation: rules only, a warm world, one event before each cycle."""

import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from queues.admission.decide import Memory
from queues.admission.decide import decide as rules
from queues.admission.heads import SimpleHeads
from queues.admission.world import HOUR, MINUTE
from queues.benchmarks.results import Result, Setting
from queues.benchmarks.stage import NOWHERE, Laps, job, node, rank, scenario, team
from queues.simulation.engine import Engine
from queues.simulation.jobs import Run
from queues.simulation.scenario import JobSpec, Line, PolicySpec, TeamSpec

DEPARTMENTS = 20
LEAVES = 10
SHAPES = 40
FULL = 85
GANGS = 15
CYCLES = 10
HOLD_AFTER = 30
"""Minutes after which what waits may hold."""

ENOUGH = 100
"""Seconds: after a size whose cycles took longer, larger ones are not tried."""

FLAT = (10_000, 100_000, 1_000_000)
BEHIND = 1 << 40
"""Ids of jobs that wait behind those of the simulator."""

SIZES = ((10_000, 1_000), (100_000, 1_000), (10_000, 10_000), (100_000, 10_000))
TARGETS = {(10_000, 1_000): "p99 <= 5 ms", (100_000, 10_000): "p99 <= 50 ms"}
PEERS = {1_000: "74 ms (Kueue TAS, one job, 1k nodes)", 10_000: "2.4 s (KAI, 4k nodes)"}

Shape = tuple[int, int, int, int]


def decide(setting: Setting) -> Iterator[Result]:
    """Decide with 10k and 100k waiting jobs on 1k and 10k nodes, 85 % full, one event before each decision."""
    for name, lends in (("own", False), ("lent", True)):
        for waiting, nodes in SIZES if setting.part == 1 else SIZES[:1]:
            since = time.perf_counter()
            yield from _measure(name, waiting // setting.part, nodes // setting.part, setting.seed, lends=lends)
            if time.perf_counter() - since > ENOUGH:
                break


def flat(setting: Setting) -> Iterator[Result]:
    """Decide on one world with 10k, 100k and a million waiting jobs of the same classes and users."""
    nodes, first = 200 // setting.part, FLAT[0] // setting.part
    engine, _ = _filled(first, nodes, setting.seed, time.perf_counter, lends=True)
    world, memory = engine.world(), Memory()
    rows = [row for job_class in world.classes for row in engine.heads.users(job_class.id)]
    for waiting in FLAT if setting.part == 1 else FLAT[:2]:
        more = (replace(rows[number % len(rows)], id=BEHIND + number, wait_from=world.now) for number in range(waiting))
        heads = SimpleHeads([*rows, *more])
        times = []
        for _ in range(CYCLES):
            since = time.perf_counter()
            rules(world, heads, memory)
            times.append(time.perf_counter() - since)
        yield Result(
            name=f"decide-flat/{waiting}/p50", value=1000 * rank(sorted(times), 0.5), unit="ms wall, rules only"
        )


def teams(units: int, *, lends: bool) -> list[TeamSpec]:
    """Return 20 departments with 10 leaves each; 85 % are guaranteed to leaves, which borrow the rest or nothing."""
    rows = [team(number) for number in range(1, DEPARTMENTS + 1)]
    part = max(1, units * FULL // 100 // (DEPARTMENTS * LEAVES))
    borrow = None if lends else 0
    for department in range(1, DEPARTMENTS + 1):
        rows += [
            team(len(rows) + place, parent=department, guaranteed=part, borrow=borrow) for place in range(1, LEAVES + 1)
        ]
    return rows


def shape(random: Random) -> Shape:
    """Return tasks, units a task, time limit and priority: mostly single jobs, gangs of 16 to 128 units."""
    limit = random.choice((1, 2, 4, 8, 16)) * HOUR
    priority = random.choice((-1, 0, 0, 1))
    if random.randrange(100) < GANGS:
        return random.choice((2, 4, 8, 16)), 8, limit, priority
    return 1, random.choice((1, 1, 1, 2, 4, 8)), limit, priority


def _measure(name: str, waiting: int, nodes: int, seed: int, *, lends: bool) -> Iterator[Result]:
    laps = Laps(time.perf_counter)
    engine, random = _filled(waiting, nodes, seed, laps.read, lends=lends)
    cold = laps.seconds[0]
    label = f"decide/{name}/{waiting}/{nodes}"
    peer, target = PEERS.get(nodes, "-"), TARGETS.get((waiting, nodes), "-")
    for key, value in _ranks(_minutes(engine, random, laps, range(1, CYCLES + 1))):
        yield Result(
            name=f"{label}/{key}",
            value=value,
            unit="ms wall, rules only",
            peer=peer,
            limit="reading the changed rows",
            target=target,
        )
    yield Result(name=f"{label}/first", value=1000 * cold, unit="ms wall, the empty cluster fills")
    _minutes(engine, random, laps, range(CYCLES + 1, HOLD_AFTER))
    for key, value in _ranks(_minutes(engine, random, laps, range(HOLD_AFTER, HOLD_AFTER + CYCLES))):
        yield Result(
            name=f"{label}/holds/{key}",
            value=value,
            unit="ms wall, rules only, all that waits since the beginning may hold",
        )
    yield Result(name=f"{label}/holds/held", value=len(engine.outcome.holds), unit="jobs that hold at the end")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Result(name=f"{label}/rss", value=peak, unit="MiB peak so far, simulator included")


def _minutes(engine: Engine, random: Random, laps: Laps, minutes: range) -> list[float]:
    """Let a job end in each of these minutes and decide; return the seconds that took, fewer where they are long."""
    laps.seconds.clear()
    for minute in minutes:
        if engine.runs:
            _end(engine, random.choice(list(engine.runs.values())), MINUTE * minute)
        else:
            engine.advance(MINUTE * minute)
        engine.cycle()
        if sum(laps.seconds) > ENOUGH:
            break
    return sorted(laps.seconds)


def _ranks(seconds: list[float]) -> Iterator[tuple[str, float]]:
    """Yield names and milliseconds of the usual ones of sorted seconds, and of the longest."""
    yield "p50", 1000 * rank(seconds, 0.5)
    yield "p99", 1000 * rank(seconds, 0.99)
    yield "longest", 1000 * seconds[-1]


def _filled(waiting: int, nodes: int, seed: int, clock: Callable[[], float], *, lends: bool) -> tuple[Engine, Random]:
    """Return a world that has filled up, with so many jobs left to wait, and the dice that go on."""
    random = Random(seed)  # noqa: S311  a repeatable world, no secret
    policy = PolicySpec(on_events=True, hold_after=HOLD_AFTER * MINUTE)
    engine = Engine(
        scenario([node(number, 8) for number in range(1, nodes + 1)], teams(8 * nodes, lends=lends), policy), clock
    )
    leaves = [row.id for row in engine.scenario.teams if row.parent is not None]
    shapes = {leaf: [shape(random) for _ in range(SHAPES)] for leaf in leaves}
    for number in range(waiting + 8 * nodes):
        engine.apply(Line(0, "submit", NOWHERE, job=_job(random, number, leaves, shapes)))
    while engine.cycle():
        engine.advance(engine.now + 1)
    return engine, random


def _end(engine: Engine, run: Run, at: int) -> None:
    """Let one job end at a time."""
    run.ends = at
    engine.advance(at)
    engine.apply(Line(at, "end", NOWHERE, name=run.job.name, text="succeeded"))


def _job(random: Random, number: int, leaves: list[int], shapes: dict[int, list[Shape]]) -> JobSpec:
    leaf = random.choice(leaves)
    tasks, units, limit, priority = random.choice(shapes[leaf])
    user = f"u{random.randint(1, 5)}"
    return job(
        f"j{number}",
        leaf,
        runs=limit,
        tasks=tasks,
        units=units,
        limit=limit,
        priority=priority,
        user=user,
    )
