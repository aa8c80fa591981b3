"""The world as the rules see it: frozen values, whole numbers, ids in order of creation.

Units: counted units are integers (slots on a shared flavor); CPU is in thousandths of a core; memory in bytes;
times are milliseconds since an epoch of the caller's choice; weights and values are integers x 1000.
``None`` as a limit means "no limit"; ``0`` means "none".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

Milliseconds = int
Labels = tuple[tuple[str, str], ...]
HOUR: Milliseconds = 3_600_000


class JobShape(StrEnum):
    """How the tasks of a job belong together (SEMANTICS 6)."""

    INDEPENDENT = "independent"
    GANG = "gang"
    ELASTIC = "elastic"


class QueueOrder(StrEnum):
    """How a queue orders jobs of equal effective priority: by user in use first, or by time alone."""

    FAIR_USERS = "fair_users"
    FIFO = "fifo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aging:
    """Effective priority = base + min(cap, wait // every * step)."""

    every: Milliseconds = HOUR
    step: int = 1
    cap: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What holds for the whole installation."""

    aging: Aging = Aging()
    overcommit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """One kind of capacity. ``value`` is the exchange rate x 1000."""

    id: int
    name: str
    value: int = 1000
    spread: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a team owns, may borrow and lends on one flavor."""

    flavor: int
    guaranteed: int = 0
    borrow_limit: int | None = None
    lend_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A node of the team tree; ``parent`` None means a child of the root."""

    id: int
    name: str
    parent: int | None = None
    weight: int = 1000
    quotas: tuple[Quota, ...] = ()
    per_user_limit: int | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A named line of a leaf team with the policy for its own jobs."""

    id: int
    name: str
    team: int
    order: QueueOrder = QueueOrder.FAIR_USERS
    per_user_limit: int | None = None
    paused: bool = False


class NodeState(StrEnum):
    """Whether a node may take new work; what runs on a cordoned node stays."""

    READY = "ready"
    CORDONED = "cordoned"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine. ``units``, ``cpu`` and ``memory`` are allocatable; ``outside_*`` is used by pods that are not ours.

    ``domains`` is the path of topology domains, outermost first, ``None`` where the node lacks the level's label.
    """

    id: int
    name: str
    cluster: int
    flavor: int
    units: int
    cpu: int
    memory: int
    pods: int = 110
    labels: Labels = ()
    domains: tuple[str | None, ...] = ()
    state: NodeState = NodeState.READY
    outside_units: int = 0
    outside_cpu: int = 0
    outside_memory: int = 0
    outside_pods: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Equal tasks of a job: ``units``, ``cpu``, ``memory`` per task; ``flavors`` is the ordered wish, never empty."""

    tasks: int
    units: int
    cpu: int = 0
    memory: int = 0
    flavors: tuple[int, ...] = ()
    labels: Labels = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The shape of a class: what one job (or, of an independent job, one task) of it asks for."""

    shape: JobShape
    groups: tuple[Group, ...]
    borrow: bool = True
    preemptible: bool = True
    time_limit: Milliseconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """Jobs that the rules cannot tell apart but for user and time: (queue, base priority, ask)."""

    id: int
    queue: int
    priority: int
    ask: Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A job that may start now. ``tasks`` counts the waiting tasks of an independent job; 1 for a gang."""

    id: int
    job_class: int
    user: int
    wait_from: Milliseconds
    submitted: Milliseconds
    tasks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """``tasks`` tasks of group number ``group`` on one node."""

    group: int
    node: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A wave that holds units: admitted, running, or evicting until its pods are gone.

    ``placed`` counts the tasks that still hold; ``number`` is the order of admission,
    ``queue`` the queue whose per-user limit the units count against.
    """

    id: int
    number: int
    job: int
    team: int
    user: int
    groups: tuple[Group, ...]
    flavors: tuple[int, ...]
    placed: tuple[Placed, ...]
    since: Milliseconds
    borrow: bool = True
    preemptible: bool = True
    leaving: bool = False
    queue: int | None = None
    ends_by: Milliseconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One consistent snapshot. ``classes`` are those with waiting jobs; the order of rows does not matter."""

    now: Milliseconds
    policy: Policy = Policy()
    flavors: tuple[Flavor, ...] = ()
    teams: tuple[Team, ...] = ()
    queues: tuple[Queue, ...] = ()
    nodes: tuple[Node, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    classes: tuple[JobClass, ...] = ()


class Heads(Protocol):
    """The waiting jobs, read piece by piece from the snapshot that the world was read from."""

    def users(self, job_class: int) -> tuple[Waiting, ...]:
        """Return the first waiting job of each user of the class, sorted by (wait_from, submitted, id)."""
        ...

    def after(self, job_class: int, user: int, last: Waiting) -> Iterator[Waiting]:
        """Yield the user's further jobs of the class behind ``last``, in the same order, reading pages as needed."""
        ...
