"""How much waits: units and jobs by team and flavor, those that can never start left out."""

from collections import defaultdict
from typing import NamedTuple

from django.db.models import Count, Sum

from queues.admission.world import Ask, JobShape
from queues.classes import ask_from_json
from queues.models import Job, JobClass, Verdict
from queues.states import JobState

STATES = [JobState.QUEUED, JobState.ADMITTED, JobState.RUNNING]


class Waits(NamedTuple):
    """Units that waiting tasks ask for, and how many jobs have some."""

    units: int = 0
    jobs: int = 0


def waiting() -> dict[tuple[int, int], Waits]:
    """Return what waits by team and first flavor of the wish."""
    never = Verdict.objects.filter(permanent=True, user=None).values("job_class")
    rows = list(
        Job.objects.filter(state__in=STATES, waiting_tasks__gt=0)
        .exclude(job_class__in=never)
        .order_by("job_class")
        .values_list("job_class_id", "team_id")
        .annotate(tasks=Sum("waiting_tasks"), jobs=Count("id"))
    )
    stored = JobClass.objects.filter(id__in={row[0] for row in rows}).values_list("id", "ask")
    asks = {number: ask_from_json(ask) for number, ask in stored}
    found: dict[tuple[int, int], Waits] = defaultdict(Waits)
    for job_class, team, tasks, jobs in rows:
        ask = asks[job_class]
        key = (team, ask.groups[0].flavors[0])
        before = found[key]
        found[key] = Waits(units=before.units + units_waiting(ask, tasks), jobs=before.jobs + jobs)
    return dict(found)


def units_waiting(ask: Ask, tasks: int) -> int:
    """Return the units of waiting tasks; of gangs ``tasks`` counts whole jobs."""
    if ask.shape is JobShape.INDEPENDENT:
        return tasks * ask.groups[0].units
    return tasks * sum(group.tasks * group.units for group in ask.groups)
