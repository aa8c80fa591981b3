"""Claims that others took over: told on both sides, and in the audit. The other side is named to who may see it."""

from collections.abc import Collection, Iterable
from datetime import datetime

from queues import recalls
from queues.admission.outcome import Takeover
from queues.evictions import ANOTHER
from queues.models import Job, JobEvent


def tell(takeovers: Iterable[Takeover], waiting: Collection[int], *, now: datetime) -> None:
    """Tell whose reserved units are somebody else's now: where both still wait, or did when they were decided upon."""
    rows = [row for row in takeovers if row.by in waiting]
    if not rows:
        return
    ids = {job for row in rows for job in (row.job, row.by)}
    jobs = Job.objects.filter(id__in=ids).only("id", "uid", "name", "team_id", "ready").in_bulk()
    stood = [row for row in rows if row.job in jobs and jobs[row.job].ready]
    JobEvent.objects.bulk_create(
        event for row in stood for event in (_told_loser(row, jobs, now), _told_taker(row, jobs, now))
    )
    recalls.audit_takeovers([(jobs[row.job], jobs[row.by], row) for row in stood], now=now)


def _told_loser(row: Takeover, jobs: dict[int, Job], now: datetime) -> JobEvent:
    return JobEvent(
        job_id=row.job,
        at=now,
        type="claim_taken_over",
        summary=f"Claim taken over by {ANOTHER}: {_units(row)} reserved for this job go to it by its better right",
        details={"claimant": str(jobs[row.by].uid), "claim": row.claim, "units": row.units},
    )


def _told_taker(row: Takeover, jobs: dict[int, Job], now: datetime) -> JobEvent:
    return JobEvent(
        job_id=row.by,
        at=now,
        type="takes_over",
        summary=f"Takes over {_units(row)} that {'were' if row.units != 1 else 'was'} reserved",
        details={
            "claim": row.claim,
            "units": row.units,
            "victims": [{"job": str(jobs[row.job].uid), "units": row.units}],
        },
    )


def _units(row: Takeover) -> str:
    return f"{row.units} GPU{'s' * (row.units != 1)}"
