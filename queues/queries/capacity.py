"""Who has what: numbers per flavor, bars per team, nodes and what is on them."""

from datetime import datetime

from queues.queries.rows import Freshness, NodeDetail, NodeRow, Overview, TeamBar
from tenants.permissions import Actor


def overview(by: Actor, *, now: datetime) -> Overview:
    """Return the first page: numbers of each flavor, bars of the visible teams, what needs attention, last changes."""
    raise NotImplementedError


def team_bars(by: Actor, *, now: datetime, team: str = "", flavor: str = "") -> tuple[TeamBar, ...]:
    """Return a bar for each visible team (or one) and flavor that it has or may use, most starved first."""
    raise NotImplementedError


def nodes(by: Actor, *, flavor: str = "", state: str = "", text: str = "") -> tuple[NodeRow, ...]:
    """Return the machines that are there, without cells; ``state`` is ready, cordoned, tainted, not ready."""
    raise NotImplementedError


def node(by: Actor, name: str, *, cluster: str = "") -> NodeDetail:
    """Return one machine with what is on it."""
    raise NotImplementedError


def allocation(by: Actor, *, flavor: str = "") -> tuple[NodeRow, ...]:
    """Return the map: every machine with a cell for each task on it, by cluster, place and name."""
    raise NotImplementedError


def freshness() -> Freshness:
    """Return how old the last decision and the clusters' pictures are."""
    raise NotImplementedError
