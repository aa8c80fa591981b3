"""How long a wave may take: to start, to run, and to back off after a start that failed (SEMANTICS 9)."""

from datetime import datetime, timedelta

from queues import waiting
from queues.models import Job, Wave

FIRST_BACK_OFF = timedelta(seconds=60)
LONGEST_BACK_OFF = timedelta(hours=1)


def back_off(failures: int) -> timedelta:
    """Return the pause after so many (at least 1) failed starts: 60 s, 120 s, 240 s … at most an hour."""
    doublings = min(failures - 1, 16)
    return min(FIRST_BACK_OFF * (1 << doublings), LONGEST_BACK_OFF)


def time_left(job: Job) -> timedelta | None:
    """Return how long a wave of the job may run from its start."""
    return waiting.time_left(job.time_limit, job.ran_for, job.shape)


def start_ends_at(wave: Wave) -> datetime:
    """Return until when all tasks of the wave must have started."""
    return max(wave.admitted_at, wave.launched_at or wave.admitted_at) + wave.job.queue.start_limit


def run_ends_at(wave: Wave) -> datetime | None:
    """Return until when a wave that has started may run."""
    return run_ends(wave.started_at, time_left(wave.job))


def run_ends(started: datetime | None, left: timedelta | None) -> datetime | None:
    """Return until when what started then may run, of what it had left at its start; None where that is not known."""
    return None if left is None or started is None else started + left


def deadline(wave: Wave, *, starting: bool) -> datetime | None:
    """Return the next moment at which time is up for a wave; ``starting`` while some of its tasks have not started."""
    ends = run_ends_at(wave)
    if not starting:
        return ends
    return start_ends_at(wave) if ends is None else min(ends, start_ends_at(wave))
