"""Decisions of the admission loop, and the evictions among them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from queues.queries.rows.jobs import JobRef


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """One cycle; ``milliseconds`` is the whole of ``durations``."""

    cycle: int
    at: datetime
    digest: str
    classes: int
    admissions: int
    tasks: int
    units: int
    milliseconds: float
    durations: dict[str, float]
    details: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRow:
    """Tasks of the victim had to leave for a claim of the claimant, by which rule, and what that cost.

    ``grace`` is what they were given, ``grace_used`` how long the last of them took (None while some still leave).
    ``exact``: every set of victims was compared. ``surplus`` tasks go without its being an eviction of the job.
    """

    id: int
    at: datetime
    rule: str
    summary: str
    claimant: JobRef
    victim: JobRef
    attempt: int
    tasks: int
    units: int
    lost_unit_seconds: int
    grace: timedelta
    grace_used: timedelta | None
    exact: bool
    surplus: bool

    @property
    def lost_hours(self) -> float:
        """Return the unit-hours lost."""
        return self.lost_unit_seconds / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedRow:
    """A job that a cycle admitted; ``job`` None where the reader may not see it."""

    job: UUID | None
    name: str
    team: str
    wave: int
    units: int
    borrowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionDetail:
    """One cycle with what it admitted."""

    row: DecisionRow
    admitted: tuple[AdmittedRow, ...]
