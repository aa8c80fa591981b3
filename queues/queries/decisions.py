"""What the loop decided."""

from queues.queries.rows import DecisionDetail, DecisionRow
from tenants.permissions import Actor


def decisions(by: Actor, *, limit: int = 50, before: int | None = None, busy: bool = False) -> tuple[DecisionRow, ...]:
    """Return the last cycles, newest first (``busy``: only those that admitted something). Needs VIEW_DECISIONS."""
    raise NotImplementedError


def decision(by: Actor, cycle: int) -> DecisionDetail:
    """Return one cycle and what it admitted. Needs VIEW_DECISIONS; jobs that are not visible are not named."""
    raise NotImplementedError
