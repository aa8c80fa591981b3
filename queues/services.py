"""All that a person can do to jobs and queues: one function a verb, ``by`` whom, at ``now``.

Each is one transaction: permission, guarded change, event, audit row; the loop and pages are told on commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from queues.models import Job, PriorityClass, Queue
from queues.queries.filters import JobFilter
from tenants.errors import DomainError, Notice
from tenants.permissions import Actor


class IfExists(StrEnum):
    """What a submission does when its external_id is taken: give back that job, or fail even if that has ended."""

    ATTACH = "attach"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that is there now; ``created`` False and perhaps ``terminal`` where external_id had been used before."""

    job: Job
    created: bool = True
    terminal: bool = False
    warnings: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one job of many: done, or the error in its way."""

    uid: UUID
    name: str
    error: DomainError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyDone:
    """What a verb did, or (``dry_run``) would do, to many jobs."""

    results: tuple[Result, ...]
    dry_run: bool


def submit(*, spec: object, by: Actor, now: datetime, if_exists: IfExists | None = None) -> Submitted:
    """Queue a job from a compact spec (parsed JSON or YAML); Invalid names every wrong field."""
    raise NotImplementedError


def submit_batch(
    *, specs: Sequence[object], by: Actor, now: datetime, if_exists: IfExists | None = None
) -> tuple[Submitted | DomainError, ...]:
    """Queue up to 500 jobs in few statements; an item's error does not stop the others."""
    raise NotImplementedError


def cancel(*, uid: UUID, by: Actor, now: datetime) -> Job:
    """End a job: at once where it waits, else when its pods are gone. Cancelling again changes nothing."""
    raise NotImplementedError


def hold(*, uid: UUID, by: Actor, now: datetime) -> Job:
    """Keep a waiting job from starting until it is released; Conflict when it has started."""
    raise NotImplementedError


def release(*, uid: UUID, by: Actor, now: datetime) -> Job:
    """Let a held job wait again; the time in which it was held does not count as waiting."""
    raise NotImplementedError


def rerun(*, uid: UUID, by: Actor, now: datetime) -> Submitted:
    """Queue a job with the same spec, owned by whom asks."""
    raise NotImplementedError


def change_priority(*, uid: UUID, priority: str, by: Actor, now: datetime) -> Job:
    """Give a waiting job another priority class; it keeps its waiting time."""
    raise NotImplementedError


def change_labels(*, uid: UUID, labels: Mapping[str, str], by: Actor, now: datetime) -> Job:
    """Replace a job's labels; nothing else about it changes."""
    raise NotImplementedError


def cancel_many(
    *, by: Actor, now: datetime, uids: Sequence[UUID] = (), wanted: JobFilter | None = None, dry_run: bool = False
) -> ManyDone:
    """Cancel the named jobs, or all active ones that a filter finds; ``dry_run`` only tells which."""
    raise NotImplementedError


def create_queue(
    *, team: str, name: str, by: Actor, now: datetime, policy: Mapping[str, object] | None = None
) -> Queue:
    """Make a queue in a team, with the default policy but for what ``policy`` says."""
    raise NotImplementedError


def change_queue(
    *, team: str, name: str, policy: Mapping[str, object], version: int, by: Actor, now: datetime
) -> Queue:
    """Change what ``policy`` names of a queue (``paused`` too); Stale when ``version`` is not the current one."""
    raise NotImplementedError


def set_priority_class(
    *, name: str, value: int, preemptible: bool = True, version: int | None, by: Actor, now: datetime
) -> PriorityClass:
    """Make (``version`` None) or change a priority class; waiting jobs of a changed value move with it."""
    raise NotImplementedError
