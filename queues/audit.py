"""Audit entries of what people do to jobs and queues."""

from datetime import datetime
from typing import Any

from queues.models import Job
from tenants.models import AuditEntry, Team
from tenants.permissions import Actor


def audit(
    action: str,
    target: str,
    *,
    by: Actor,
    now: datetime,
    team: Team | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    """Write one entry, inside the change's transaction."""
    AuditEntry.objects.create(
        at=now,
        actor=by.user if by.user.pk else None,
        actor_name=by.name,
        action=action,
        target=target,
        team=team,
        before=before,
        after=after,
        request_id=by.request_id,
    )


def of_job(action: str, job: Job, *, by: Actor, now: datetime, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Write an entry about a job."""
    audit(action, f"job {job.uid} {job.name}", by=by, now=now, team=job.team, before=before, after=after)
