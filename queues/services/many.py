"""The same verb for many jobs, with a result for each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from queues.models import Job
from queues.queries.filters import JobFilter
from queues.services import moving
from queues.states import ACTIVE, JobState
from tenants.errors import DomainError, Invalid, NotFound
from tenants.permissions import Actor

MOST = 1000

Verb = Callable[[UUID], Job]


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


def cancel_many(
    *, by: Actor, now: datetime, uids: Sequence[UUID] = (), wanted: JobFilter | None = None, dry_run: bool = False
) -> ManyDone:
    """Cancel the named jobs, or all active ones that a filter finds; ``dry_run`` only tells which."""

    def verb(uid: UUID) -> Job:
        return moving.cancel(uid=uid, by=by, now=now)

    return _each(verb, frozenset(ACTIVE), by=by, uids=uids, wanted=wanted, dry_run=dry_run)


def hold_many(
    *, by: Actor, now: datetime, uids: Sequence[UUID] = (), wanted: JobFilter | None = None, dry_run: bool = False
) -> ManyDone:
    """Hold the named jobs, or all queued ones that a filter finds; ``dry_run`` only tells which."""

    def verb(uid: UUID) -> Job:
        return moving.hold(uid=uid, by=by, now=now)

    return _each(verb, frozenset({JobState.QUEUED}), by=by, uids=uids, wanted=wanted, dry_run=dry_run)


def _each(
    verb: Verb,
    states: frozenset[JobState],
    *,
    by: Actor,
    uids: Sequence[UUID],
    wanted: JobFilter | None,
    dry_run: bool,
) -> ManyDone:
    if len(uids) > MOST:
        detail = f"at most {MOST} jobs can be named at once, not {len(uids)}"
        raise Invalid.field("/ids", detail, code="too_many", given=len(uids), allowed=[MOST])
    jobs = Job.objects.visible_to(by).select_related("team")
    if wanted is not None:
        # Newest first, so that what is left over for a second call is what has waited longest.
        found = wanted.apply(jobs, by).filter(state__in=sorted(states)).order_by("-id")
        matched, rows = found.count(), {job.uid: job for job in found[:MOST]}
        uids = list(rows)
    else:
        rows = {job.uid: job for job in jobs.filter(uid__in=uids)}
        matched = len(rows)
    results = tuple(_one(verb, uid, rows.get(uid), by=by, dry_run=dry_run) for uid in dict.fromkeys(uids))
    return ManyDone(results=results, matched=matched, dry_run=dry_run)


def _one(verb: Verb, uid: UUID, job: Job | None, *, by: Actor, dry_run: bool) -> Result:
    if job is None:
        return Result(uid=uid, name="", error=NotFound(f"There is no job {uid}."))
    try:
        moving.allowed(job, by)
        if not dry_run:
            verb(uid)
    except DomainError as error:
        return Result(uid=uid, name=job.name, error=error)
    return Result(uid=uid, name=job.name)
