"""The jobs of a soak, drawn from a seed: what each asks for, and how it has to end."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any


class Fate(StrEnum):
    """How a job ends when nobody cancels it."""

    SUCCEEDS = "succeeds"
    FAILS = "fails"
    TIMED_OUT = "timed out"
    ENDLESS = "endless"
    NEVER_STARTS = "never starts"
    NEVER_FITS = "never fits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One job: its spec, and its fate."""

    name: str
    team: str
    fate: Fate
    spec: dict[str, Any]


KINDS = ("one", "independent", "gang", "groups", "elastic")
KIND_WEIGHTS = (45, 20, 20, 8, 7)
FATES = tuple(Fate)
FATE_WEIGHTS = (80, 8, 4, 4, 2, 2)
PRIORITIES = ("low", "normal", "high")
MAY_BORROW = 0.9
GANGS = tuple(
    {"tasks": tasks, "gpus": {"count": units, "type": ["gpu"]}}
    for tasks, units in ((2, 1), (4, 1), (2, 2), (3, 2), (2, 4))
)
SHORTEST, LONGEST = 0.2, 2.5


def draw(random: Random, number: int, *, teams: Mapping[str, int]) -> Draw:
    """Draw one job; each team, given with its guarantee, asks for as large a part of all as it owns."""
    name = f"soak-{number}"
    (team,) = random.choices(tuple(teams), tuple(teams.values()))
    (fate,) = random.choices(FATES, FATE_WEIGHTS)
    (kind,) = random.choices(KINDS, KIND_WEIGHTS)
    body = _shape(random, kind)
    if fate is Fate.NEVER_FITS:
        body = {"gpus": {"count": 64, "type": ["gpu"]}}
    notes = {"tidegate.test/run-for": f"{round(random.uniform(SHORTEST, LONGEST) * 1000)}ms"}
    notes |= {
        Fate.FAILS: {"tidegate.test/exit-code": "3"},
        Fate.TIMED_OUT: {"tidegate.test/forever": "1"},
        Fate.ENDLESS: {"tidegate.test/forever": "1"},
        Fate.NEVER_STARTS: {"tidegate.test/never-start": "ErrImagePull"},
    }.get(fate, {})
    body |= {
        "run": {"image": "registry.example/soak:1", "command": ["work"]},
        "annotations": notes,
        "priority": random.choice(PRIORITIES),
        "retries": random.choice((0, 0, 1)),
        "borrow": random.random() < MAY_BORROW,
        "time_limit": "3s" if fate is Fate.TIMED_OUT else "1h",
        "grace": "1s",
    }
    metadata = {"name": name, "team": team, "external_id": name}
    return Draw(
        name=name,
        team=team,
        fate=fate,
        spec={"apiVersion": "tidegate/v1", "kind": "Job", "metadata": metadata, "spec": body},
    )


def _shape(random: Random, kind: str) -> dict[str, Any]:
    def gpus(count: int) -> dict[str, Any]:
        return {"gpus": {"count": count, "type": ["gpu"]}}

    match kind:
        case "independent":
            return {"shape": "independent", "tasks": random.randint(2, 6), **gpus(random.choice((1, 1, 2)))}
        case "gang":
            # At most 8: every team may have as many.
            return {"shape": "gang", **random.choice(GANGS)}
        case "groups":
            head = {"name": "head", "tasks": 1, **gpus(1)}
            rest = {"name": "work", "tasks": random.randint(1, 3), **gpus(2)}
            return {"shape": "gang", "groups": [head, rest]}
        case "elastic":
            least = random.randint(1, 2)
            return {"shape": "elastic", "tasks": {"min": least, "max": least + random.randint(1, 3)}, **gpus(1)}
        case _:
            return gpus(random.choice((1, 1, 1, 2, 4)))
