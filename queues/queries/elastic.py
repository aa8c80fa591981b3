"""What elastic jobs have now between their bounds, and what stops them from growing."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.db.models import Count

from queues import wording
from queues.admission.world import JobShape
from queues.models import Job, Task, TaskGroup, Wave
from queues.queries.rows.jobs import ElasticRow
from queues.states import HOLDING, TaskState


def elastic_rows(page: Iterable[Job], groups: Mapping[int, Sequence[TaskGroup]]) -> dict[int, ElasticRow]:
    """Return the bounds of the elastic jobs among some, by job; two statements where there are any."""
    ids = [job.id for job in page if job.shape == JobShape.ELASTIC]
    if not ids:
        return {}
    counts: dict[tuple[int, str], int] = defaultdict(int)
    there = Task.objects.filter(wave__job__in=ids, state__in=[TaskState.PENDING, TaskState.RUNNING])
    for job, state, count in there.values_list("wave__job", "state").annotate(Count("id")).order_by():
        counts[job, state] = count
    bases = Wave.objects.filter(job__in=ids, base__isnull=True, state__in=sorted(HOLDING)).order_by("id")
    kept = {job: (at, code) for job, at, code in bases.values_list("job_id", "grows_from", "stalled")}
    return {job: _row(groups[job], job, counts, *kept.get(job, (None, ""))) for job in ids}


def _row(
    groups: Sequence[TaskGroup],
    job: int,
    counts: Mapping[tuple[int, str], int],
    grows_from: datetime | None,
    stalled: str,
) -> ElasticRow:
    return bounds(
        sum(group.tasks for group in groups),
        sum(group.most or group.tasks for group in groups),
        running=counts[job, TaskState.RUNNING],
        starting=counts[job, TaskState.PENDING],
        grows_from=grows_from,
        stalled=stalled,
    )


def bounds(
    least: int,
    most: int,
    *,
    running: int = 0,
    starting: int = 0,
    grows_from: datetime | None = None,
    stalled: str = "",
) -> ElasticRow:
    """Return a job between its bounds; by itself one of which nothing runs."""
    return ElasticRow(
        least=least,
        most=most,
        running=running,
        starting=starting,
        grows_from=grows_from,
        stalled=stalled,
        summary=wording.growth(least, most, running, starting, grows_from, stalled),
    )
