"""Nodes, what is on them, and clusters."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A task on a node; where the reader may not see the job, only its units are told and ``team`` is empty.

    ``borrowed_units`` of its ``units`` are borrowed at this moment.
    """

    units: int
    state: str
    team: str = ""
    owner: str = ""
    job: UUID | None = None
    job_name: str = ""
    task: int | None = None
    mine: bool = False
    borrowed_units: int = 0
    started_at: datetime | None = None
    ends_by: datetime | None = None
    leaving_since: datetime | None = None

    @property
    def borrowed(self) -> bool:
        """Whether any of its units is borrowed."""
        return self.borrowed_units > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Units of a node kept for a waiting job: reserved, while who has to go leaves, or held by its planned start.

    Where the reader may not see the job, ``team`` is empty.
    """

    units: int
    kind: str
    team: str = ""
    job: UUID | None = None
    job_name: str = ""
    starts_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsidePod:
    """A pod on a node that is not ours; ``leaving_since`` is when it was asked to go."""

    namespace: str
    name: str
    units: int
    leaving: bool
    leaving_since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A machine: ``units`` = used + outside + free, free being 0 where it is not usable, and ``why`` says why."""

    id: int
    name: str
    cluster: str
    flavor: str | None
    place: tuple[str, ...]
    units: int
    used: int
    outside: int
    free: int
    usable: bool
    state: str
    why: str
    cells: tuple[Cell, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDetail:
    """All of one machine; CPU in thousandths of a core, memory in bytes. ``drift`` says how it differs.

    ``summary`` says in one sentence whether all of it can be used, and why not. ``others`` are named to administrators
    and auditors only, the largest first. ``devices`` are those that DRA announces, by driver.
    """

    row: NodeRow
    summary: str
    kept: tuple[Kept, ...]
    others: tuple[OutsidePod, ...]
    others_leaving: int
    devices: dict[str, int]
    conditions: tuple[str, ...]
    repelling: tuple[str, ...]
    not_ready_since: datetime | None
    cordoned_since: datetime | None
    counted: dict[str, int]
    drift: tuple[str, ...]
    cpu_milli: int
    cpu_used: int
    memory: int
    memory_used: int
    outside_cpu_milli: int
    outside_memory: int
    pods: int
    outside_pods: int
    labels: dict[str, str]
    taints: tuple[str, ...]
    other_taints: tuple[str, ...]
    first_seen_at: datetime
    changed_at: datetime
    gone_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    """How fresh the picture of one cluster is."""

    name: str
    kubernetes_version: str
    listed_at: datetime | None
    heard_at: datetime | None
    unreachable_since: datetime | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDetail:
    """One cluster with what it has; ``state`` is ready, unreachable (just now), away (for a while) or retired.

    ``error`` says why it does not answer, to those who may see decisions.
    """

    name: str
    state: str
    error: str
    kubernetes_version: str
    listed_at: datetime | None
    unreachable_since: datetime | None
    nodes: int
    usable_nodes: int
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRow:
    """A machine that differs from what is expected."""

    cluster: str
    node: str
    kind: str
    text: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A GPU type that is missing: nodes with ``label`` = ``value``, counted as ``resource``."""

    name: str
    title: str
    resource: str
    label: str
    value: str
    nodes: int

    @property
    def hidden(self) -> tuple[tuple[str, str], ...]:
        """Return the fields that a form sends along."""
        return tuple((key, getattr(self, key)) for key in ("title", "resource", "label", "value"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How old the last decision and the cluster's picture are."""

    last_cycle: int | None
    last_cycle_at: datetime | None
    clusters: tuple[ClusterRow, ...]
