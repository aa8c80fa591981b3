"""The world as the rules see it: frozen values, whole numbers, ids in order of creation.

Units: counted units are integers (slots on a shared flavor); CPU is in thousandths of a core; memory in bytes;
times are milliseconds since an epoch of the caller's choice; weights and values are integers x 1000.
``None`` as a limit means "no limit"; ``0`` means "none".
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

Milliseconds = int
Labels = tuple[tuple[str, str], ...]
MINUTE: Milliseconds = 60_000
HOUR: Milliseconds = 60 * MINUTE


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
    restart_cost: Milliseconds = 10 * MINUTE
    evictions_per_minute: int | None = None
    max_evictions: int = 3
    hold_idle_limit: int | None = None


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
    hold_after: Milliseconds = 30 * MINUTE
    preempt_within_team: bool = False
    limit_needed_to_borrow: bool = False


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


class Near(StrEnum):
    """How tasks want to lie in the topology: all in one domain, if possible in one, or evenly over domains."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A wish for a level; ``level`` is its place in a node's ``domains``, their number means the node itself."""

    near: Near
    level: int
    max_skew: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Equal tasks of a job: ``units``, ``cpu``, ``memory`` per task; ``flavors`` is the ordered wish, never empty."""

    tasks: int
    units: int
    cpu: int = 0
    memory: int = 0
    flavors: tuple[int, ...] = ()
    labels: Labels = ()
    most: int | None = None
    topology: Topology | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The shape of a class: what one job (or, of an independent job, one task) of it asks for.

    ``tasks`` of an elastic job's groups are its minimum, ``most`` the maximum. ``topology`` binds all groups together.
    """

    shape: JobShape
    groups: tuple[Group, ...]
    borrow: bool = True
    preemptible: bool = True
    time_limit: Milliseconds | None = None
    topology: Topology | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """Jobs that the rules cannot tell apart but for user and time: (queue, base priority, ask)."""

    id: int
    queue: int
    priority: int
    ask: Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A job that may start now. ``tasks`` counts the waiting tasks of an independent job; 1 for a gang.

    ``limit`` is what is left of its own time limit, ``grace`` the time that it may take to leave; its sure end is both
    after its start. ``evictions`` counts how often it was evicted, ``idle`` the unit-milliseconds it has kept idle.
    """

    id: int
    job_class: int
    user: int
    wait_from: Milliseconds
    submitted: Milliseconds
    tasks: int = 1
    limit: Milliseconds | None = None
    grace: Milliseconds = 0
    evictions: int = 0
    idle: int = 0


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
    ``queue`` the queue whose per-user limit the units count against. ``ends_by`` is its sure end, grace included.

    For recalls: ``priority`` is the effective one at admission, ``safe_until`` the end of its minimum run time,
    ``saved`` the start or last checkpoint from which lost work counts, ``evictions`` the earlier ones of the job,
    ``grace`` the time that its pods may take to leave; ``claimed`` says that it leaves for a claim. Of an elastic job
    ``surplus`` tells the soft tasks beside ``placed``, oldest first, and ``grows_from`` when it may grow again.
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
    shape: JobShape = JobShape.GANG
    priority: int = 0
    safe_until: Milliseconds = 0
    saved: Milliseconds | None = None
    evictions: int = 0
    grace: Milliseconds = 0
    claimed: bool = False
    surplus: tuple[Placed, ...] = ()
    grows_from: Milliseconds = 0


class Standing(StrEnum):
    """What a reservation or hold rests on: a guarantee, or room that others lend."""

    GUARANTEED = "guaranteed"
    BORROWER = "borrower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Units reserved for a waiting job (or one task of an independent one) until what leaves for it is gone.

    ``team`` is the claimant's; ``victims`` are attempts with the tasks that leave, ``pending`` those not begun yet.
    ``length`` is how long the claimant holds units at most once it has started, None without a limit.
    """

    id: int
    job: int
    job_class: int
    team: int
    user: int
    flavors: tuple[int, ...]
    placed: tuple[Placed, ...]
    standing: Standing = Standing.GUARANTEED
    pending: tuple["Victim", ...] = ()
    length: Milliseconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """Tasks of an attempt that leave for a claim; ``surplus`` ones go without being an eviction."""

    attempt: int
    placed: tuple[Placed, ...]
    surplus: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The planned start of a waiting job: ``at`` None where it cannot be told; ``placed`` is what it needs then."""

    job: int
    job_class: int
    user: int
    flavors: tuple[int, ...]
    placed: tuple[Placed, ...]
    at: Milliseconds | None
    wait_from: Milliseconds = 0
    limit: Milliseconds | None = None
    grace: Milliseconds = 0
    evictions: int = 0
    idle: int = 0
    standing: Standing = Standing.GUARANTEED
    moved: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One consistent snapshot. ``classes`` are those with waiting jobs; the order of rows does not matter.

    Of ``resting`` classes, whose jobs are held or back off, it is told only whether they could ever start.
    """

    now: Milliseconds
    policy: Policy = Policy()
    flavors: tuple[Flavor, ...] = ()
    teams: tuple[Team, ...] = ()
    queues: tuple[Queue, ...] = ()
    nodes: tuple[Node, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    classes: tuple[JobClass, ...] = ()
    claims: tuple[Claim, ...] = ()
    holds: tuple[Hold, ...] = ()
    evicted_at: tuple[Milliseconds, ...] = ()
    resting: tuple[JobClass, ...] = ()


class Heads(Protocol):
    """The waiting jobs, read piece by piece from the snapshot that the world was read from."""

    def users(self, job_class: int) -> tuple[Waiting, ...]:
        """Return the first waiting job of each user of the class, sorted by (wait_from, submitted, id)."""
        ...

    def changed(self, mark: object) -> tuple[object, Collection[int] | None]:
        """Return a mark of who is first now, and the classes in which others were first at an earlier mark.

        None: that is not known. What jobs have kept idle does not count.
        """
        ...

    def expect(self, heads: Iterable[Waiting]) -> None:
        """Be told behind which first jobs further ones may be asked for, likeliest first: they may be read together."""
        ...

    def after(self, job_class: int, user: int, last: Waiting) -> Iterator[Waiting]:
        """Yield the user's further jobs of the class behind ``last``, in the same order, reading pages as needed."""
        ...
