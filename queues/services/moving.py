"""What people do to one job: cancel, hold, release, another priority, other labels, another maximum."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from queues import audit, classes, hints, steps
from queues.admission.world import JobShape
from queues.models import Job, PriorityClass, TaskGroup
from queues.spec.fields import Section
from queues.spec.forms import LABEL_KEY, LABEL_KEY_SAYS, MOST_LABELS, MOST_TASKS
from queues.states import ENDED, JobState
from tenants.errors import Conflict, FieldError, Hint, Invalid, NotAllowed, NotFound
from tenants.permissions import Actor, Permission, require

TRIES = 5

Move = Callable[[Job], bool]
"""Tries one guarded change; False means that another worker was first."""


def cancel(*, uid: UUID, by: Actor, now: datetime) -> Job:
    """End a job: at once where it waits, else when its pods are gone. Cancelling again changes nothing."""

    def move(job: Job) -> bool:
        state = JobState(job.state)
        told: dict[str, Any] = {"now": now, "event": "cancelled", "actor": by.name}
        if state is JobState.CANCELLED or job.next_state == JobState.CANCELLED:
            return True
        if state in ENDED:
            raise Conflict(f"The job has already {_ended(state)}.", code="already_ended")
        if state in {JobState.QUEUED, JobState.HELD}:
            summary = f"Cancelled by {by.name} before it started"
            return steps.step(job.id, state, JobState.CANCELLED, summary=summary, **told)
        return steps.evict(
            job.id, state, JobState.CANCELLED, summary=f"Cancelled by {by.name}; its pods are being stopped", **told
        )

    return _move(uid, move, "job.cancel", by=by, now=now)


def hold(*, uid: UUID, by: Actor, now: datetime) -> Job:
    """Keep a waiting job from starting until it is released; Conflict when it has started."""

    def move(job: Job) -> bool:
        state = JobState(job.state)
        told: dict[str, Any] = {"now": now, "event": "held", "actor": by.name, "summary": f"Held by {by.name}"}
        if state is JobState.HELD or job.next_state == JobState.HELD:
            return True
        if state is JobState.QUEUED:
            return steps.step(job.id, state, JobState.HELD, **told, **steps.waits_no_more(now))
        if state is JobState.EVICTING and job.next_state == JobState.QUEUED:
            return steps.evict(job.id, state, JobState.HELD, **told)
        if state in ENDED or state is JobState.EVICTING:
            raise Conflict(f"The job {_standing(job)}: there is nothing to hold.", code="already_ended")
        raise Conflict(
            f"The job {_standing(job)}: only a waiting job can be held.",
            code="already_started",
            hints=[Hint(action="Cancel it, then run it again when it should start.")],
        )

    return _move(uid, move, "job.hold", by=by, now=now)


def release(*, uid: UUID, by: Actor, now: datetime) -> Job:
    """Let a held job wait again; the time in which it was held does not count as waiting."""

    def move(job: Job) -> bool:
        state = JobState(job.state)
        told: dict[str, Any] = {"now": now, "event": "released", "actor": by.name, "summary": f"Released by {by.name}"}
        if state is JobState.QUEUED:
            return True
        if state is JobState.HELD:
            # A back-off goes on: holding and releasing is no way around it.
            backs_off = job.backoff_until is not None and job.backoff_until > now
            changes = {"ready": False} if backs_off else steps.waits_again(now)
            return steps.step(job.id, state, JobState.QUEUED, **told, **changes)
        if state is JobState.EVICTING and job.next_state == JobState.HELD:
            return steps.evict(job.id, state, JobState.QUEUED, **told)
        raise Conflict(f"The job {_standing(job)}: it is not held.", code="not_held")

    return _move(uid, move, "job.release", by=by, now=now)


def change_priority(*, uid: UUID, priority: str, by: Actor, now: datetime) -> Job:
    """Give a waiting job another priority class; it keeps its waiting time."""
    wanted = _priority(priority)
    before: dict[str, Any] = {}

    def move(job: Job) -> bool:
        if job.priority_class_id == wanted.id:
            return True
        if job.state not in {JobState.QUEUED, JobState.HELD}:
            detail = f"The job {_standing(job)}: only a waiting job can get another priority."
            raise Conflict(detail, code="already_started")
        most = job.queue.max_priority
        if most is not None and wanted.value > most:
            raise NotAllowed(
                f"Queue {job.queue.name} of {job.team.name} does not allow priority {wanted.name}.",
                code="priority_too_high",
            )
        before.update(priority=job.priority_class.name)
        return _give_priority(job, wanted, by=by, now=now)

    return _move(uid, move, "job.priority", by=by, now=now, always=True, before=before, after={"priority": wanted.name})


def change_labels(*, uid: UUID, labels: Mapping[str, str], by: Actor, now: datetime) -> Job:
    """Replace a job's labels; nothing else about it changes."""
    errors: list[FieldError] = []
    section = Section({"labels": dict(labels)}, "", errors)
    wanted = dict(section.pairs("labels", most=MOST_LABELS, each=200, form=LABEL_KEY, says=LABEL_KEY_SAYS))
    if errors:
        raise Invalid(errors[0].detail, fields=errors)
    before: dict[str, Any] = {}

    def move(job: Job) -> bool:
        if job.labels == wanted:
            return True
        before.update(labels=job.labels)
        steps.record(job.id, now=now, event="labelled", actor=by.name, summary=f"Labels changed by {by.name}")
        return bool(Job.objects.filter(id=job.id).update(labels=wanted, spec=_relabelled(job.spec, wanted)))

    return _move(uid, move, "job.labels", by=by, now=now, always=True, before=before, after={"labels": wanted})


def change_max_tasks(*, uid: UUID, max_tasks: int, by: Actor, now: datetime) -> Job:
    """Give an elastic job without groups another maximum; what it has beyond a lower one stays until others want it."""
    before: dict[str, Any] = {}

    def move(job: Job) -> bool:
        group = bounded(job)
        if group is None:
            detail = "Only an elastic job without groups has a maximum that can be changed."
            raise Conflict(detail, code="not_elastic")
        if not group.tasks <= max_tasks <= MOST_TASKS:
            detail = f"max_tasks is from {group.tasks}, the job's minimum, to {MOST_TASKS}; not {max_tasks}"
            bounds = [group.tasks, MOST_TASKS]
            raise Invalid.field("/max_tasks", detail, code="out_of_range", given=max_tasks, allowed=bounds)
        if group.most == max_tasks:
            return True
        if job.state in ENDED:
            raise Conflict(f"The job {_standing(job)}: it does not grow any more.", code="already_ended")
        before.update(max_tasks=group.most)
        return _give_max(job, group, max_tasks, by=by, now=now)

    after = {"max_tasks": max_tasks}
    return _move(uid, move, "job.max_tasks", by=by, now=now, always=True, before=before, after=after)


def bounded(job: Job) -> TaskGroup | None:
    """Return the one group of an elastic job whose maximum can be changed."""
    groups = list(job.groups.order_by("index")[:2]) if job.shape == JobShape.ELASTIC else []
    return groups[0] if len(groups) == 1 else None


def change(
    *,
    uid: UUID,
    by: Actor,
    now: datetime,
    priority: str | None = None,
    labels: Mapping[str, str] | None = None,
    max_tasks: int | None = None,
) -> Job:
    """Change priority, labels and the maximum of an elastic job together, or nothing; what is None stays."""
    with transaction.atomic():
        job = _visible(uid, by)
        if labels is not None:
            job = change_labels(uid=uid, labels=labels, by=by, now=now)
        if priority is not None:
            job = change_priority(uid=uid, priority=priority, by=by, now=now)
        if max_tasks is not None:
            job = change_max_tasks(uid=uid, max_tasks=max_tasks, by=by, now=now)
    return job


def allowed(job: Job, by: Actor) -> None:
    """Raise NotAllowed where somebody may see a job but not change it."""
    own = job.user_id == by.user.pk
    require(by, Permission.CHANGE_OWN_JOB if own else Permission.CHANGE_ANY_JOB, team=job.team)


def tell(job: Job) -> None:
    """Tell the loop, the workers that speak to clusters, and pages that a job changed."""
    hints.wake()
    hints.tell_clusters()
    hints.tell_pages("jobs", "queue", f"team:{job.team.name}", f"job:{job.uid}")


def _move(
    uid: UUID,
    move: Move,
    action: str,
    *,
    by: Actor,
    now: datetime,
    always: bool = False,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> Job:
    """Try a change until nobody else was first; then audit it (changes of others' jobs, or ``always``) and tell."""
    for _ in range(TRIES):
        with transaction.atomic():
            job = _visible(uid, by)
            allowed(job, by)
            if not move(job):
                continue
            changed = _visible(uid, by)
            if _picture(changed) != _picture(job):
                if always or job.user_id != by.user.pk:
                    audit.of_job(
                        action,
                        job,
                        by=by,
                        now=now,
                        before=before or {"state": job.state},
                        after=after or {"state": changed.state},
                    )
                tell(job)
            return changed
    raise Conflict("The job changes too fast at this moment; try again.", code="busy")


def _visible(uid: UUID, by: Actor) -> Job:
    jobs = Job.objects.visible_to(by).select_related("team", "queue", "user", "priority_class", "job_class")
    job = jobs.filter(uid=uid).first()
    if job is None:
        raise NotFound(f"There is no job {uid}.")
    return job


def _picture(job: Job) -> tuple[object, ...]:
    return (job.state, job.next_state, job.priority_class_id, job.job_class_id, job.labels)


def _priority(name: str) -> PriorityClass:
    classes_there = {row.name: row for row in PriorityClass.objects.order_by("-value", "id")}
    if name in classes_there:
        return classes_there[name]
    names = list(classes_there)
    detail = f"there is no priority class {name[:63]}; there is {', '.join(names)}"
    raise Invalid.field("/priority", detail, code="unknown_priority_class", given=name[:63], allowed=names)


def _give_priority(job: Job, wanted: PriorityClass, *, by: Actor, now: datetime) -> bool:
    moved = Job.objects.filter(id=job.id, state=job.state, priority_class=job.priority_class_id).update(
        priority_class=wanted,
        priority=wanted.value,
        preemptible=wanted.preemptible,
        job_class=classes.with_priority(job.job_class, wanted.value, preemptible=wanted.preemptible),
        spec={**job.spec, "spec": {**job.spec["spec"], "priority": wanted.name}},
    )
    if moved:
        summary = f"Priority {job.priority_class.name} → {wanted.name} by {by.name}"
        steps.record(job.id, now=now, event="priority", actor=by.name, summary=summary)
    return bool(moved)


def _give_max(job: Job, group: TaskGroup, most: int, *, by: Actor, now: datetime) -> bool:
    tasks = {"min": group.tasks, "max": most}
    moved = Job.objects.filter(id=job.id, state=job.state, job_class=job.job_class_id).update(
        job_class=classes.with_most(job.job_class, most),
        spec={**job.spec, "spec": {**job.spec["spec"], "tasks": tasks}},
    )
    if moved:
        TaskGroup.objects.filter(id=group.id).update(most=most)
        summary = f"At most {group.most} → {most} tasks by {by.name}"
        steps.record(job.id, now=now, event="max_tasks", actor=by.name, summary=summary)
    return bool(moved)


def _relabelled(spec: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    metadata = {key: value for key, value in spec["metadata"].items() if key != "labels"}
    return {**spec, "metadata": {**metadata, "labels": labels} if labels else metadata}


def _ended(state: JobState) -> str:
    return {JobState.SUCCEEDED: "succeeded", JobState.FAILED: "failed"}.get(state, "been cancelled")


def _standing(job: Job) -> str:
    """Say where a job stands, as the rest of a sentence that begins with "The job"."""
    state = JobState(job.state)
    if state in ENDED:
        return f"has {_ended(state)}"
    if state is JobState.EVICTING:
        return "is being stopped"
    return {JobState.ADMITTED: "is starting", JobState.RUNNING: "is running"}.get(state, f"is {state}")
