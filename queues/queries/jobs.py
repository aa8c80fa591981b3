"""Lists of jobs, and one job."""

from datetime import datetime
from typing import Any
from uuid import UUID

from queues.queries.filters import JobFilter
from queues.queries.rows import JobDetail, JobPage
from tenants.permissions import Actor


def jobs(
    by: Actor,
    wanted: JobFilter,
    *,
    now: datetime,
    limit: int = 50,
    before: int | None = None,
    after: int | None = None,
    count: bool = False,
) -> JobPage:
    """Return a page of the visible jobs, newest first, older than id ``before`` or newer than id ``after``."""
    raise NotImplementedError


def job(by: Actor, uid: UUID, *, now: datetime, position: bool = True) -> JobDetail:
    """Return one visible job with its reason and (``position``) its place in the queue order."""
    raise NotImplementedError


def count_jobs(by: Actor, wanted: JobFilter, *, group_by: str = "state") -> dict[str, int]:
    """Return how many visible jobs there are by ``state``, ``team`` or ``queue``."""
    raise NotImplementedError


def submit_choices(by: Actor) -> dict[str, Any]:
    """Return what a form offers: teams to submit to with their queues, flavors, and priority classes."""
    raise NotImplementedError
