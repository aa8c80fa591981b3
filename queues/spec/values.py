"""A spec as values, and the catalog of names that a person may use in one."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from queues.admission.world import JobShape, Near

API_VERSION = "tidegate/v1"
TEST_ANNOTATIONS = "tidegate.test/"

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorChoice:
    """A flavor by name.

    Defaults are what a task gets per unit when it does not say: thousandths of a core, bytes. Steps are what asks are
    rounded up to. ``largest`` is the most units of any of its nodes, ``installed`` those of all.
    """

    id: int
    name: str
    default_cpu_milli: int
    default_memory: int
    cpu_step_milli: int
    memory_step: int
    largest: int
    installed: int
    resource: str = "nvidia.com/gpu"
    node_labels: Pairs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChoice:
    """A queue by name with its bounds; None is no bound."""

    id: int
    name: str
    default_time_limit: timedelta | None
    max_time_limit: timedelta | None
    max_grace: timedelta
    max_priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamChoice:
    """A team to which the person may submit; ``allows`` names what its pods may beyond what every team's may."""

    id: int
    name: str
    queues: tuple[QueueChoice, ...]
    namespace: str = ""
    allows: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityChoice:
    """A priority class by name."""

    id: int
    name: str
    value: int
    preemptible: bool


class Ceilings(Protocol):
    """What teams could ever have."""

    def most(self, team: int, flavor: int) -> int:
        """Return the units that a team could have with everybody else idle; 0 also where either is not known."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All names that the person may use, and what their teams could ever have; ``levels`` outermost first."""

    teams: tuple[TeamChoice, ...]
    flavors: tuple[FlavorChoice, ...]
    priorities: tuple[PriorityChoice, ...]
    ceilings: Ceilings
    test_annotations: bool = False
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Something mounted at ``path``: a claim, a path of the node, or scratch space of ``size`` bytes."""

    path: str
    claim: str = ""
    host: str = ""
    size: int = 0
    memory: bool = False
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a task runs, and what its pod carries; ``secret_env`` maps names to ``SECRET/KEY``."""

    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Pairs = ()
    secrets: tuple[str, ...] = ()
    secret_env: Pairs = ()
    pull_secrets: tuple[str, ...] = ()
    pre_stop: tuple[str, ...] = ()
    service_account: str = ""
    volumes: tuple[Volume, ...] = ()
    shm: int = 0
    node_labels: Pairs = ()
    annotations: Pairs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecTopology:
    """How close together tasks want to be; ``place`` is the level's among all levels, outermost first."""

    near: Near
    level: str
    place: int
    max_skew: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecGroup:
    """Equal tasks; units, CPU (thousandths) and memory (bytes) are per task, flavors in order of wish.

    Of an elastic job ``tasks`` start together and ``most`` may run; None where the group has always as many.
    """

    name: str
    tasks: int
    units: int
    flavors: tuple[FlavorChoice, ...]
    cpu_milli: int
    memory: int
    run: Run
    topology: SpecTopology | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A job as asked for, every name resolved. ``time_limit`` None is no limit; ``grace`` is the wish.

    ``topology`` binds several groups together; the wish of a single group is the group's own. ``manifest``, of that
    ``kind`` (a key of ``clusters.kinds``), runs as it was written; its groups were read from it.
    """

    name: str
    team: TeamChoice
    queue: QueueChoice
    external_id: str | None
    labels: Pairs
    shape: JobShape
    groups: tuple[SpecGroup, ...]
    time_limit: timedelta | None
    priority: PriorityChoice
    borrow: bool
    grace: timedelta
    retries: int
    topology: SpecTopology | None = None
    manifest: Mapping[str, Any] | None = None
    kind: str = ""

    @property
    def tasks(self) -> int:
        """Return how many tasks the job has; of an elastic one those that start together."""
        return sum(group.tasks for group in self.groups)

    @property
    def most_tasks(self) -> int:
        """Return how many tasks the job may have at once."""
        return sum(group.most or group.tasks for group in self.groups)

    @property
    def units(self) -> int:
        """Return the units of all tasks; of an elastic job of those that start together."""
        return sum(group.tasks * group.units for group in self.groups)

    @property
    def most_units(self) -> int:
        """Return the units that the job may have at once."""
        return sum((group.most or group.tasks) * group.units for group in self.groups)
