"""What happened to a job: events, attempts, waves, tasks, and the lines that they wrote."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

# Codes of the failures that count against a job's retries.
OWN_FAILURES = frozenset({"TASK_FAILED", "TIMED_OUT"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """Something that happened to a job."""

    id: int
    at: datetime
    type: str
    actor: str
    summary: str
    details: dict[str, Any]
    job: UUID
    job_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """An admitted task on its node; ``meaning`` says in words how it ended, ``log_kept`` whether its last lines are."""

    index: int
    group: int
    node: str
    units: int
    state: str
    pod: str
    started_at: datetime | None
    saved_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    container: str
    reason: str
    message: str
    meaning: str
    log_kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRow:
    """The tasks that one decision admitted; ``surplus`` ones are beside the minimum of an elastic job."""

    uid: UUID
    number: int
    cycle: int
    state: str
    flavors: tuple[str, ...]
    units: int
    borrowed: bool
    surplus: bool
    admitted_at: datetime
    launched_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str
    error: str
    tasks: tuple[TaskRow, ...]
    tasks_left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """All waves since the job was last queued."""

    number: int
    waves: tuple[WaveRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLines:
    """The last lines of a task that failed; ``error`` says why there are none."""

    task: int
    lines: tuple[str, ...]
    cut: bool
    kept_at: datetime
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChoice:
    """A task whose log may be chosen."""

    task: int
    state: str
    exit_code: int | None
    node: str
