"""How waves and jobs go on when tasks have ended: to their end, or back into the queue (SEMANTICS 9).

All functions run inside the caller's transaction, with the job's row locked by it.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, F, OuterRef, Q, Sum

from queues.admission.world import JobShape
from queues.growth import stop_growing
from queues.limits import back_off
from queues.models import Job, JobEvent, Task, Wave
from queues.models.wave import Wish
from queues.progress import Trouble
from queues.states import ENDED, HOLDING, TASK_HOLDING, JobState, TaskState, WaveState
from queues.steps import evict, record, step, step_changes, stop_tasks, stop_waves, waits_again, waits_no_more

HELD_TASK = Task.objects.filter(wave=OuterRef("pk"), state__in=TASK_HOLDING)


def fail_attempt(job: Job, task: Task, *, now: datetime) -> None:
    """A gang's task has failed, which ends the attempt: a retry while there are some left, else the end."""
    failures = job.failures + 1
    timed_out = task.reason == Trouble.TIMED_OUT
    retry = failures <= job.retries and not timed_out
    text = task.message if timed_out else failure_text(task)
    left = f"; retry {failures} of {job.retries}" if retry else ""
    evict(
        job.id,
        JobState(job.state),
        JobState.QUEUED if retry else JobState.FAILED,
        now=now,
        event="task_failed",
        summary=text + left,
        details={"task": task.index, "exit_code": task.exit_code, "reason": task.reason, "attempt": job.attempt},
        failures=failures,
        reason_code=Trouble.TIMED_OUT if timed_out else Trouble.TASK_FAILED,
        reason_text=text,
        # The job's own failure sends it to the end of the line.
        wait_from=now,
        not_waiting_since=now,
    )


def fail_start(
    wave: Wave, job: Job, *, code: str, text: str, now: datetime, counts: bool, part: Sequence[Task] = ()
) -> None:
    """A wave could not start, or a ``part`` of it: its job backs off, or (a start that ``counts``, out of tries) fails.

    Where it is surplus, the job runs on without it.
    """
    if wave.surplus:
        give_up_surplus(wave, job, code=code, text=text, now=now)
        return
    failures = job.start_failures + 1 if counts else 1 + job.waves.filter(outcome=code).count()
    over = counts and failures >= job.queue.start_retries
    pause = back_off(failures)
    goal = JobState.FAILED if over else JobState.QUEUED
    changes: dict[str, Any] = {"reason_code": code, "reason_text": text}
    if counts:
        # Its waiting time begins anew with the end of the pause.
        changes |= {"start_failures": failures, "wait_from": now, "not_waiting_since": now}
    if not over:
        changes["backoff_until"] = now + pause
    summary = f"{text}; no tries left" if over else f"{text}; next try in {int(pause.total_seconds())} s"
    details = {"reason": code, "wave": wave.number, "failures": failures}
    if over or job.shape != JobShape.INDEPENDENT:
        evict(
            job.id,
            JobState(job.state),
            goal,
            now=now,
            event="start_failed",
            summary=summary,
            details=details,
            **changes,
        )
        return
    if part:
        stop_tasks(wave, job, part, now=now, reason=code, message=text)
    else:
        stop_waves(job.id, now=now, wave_id=wave.id, reason=code, message=text)
    Job.objects.filter(id=job.id).update(**{**waits_no_more(now), **changes})
    record(job.id, now=now, event="start_failed", summary=summary, details=details)


def give_up_surplus(wave: Wave, job: Job, *, code: str, text: str, now: datetime) -> None:
    """A surplus wave of an elastic job does not start: it goes, and the job does not grow for a while."""
    stop_waves(job.id, now=now, wave_id=wave.id, reason=code, message=text)
    stop_growing([wave.base_id or 0], now=now)
    details = {"reason": code, "wave": wave.number}
    record(
        job.id, now=now, event="shrank", summary=f"Surplus could not start: {text}; runs on without", details=details
    )


def lose_surplus(wave: Wave, job: Job, tasks: Sequence[Task], *, now: datetime) -> None:
    """Surplus tasks ended by themselves, or were ended from outside: the job runs on, and does not grow for a while."""
    stop_growing([wave.base_id or 0], now=now)
    lost = [task for task in tasks if task.state != TaskState.SUCCEEDED]
    if lost:
        first = lost[0]
        text = failure_text(first) if first.state == TaskState.FAILED else first.message or first.reason
        what = f"{len(lost)} surplus task{'s' * (len(lost) != 1)} ended"
        details = {"reason": first.reason, "less": len(lost), "wave": wave.number, "attempt": job.attempt}
        record(job.id, now=now, event="shrank", summary=f"{what}: {text}; runs on without", details=details)


def reject(wave: Wave, job: Job, *, code: str, text: str, now: datetime) -> None:
    """Repeating cannot help: the job fails; where only surplus was refused, it runs on without."""
    if wave.surplus:
        give_up_surplus(wave, job, code=code, text=text, now=now)
        return
    evict(
        job.id,
        JobState(job.state),
        JobState.FAILED,
        now=now,
        event="rejected",
        summary=text,
        details={"reason": code},
        reason_code=code,
        reason_text=text,
    )


def note_failure(job: Job, task: Task, *, now: datetime, left: str = "") -> None:
    """Record that one task of an independent job failed."""
    details = {"task": task.index, "exit_code": task.exit_code, "reason": task.reason, "attempt": job.attempt}
    record(job.id, now=now, event="task_failed", summary=failure_text(task) + left, details=details)


def failure_text(task: Task) -> str:
    """Say in one line how a task failed."""
    code = "" if task.exit_code is None else f" with exit code {task.exit_code}"
    why = f" ({task.reason})" if task.reason and task.reason != Trouble.TASK_FAILED else ""
    return f"Task {task.index} failed{code}{why}"


def settle(job_id: int, *, now: datetime) -> bool:
    """Move a job on whose tasks have ended; return whether anything moved. Repeating it changes nothing."""
    job = Job.objects.get(id=job_id)
    ended = _end_waves(job, now)
    if job.state in ENDED or job.state in {JobState.QUEUED, JobState.HELD}:
        return ended
    holding = Task.objects.filter(wave__job=job, state__in=TASK_HOLDING)
    if holding.exists():
        if job.shape == JobShape.ELASTIC and not holding.filter(wave__base__isnull=True).exists():
            _let_surplus_go(job, now)
        return ended
    if job.state == JobState.EVICTING:
        _arrive(job, now)
    elif job.waiting_tasks:
        _queue_rest(job, now)
    else:
        _end(job, now)
    return True


def again(job: Job, tasks: int, *, now: datetime, own_failure: bool) -> None:
    """Let tasks of an independent job wait again; one that had nothing waiting waits from where it stopped."""
    changes: dict[str, Any] = {"waiting_tasks": F("waiting_tasks") + tasks}
    if job.waiting_tasks == 0 and job.backoff_until is None:
        changes |= waits_again(now)
        if own_failure:
            changes["wait_from"] = now
    Job.objects.filter(id=job.id, state__in=[JobState.ADMITTED, JobState.RUNNING]).update(**changes)


def _end_waves(job: Job, now: datetime) -> bool:
    """End the waves of which nothing holds any more."""
    waves = list(Wave.objects.filter(job=job, state__in=HOLDING).exclude(Exists(HELD_TASK)))
    for wave in waves:
        reasons = dict(wave.tasks.order_by("-id").values_list("state", "reason"))
        ended = {"state": WaveState.ENDED, "ended_at": now, "deadline_at": None, "outcome": outcome(reasons)}
        if wave.stopped_at is None:
            # Its objects go now that their end is recorded; what ended by itself keeps its logs for a while.
            due = now if TaskState.STOPPED in reasons else now + timedelta(seconds=settings.TIDEGATE_KEEP_SECONDS)
            ended |= {"wish": Wish.STOP, "wish_due_at": due, "wish_tries": 0, "wish_error": ""}
        Wave.objects.filter(id=wave.id).update(**ended)
    return bool(waves)


def outcome(reasons: dict[str, str]) -> str:
    """Return one word for how a wave ended, from its tasks' states with a reason each."""
    if set(reasons) <= {TaskState.SUCCEEDED}:
        return "succeeded"
    if TaskState.FAILED in reasons:
        return Trouble.TIMED_OUT if reasons[TaskState.FAILED] == Trouble.TIMED_OUT else "failed"
    return reasons[TaskState.STOPPED][:30] or "stopped"


def _let_surplus_go(job: Job, now: datetime) -> None:
    """The minimum of an elastic job has succeeded, and so has the job when its surplus is gone."""
    if job.state in {JobState.ADMITTED, JobState.RUNNING}:
        summary = "Its minimum has succeeded; what surplus still runs is stopped"
        told: dict[str, Any] = {"event": "finishing", "summary": summary, "reason_code": "", "reason_text": ""}
        evict(job.id, JobState(job.state), JobState.SUCCEEDED, now=now, **told)


def _arrive(job: Job, now: datetime) -> None:
    """Bring a job whose pods are gone to where it was sent."""
    goal = JobState(job.next_state)
    open_tasks = _open_tasks(job)
    if goal not in ENDED and open_tasks == 0:
        _end(job, now)
        return
    changes: dict[str, Any] = {}
    if goal not in ENDED:
        changes = {**_again(open_tasks), **_waiting(job, goal, now)}
    step(job.id, JobState.EVICTING, goal, now=now, event=goal.value, summary=_arrival(job), **changes)


def arrive(jobs: Sequence[Job], *, now: datetime) -> list[JobEvent]:
    """Bring gangs whose pods are all gone, and of which no task succeeded, to where they were sent, all at once.

    Return what is to be recorded. The jobs are locked, and leaving.
    """
    goals: dict[tuple[JobState, bool], list[Job]] = defaultdict(list)
    for job in jobs:
        goals[JobState(job.next_state), _backs_off(job, now)].append(job)
    for (goal, _), rows in goals.items():
        changes = {} if goal in ENDED else {**_again(1), **_waiting(rows[0], goal, now)}
        moved = step_changes(JobState.EVICTING, goal, now=now, **changes)
        Job.objects.filter(id__in=[job.id for job in rows], state=JobState.EVICTING).update(**moved)
    return [JobEvent(job_id=job.id, at=now, type=job.next_state, summary=_arrival(job)) for job in jobs]


def _again(tasks: int) -> dict[str, Any]:
    return {"attempt": F("attempt") + 1, "waiting_tasks": tasks}


def _arrival(job: Job) -> str:
    """Say in a line where a job has come to that was sent away."""
    goal = JobState(job.next_state)
    why = f": {job.reason_text}" if job.reason_text else ""
    return {JobState.QUEUED: "Queued again", JobState.HELD: "Held"}.get(goal, goal.capitalize()) + why


def _backs_off(job: Job, now: datetime) -> bool:
    return job.backoff_until is not None and job.backoff_until > now


def _waiting(job: Job, goal: JobState, now: datetime) -> dict[str, Any]:
    """Return how the job waits: not while it is held or backs off."""
    if goal is JobState.HELD:
        return {**waits_no_more(now), "backoff_until": None}
    if _backs_off(job, now):
        return waits_no_more(now)
    return {**waits_again(now), "reason_code": "", "reason_text": ""}


def _queue_rest(job: Job, now: datetime) -> None:
    """Queue an independent job again of which tasks wait and none holds."""
    count = job.waiting_tasks
    step(
        job.id,
        JobState(job.state),
        JobState.QUEUED,
        now=now,
        event="queued",
        summary=f"{count} task{'s' * (count != 1)} left to run",
        attempt=F("attempt") + 1,
    )


def _end(job: Job, now: datetime) -> None:
    """End a job of which nothing holds and nothing waits, as its tasks ended."""
    total = _total(job)
    missing = total - _succeeded(job)
    if missing == 0:
        fields: dict[str, Any] = {"reason_code": "", "reason_text": ""}
        step(job.id, JobState(job.state), JobState.SUCCEEDED, now=now, event="succeeded", summary="Succeeded", **fields)
        return
    last = Task.objects.filter(wave__job=job, state=TaskState.FAILED).order_by("-id").first()
    own = job.shape != JobShape.INDEPENDENT and job.reason_text
    text = job.reason_text if own else _failed_text(last, missing, total)
    timed_out = last is not None and last.reason == Trouble.TIMED_OUT
    step(
        job.id,
        JobState(job.state),
        JobState.FAILED,
        now=now,
        event="failed",
        summary=f"Failed: {text}",
        reason_code=job.reason_code or (Trouble.TIMED_OUT if timed_out else Trouble.TASK_FAILED),
        reason_text=text,
    )


def _failed_text(last: Task | None, missing: int, total: int) -> str:
    if total > 1 or last is None:
        return f"{missing} of {total} tasks failed"
    return last.message if last.reason == Trouble.TIMED_OUT else failure_text(last)


def _total(job: Job) -> int:
    return int(job.groups.aggregate(total=Sum("tasks"))["total"] or 0)


def _succeeded(job: Job) -> int:
    """Return how many of the job's tasks have succeeded: of what starts together those of this attempt's minimum."""
    done = Task.objects.filter(wave__job=job, state=TaskState.SUCCEEDED)
    if job.shape != JobShape.INDEPENDENT:
        done = done.filter(wave__attempt=job.attempt, wave__base__isnull=True)
    return done.values("index").distinct().count()


def _open_tasks(job: Job) -> int:
    """Return what a queued job has waiting: 1 where all start together, else its tasks that are not over for good."""
    if job.shape != JobShape.INDEPENDENT:
        return 0 if _succeeded(job) == _total(job) else 1
    failed = Q(state=TaskState.FAILED)
    over = (
        Task.objects.filter(wave__job=job)
        .values("index")
        .annotate(
            failures=Count("id", filter=failed),
            final=Count("id", filter=failed & Q(reason=Trouble.TIMED_OUT)),
            done=Count("id", filter=Q(state=TaskState.SUCCEEDED)),
        )
        .filter(Q(done__gt=0) | Q(final__gt=0) | Q(failures__gt=job.retries))
    )
    return _total(job) - over.count()
