"""Checkpoints that jobs report: what a recall would cost counts from the last one (SEMANTICS 8)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Min, Q

from queues.admission.world import JobShape
from queues.models import Job, Task
from queues.states import TaskState
from tenants.errors import Conflict, FieldError, Invalid, NotFound
from tenants.permissions import Actor, Permission, require

# A job's clock may go a little before ours.
AHEAD = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """So many running tasks count as saved until ``at``."""

    at: datetime
    tasks: int


def report_checkpoint(
    *, uid: UUID, by: Actor, now: datetime, task: int | None = None, at: datetime | None = None
) -> Saved:
    """Note that a running job has saved its work; an older report than the last one changes nothing.

    Of a gang any task's checkpoint is that of all; of an independent job ``task`` names the one that saved.
    """
    job = Job.objects.visible_to(by).select_related("team").defer("spec").filter(uid=uid).first()
    if job is None:
        raise NotFound(f"There is no job {uid}.")
    own = job.user_id == by.user.pk
    require(by, Permission.CHANGE_OWN_JOB if own else Permission.CHANGE_ANY_JOB, team=job.team)
    saved = now if at is None else min(at, now)
    if at is not None and at > now + AHEAD:
        detail = f"at is a time in the past; {at.isoformat()} is after {now.isoformat()}"
        raise Invalid(detail, fields=[FieldError(pointer="/at", code="in_the_future", detail=detail, given=str(at))])
    with transaction.atomic():
        running = Task.objects.filter(wave__job=job, state=TaskState.RUNNING)
        if not running.exists():
            raise Conflict("No task of the job runs: there is nothing to save.", code="not_running")
        if task is not None:
            if not running.filter(index=task).exists():
                detail = f"no task with index {task} runs"
                raise Invalid(
                    detail, fields=[FieldError(pointer="/task", code="not_running", detail=detail, given=task)]
                )
            if job.shape == JobShape.INDEPENDENT:
                running = running.filter(index=task)
        started = running.aggregate(first=Min("started_at"))["first"]
        if started is not None and saved < started:
            detail = f"at ({saved.isoformat()}) is before the start ({started.isoformat()}): there was nothing to save"
            raise Conflict(
                detail, code="before_start", fields=[FieldError(pointer="/at", code="before_start", detail=detail)]
            )
        newer = Q(saved_at__isnull=True) | Q(saved_at__lt=saved)
        # What was saved before a task started is no checkpoint of it.
        running.filter(newer, started_at__lte=saved).update(saved_at=saved)
        return Saved(at=saved, tasks=running.count())
