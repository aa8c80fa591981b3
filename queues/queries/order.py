"""The queue order of a flavor, and why one job waits."""

from datetime import datetime
from uuid import UUID

from queues.queries.rows import Explanation, QueueOrder
from tenants.permissions import Actor


def queue_order(by: Actor, flavor: str, *, now: datetime, limit: int = 200, team: str = "") -> QueueOrder:
    """Return who starts next on a flavor, across teams; jobs that ``by`` may not see are counted and not named.

    ``team`` leaves out the rows of other teams; ranks stay those of the whole order.
    """
    raise NotImplementedError


def explain(by: Actor, uid: UUID, *, now: datetime) -> Explanation:
    """Return why a visible job waits, in numbers."""
    raise NotImplementedError
