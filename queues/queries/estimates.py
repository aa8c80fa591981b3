"""When waiting jobs are expected to start, as the last forecast told it, and how such forecasts held before."""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.db.models import Q, Sum

from queues.models import Forecast, ForecastScore
from queues.queries.rows.reasons import Estimate, Score
from queues.simulation.expected import Basis, Cause

BASES = {
    Basis.ROOM: "there is room for it now",
    Basis.TIME_LIMITS: "from time limits",
    Basis.RUN_TIMES: "from run times of finished jobs like those",
}
CAUSES = {
    Cause.NEVER: "it can never start as it is",
    Cause.PAUSED: "its queue or team is paused",
    Cause.BLOCKED: "no job that ends makes room for it",
    Cause.TOO_LATE: "it does not start within 7 days",
    Cause.TOO_FAR: "too much comes before it to tell",
}


def estimates(jobs: Mapping[int, int]) -> dict[int, Estimate]:
    """Return what was told of jobs, given with their classes, in one statement; of new ones nothing may be told yet."""
    if not jobs:
        return {}
    rows = Forecast.objects.filter(Q(job__in=jobs) | Q(job_class__in=set(jobs.values()))).order_by("id")
    of_job, of_class = {}, {}
    for row in rows:
        if row.job_id is not None:
            of_job[row.job_id] = row
        elif row.job_class_id is not None:
            of_class[row.job_class_id] = row
    told = {job: of_job.get(job) or of_class.get(job_class) for job, job_class in jobs.items()}
    return {job: _estimate(row) for job, row in told.items() if row is not None}


def _estimate(row: Forecast) -> Estimate:
    return Estimate(
        p50=row.p50_at,
        p90=row.p90_at,
        basis=row.basis,
        cause=row.cause,
        summary=summary(row.basis, row.cause, running=row.running, before=row.before),
        as_of=row.as_of,
    )


def summary(basis: str, cause: str, *, running: int = 0, before: int = 0) -> str:
    """Return on what a range rests, or why there is none, in words that go on a sentence."""
    if cause == Cause.ENDLESS:
        parts = [_limitless(running, "running", "")] if running else []
        parts += [_limitless(before, "waiting", " before it")] if before else []
        return " and ".join(parts)
    return CAUSES[Cause(cause)] if cause else BASES[Basis(basis)]


def _limitless(count: int, what: str, where: str) -> str:
    return f"1 {what} job{where} has no time limit" if count == 1 else f"{count} {what} jobs{where} have no time limit"


def scores(queues: Iterable[int]) -> dict[int, Score]:
    """Return how forecasts held, by queue; of one without any there is nothing."""
    sums = ForecastScore.objects.filter(queue__in=list(queues)).order_by().values("queue")
    rows = sums.annotate(Sum("forecasts"), Sum("until_p50"), Sum("until_p90"), Sum("width_seconds"))
    return {
        row["queue"]: Score(
            forecasts=row["forecasts__sum"],
            until_p50=row["until_p50__sum"],
            until_p90=row["until_p90__sum"],
            width=timedelta(seconds=row["width_seconds__sum"] // row["forecasts__sum"]),
        )
        for row in rows
        if row["forecasts__sum"]
    }
