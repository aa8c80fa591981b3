"""Waves of which a cluster that is away was never told: nothing of them is there, so their jobs queue again at once."""

from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from queues import endings
from queues.admission.world import JobShape
from queues.models import Job, Wave
from queues.models.wave import Wish
from queues.progress import Trouble
from queues.states import TASK_HOLDING, JobState, TaskState, WaveState
from queues.steps import evict, record


def take_back(*, now: datetime) -> set[int]:
    """End what clusters that are away were not told of, at no cost; return the jobs, which may go elsewhere.

    What somebody tried to tell may have arrived: that stays unknown until the cluster answers.
    """
    rows = list(_untold().order_by("id").values_list("id", "job_id"))
    return {job_id for wave_id, job_id in rows if _take_back(wave_id, job_id, now)}


def _untold() -> QuerySet[Wave]:
    return Wave.objects.filter(
        cluster__away=True,
        state=WaveState.ADMITTED,
        wish=Wish.LAUNCH,
        wish_tries=0,
        launching_until=None,
        launched_at=None,
        seen_at=None,
    )


def _take_back(wave_id: int, job_id: int, now: datetime) -> bool:
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).get(id=job_id)
        wave = _untold().filter(id=wave_id).select_related("cluster").select_for_update(of=("self",)).first()
        if wave is None:
            return False
        code, text = Trouble.CLUSTER_UNREACHABLE, f"Cluster {wave.cluster.name} is away and was not told of it"
        held = wave.tasks.filter(state__in=TASK_HOLDING)
        tasks = held.update(state=TaskState.STOPPED, reason=code, message=text, ended_at=now)
        ended = {"state": WaveState.ENDED, "ended_at": now, "deadline_at": None, "outcome": code}
        Wave.objects.filter(id=wave_id).update(**ended, wish=Wish.STOP, wish_due_at=None)
        _let_wait(wave, job, tasks, text=text, now=now)
        endings.settle(job_id, now=now)
    return True


def _let_wait(wave: Wave, job: Job, tasks: int, *, text: str, now: datetime) -> None:
    code, details = Trouble.CLUSTER_UNREACHABLE, {"reason": Trouble.CLUSTER_UNREACHABLE, "wave": wave.number}
    if wave.surplus:
        endings.give_up_surplus(wave, job, code=code, text=text, now=now)
    elif job.shape == JobShape.INDEPENDENT:
        endings.again(job, tasks, now=now, own_failure=False)
        record(job.id, now=now, event="interrupted", summary=text, details=details)
    else:
        old, why = JobState(job.state), {"reason_code": code, "reason_text": text}
        evict(job.id, old, JobState.QUEUED, now=now, event="interrupted", summary=text, details=details, **why)
