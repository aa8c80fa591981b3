"""A gang that its team's guarantee covers starts within the bound that it was told, whatever comes (SEMANTICS 7)."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.simulation.streams import SECOND, Fields, crowd, follow, latest, world

Draw = Callable[[Random], Fields]


@given(st.integers(0, 1 << 32), st.sampled_from([world, crowd]))
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
def test_a_gang_inside_its_guarantee_starts_within_the_bound_whatever_comes(seed: int, draw: Draw) -> None:
    drawn = draw(Random(seed))

    told = follow(drawn)

    assert told.started is not None, drawn
    if told.bound is not None:
        assert told.bound.guaranteed, drawn
        assert told.started <= latest(drawn, told.bound), (told, drawn)
        event("waited" if told.started > told.bound.eligible else "started at once")


def test_the_drawn_streams_let_gangs_wait_with_and_without_others_before_them() -> None:
    found = Counter[str]()

    for seed in range(16):
        told = follow(world(Random(seed)))
        if told.bound is not None and told.started is not None and told.started > told.bound.eligible:
            found["before" if told.bound.before else "alone"] += 1

    assert min(found["before"], found["alone"]) >= 2, found


SINGLE = {"units": 1, "tasks": 1}
STREAMS = {
    "one unit a time, for ever": {"team": "own", **SINGLE},
    "one unit a time that another team owns": {"team": "other", **SINGLE},
    "one unit a time that others borrow": {"team": "guest", **SINGLE},
    "gangs of the same size": {"team": "own", "shape": "gang", "tasks": 4},
    "gangs of the same size that borrow": {"team": "guest", "shape": "gang", "tasks": 4},
    "urgent jobs of others": {"team": "guest", "priority": "high", **SINGLE},
    "urgent jobs of an owner": {"team": "other", "priority": "high", **SINGLE},
    "firm jobs of an owner": {"team": "other", "preemptible": False, **SINGLE},
    "elastic jobs": {"team": "own", "shape": "elastic", "min": 1, "max": 6},
}


def adversary(stream: Fields, every: int, length: int) -> Fields:
    """Return a full world of 8 units: a gang of all its team's 4 waits since 1m, and a stream comes from then on."""
    first = {"shape": "gang", "units": 1, "runs": "600s", "time_limit": "600s"}
    jobs: list[tuple[int, Fields]] = [
        (0, {"name": "a", "team": "own", "tasks": 2} | first),
        (0, {"name": "b", "team": "other", "tasks": 3} | first),
        (0, {"name": "c", "team": "guest", "tasks": 3} | first | {"runs": "300s", "time_limit": "300s"}),
        (60, {"name": "gang", "team": "own", "tasks": 4} | first),
    ]
    more = {"runs": f"{length}s", "time_limit": f"{length}s"}
    jobs += [(60 + every * n, {"name": f"s{n}"} | stream | more) for n in range(1, 2400 // every)]
    return {
        "policy": {"tick": "event", "hold_after": "300s", "grace": "30s"},
        "nodes": [{"name": "n", "count": 4, "flavor": "g", "units": 2}],
        "teams": [
            {"name": "own", "guaranteed": {"g": 4}},
            {"name": "other", "guaranteed": {"g": 4}},
            {"name": "guest"},
        ],
        "timeline": [{"at": f"{at}s", "submit": job} for at, job in jobs],
        "until": "3h",
    }


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(("every", "length"), [(60, 1200), (20, 200)])
def test_no_adversary_keeps_the_gang_from_its_bound(name: str, every: int, length: int) -> None:
    drawn = adversary(STREAMS[name], every, length)

    told = follow(drawn)

    assert told.started is not None
    # From 6m on it holds; nobody is before it but what its own team's guarantee let in before that.
    most = 360 * SECOND + 600 * SECOND if told.bound is None else latest(drawn, told.bound)
    assert told.started <= most, told
