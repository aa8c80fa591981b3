"""What people do to queues and priority classes."""

import re
from datetime import datetime, timedelta
from typing import Any, TypedDict

from django.db import IntegrityError, transaction

from queues import audit, classes, hints, pausing
from queues.admission.world import QueueOrder
from queues.models import Job, JobClass, PriorityClass, Queue
from queues.models.queue import PreemptWithinTeam
from queues.spec.amounts import duration_text
from queues.states import ACTIVE
from tenants.errors import Conflict, FieldError, Invalid, NotFound, Stale
from tenants.models import DNS_LABEL, Team
from tenants.permissions import Actor, Permission, require, visible_teams

YEAR = timedelta(days=365)
SECOND = timedelta(seconds=1)
NOTHING = timedelta()
DURATIONS = {
    "hold_after": (NOTHING, YEAR),
    "default_time_limit": (SECOND, YEAR),
    "max_time_limit": (SECOND, YEAR),
    "max_grace": (NOTHING, timedelta(hours=1)),
    "start_limit": (SECOND, timedelta(days=1)),
    "min_runtime": (NOTHING, timedelta(days=1)),
}
NUMBERS = {"start_retries": (0, 100), "per_user_limit": (0, 10**9), "max_priority": (-1000, 1000)}
MAY_BE_NONE = frozenset({"default_time_limit", "max_time_limit", "per_user_limit", "max_priority"})
CHOICES: dict[str, tuple[str, ...]] = {
    "order": tuple(order.value for order in QueueOrder),
    "preempt_within_team": tuple(PreemptWithinTeam.values),
}
FLAGS = ("paused", "limit_needed_to_borrow")
# With a long minimum run time a team could keep what it borrowed.
ADMINS_ONLY = frozenset({"max_priority", "min_runtime"})


class QueuePolicy(TypedDict, total=False):
    """What may be changed of a queue; what is left out stays, None is no limit."""

    order: str
    hold_after: timedelta
    default_time_limit: timedelta | None
    max_time_limit: timedelta | None
    max_grace: timedelta
    start_limit: timedelta
    start_retries: int
    per_user_limit: int | None
    max_priority: int | None
    preempt_within_team: str
    min_runtime: timedelta
    limit_needed_to_borrow: bool
    paused: bool


def create_queue(*, team: str, name: str, by: Actor, now: datetime, policy: QueuePolicy | None = None) -> Queue:
    """Make a queue in a team, with the default policy but for what ``policy`` says."""
    owner = _team(team, by)
    require(by, Permission.EDIT_QUEUE, team=owner)
    if not re.fullmatch(DNS_LABEL, name):
        detail = "a queue's name is 1 to 63 of a-z, 0-9 and '-', starting and ending with a letter or digit"
        raise Invalid.field("/name", detail, code="bad_form", given=name[:63])
    if owner.children.exists():
        raise Conflict(f"{team} is a department: queues belong to teams without teams below them.")
    row = Queue(team=owner, name=name, created_at=now)
    _set(row, policy or {}, by=by, now=now)
    try:
        with transaction.atomic():
            row.save()
            audit.audit("queue.create", f"{team}/{name}", by=by, now=now, team=owner, after=picture(row))
            hints.tell_pages("queue", f"team:{team}")
    except IntegrityError:
        raise Conflict(f"There is already a queue {team}/{name}.", code="name_taken") from None
    return row


def change_queue(
    *, team: str, name: str, policy: QueuePolicy, by: Actor, now: datetime, version: int | None = None
) -> Queue:
    """Change what ``policy`` names of a queue (``paused`` too); Stale when ``version`` is not the current one."""
    owner = _team(team, by)
    require(by, Permission.EDIT_QUEUE, team=owner)
    with transaction.atomic():
        row = Queue.objects.select_for_update(of=("self",)).select_related("team").filter(team=owner, name=name).first()
        if row is None:
            raise NotFound(f"There is no queue {team}/{name}.")
        if version is not None and version != row.version:
            raise Stale(f"Queue {team}/{name} was changed meanwhile: it is at version {row.version}, not {version}.")
        before, paused_at = picture(row), row.paused_at
        _set(row, policy, by=by, now=now)
        if picture(row) == before:
            return row
        row.version += 1
        row.save()
        if paused_at is not None and row.paused_at is None:
            pausing.queue_resumed(row, paused_at=paused_at, now=now)
        audit.audit("queue.update", f"{team}/{name}", by=by, now=now, team=owner, before=before, after=picture(row))
        hints.wake()
        hints.tell_pages("queue", f"team:{team}")
    return row


def set_priority_class(
    *, name: str, value: int, by: Actor, now: datetime, preemptible: bool = True, version: int | None = None
) -> PriorityClass:
    """Make a priority class (``version`` 0) or change it (None: whatever is there); its jobs that wait move with it."""
    require(by, Permission.EDIT_INSTALLATION)
    if not re.fullmatch(DNS_LABEL, name):
        detail = "a priority class's name is 1 to 63 of a-z, 0-9 and '-'"
        raise Invalid.field("/name", detail, code="bad_form", given=name[:63])
    _check_number("value", value, NUMBERS["max_priority"])
    with transaction.atomic():
        row = PriorityClass.objects.select_for_update().filter(name=name).first()
        if version is not None and version != (row.version if row else 0):
            there = f"is at version {row.version}" if row else "is not there"
            raise Stale(f"Priority class {name} {there}, not at version {version}.")
        before = {"value": row.value, "preemptible": row.preemptible} if row else None
        row = row or PriorityClass(name=name, version=0)
        row.value, row.preemptible, row.version = value, preemptible, row.version + 1
        row.save()
        if before is not None:
            _move_jobs(row)
        after = {"value": value, "preemptible": preemptible}
        audit.audit("priority_class.set", name, by=by, now=now, before=before, after=after)
        hints.wake()
        hints.tell_pages("queue")
    return row


def picture(queue: Queue) -> dict[str, Any]:
    """Return a queue's policy as the audit shows it."""
    limits = {key: getattr(queue, key) for key in DURATIONS}
    return {
        **{key: getattr(queue, key) for key in CHOICES},
        **{key: None if length is None else duration_text(length) for key, length in limits.items()},
        **{key: getattr(queue, key) for key in NUMBERS},
        "limit_needed_to_borrow": queue.limit_needed_to_borrow,
        "paused": queue.paused_at is not None,
    }


def _move_jobs(priority: PriorityClass) -> None:
    """Give the jobs of a changed priority class the classes that they belong to now."""
    jobs = Job.objects.filter(priority_class=priority, state__in=sorted(ACTIVE))
    for row in JobClass.objects.filter(id__in=jobs.values("job_class")).order_by("id"):
        moved = classes.with_priority(row, priority.value, preemptible=priority.preemptible)
        jobs.filter(job_class=row).update(job_class=moved, priority=priority.value, preemptible=priority.preemptible)


def _team(name: str, by: Actor) -> Team:
    team = visible_teams(by).filter(name=name).first()
    if team is None:
        raise NotFound(f"There is no team {name[:63]}.")
    return team


def _set(row: Queue, policy: QueuePolicy, *, by: Actor, now: datetime) -> None:
    """Set what the policy names, after checking all of it."""
    given: dict[str, Any] = {**policy}
    if ADMINS_ONLY & given.keys():
        require(by, Permission.EDIT_INSTALLATION)
    errors = [error for key, value in given.items() if (error := _wrong(key, value)) is not None]
    if errors:
        raise Invalid(errors[0].detail, fields=errors)
    for key, value in given.items():
        if key == "paused":
            row.paused_at = (row.paused_at or now) if value else None
        else:
            setattr(row, key, value)
    if row.max_time_limit is not None and (row.default_time_limit or NOTHING) > row.max_time_limit:
        detail = f"default_time_limit is at most max_time_limit, {duration_text(row.max_time_limit)}"
        raise Invalid.field("/default_time_limit", detail, code="out_of_range")


def _wrong(key: str, value: object) -> FieldError | None:
    if value is None and key in MAY_BE_NONE:
        return None
    if key in CHOICES:
        allowed = CHOICES[key]
        if value in allowed:
            return None
        detail = f"{key} is {' or '.join(allowed)}"
        return FieldError(pointer=f"/{key}", code=f"unknown_{key}", detail=detail, given=value, allowed=allowed)
    if key in FLAGS and isinstance(value, bool):
        return None
    try:
        if key in DURATIONS:
            _check_length(key, value, DURATIONS[key])
            return None
        if key in NUMBERS:
            _check_number(key, value, NUMBERS[key])
            return None
    except Invalid as error:
        return error.fields[0]
    known = (*CHOICES, *DURATIONS, *NUMBERS, *FLAGS)
    return FieldError(pointer=f"/{key}", code="unknown_field", detail=f"there is no field {key}", allowed=known)


def _check_number(key: str, value: object, bounds: tuple[int, int]) -> None:
    least, most = bounds
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        detail = f"{key} is a whole number from {least} to {most}"
        raise Invalid.field(f"/{key}", detail, code="out_of_range", given=value, allowed=bounds)


def _check_length(key: str, value: object, bounds: tuple[timedelta, timedelta]) -> None:
    least, most = bounds
    if not isinstance(value, timedelta) or not least <= value <= most:
        texts = (duration_text(least), duration_text(most))
        detail = f"{key} is a duration from {texts[0]} to {texts[1]}"
        raise Invalid.field(f"/{key}", detail, code="out_of_range", given=str(value), allowed=texts)
