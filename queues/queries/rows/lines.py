"""Queues, and the order in which jobs start."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from queues.queries.rows.jobs import JobRow
from queues.queries.rows.reasons import Estimate, Score


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRow:
    """A waiting job in the queue order; ``job`` is None where the reader may not see it."""

    rank: int | None
    units: int
    units_ahead: int
    starts_next: bool
    job: JobRow | None
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOrder:
    """One order across teams for a flavor; ``permanent`` holds those that can never run and take no rank."""

    flavor: str
    free: int
    rows: tuple[OrderRow, ...]
    permanent: tuple[OrderRow, ...]
    waiting_jobs: int
    waiting_units: int
    as_of: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue and its policy."""

    id: int
    team: str
    name: str
    order: str
    hold_after: timedelta
    default_time_limit: timedelta | None
    max_time_limit: timedelta | None
    max_grace: timedelta
    start_limit: timedelta
    start_retries: int
    per_user_limit: int | None
    max_priority: int | None
    preempt_within_team: str
    min_runtime: timedelta
    limit_needed_to_borrow: bool
    paused_at: datetime | None
    version: int
    waiting_jobs: int
    running_jobs: int
    may_edit: bool
    score: Score | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityRow:
    """A priority class."""

    name: str
    value: int
    preemptible: bool
    version: int
