"""A job's life as phases: how long it waited, started and ran, and whose time that was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queues.states import ENDED
from queues.views.drawing import percent

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta

    from queues.queries.rows.history import AttemptRow, WaveRow
    from queues.queries.rows.jobs import JobDetail

LEAST = 0.012  # of the whole: a phase of a second stays visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of time with its length, whose it was, and its place on the bar."""

    title: str
    owner: str
    kind: str
    length: timedelta
    open: bool = False
    x: str = "0%"
    width: str = "0%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One attempt's phases."""

    number: int
    phases: tuple[Phase, ...]


def tracks(job: JobDetail, attempts: Iterable[AttemptRow], now: datetime) -> tuple[Track, ...]:
    """Return one line of phases an attempt, oldest first; the one that waits now has none but the queue."""
    found, begin = [], job.row.submitted_at
    ordered = sorted(attempts, key=lambda attempt: attempt.number)
    for attempt in ordered:
        waves = sorted(attempt.waves, key=lambda wave: wave.number)
        if waves:
            found.append(Track(number=attempt.number, phases=laid_out(phases(waves, begin, now))))
            begin = max((wave.ended_at or now for wave in waves), default=begin)
    waits = job.row.state not in ENDED and not any(track.number == job.row.attempt for track in found)
    if waits or not found:
        until = job.row.ended_at or now
        title, owner = ("held", "whoever held it") if job.row.state == "held" else waiting(job)
        kind = "held" if job.row.state == "held" else "queue"
        phase = Phase(title=title, owner=owner, kind=kind, length=until - begin, open=waits)
        found.append(Track(number=job.row.attempt, phases=laid_out([phase])))
    return tuple(found)


def waiting(job: JobDetail) -> tuple[str, str]:
    """Return what a job waits for in two words, and whose matter that is."""
    code = job.row.reason.code if job.row.reason else ""
    if code in {"TEAM_LIMIT", "BORROW_LIMIT", "LEND_LIMIT", "USER_LIMIT"}:
        return "in queue: quota", "your team's quota"
    if code in {"EXCEEDS_MAX", "EXCEEDS_NODE", "NO_MATCHING_NODE"}:
        return "in queue: cannot run", "you"
    if code == "BEHIND":
        return "in queue: order", "the queue's order"
    return "in queue", "platform"


def phases(waves: list[WaveRow], begin: datetime, now: datetime) -> list[Phase]:
    """Return the phases of an attempt from the first admission to the last end."""
    admitted = min(wave.admitted_at for wave in waves)
    started = min((wave.started_at for wave in waves if wave.started_at), default=None)
    ended = (
        None if any(wave.ended_at is None for wave in waves) else max(wave.ended_at for wave in waves if wave.ended_at)
    )
    until = ended or now
    found = [Phase(title="in queue", owner="the queue", kind="queue", length=admitted - begin)]
    length = (started or until) - admitted
    found.append(Phase(title="starting", owner="platform", kind="start", length=length, open=not (started or ended)))
    if started:
        found.append(Phase(title="running", owner="you", kind="run", length=until - started, open=ended is None))
    return found


def laid_out(found: list[Phase]) -> tuple[Phase, ...]:
    """Return the phases with their places on a bar of which they fill the whole."""
    sizes = [max(phase.length.total_seconds(), 0.0) for phase in found]
    least = max(sum(sizes), 1.0) * LEAST
    sizes = [max(size, least) for size in sizes]
    at, placed = 0.0, []
    for phase, size in zip(found, sizes, strict=True):
        place = {"x": percent(at, sum(sizes)), "width": percent(size, sum(sizes))}
        placed.append(
            Phase(title=phase.title, owner=phase.owner, kind=phase.kind, length=phase.length, open=phase.open, **place)
        )
        at += size
    return tuple(placed)
