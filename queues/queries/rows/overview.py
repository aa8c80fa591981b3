"""The first page."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from queues.queries.rows.history import EventRow
from queues.queries.rows.machines import Freshness
from queues.queries.rows.shares import FlavorNumbers, TeamBar, TeamLoans


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Something that a person should look at."""

    kind: str
    text: str
    since: datetime | None
    job: UUID | None = None
    node: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The first page: numbers, bars, what needs attention, and the last changes."""

    flavors: tuple[FlavorNumbers, ...]
    bars: tuple[TeamBar, ...]
    loans: tuple[TeamLoans, ...]
    attention: tuple[Attention, ...]
    changes: tuple[EventRow, ...]
    freshness: Freshness
    as_of: datetime
