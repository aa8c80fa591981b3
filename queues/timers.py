"""What falls due with time alone: back-offs that end, waves that do not start, run too long, or do not go."""

from datetime import datetime, timedelta

from django.db import transaction

from queues import endings
from queues.admission.world import JobShape
from queues.limits import run_ends_at, start_ends_at
from queues.models import Job, Task, Wave
from queues.models.wave import Wish
from queues.progress import Trouble
from queues.states import HOLDING, JobState, TaskState, WaveState
from queues.steps import evict, record, stop_waves, waits_again

# When a wave is looked at again about which nothing can be said now.
LATER = timedelta(seconds=60)


def fire(now: datetime) -> int:
    """Do all that is due at ``now``; return how many jobs and waves it concerned."""
    return _end_back_offs(now) + sum(_time_is_up(wave, now) for wave in _due(now))


def _end_back_offs(now: datetime) -> int:
    """Let jobs wait again whose pause is over; its time does not count as waiting."""
    over = Job.objects.filter(backoff_until__lte=now, state__in=[JobState.QUEUED, JobState.ADMITTED, JobState.RUNNING])
    if not over.exists():
        return 0
    waiting = over.filter(waiting_tasks__gt=0).update(**waits_again(now), reason_code="", reason_text="")
    return waiting + over.update(backoff_until=None)


def _due(now: datetime) -> list[int]:
    due = Wave.objects.filter(deadline_at__lte=now, state__in=HOLDING).order_by("deadline_at", "id")
    return list(due.values_list("id", flat=True))


def _time_is_up(wave_id: int, now: datetime) -> bool:
    with transaction.atomic():
        job_id = Wave.objects.values_list("job_id", flat=True).get(id=wave_id)
        job = Job.objects.select_for_update(of=("self",)).select_related("queue").get(id=job_id)
        wave = Wave.objects.select_related("cluster").get(id=wave_id)
        if wave.state == WaveState.ENDED or wave.deadline_at is None or wave.deadline_at > now:
            return False
        wave.job = job
        later = _answer(wave, job, now)
        if later is not wave.deadline_at:
            Wave.objects.filter(id=wave.id, deadline_at=wave.deadline_at).update(deadline_at=later)
        return True


def _answer(wave: Wave, job: Job, now: datetime) -> datetime | None:
    """Do what a wave's deadline asks for; return the deadline that follows."""
    if wave.state == WaveState.EVICTING:
        # Told once more, and firmly: an evicting wave without a deadline gets no grace.
        Wave.objects.filter(id=wave.id).update(wish=Wish.STOP, wish_due_at=now)
        return None
    if wave.cluster.unreachable_since is not None:
        return now + LATER
    ends = run_ends_at(wave)
    if ends is not None and ends <= now:
        _time_out(wave, job, now)
        return wave.deadline_at
    starting = Task.objects.filter(wave=wave, state=TaskState.PENDING).exists()
    if not starting:
        return ends
    if start_ends_at(wave) > now:
        return start_ends_at(wave)
    # Surplus is soft: it goes whole before a part of it holds units that it cannot use.
    alone = job.shape == JobShape.INDEPENDENT
    if alone and Task.objects.filter(wave=wave, state=TaskState.RUNNING).exists():
        _give_up_part(wave, job, now)
        return now + LATER
    _give_up(wave, job, now)
    return wave.deadline_at


def _time_out(wave: Wave, job: Job, now: datetime) -> None:
    """Stop what ran longer than it may: the whole job, of an independent one this wave's tasks."""
    text = f"Ran longer than its time limit of {job.time_limit}"
    details = {"wave": wave.number, "attempt": job.attempt}
    if job.shape == JobShape.INDEPENDENT:
        stop_waves(job.id, now=now, wave_id=wave.id, reason=Trouble.TIMED_OUT, message=text)
        record(job.id, now=now, event="timed_out", summary=text, details=details)
        return
    evict(
        job.id,
        JobState(job.state),
        JobState.FAILED,
        now=now,
        event="timed_out",
        summary=text,
        details=details,
        reason_code=Trouble.TIMED_OUT,
        reason_text=text,
    )


def _give_up(wave: Wave, job: Job, now: datetime) -> None:
    """End the start of a wave; that the cluster could not be told is not the job's fault."""
    if wave.launched_at is None and wave.seen_at is None:
        text = f"The cluster could not be told: {wave.wish_error or 'no worker has tried'}"
        endings.fail_start(wave, job, code=Trouble.CLUSTER_UNREACHABLE, text=text, now=now, counts=False)
        return
    endings.fail_start(wave, job, code=Trouble.START_FAILED, text=_late(job), now=now, counts=True)


def _give_up_part(wave: Wave, job: Job, now: datetime) -> None:
    """End the start of those tasks whose pods are there and do not run, while others do.

    What has no pod cannot be told to go: it is looked at again.
    """
    stuck = list(Task.objects.filter(wave=wave, state=TaskState.PENDING).exclude(pod="").order_by("id"))
    if stuck:
        code = Trouble.START_FAILED
        endings.fail_start(wave, job, code=code, text=_late(job), now=now, counts=True, part=stuck)


def _late(job: Job) -> str:
    trouble = f" ({job.reason_text})" if job.reason_text else ""
    return f"Did not start within {job.queue.start_limit}{trouble}"
