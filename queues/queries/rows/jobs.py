"""A job, in a list and on its own page."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from queues.queries.rows.history import OWN_FAILURES
from queues.queries.rows.reasons import Estimate, Position, ReasonRow
from queues.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticRow:
    """An elastic job between its bounds: how many tasks run and start now, and what stops it from growing.

    ``grows_from``: it gave surplus back and does not grow before. ``summary`` says all in a sentence or two.
    """

    least: int
    most: int
    running: int
    starting: int
    grows_from: datetime | None
    stalled: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job in a list. ``units`` counts all its tasks, ``tasks_waiting`` those that wait.

    Of an elastic job ``tasks`` and ``units`` are its minimum.
    """

    id: int
    uid: UUID
    name: str
    team: str
    queue: str
    owner: str
    mine: bool
    shape: str
    tasks: int
    tasks_waiting: int
    units: int
    flavors: tuple[str, ...]
    priority: str
    state: str
    state_since: datetime
    attempt: int
    submitted_at: datetime
    wait_from: datetime
    started_at: datetime | None
    ended_at: datetime | None
    external_id: str | None
    labels: dict[str, str]
    reason: ReasonRow | None
    elastic: ElasticRow | None = None

    @property
    def shape_text(self) -> str:
        """Return the shape in words: ``4 x 8 h100, all together``."""
        each = self.units // self.tasks if self.tasks and self.units % self.tasks == 0 else None
        kind = "/".join(self.flavors)
        if self.elastic is not None:
            size = kind if each is None else f"{each} {kind}"
            return f"{self.elastic.least} to {self.elastic.most} x {size}, flexible"
        count = f"{self.tasks} x {each} {kind}" if each is not None else f"{self.tasks} tasks, {self.units} {kind}"
        return count if self.tasks == 1 else f"{count}, {'all together' if self.shape == 'gang' else 'separate tasks'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """A page of a list; ``older`` and ``newer`` are positions to go on from, ``count`` only where asked for."""

    rows: tuple[JobRow, ...]
    older: int | None = None
    newer: int | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A task group as asked for; CPU in thousandths of a core, memory in bytes, per task.

    ``most`` is how many tasks it may have at most where that is more than start together, else None.
    """

    name: str
    tasks: int
    most: int | None
    units: int
    flavors: tuple[str, ...]
    cpu_milli: int
    memory: int
    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """All of one job but its history. ``may`` names the actions that the reader may do now."""

    row: JobRow
    groups: tuple[GroupRow, ...]
    spec: dict[str, Any]
    time_limit: timedelta | None
    ran_for: timedelta
    ends_by: datetime | None
    grace: timedelta
    retries: int
    failures: int
    evictions: int
    interruptions: int
    borrow: bool
    preemptible: bool
    borrowed: bool
    next_state: str
    backoff_until: datetime | None
    cloned_from: UUID | None
    position: Position | None
    tasks_by_state: dict[str, int]
    may: frozenset[str] = frozenset()
    estimate: Estimate | None = None

    @property
    def retries_used(self) -> int:
        """How often the job started again after its own failure: the failure that ended it was followed by none."""
        code = self.row.reason.code if self.row.reason else ""
        last = self.row.state == JobState.FAILED and code in OWN_FAILURES
        return max(0, min(self.retries, self.failures - last))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """Kubernetes objects of a job; ``changed`` points to what Tidegate sets or takes out of one that people wrote."""

    objects: tuple[dict[str, Any], ...]
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRef:
    """A job by name; ``job`` is None where the reader may not see it, and name and team are then empty."""

    job: UUID | None = None
    name: str = ""
    team: str = ""
