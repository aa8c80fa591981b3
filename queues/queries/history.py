"""What happened to a job: events, attempts with their tasks, and its Kubernetes objects."""

from typing import Any
from uuid import UUID

from queues.queries.rows import AttemptRow, EventRow
from tenants.permissions import Actor


def events(
    by: Actor, uid: UUID | None = None, *, after: int = 0, limit: int = 200, newest_first: bool = False
) -> tuple[EventRow, ...]:
    """Return events of one visible job (None: of all visible jobs) behind id ``after``, oldest first unless asked."""
    raise NotImplementedError


def attempts(by: Actor, uid: UUID, *, tasks: int = 500) -> tuple[AttemptRow, ...]:
    """Return a visible job's attempts, newest first, each wave with at most ``tasks`` of its tasks."""
    raise NotImplementedError


def manifest(by: Actor, uid: UUID) -> tuple[dict[str, Any], ...]:
    """Return the Kubernetes objects of a visible job's newest wave, or those that it would get where it has none."""
    raise NotImplementedError
