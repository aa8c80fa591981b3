"""The same verb for many jobs, with a result for each; those that wait are moved together, in few statements."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from queues import audit, steps
from queues.models import Job, JobEvent
from queues.queries.filters import JobFilter
from queues.services import moving
from queues.states import ACTIVE, STEPS, JobState
from tenants.errors import DomainError, Invalid, NotAllowed, NotFound
from tenants.permissions import Actor, Permission, visible_teams

MOST = 1000
TOGETHER = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one job of many: done, or the error in its way."""

    uid: UUID
    name: str
    error: DomainError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyDone:
    """What a verb did, or (``dry_run``) would do, to many jobs; ``matched`` counts also those beyond the limit."""

    results: tuple[Result, ...]
    matched: int
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verb:
    """What to do: for one job, and for waiting ones together."""

    one: Callable[[UUID], Job]
    wanted: frozenset[JobState]
    waiting: frozenset[JobState]
    to: JobState
    action: str
    summary: str
    changes: Mapping[str, Any]


def cancel_many(
    *, by: Actor, now: datetime, uids: Sequence[UUID] = (), wanted: JobFilter | None = None, dry_run: bool = False
) -> ManyDone:
    """Cancel the named jobs, or all active ones that a filter finds; ``dry_run`` only tells which."""
    verb = _Verb(
        one=lambda uid: moving.cancel(uid=uid, by=by, now=now),
        wanted=ACTIVE,
        waiting=frozenset({JobState.QUEUED, JobState.HELD}),
        to=JobState.CANCELLED,
        action="job.cancel",
        summary=f"Cancelled by {by.name} before it started",
        changes={"ended_at": now, "waiting_tasks": 0, "ready": False, "backoff_until": None},
    )
    return _each(verb, by=by, now=now, uids=uids, wanted=wanted, dry_run=dry_run)


def hold_many(
    *, by: Actor, now: datetime, uids: Sequence[UUID] = (), wanted: JobFilter | None = None, dry_run: bool = False
) -> ManyDone:
    """Hold the named jobs, or all queued ones that a filter finds; ``dry_run`` only tells which."""
    verb = _Verb(
        one=lambda uid: moving.hold(uid=uid, by=by, now=now),
        wanted=frozenset({JobState.QUEUED}),
        waiting=frozenset({JobState.QUEUED}),
        to=JobState.HELD,
        action="job.hold",
        summary=f"Held by {by.name}",
        changes=steps.waits_no_more(now),
    )
    return _each(verb, by=by, now=now, uids=uids, wanted=wanted, dry_run=dry_run)


def _each(
    verb: _Verb, *, by: Actor, now: datetime, uids: Sequence[UUID], wanted: JobFilter | None, dry_run: bool
) -> ManyDone:
    if len(uids) > MOST:
        detail = f"at most {MOST} jobs can be named at once, not {len(uids)}"
        raise Invalid.field("/ids", detail, code="too_many", given=len(uids), allowed=[MOST])
    rows, matched = _found(verb, by, uids, wanted)
    may = _may(by)
    named = list(rows) if wanted is not None else list(dict.fromkeys(uids))
    errors: dict[UUID, DomainError] = {uid: NotFound(f"There is no job {uid}.") for uid in named if uid not in rows}
    for uid, job in rows.items():
        if not may(job):
            errors[uid] = NotAllowed(f"You may not change jobs of others in team {job.team.name}.")
    if not dry_run:
        jobs = [job for uid, job in rows.items() if uid not in errors]
        moved = _together(verb, [job for job in jobs if job.state in verb.waiting], by=by, now=now)
        errors |= _one_by_one(verb, [job.uid for job in jobs if job.id not in moved])
    results = (Result(uid=uid, name=rows[uid].name if uid in rows else "", error=errors.get(uid)) for uid in named)
    return ManyDone(results=tuple(results), matched=matched, dry_run=dry_run)


def _found(verb: _Verb, by: Actor, uids: Sequence[UUID], wanted: JobFilter | None) -> tuple[dict[UUID, Job], int]:
    """Return the visible jobs, and how many there are; of a filter the newest, as many as one call takes."""
    jobs = Job.objects.visible_to(by).select_related("team").defer("spec")
    if wanted is None:
        rows = {job.uid: job for job in jobs.filter(uid__in=uids)}
        return rows, len(rows)
    found = wanted.apply(jobs, by).filter(state__in=sorted(verb.wanted)).order_by("-id")
    return {job.uid: job for job in found[:MOST]}, found.count()


def _may(by: Actor) -> Callable[[Job], bool]:
    """Return the test whether somebody may change a job, with the teams looked up once."""
    own, others = (
        frozenset(visible_teams(by, permission).values_list("id", flat=True))
        for permission in (Permission.CHANGE_OWN_JOB, Permission.CHANGE_ANY_JOB)
    )
    return lambda job: job.team_id in (own if job.user_id == by.user.pk else others)


def _together(verb: _Verb, jobs: Sequence[Job], *, by: Actor, now: datetime) -> set[int]:
    """Move waiting jobs, some hundred at a time; return which: one that somebody has at this moment is left out."""
    moved: set[int] = set()
    for state in sorted(verb.waiting):
        if verb.to not in STEPS[state]:
            raise steps.StepNotAllowed(f"{state} → {verb.to}")
        some = [job for job in jobs if job.state == state]
        for begin in range(0, len(some), TOGETHER):
            with transaction.atomic():
                moved |= _move(verb, state, some[begin : begin + TOGETHER], by=by, now=now)
    return moved


def _move(verb: _Verb, state: JobState, jobs: Sequence[Job], *, by: Actor, now: datetime) -> set[int]:
    standing = Job.objects.filter(id__in=[job.id for job in jobs], state=state).order_by("id")
    ids = set(standing.select_for_update(of=("self",), skip_locked=True).values_list("id", flat=True))
    Job.objects.filter(id__in=ids, state=state).update(state=verb.to, state_since=now, next_state="", **verb.changes)
    moved = [job for job in jobs if job.id in ids]
    event = "cancelled" if verb.to is JobState.CANCELLED else "held"
    JobEvent.objects.bulk_create(
        JobEvent(job_id=job.id, at=now, type=event, actor=by.name, summary=verb.summary) for job in moved
    )
    for job in moved:
        if job.user_id != by.user.pk:
            audit.of_job(verb.action, job, by=by, now=now, before={"state": state}, after={"state": verb.to})
    _tell(moved)
    return ids


def _tell(jobs: Sequence[Job]) -> None:
    for job in {job.team_id: job for job in jobs}.values():
        moving.tell(job)


def _one_by_one(verb: _Verb, uids: Iterable[UUID]) -> dict[UUID, DomainError]:
    errors: dict[UUID, DomainError] = {}
    for uid in uids:
        try:
            verb.one(uid)
        except DomainError as error:
            errors[uid] = error
    return errors
