"""The net under all steps: rows that contradict each other are put right within a minute, and logged as our fault.

No step leaves such rows; a fault of the program, or a hand in the database, could. Units would then be held for ever.
"""

import logging
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from queues import endings
from queues.models import Job, Task, Wave
from queues.states import HOLDING, TASK_HOLDING, JobState, WaveState
from queues.steps import stop_waves

log = logging.getLogger(__name__)

ON_CLUSTER = frozenset({JobState.ADMITTED, JobState.RUNNING, JobState.EVICTING})
ELSEWHERE = frozenset(JobState) - ON_CLUSTER
HELD = Task.objects.filter(wave__job=OuterRef("pk"), state__in=TASK_HOLDING)


def mend(*, now: datetime) -> set[int]:
    """Have waves go whose job waits or has ended, and move jobs on of which nothing holds; return those jobs."""
    holders = {job for job in _jobs(_forgotten()) if _give_back(job, now)}
    stuck = list(_stuck().order_by("id").values_list("id", flat=True))
    return holders | {job for job in stuck if _move_on(job, now)}


def _forgotten() -> QuerySet[Wave]:
    """Return waves that hold for a job that waits or has ended, and that nobody has told to go."""
    return Wave.objects.filter(state__in=HOLDING - {WaveState.EVICTING}, job__state__in=ELSEWHERE)


def _stuck() -> QuerySet[Job]:
    return Job.objects.filter(state__in=ON_CLUSTER).exclude(Exists(HELD))


def _jobs(waves: QuerySet[Wave]) -> list[int]:
    return sorted(set(waves.values_list("job_id", flat=True)))


def _give_back(job_id: int, now: datetime) -> bool:
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).get(id=job_id)
        if not _forgotten().filter(job=job).exists():
            return False
        log.error("job %s holds units although it is %s: its waves are told to go", job.uid, job.state)
        stop_waves(job_id, now=now)
    return True


def _move_on(job_id: int, now: datetime) -> bool:
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).get(id=job_id)
        if not _stuck().filter(id=job_id).exists():
            return False
        log.error("job %s is %s although nothing of it holds units: it moves on", job.uid, job.state)
        return endings.settle(job_id, now=now)
