"""The jobs of a soak, drawn from a seed: what each asks for, and how it has to end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

from clusters.kinds import Kind
from queues.soak import manifests


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
    """One job: its spec, and its fate; ``made``: the spec is an object that somebody makes suspended in the cluster."""

    name: str
    team: str
    fate: Fate
    spec: dict[str, Any]
    made: bool = False


KINDS = ("one", "independent", "gang", "groups", "elastic", "written", "made")
KIND_WEIGHTS = (31, 16, 16, 8, 7, 14, 8)
FATES = tuple(Fate)
FATE_WEIGHTS = (80, 8, 4, 4, 2, 2)
PRIORITIES = ("low", "normal", "high")
MAY_BORROW = 0.9
GANGS = tuple(
    {"tasks": tasks, "gpus": {"count": units, "type": ["gpu"]}}
    for tasks, units in ((2, 1), (4, 1), (2, 2), (3, 2), (2, 4))
)
SHORTEST, LONGEST = 0.2, 2.5
MORE_THAN_THERE_IS = 64


def draw(random: Random, number: int, *, teams: Mapping[str, int], kinds: Sequence[Kind] = manifests.ALWAYS) -> Draw:
    """Draw one job; each team, given with its guarantee, asks for as large a part of all as it owns.

    What people write themselves is of one of these ``kinds``.
    """
    name = f"soak-{number}"
    (team,) = random.choices(tuple(teams), tuple(teams.values()))
    (fate,) = random.choices(FATES, FATE_WEIGHTS)
    (kind,) = random.choices(KINDS, KIND_WEIGHTS)
    notes = {"tidegate.test/run-for": f"{round(random.uniform(SHORTEST, LONGEST) * 1000)}ms"}
    notes |= {
        Fate.FAILS: {"tidegate.test/exit-code": "3"},
        Fate.TIMED_OUT: {"tidegate.test/forever": "1"},
        Fate.ENDLESS: {"tidegate.test/forever": "1"},
        Fate.NEVER_STARTS: {manifests.NEVER: "ErrImagePull"},
    }.get(fate, {})
    wishes = {
        "priority": random.choice(PRIORITIES),
        "retries": random.choice((0, 0, 1)),
        "borrow": random.random() < MAY_BORROW,
        "time_limit": "3s" if fate is Fate.TIMED_OUT else "1h",
    }
    if kind in {"written", "made"}:
        units = MORE_THAN_THERE_IS if fate is Fate.NEVER_FITS else None
        # Only some kinds are adopted.
        choices = [each for each in kinds if each.adopts] if kind == "made" else kinds
        wanted = manifests.draw(random, name, kinds=choices, units=units, notes=notes)
        if kind == "made":
            return Draw(name=name, team=team, fate=fate, spec=manifests.suspended(wanted, wishes), made=True)
        body: dict[str, Any] = {"manifest": wanted}
    else:
        much = {"gpus": {"count": MORE_THAN_THERE_IS, "type": ["gpu"]}}
        run = {"run": {"image": manifests.IMAGE, "command": ["work"]}, "annotations": notes, "grace": "1s"}
        body = (much if fate is Fate.NEVER_FITS else _shape(random, kind)) | run
    metadata = {"name": name, "team": team, "external_id": name}
    spec = {"apiVersion": "tidegate/v1", "kind": "Job", "metadata": metadata, "spec": body | wishes}
    return Draw(name=name, team=team, fate=fate, spec=spec)


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
