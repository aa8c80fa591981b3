"""Forecasts of the live system: read once, run the rules forward, write down what comes of it and how it was before.

Nothing here decides anything: a forecast that is lost or late costs an estimate.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import chain

from django.db import connection, transaction
from django.db.models import F, Max, Min, OuterRef, Q, Subquery

from queues import growth, hints, snapshot
from queues.admission.world import JobClass, Milliseconds, Waiting
from queues.classes import ask_from_json
from queues.models import Forecast, ForecastScore, Job, Queue, Wave
from queues.models import JobClass as StoredClass
from queues.simulation import forecast as future
from queues.simulation.expected import ENOUGH, Cause, Expected, Present, Unknown
from queues.snapshot import Snapshot
from queues.waiting import moment, span, waiting_of

LOCK = 0xF0CA57  # any number that nothing else in the database locks
MOST_ROWS = 5000
LAST_FINISHED = 200

# Of each class the run times of the last jobs of the same queue and shape that have finished, whatever their priority.
_LENGTHS = """
SELECT wanted.id, array_agg(ran.ms ORDER BY ran.ms)
FROM unnest(%s::bigint[]) AS wanted (id)
JOIN queues_jobclass own ON own.id = wanted.id
JOIN queues_jobclass class ON class.queue_id = own.queue_id AND class.digest = own.digest
CROSS JOIN LATERAL (
    SELECT id FROM queues_job WHERE job_class_id = class.id AND state IN ('failed', 'succeeded')
    ORDER BY id DESC LIMIT %s
) job
CROSS JOIN LATERAL (
    SELECT (extract(epoch FROM ended_at - started_at) * 1000)::bigint AS ms FROM queues_wave
    WHERE job_id = job.id AND base_id IS NULL AND started_at IS NOT NULL AND ended_at IS NOT NULL
    ORDER BY number DESC LIMIT 1
) ran
GROUP BY wanted.id HAVING count(*) >= %s
"""

GoOn = Callable[[], bool]


def forecast(now: datetime, *, go_on: GoOn = lambda: True) -> int:
    """Tell again when waiting jobs start, as far as ``go_on`` lets it; return how many starts could be told."""
    with snapshot.load(now) as seen:
        present = present_of(seen)
    found = future.Forecast(present)
    found.run(go_on)
    with transaction.atomic():
        if not _alone_and_newest(now):
            return 0
        _score()
        told = _write(found, present, now)
        hints.tell_pages("queue")
    return told


def present_of(seen: Snapshot) -> Present:
    """Return what a forecast starts from, in five statements whatever waits; the snapshot must be open."""
    world, heads = seen
    pairs = sum(len(heads.users(row.id)) for row in world.classes)
    each = max(1, MOST_ROWS // max(1, pairs))
    waiting, cut = _listed(heads.first(each + 1), each)
    queues = dict(Queue.objects.order_by("id").values_list("id", "start_limit"))
    running = {row.id: row for row in _running({attempt.job for attempt in world.attempts})}
    classes = {row.id: row for row in world.classes}
    missing = {row.job_class for row in running.values()} - classes.keys()
    classes |= {row.id: row for row in _classes(missing)}
    return Present(
        world=world,
        waiting=waiting,
        classes=classes,
        running=running,
        cut=cut,
        lengths=_lengths(classes),
        start_limits={queue: span(limit) for queue, limit in queues.items()},
        elastic_pause=span(growth.pause()),
    )


def _listed(rows: Iterable[Waiting], each: int) -> tuple[tuple[Waiting, ...], frozenset[tuple[int, int]]]:
    """Return the first ``each`` jobs of every user of every class, and of whom there are more."""
    lines: dict[tuple[int, int], list[Waiting]] = defaultdict(list)
    for row in rows:
        lines[row.job_class, row.user].append(row)
    cut = frozenset(key for key, line in lines.items() if len(line) > each)
    return tuple(chain.from_iterable(line[:each] for line in lines.values())), cut


def _running(jobs: Iterable[int]) -> Iterator[Waiting]:
    """Yield running jobs as they would wait again."""
    for job in Job.objects.filter(id__in=list(jobs)).defer("spec", "labels").order_by("id"):
        yield replace(waiting_of(job), tasks=1)


def _classes(ids: Iterable[int]) -> Iterator[JobClass]:
    rows = StoredClass.objects.filter(id__in=list(ids)).order_by("id")
    for pk, queue, priority, ask in rows.values_list("id", "queue_id", "priority", "ask"):
        yield JobClass(id=pk, queue=queue, priority=priority, ask=ask_from_json(ask))


def _lengths(classes: Iterable[int]) -> dict[int, tuple[Milliseconds, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(_LENGTHS, [sorted(classes), LAST_FINISHED, ENOUGH])
        return {job_class: tuple(lengths) for job_class, lengths in cursor.fetchall()}


def _alone_and_newest(now: datetime) -> bool:
    """Return whether nobody else writes forecasts, and none is newer; the lock goes with the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
        if not cursor.fetchone()[0]:
            return False
    newest = Forecast.objects.aggregate(newest=Max("as_of"))["newest"]
    return newest is None or newest <= now


# --- what is written


def _write(found: future.Forecast, present: Present, now: datetime) -> int:
    """Replace all forecasts; what was told first of a job that still waits stays."""
    starts = found.starts()
    starts = {row.id: starts[row.id] for row in present.waiting if row.id in starts}
    # A class of which all jobs are told has no cause to name.
    left = {row.job_class for row in present.waiting if row.id not in starts} | {row for row, _ in present.cut}
    others = {job_class: found.unknown(job_class) for job_class in sorted(left)}
    Forecast.objects.filter(~Q(job_class__in=list(others)), job_class__isnull=False).delete()
    Forecast.objects.filter(job__ready=False).delete()
    firsts = {row.job_id: row for row in Forecast.objects.filter(job__isnull=False).select_related("job")}
    rows = [_of_job(job, start, firsts.get(job), now) for job, start in starts.items()]
    gone = [row for job, row in firsts.items() if job not in starts]
    rows += [_not_told(row, others.get(row.job.job_class_id) if row.job else None, now) for row in gone]
    _upsert(rows, "job")
    _upsert([_of_class(job_class, why, now) for job_class, why in others.items()], "job_class")
    return len(starts)


def _of_job(job: int, start: Expected, first: Forecast | None, now: datetime) -> Forecast:
    p50, p90 = moment(start.p50), moment(start.p90)
    known = first is not None and first.first_p90_at is not None
    return Forecast(
        job_id=job,
        p50_at=p50,
        p90_at=p90,
        basis=start.basis,
        as_of=now,
        first_p50_at=first.first_p50_at if first and known else p50,
        first_p90_at=first.first_p90_at if first and known else p90,
        first_as_of=first.first_as_of if first and known else now,
    )


def _not_told(row: Forecast, why: Unknown | None, now: datetime) -> Forecast:
    """Return the forecast of a job whose start can be told no longer; what was told first is judged all the same."""
    why = why or Unknown(cause=Cause.TOO_FAR)
    return Forecast(
        job_id=row.job_id,
        cause=why.cause,
        running=why.running,
        before=why.before,
        as_of=now,
        first_p50_at=row.first_p50_at,
        first_p90_at=row.first_p90_at,
        first_as_of=row.first_as_of,
    )


def _of_class(job_class: int, why: Unknown, now: datetime) -> Forecast:
    return Forecast(
        job_class_id=job_class, cause=why.cause, running=why.running, before=why.before, as_of=now, first_as_of=now
    )


def _upsert(rows: list[Forecast], of: str) -> None:
    fields = ["p50_at", "p90_at", "basis", "cause", "running", "before", "as_of"]
    fields += ["first_p50_at", "first_p90_at", "first_as_of"]
    Forecast.objects.bulk_create(rows, batch_size=1000, update_conflicts=True, unique_fields=[of], update_fields=fields)


# --- how it was before


@dataclass(slots=True)
class _Tally:
    forecasts: int = 0
    until_p50: int = 0
    until_p90: int = 0
    width: timedelta = timedelta()


def _score() -> None:
    """Judge what was told first of jobs that have started since, and forget it."""
    start = Wave.objects.filter(job=OuterRef("job"), admitted_at__gte=OuterRef("first_as_of")).order_by()
    begun = start.values("job").annotate(at=Min("admitted_at")).values("at")
    rows = Forecast.objects.filter(job__isnull=False).annotate(begun=Subquery(begun)).filter(begun__isnull=False)
    tallies: dict[tuple[int, date], _Tally] = defaultdict(_Tally)
    done = []
    for pk, queue, p50, p90, at in rows.values_list("id", "job__queue", "first_p50_at", "first_p90_at", "begun"):
        done.append(pk)
        if p50 is not None and p90 is not None:
            tally = tallies[queue, at.date()]
            tally.forecasts += 1
            tally.until_p50 += at <= p50
            tally.until_p90 += at <= p90
            tally.width += p90 - p50
    for (queue, day), tally in tallies.items():
        score, _ = ForecastScore.objects.get_or_create(queue_id=queue, day=day)
        ForecastScore.objects.filter(id=score.id).update(
            forecasts=F("forecasts") + tally.forecasts,
            until_p50=F("until_p50") + tally.until_p50,
            until_p90=F("until_p90") + tally.until_p90,
            width_seconds=F("width_seconds") + tally.width // timedelta(seconds=1),
        )
    Forecast.objects.filter(id__in=done).delete()
