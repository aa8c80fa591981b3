"""Until when a waiting job starts: its planned start, and the bound of SEMANTICS 7."""

from datetime import timedelta

from queues.admission.bound import Bound, bound
from queues.admission.world import Standing
from queues.models import Job
from queues.queries.rows.reasons import BoundRow
from queues.snapshot import Snapshot
from queues.waiting import moment, waiting_of

MOVED = {
    "earlier": "Its planned start moved: an earlier one was found.",
    "impossible": "Its planned start moved: what it was planned on is no longer possible.",
    "guaranteed": "Its planned start moved: a later one is inside the guarantee, and nobody may move that.",
}


def bound_of(job: Job, seen: Snapshot, flavor: int, kind: str) -> BoundRow | None:
    """Return the bound of a job on a flavor, ``kind`` by name, from an open snapshot.

    None where it does not wait, or can never start.
    """
    classes = {row.id for row in seen.world.classes}
    row = waiting_of(job)
    if not job.ready or row.job_class not in classes:
        return None
    hold = next((hold for hold in seen.world.holds if hold.job == job.id), None)
    found = bound(seen.world, seen.heads, row, flavor)
    if found is None:
        return None
    standing = Standing.GUARANTEED if found.guaranteed else Standing.BORROWER
    latest = None if found.latest is None else moment(found.latest)
    moved = hold.moved if hold else ""
    return BoundRow(
        standing=standing.value,
        planned_at=None if hold is None or hold.at is None else moment(hold.at),
        moved=moved,
        holds_from=moment(found.eligible),
        before=found.before,
        longest=timedelta(milliseconds=found.longest),
        latest=latest,
        cause=_cause(found),
        summary=" ".join(filter(None, (_summary(found, kind), MOVED.get(moved, "")))),
    )


def _cause(found: Bound) -> str:
    if not found.guaranteed:
        return "borrower"
    if found.many:
        return "many"
    return "endless" if found.endless else ""


def _summary(found: Bound, kind: str) -> str:
    if not found.guaranteed:
        return "It would borrow: a planned start is an estimate, which jobs inside their guarantee may move."
    if found.many:
        return f"More than {found.before} jobs hold before it: no latest start can be told."
    if found.endless:
        jobs = "1 job has" if found.endless == 1 else f"{found.endless} jobs have"
        return f"No latest start can be told: {jobs} no time limit on {kind}."
    before = "nobody holds" if not found.before else f"{found.before} hold{'s' * (found.before == 1)}"
    return f"Starts at the latest when {before} before it and nothing on {kind} runs longer than its limit."
