"""Job states and the one table of allowed steps (SEMANTICS 9)."""

from enum import StrEnum


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    HELD = "held"
    ADMITTED = "admitted"
    RUNNING = "running"
    EVICTING = "evicting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class WaveState(StrEnum):
    """Where a wave stands; all but ``ended`` hold units."""

    ADMITTED = "admitted"
    RUNNING = "running"
    EVICTING = "evicting"
    ENDED = "ended"


class TaskState(StrEnum):
    """Where an admitted task stands; pending and running hold its units, and so does leaving until its pod is gone."""

    PENDING = "pending"
    RUNNING = "running"
    LEAVING = "leaving"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
ACTIVE = frozenset(JobState) - ENDED
HOLDING = frozenset({WaveState.ADMITTED, WaveState.RUNNING, WaveState.EVICTING})
TASK_HOLDING = frozenset({TaskState.PENDING, TaskState.RUNNING, TaskState.LEAVING})

STEPS: dict[JobState, frozenset[JobState]] = {
    # What people made may end by itself in the moment in which it is taken back.
    JobState.QUEUED: frozenset(
        {JobState.ADMITTED, JobState.HELD, JobState.CANCELLED, JobState.FAILED, JobState.SUCCEEDED}
    ),
    JobState.HELD: frozenset({JobState.QUEUED, JobState.CANCELLED, JobState.FAILED, JobState.SUCCEEDED}),
    JobState.ADMITTED: frozenset(
        {JobState.RUNNING, JobState.EVICTING, JobState.QUEUED, JobState.FAILED, JobState.SUCCEEDED, JobState.CANCELLED}
    ),
    JobState.RUNNING: frozenset(
        {JobState.EVICTING, JobState.QUEUED, JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}
    ),
    JobState.EVICTING: frozenset(
        {JobState.QUEUED, JobState.HELD, JobState.FAILED, JobState.CANCELLED, JobState.SUCCEEDED}
    ),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
}


def may_step(old: JobState, new: JobState) -> bool:
    """Return whether the table allows the step."""
    return new in STEPS[old]
