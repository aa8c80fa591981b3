"""Jobs and their runs on the virtual clock."""

from dataclasses import dataclass, field
from enum import StrEnum

from queues.admission.world import Attempt, Milliseconds, Placed, Waiting
from queues.simulation.scenario import JobSpec


class State(StrEnum):
    """Where a job stands; admission and start are the same instant here."""

    QUEUED = "queued"
    HELD = "held"
    RUNNING = "running"
    EVICTING = "evicting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})


@dataclass(slots=True)
class Part:
    """What starts and ends together: a task of an independent job, else the whole job."""

    saved: Milliseconds = 0
    ran: Milliseconds = 0


@dataclass(slots=True)
class Run:
    """A part that holds units, or surplus tasks that leave (then without a part)."""

    id: int
    number: int
    job: "Job"
    part: Part | None
    flavors: tuple[int, ...]
    placed: tuple[Placed, ...]
    since: Milliseconds
    priority: int
    safe_until: Milliseconds
    ends: Milliseconds | None = None
    end_state: State = State.SUCCEEDED
    ends_by: Milliseconds | None = None
    surplus: tuple[Placed, ...] = ()
    grows_from: Milliseconds = 0
    saved_at: Milliseconds = 0
    leaving: bool = False
    gone_at: Milliseconds = 0
    claimed: bool = False
    then: State = State.QUEUED
    row: Attempt | None = None


@dataclass(slots=True)
class Job:
    """A job from submission to its end; ``place`` is its place in the order in which jobs began to wait."""

    id: int
    spec: JobSpec
    user: int
    submitted: Milliseconds
    wait_from: Milliseconds
    waiting: list[Part]
    runs: dict[int, Run] = field(default_factory=dict)
    held: bool = False
    ended: State | None = None
    failed_tasks: bool = False
    timed_out: bool = False
    closing: State | None = None
    evictions: int = 0
    idle: int = 0
    off_since: Milliseconds | None = None
    queued_since: Milliseconds = 0
    started: Milliseconds | None = None
    waited: Milliseconds = 0
    row: Waiting | None = None
    reason: str | None = None
    place: int = 0

    @property
    def name(self) -> str:
        """Return the name that the file gives it."""
        return self.spec.name

    @property
    def independent(self) -> bool:
        """Whether each task starts and ends alone."""
        return self.spec.shape == "independent"

    @property
    def state(self) -> State:
        """Return the one state that the job is in."""
        live = [run for run in self.runs.values() if not run.leaving]
        if live:
            return State.RUNNING
        if any(run.part is not None for run in self.runs.values()):
            return State.EVICTING
        if self.ended is not None:
            return self.ended
        return State.HELD if self.held else State.QUEUED

    def limit(self, time_limit: Milliseconds | None) -> Milliseconds | None:
        """Return what is left of the time limit for the part that has most left."""
        if time_limit is None or not self.waiting:
            return time_limit
        return max(0, time_limit - min(part.ran for part in self.waiting))
