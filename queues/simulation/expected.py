"""What a forecast starts from and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from queues.admission.world import MINUTE, JobClass, Milliseconds, Waiting, World

ENOUGH = 20
"""Finished jobs of a shape from which on their run times are taken instead of time limits."""


class Basis(StrEnum):
    """What a forecast rests on."""

    ROOM = "room"
    TIME_LIMITS = "time_limits"
    RUN_TIMES = "run_times"


class Cause(StrEnum):
    """Why a start cannot be told."""

    ENDLESS = "endless"
    NEVER = "never"
    PAUSED = "paused"
    BLOCKED = "blocked"
    TOO_LATE = "too_late"
    TOO_FAR = "too_far"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A start that cannot be told; of ENDLESS so many jobs ``running`` now and ``before`` it have no time limit."""

    cause: Cause
    running: int = 0
    before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The range of an expected start."""

    p50: Milliseconds
    p90: Milliseconds
    basis: Basis


Answer = Expected | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """What a forecast starts from: a world and the first of those who wait in it.

    ``classes`` also has those of running jobs, ``running`` tells these as they would wait again after an eviction.
    ``cut`` names the (class, user) of whom further jobs wait than are listed. ``lengths`` are sorted run times of
    finished jobs by class, only where there are ``ENOUGH``. ``start_limits`` is, by queue, what a waiting job's grace
    has in it for a start that takes long, ``elastic_pause`` how long a job does not grow after surplus of it has gone.
    """

    world: World
    waiting: tuple[Waiting, ...]
    classes: Mapping[int, JobClass]
    running: Mapping[int, Waiting] = field(default_factory=dict)
    cut: frozenset[tuple[int, int]] = frozenset()
    lengths: Mapping[int, tuple[Milliseconds, ...]] = field(default_factory=dict)
    start_limits: Mapping[int, Milliseconds] = field(default_factory=dict)
    elastic_pause: Milliseconds = 10 * MINUTE
