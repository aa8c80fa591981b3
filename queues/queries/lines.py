"""Queues with their policy, and priority classes."""

from queues.queries.rows import PriorityRow, QueueRow
from tenants.permissions import Actor


def queues(by: Actor, *, team: str = "") -> tuple[QueueRow, ...]:
    """Return the queues of the visible teams (or of one of them) by team and name."""
    raise NotImplementedError


def queue(by: Actor, team: str, name: str) -> QueueRow:
    """Return one queue of a visible team."""
    raise NotImplementedError


def priority_classes() -> tuple[PriorityRow, ...]:
    """Return the priority classes, highest first."""
    raise NotImplementedError
