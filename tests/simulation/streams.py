"""Worlds in which everything has a time limit, a gang that its team's guarantee covers, and jobs that come at will."""

import json
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest.mock import patch

from queues.admission.bound import Bound, bound
from queues.admission.decide import Memory, Outcome, decide
from queues.admission.world import Heads, Milliseconds, Waiting, World
from queues.simulation.reading import parse
from queues.simulation.run import simulate
from queues.simulation.scenario import Reader

Fields = dict[str, Any]
GANG = "gang"
SECOND: Milliseconds = 1000


class Started(Exception):
    """The gang has started: what comes later does not matter."""


@dataclass(slots=True)
class Told:
    """The bound of the gang in the first cycle in which it may hold, and when it started."""

    bound: Bound | None = None
    started: Milliseconds | None = None


def follow(world: Fields) -> Told:
    """Run a world, invariants checked, until its gang starts; the bound is asked for where it may hold and waits."""
    told = Told()
    number = [line["submit"]["name"] for line in world["timeline"]].index(GANG) + 1

    def listen(seen: World, heads: Heads, memory: Memory) -> Outcome:
        if told.bound is None and (row := _gang(seen, heads, number)) is not None:
            told.bound = bound(seen, heads, row, 1)
        outcome = decide(seen, heads, memory)
        if any(row.job == number for row in outcome.admissions):
            told.started = seen.now
            raise Started
        return outcome

    scenario = Reader(parse(json.dumps(world), "stream.yaml"), "stream.yaml").scenario()
    with patch("queues.simulation.engine.decide", listen):
        try:
            result = simulate(scenario, lambda: 0.0)
        except Started:
            return told
    assert result.ok, result.failures
    return told


def _gang(world: World, heads: Heads, number: int) -> Waiting | None:
    """Return the gang once it may hold."""
    queues = {row.id: row for row in world.queues}
    for job_class in world.classes:
        for head in heads.users(job_class.id):
            for job in (head, *heads.after(job_class.id, head.user, head)):
                if job.id == number and world.now - job.wait_from >= queues[job_class.queue].hold_after:
                    return job
    return None


def latest(world: Fields, told: Bound) -> Milliseconds:
    """Return until when the gang must have started, whatever came since the bound was told.

    While others hold before it (k > 0) what comes later may run as long as its own limit, so that D covers that too.
    """
    limits = [_seconds(line["submit"]["time_limit"]) for line in world["timeline"]]
    longest = max(limits) + _seconds(world["policy"].get("grace", "0s"))
    each = max(told.longest, longest * SECOND) if told.before else told.longest
    return told.eligible + (told.before + 1) * each


def _seconds(text: str) -> int:
    assert text.endswith("s"), text
    return int(text[:-1])


def world(dice: Random) -> Fields:
    """Draw nodes, a team tree without overcommitment, a policy, the gang, and a stream of up to 40 other jobs."""
    nodes = _nodes(dice, 3)
    capacity = _units(nodes)
    own = dice.randint(1, capacity)
    teams, leaves = _teams(dice, own, capacity - own)
    jobs = [(dice.randint(5, 180), _gang_of(dice, own, nodes))]
    weights = leaves + ["own"] * dice.choice([0, 3])
    for number in range(dice.randint(1, 40)):
        at = dice.randint(0, 60 if dice.random() < 0.3 else 1500)
        jobs.append((at, _job(dice, f"j{number}", dice.choice(weights))))
    return _world(dice, nodes, teams, jobs)


def crowd(dice: Random) -> Fields:
    """Draw a world whose gang waits behind many small jobs of its team, which has at least half of all GPUs.

    Without holds one gang in five starts after its bound here, in ``world`` one in thirty.
    """
    nodes = _nodes(dice, 2)
    capacity = _units(nodes)
    own = dice.randint(-(-capacity // 2), capacity)
    teams, leaves = _teams(dice, own, capacity - own)
    jobs = [(dice.randint(60, 240), _gang_of(dice, own, nodes))]
    for number in range(dice.randint(25, 40)):
        job = _job(dice, f"j{number}", dice.choice([*leaves, "own", "own", "own"]))
        most = {"elastic": {"min": 2}, "gang": {"tasks": 3}}.get(job["shape"], {})
        job |= {name: min(job[name], limit) for name, limit in most.items()}
        jobs.append((dice.randint(0, 1200), job))
    return _world(dice, nodes, teams, jobs)


def _nodes(dice: Random, kinds: int) -> list[Fields]:
    return [
        {"name": f"n{number}-", "count": dice.randint(1, 3), "flavor": "g", "units": dice.choice([1, 2, 4])}
        for number in range(dice.randint(1, kinds))
    ]


def _units(nodes: list[Fields]) -> int:
    return sum(int(str(row["count"])) * int(str(row["units"])) for row in nodes)


def _world(dice: Random, nodes: list[Fields], teams: list[Fields], jobs: list[tuple[int, Fields]]) -> Fields:
    jobs.sort(key=lambda row: row[0])
    return {
        "policy": _policy(dice),
        "nodes": nodes,
        "teams": teams,
        "timeline": [{"at": f"{at}s", "submit": job} for at, job in jobs],
        "until": "5h",
    }


def _policy(dice: Random) -> Fields:
    policy: Fields = {"tick": "event", "hold_after": dice.choice(["0s", "120s", "300s"])}
    for chance, name, values in (
        (0.6, "grace", ["30s", "120s"]),
        (0.3, "min_runtime", ["60s", "240s"]),
        (0.3, "preempt_within_team", ["lower_priority"]),
        (0.2, "evictions_per_minute", [1, 2]),
        (0.3, "max_evictions", [0, 1]),
        (0.2, "order", ["fifo"]),
        (0.2, "elastic_pause", ["60s"]),
    ):
        if dice.random() < chance:
            policy[name] = dice.choice(values)
    return policy


def _teams(dice: Random, own: int, left: int) -> tuple[list[Fields], list[str]]:
    """Return team ``own`` with that guarantee among others that share the rest, and the names of the leaves."""
    shares = [own]
    for _ in range(dice.randint(1, 3)):
        shares.append(dice.randint(0, left))
        left -= shares[-1]
    leaves = ["own", *(f"t{number}" for number in range(1, len(shares)))]
    departments = [f"d{number}" for number in range(dice.randint(0, 2))]
    parents = {name: dice.choice(departments) for name in leaves if departments and dice.random() < 0.6}
    rows = []
    for name in departments:
        if name in parents.values():
            pool = dice.randint(0, left)
            left -= pool
            rows.append({"name": name, **_quota(dice, pool)})
    for name, units in zip(leaves, shares, strict=True):
        parent = {"parent": parents[name]} if name in parents else {}
        rows.append({"name": name, **parent, **_quota(dice, units)})
    return rows, leaves


def _quota(dice: Random, units: int) -> Fields:
    row: Fields = {"guaranteed": {"g": units}}
    for name in ("borrow_limit", "lend_limit"):
        if dice.random() < 0.25:
            row[name] = {"g": dice.randint(0, 3)}
    return row | ({"weight": dice.choice([0, 2])} if dice.random() < 0.3 else {})


def _gang_of(dice: Random, own: int, nodes: list[Fields]) -> Fields:
    """Return a gang that fits into an empty cluster and into the guarantee, often all of it."""
    units = min(dice.choice([1, 1, 2]), own, max(row["units"] for row in nodes))
    most = min(own // units, sum(row["count"] * (row["units"] // units) for row in nodes))
    tasks = most if dice.random() < 0.6 else dice.randint(1, most)
    limit = f"{dice.randint(30, 600)}s"
    return _timed({"name": GANG, "team": "own", "shape": "gang", "tasks": tasks, "units": units}, limit, limit)


def _job(dice: Random, name: str, team: str) -> Fields:
    shape, tasks = dice.choice(["independent", "gang", "elastic"]), dice.randint(1, 6)
    job: Fields = {"name": name, "team": team, "user": f"u{dice.randint(1, 2)}", "shape": shape}
    job |= {"min": dice.randint(1, tasks), "max": tasks} if shape == "elastic" else {"tasks": tasks}
    job |= {"units": dice.choice([1, 1, 2]), "priority": dice.choice(["low", "normal", "high"])}
    if team == "own" and job["priority"] == "high":
        job["priority"] = "normal"  # more urgent jobs of its own team go before a gang that holds
    if dice.random() < 0.25:
        job |= {dice.choice(["preemptible", "borrow"]): False}
    limit = dice.choice([20, 60, 120, 300, 900])
    return _timed(job, f"{limit}s", f"{limit if dice.random() < 0.7 else limit // 2}s")


def _timed(job: Fields, limit: str, runs: str) -> Fields:
    return job | {"time_limit": limit, "runs": runs}
