"""One gang as large as the cluster against an endless stream of single jobs: the wait stays within the bound."""

import time
from collections.abc import Iterator

from queues.admission.world import HOUR, MINUTE
from queues.benchmarks.results import Result, Setting
from queues.benchmarks.stage import Arrival, Play, job, node, scenario, team
from queues.simulation.engine import Engine
from queues.simulation.scenario import PolicySpec

UNITS = 64
HOLD_AFTER = 30 * MINUTE


def stream(setting: Setting) -> Iterator[Result]:
    """Let a gang of 64 wait behind a stream that fills 64 units for ever: its wait against hold_after + D."""
    for name, sender in (("same-team", 1), ("other-team", 2)):
        for limit in (HOUR // setting.part, 4 * HOUR // setting.part):
            every = limit // UNITS
            arrivals: list[Arrival] = [
                (at, job(f"s{at}", sender, runs=limit, limit=limit)) for at in range(0, 6 * limit, every)
            ]
            gang_at = 2 * limit + MINUTE
            gang = job("gang", 1, runs=HOUR, limit=HOUR, tasks=UNITS // 8, units=8)
            arrivals = sorted([*arrivals, (gang_at, gang)], key=lambda row: row[0])
            teams = [team(1, guaranteed=UNITS), team(2)]
            nodes = [node(number, 8) for number in range(1, UNITS // 8 + 1)]
            engine = Engine(scenario(nodes, teams, PolicySpec(hold_after=HOLD_AFTER)), time.perf_counter)
            play = Play(engine, arrivals)
            for until in range(gang_at, 6 * limit, MINUTE):
                play.run(until=until)
                if engine.jobs["gang"].started is not None:
                    break
            started = engine.jobs["gang"].started
            waited = 6 * limit if started is None else started - gang_at
            yield Result(
                name=f"gangs/stream/{name}/{limit // MINUTE}min",
                value=waited / 1000,
                unit="s wait of the gang",
                limit=f"{(HOLD_AFTER + limit) // 1000} s (hold_after + D)",
                target="never above the limit",
            )
