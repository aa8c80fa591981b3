"""What a scenario file says, as frozen values."""

from dataclasses import dataclass, field
from typing import Any

from queues.admission.world import Quota, Topology
from queues.simulation import expectations as expected
from queues.simulation.reading import Field

TICK = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySpec:
    """What holds for all queues that do not say otherwise; times in milliseconds."""

    tick: int = TICK
    on_events: bool = False
    hold_after: int = 1_800_000
    aging_every: int = 3_600_000
    aging_step: int = 1
    aging_cap: int = 2
    min_runtime: int = 0
    evictions_per_minute: int | None = None
    preempt_within_team: bool = False
    restart_cost: int = 600_000
    fifo: bool = False
    grace: int = 0
    per_user_limit: int | None = None
    max_evictions: int = 3
    default_time_limit: int | None = None
    limit_needed_to_borrow: bool = False
    hold_idle_limit: int | None = None
    elastic_pause: int = 600_000
    node_lost_after: int = 300_000
    overcommit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorSpec:
    """A kind of capacity; each installed unit offers ``slots`` counted ones."""

    id: int
    name: str
    value: int = 1000
    slots: int = 1
    spread: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """A node at the start, units in counted ones."""

    id: int
    name: str
    flavor: int
    units: int
    cpu: int
    memory: int
    outside: int
    domains: tuple[str | None, ...]
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSpec:
    """A team at the start."""

    id: int
    name: str
    parent: int | None
    weight: int
    quotas: tuple[Quota, ...]
    per_user_limit: int | None
    paused: bool
    own_user_limit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """A queue; None means that the policy decides, but for ``max_time_limit`` and ``max_grace``: no limit."""

    id: int
    name: str
    team: int
    hold_after: int | None = None
    fifo: bool | None = None
    per_user_limit: int | None = None
    own_user_limit: bool = False
    default_time_limit: int | None = None
    own_default_limit: bool = False
    max_time_limit: int | None = None
    preempt_within_team: bool | None = None
    min_runtime: int | None = None
    max_grace: int | None = None
    paused: bool = False
    limit_needed_to_borrow: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """Equal tasks of a job, ``most`` of an elastic one; flavors None: all that the team could ever get."""

    tasks: int
    units: int
    cpu: int
    memory: int
    flavors: tuple[int, ...] | None
    labels: tuple[tuple[str, str], ...]
    topology: Topology | None
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job as it is submitted."""

    name: str
    team: int
    user: str
    queue: int
    priority: int
    priority_name: str
    shape: str
    groups: tuple[GroupSpec, ...]
    topology: Topology | None
    time_limit: int | None
    own_time_limit: bool
    runs: int | None
    borrow: bool
    preemptible: bool
    grace: int | None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the timeline: what happens when; ``place`` is where errors point to."""

    at: int
    verb: str
    place: Field
    job: JobSpec | None = None
    name: str = ""
    number: int | None = None
    text: str = ""
    changes: dict[str, Any] = field(default_factory=dict)
    quotas: tuple[tuple[int, int, dict[str, Any]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that a file says."""

    file: str
    name: str
    policy: PolicySpec
    flavors: tuple[FlavorSpec, ...]
    levels: tuple[str, ...]
    nodes: tuple[NodeSpec, ...]
    teams: tuple[TeamSpec, ...]
    queues: tuple[QueueSpec, ...]
    timeline: tuple[Line, ...]
    expects: tuple[expected.Expectation, ...]
    until: int
    place: Field
