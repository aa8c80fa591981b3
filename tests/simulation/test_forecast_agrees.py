"""A forecast of a world tells the starts that its simulation then has, whatever waits."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from queues.simulation.engine import Engine
from queues.simulation.expected import Present
from queues.simulation.forecast import Forecast
from queues.simulation.run import simulate
from queues.simulation.scenario import Scenario, load
from tests.examples import examples

JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "team": st.sampled_from(["a", "b"]),
            "user": st.sampled_from(["u", "v"]),
            "units": st.integers(1, 4),
            "tasks": st.integers(1, 2),
            "minutes": st.integers(1, 8),
        }
    ),
    min_size=1,
    max_size=10,
)


def no_clock() -> float:
    return 0.0


def scenario(jobs: list[dict[str, Any]], hold_after: int) -> Scenario:
    """Return a world of two machines and two teams to which these gangs come at once and run to their limits."""
    lines = [
        {
            "at": "0s",
            "submit": {
                "name": f"j{number}",
                "team": job["team"],
                "user": job["user"],
                "shape": "gang",
                "units": job["units"],
                "tasks": job["tasks"],
                "runs": f"{job['minutes']}m",
                "time_limit": f"{job['minutes']}m",
            },
        }
        for number, job in enumerate(jobs)
    ]
    world = {
        "policy": {"grace": "0s", "hold_after": f"{hold_after}m"},
        "nodes": [{"name": name, "flavor": "g", "units": 4} for name in ("n1", "n2")],
        "teams": [{"name": "a", "guaranteed": {"g": 5}}, {"name": "b", "guaranteed": {"g": 3}}],
        "timeline": lines,
        "until": "10h",
    }
    with TemporaryDirectory() as folder:
        path = Path(folder) / "world.yaml"
        path.write_text(yaml.safe_dump(world))
        return load(path)


def told(of: Scenario) -> dict[str, int]:
    """Return the forecast starts in seconds, from the moment when all jobs have come and nothing is decided."""
    engine = Engine(of, no_clock)
    for line in of.timeline:
        engine.apply(line)
    world = engine.world()
    waiting = tuple(job.row for job in engine.waiting() if job.row is not None)
    forecast = Forecast(Present(world=world, waiting=waiting, classes={row.id: row for row in world.classes}))
    steps = iter(range(2000))
    forecast.run(lambda: next(steps, None) is not None)
    return {engine.by_id[job].name: row.p50 // 1000 for job, row in forecast.starts().items()}


def seen(of: Scenario) -> dict[str, int]:
    """Return the first starts in seconds as the simulation has them."""
    starts: dict[str, int] = {}
    for event in simulate(of, no_clock).events:
        if event["event"] == "admitted":
            starts.setdefault(str(event["job"]), int(float(str(event["at"]))))
    return starts


# A hold that can be planned only once the cycle before it has started what it waits for.
AFTER_A_START = [
    ("a", 2, 1, 1),
    ("a", 2, 3, 1),
    ("a", 1, 2, 5),
    ("a", 2, 2, 1),
    ("a", 2, 2, 1),
    ("a", 1, 1, 1),
    ("b", 2, 2, 1),
    ("a", 1, 1, 1),
    ("a", 2, 1, 5),
    ("a", 1, 1, 4),
]


# What the owner keeps makes others start one cycle later, not at once.
A_CYCLE_LATER = [("a", 1, 1, 1), ("a", 2, 1, 1), ("a", 2, 1, 1), ("a", 1, 1, 1), ("a", 1, 1, 1), ("b", 1, 3, 1)]


@settings(max_examples=examples(40))
@example(
    jobs=[
        {"team": team, "user": "u", "tasks": tasks, "units": units, "minutes": minutes}
        for team, tasks, units, minutes in A_CYCLE_LATER
    ],
    hold_after=1,
)
@example(
    jobs=[
        {"team": team, "user": "u", "tasks": tasks, "units": units, "minutes": minutes}
        for team, tasks, units, minutes in AFTER_A_START
    ],
    hold_after=1,
)
@given(jobs=JOBS, hold_after=st.sampled_from([1, 3, 600]))
def test_a_forecast_tells_what_then_happens(jobs: list[dict[str, Any]], hold_after: int) -> None:
    forecast, happened = told(scenario(jobs, hold_after)), seen(scenario(jobs, hold_after))

    assert forecast == happened
    assert len(forecast) == len(jobs)
