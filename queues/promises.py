"""What is promised to waiting jobs from one cycle to the next: reserved units, planned starts, what they keep idle."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from queues.admission import world
from queues.admission.outcome import Outcome
from queues.admission.world import Ask, JobShape, Milliseconds, Placed, Standing, Victim
from queues.limits import time_left
from queues.models import Claim, Eviction, Hold, Idle, Job
from queues.states import ENDED, JobState
from queues.waiting import milliseconds, moment, span

MINUTE = timedelta(minutes=1)
MOST_RESTING = 1000
# Mostly nothing is promised: one small statement spares those that would find nothing. One row, for ``promised``.
# The newest held job is asked for, which an index tells; EXISTS would read all jobs in the hope to meet one soon.
THERE = """
SELECT EXISTS (SELECT FROM queues_claim), EXISTS (SELECT FROM queues_hold), EXISTS (SELECT FROM queues_idle),
    EXISTS (SELECT FROM queues_eviction WHERE at > %(minute_ago)s),
    (SELECT id FROM queues_job WHERE state = 'held' ORDER BY id DESC LIMIT 1) IS NOT NULL
        OR EXISTS (SELECT FROM queues_job WHERE backoff_until IS NOT NULL)
"""


class Promised(NamedTuple):
    """What is promised as of a snapshot; ``idle`` are the unit-milliseconds that waiting jobs have kept idle so far.

    ``resting`` are the classes of jobs that are held or back off.
    """

    claims: tuple[world.Claim, ...]
    holds: tuple[world.Hold, ...]
    idle: dict[int, int]
    evicted_at: tuple[Milliseconds, ...]
    resting: tuple[int, ...]


class There(NamedTuple):
    """Of what there are rows: the answer to ``THERE``."""

    claims: bool
    holds: bool
    idle: bool
    evictions: bool
    resting: bool


def promised(there: There, now: datetime) -> Promised:
    """Return what is promised to jobs that still wait, and which tasks were evicted within the last minute."""
    kept_idle = idle(now) if there.idle else {}
    return Promised(
        claims() if there.claims else (),
        holds(kept_idle) if there.holds else (),
        kept_idle,
        evicted_at(now) if there.evictions else (),
        resting() if there.resting else (),
    )


def _there(now: datetime) -> There:
    with connection.cursor() as cursor:
        cursor.execute(THERE, {"minute_ago": now - MINUTE})
        return There(*cursor.fetchone())


def claims() -> tuple[world.Claim, ...]:
    """Return the claims of jobs that still wait."""
    rows = Claim.objects.filter(job__ready=True).select_related("job__queue").defer("job__spec").order_by("id")
    return tuple(
        world.Claim(
            id=row.id,
            job=row.job_id,
            job_class=row.job.job_class_id,
            team=row.job.team_id,
            user=row.job.user_id,
            flavors=tuple(row.flavors),
            placed=_placed(row.placed),
            standing=Standing(row.standing),
            pending=tuple(_victim(victim) for victim in row.pending),
            length=_length(row.job),
        )
        for row in rows
    )


def holds(kept_idle: Mapping[int, Milliseconds]) -> tuple[world.Hold, ...]:
    """Return the planned starts of jobs that still wait, in their order, with what each has kept idle so far."""
    found = Hold.objects.filter(job__ready=True).select_related("job__queue").defer("job__spec")
    rows = found.order_by("rank", "job_id")
    return tuple(
        world.Hold(
            job=row.job_id,
            job_class=row.job.job_class_id,
            user=row.job.user_id,
            flavors=tuple(row.flavors),
            placed=_placed(row.placed),
            at=None if row.starts_at is None else milliseconds(row.starts_at),
            wait_from=milliseconds(row.job.wait_from),
            limit=_left(row.job),
            grace=span(row.job.grace + row.job.queue.start_limit),
            evictions=row.job.evictions,
            standing=Standing(row.standing),
            moved=row.moved,
            idle=kept_idle.get(row.job_id, 0),
        )
        for row in rows
    )


def idle(now: datetime) -> dict[int, int]:
    """Return the unit-milliseconds that waiting jobs have kept idle so far."""
    rows = Idle.objects.filter(job__ready=True).order_by("job_id")
    return {row.job_id: row.unit_ms + row.units * span(now - row.since) for row in rows}


def evicted_at(now: datetime) -> tuple[Milliseconds, ...]:
    """Return when tasks were evicted within the last minute, each time once for what counts as one eviction."""
    rows = Eviction.objects.filter(at__gt=now - MINUTE, surplus=False, claimant__isnull=False).order_by("id")
    found = rows.values_list("at", "tasks", "wave__job__shape")
    return tuple(
        milliseconds(at) for at, tasks, shape in found for _ in range(tasks if shape == JobShape.INDEPENDENT else 1)
    )


def resting() -> tuple[int, ...]:
    """Return the classes of jobs that are held or back off, of the newest so many of each."""
    held = Job.objects.filter(state=JobState.HELD).order_by("-id").values_list("job_class", flat=True)
    backing_off = Job.objects.filter(backoff_until__isnull=False).order_by("-id").values_list("job_class", flat=True)
    return tuple(sorted({*held[:MOST_RESTING], *backing_off[:MOST_RESTING]}))


def keep(outcome: Outcome, asks: Mapping[int, Ask], waiting: set[int], *, now: datetime) -> None:
    """Let the promises of a decision replace those before, for the jobs that are ``waiting`` or not known to have gone.

    Rows that stay as they are are not written.
    """
    there = _there(now)
    if there.claims or outcome.claims:
        _keep_claims([row for row in outcome.claims if row.job in waiting], asks, now)
    if there.holds or outcome.holds:
        _keep_holds([row for row in outcome.holds if row.job in waiting], asks, now)
    if there.idle or outcome.idle:
        _keep_idle(outcome, waiting, now)


def units(ask: Ask, placed: Iterable[Placed]) -> int:
    """Return the counted units of placed tasks."""
    return sum(row.tasks * ask.groups[row.group].units for row in placed)


def _keep_claims(wanted: Sequence[world.Claim], asks: Mapping[int, Ask], now: datetime) -> None:
    known = Claim.objects.in_bulk()
    rows = [
        Claim(
            id=row.id,
            job_id=row.job,
            standing=row.standing.value,
            flavors=list(row.flavors),
            placed=as_json(row.placed),
            pending=[[victim.attempt, victim.surplus, as_json(victim.placed)] for victim in row.pending],
            units=units(asks[row.job_class], row.placed),
            decided_at=known[row.id].decided_at if row.id in known else now,
        )
        for row in wanted
    ]
    fields = ["job_id", "standing", "flavors", "placed", "pending", "units"]
    changed = [row for row in rows if row.id not in known or _differs(row, known[row.id], fields)]
    gone = known.keys() - {row.id for row in rows}
    if gone:
        Claim.objects.filter(id__in=gone).delete()
    if changed:
        Claim.objects.bulk_create(
            changed,
            update_conflicts=True,
            unique_fields=["id"],
            update_fields=["job", *fields[1:], "decided_at"],
        )


def _keep_holds(wanted: Sequence[world.Hold], asks: Mapping[int, Ask], now: datetime) -> None:
    known = Hold.objects.in_bulk()
    rows = [
        Hold(
            job_id=row.job,
            rank=rank,
            standing=row.standing.value,
            flavors=list(row.flavors),
            placed=as_json(row.placed),
            units=units(asks[row.job_class], row.placed),
            starts_at=None if row.at is None else moment(row.at),
            moved=row.moved,
            since=known[row.job].since if row.job in known else now,
        )
        for rank, row in enumerate(wanted)
    ]
    fields = ["rank", "standing", "flavors", "placed", "units", "starts_at", "moved"]
    changed = [row for row in rows if row.job_id not in known or _differs(row, known[row.job_id], fields)]
    gone = known.keys() - {row.job_id for row in rows}
    if gone:
        Hold.objects.filter(job__in=gone).delete()
    if changed:
        Hold.objects.bulk_create(
            changed, update_conflicts=True, unique_fields=["job"], update_fields=[*fields, "since"]
        )


def _keep_idle(outcome: Outcome, waiting: set[int], now: datetime) -> None:
    """Note what is kept idle from now on; what has been so far stays added up until the job starts or ends."""
    known = Idle.objects.in_bulk()
    kept: dict[int, int] = {}
    for job, count in outcome.idle:
        kept[job] = kept.get(job, 0) + count
    over = {admission.job for admission in outcome.admissions}
    if known:
        over |= set(Idle.objects.filter(job__state__in=sorted(ENDED)).values_list("job_id", flat=True))
    rows = []
    for job in sorted((kept.keys() & waiting) | known.keys()):
        old = known.get(job)
        if job in over or (old is not None and old.units == kept.get(job, 0)):
            continue
        before = 0 if old is None else old.unit_ms + old.units * span(now - old.since)
        rows.append(Idle(job_id=job, unit_ms=before, units=kept.get(job, 0), since=now))
    gone = over & known.keys()
    if gone:
        Idle.objects.filter(job__in=gone).delete()
    if rows:
        Idle.objects.bulk_create(
            rows, update_conflicts=True, unique_fields=["job"], update_fields=["unit_ms", "units", "since"]
        )


def as_json(placed: Iterable[Placed]) -> list[list[int]]:
    """Return placed tasks as rows keep them."""
    return [[row.group, row.node, row.tasks] for row in placed]


def _placed(stored: Iterable[Sequence[int]]) -> tuple[Placed, ...]:
    return tuple(Placed(group=group, node=node, tasks=tasks) for group, node, tasks in stored)


def _victim(stored: Sequence[Any]) -> Victim:
    attempt, surplus, placed = stored
    return Victim(attempt=attempt, placed=_placed(placed), surplus=surplus)


def _length(job: Job) -> Milliseconds | None:
    """Return how long a job that is admitted holds units at most."""
    left = _left(job)
    return None if left is None else left + span(job.grace + job.queue.start_limit)


def _left(job: Job) -> Milliseconds | None:
    left = time_left(job)
    return None if left is None else span(left)


def _differs(row: Claim | Hold, old: Claim | Hold, fields: Iterable[str]) -> bool:
    return any(getattr(row, field) != getattr(old, field) for field in fields)
