"""What a sight means for its wave and job; inside the caller's transaction, with the job's row locked by it."""

from datetime import datetime
from typing import Any

from django.db.models import Count, F

from queues import endings, hints, interruptions
from queues.admission.world import JobShape
from queues.limits import deadline
from queues.models import Job, JobEvent, Task, Wave
from queues.progress import DELETED, Trouble
from queues.sight import COLUMNS, Sight
from queues.states import JobState, TaskState, WaveState
from queues.steps import step

QUOTA_WORDS = "exceeded quota"
RAN = (TaskState.RUNNING, TaskState.SUCCEEDED, TaskState.FAILED)
TERMINATED = 143  # the exit code of a program that SIGTERM has ended
UNDER_WAY = (JobState.ADMITTED, JobState.RUNNING)


def write_tasks(sight: Sight) -> None:
    """Write the tasks that are not as stored."""
    for task in sight.changed:
        for column in COLUMNS:
            setattr(task, column, getattr(sight.now[task.id], column))
    Task.objects.bulk_update(sight.changed, COLUMNS, batch_size=500)


def move_wave(sight: Sight, *, now: datetime) -> None:
    """Note that the wave was seen, that its first task runs, and when its time is up."""
    wave = sight.wave
    changes: dict[str, Any] = {}
    if sight.seen and wave.seen_at is None:
        changes["seen_at"] = now
    if wave.state == WaveState.ADMITTED and sight.count(*RAN):
        wave.started_at = min((task.started_at for task in sight.now.values() if task.started_at), default=now)
        changes |= {"state": WaveState.RUNNING, "started_at": wave.started_at}
        if not wave.surplus:
            _start_job(wave, now=now)
    if wave.job.shape == JobShape.ELASTIC and sight.changed and not sight.count(TaskState.PENDING):
        hints.wake()  # its minimum runs: it may grow
    if wave.state != WaveState.EVICTING:
        ends = deadline(wave, starting=bool(sight.count(TaskState.PENDING)))
        if ends != wave.deadline_at:
            changes["deadline_at"] = ends
    if changes:
        Wave.objects.filter(id=wave.id).update(**changes)


def concerns_job(sight: Sight) -> bool:
    """Whether the job has to answer to the sight: tasks ended, or something keeps (or kept) tasks from starting."""
    troubled = any(task.state is TaskState.PENDING and task.reason for task in sight.now.values())
    return bool(sight.ended or sight.refusal or troubled or sight.wave.job.reason_code)


def move_job(sight: Sight, *, now: datetime) -> None:
    """Let the job answer to tasks that ended otherwise than well, and say why others do not start."""
    job, wave = sight.wave.job, sight.wave
    job.refresh_from_db()
    if job.state not in UNDER_WAY:
        return
    if wave.surplus:
        _answer_surplus(sight, job, now=now)
        return
    failed = [task for task in sight.ended if task.state == TaskState.FAILED]
    stopped = [task for task in sight.ended if task.state == TaskState.STOPPED]
    if job.shape == JobShape.INDEPENDENT:
        _retry(job, wave, failed, stopped, now=now)
    elif wave.state != WaveState.EVICTING and failed:
        endings.fail_attempt(job, min(failed, key=blame), now=now)
        return
    elif wave.state != WaveState.EVICTING and stopped:
        _answer_stop(wave, job, min(stopped, key=_cause), now=now)
        return
    if _has_no_room(sight):
        endings.fail_start(wave, job, code=Trouble.K8S_QUOTA, text=sight.refusal, now=now, counts=False)
    elif wave.state != WaveState.EVICTING:
        _tell_trouble(sight, job)


def _answer_surplus(sight: Sight, job: Job, *, now: datetime) -> None:
    """Let an elastic job run on without surplus that has ended or cannot start; it does not grow for a while."""
    wave = sight.wave
    ended = [task for task in sight.ended if task.reason != Trouble.SHRUNK]
    if ended and wave.state != WaveState.EVICTING:
        endings.lose_surplus(wave, job, ended, now=now)
    if sight.lacks_pods and QUOTA_WORDS in sight.refusal:
        endings.give_up_surplus(wave, job, code=Trouble.K8S_QUOTA, text=sight.refusal, now=now)


def _has_no_room(sight: Sight) -> bool:
    """Whether a quota of Kubernetes keeps the wave from starting: a gang by one pod that lacks, others by all."""
    begun = sight.wave.state != WaveState.ADMITTED
    if begun and sight.wave.job.shape == JobShape.INDEPENDENT:
        return False
    return sight.lacks_pods and QUOTA_WORDS in sight.refusal


def blame(task: Task) -> tuple[bool, float, int]:
    """Sort tasks of a gang by how likely they took the others along: Kubernetes ends the rest with SIGTERM."""
    return task.exit_code == TERMINATED, task.ended_at.timestamp() if task.ended_at else 0.0, task.id


def _cause(task: Task) -> tuple[bool, int]:
    """Sort stopped tasks of a gang by how much they say: where one went, Kubernetes deletes the rest without a word."""
    return task.message == DELETED, task.id


def _answer_stop(wave: Wave, job: Job, task: Task, *, now: datetime) -> None:
    """A task of a gang was stopped by somebody else, which ends the attempt."""
    if task.reason == Trouble.START_FAILED:
        text = f"Its node did not take it: {task.message}"
        endings.fail_start(wave, job, code=Trouble.START_FAILED, text=text, now=now, counts=True)
    else:
        interruptions.interrupt(job, wave, task, now=now)


def _start_job(wave: Wave, *, now: datetime) -> None:
    job = wave.job
    fields: dict[str, Any] = {"started_at": job.started_at or wave.started_at}
    if job.start_failures:
        fields["start_failures"] = 0
    if job.state == JobState.ADMITTED:
        said = running_event(wave, job, now=now)
        step(
            job.id,
            JobState.ADMITTED,
            JobState.RUNNING,
            now=now,
            event=said.type,
            summary=said.summary,
            details=said.details,
            reason_code="",
            reason_text="",
            **fields,
        )


def running_event(wave: Wave, job: Job, *, now: datetime) -> JobEvent:
    """Return what is recorded, not written yet, when a job's first pod of an attempt runs."""
    again = "" if job.attempt == 1 else f", attempt {job.attempt}"
    details = {"wave": wave.number, "attempt": job.attempt}
    return JobEvent(job_id=job.id, at=now, type="started", summary=f"Running{again}", details=details)


def _retry(job: Job, wave: Wave, failed: list[Task], stopped: list[Task], *, now: datetime) -> None:
    """Let tasks of an independent job wait again: stopped ones, and failed ones while their retries last."""
    if failed:
        Job.objects.filter(id=job.id).update(failures=F("failures") + len(failed))
    retried = _with_retries_left(job, failed)
    for task in failed:
        left = "; retried" if task.index in retried else ""
        endings.note_failure(job, task, now=now, left=left)
    if stopped:
        interruptions.interrupt_tasks(job, wave, stopped, retried=len(retried), now=now)
    elif retried:
        endings.again(job, len(retried), now=now, own_failure=True)


def _with_retries_left(job: Job, failed: list[Task]) -> set[int]:
    may = {task.index for task in failed if task.reason != Trouble.TIMED_OUT}
    rows = Task.objects.filter(wave__job=job, index__in=may, state=TaskState.FAILED).values("index")
    counts = rows.annotate(failures=Count("id")).order_by()
    return {row["index"] for row in counts if row["failures"] <= job.retries}


def _tell_trouble(sight: Sight, job: Job) -> None:
    """Show on the job why a task of it does not start."""
    pending = [task for task in sight.now.values() if task.state is TaskState.PENDING]
    found = next(((task.reason, task.message) for task in pending if task.reason), ("", ""))
    if not found[0] and pending and sight.refusal:
        found = (Trouble.K8S_REJECTED, sight.refusal)
    if job.backoff_until is None and found != (job.reason_code, job.reason_text):
        Job.objects.filter(id=job.id).update(reason_code=found[0], reason_text=found[1])
