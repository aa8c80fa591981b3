"""What Tidegate says to a Kubernetes cluster and hears from it, in Tidegate's words.

Every verb is idempotent: repeating it changes nothing, so that a crash at any point is repaired by doing it again.
Units are counted integers, CPU thousandths of a core, memory bytes, times aware UTC datetimes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol


class ClusterError(Exception):
    """Something that a cluster answered or failed to answer."""


class Unreachable(ClusterError):
    """No answer, or none to trust (connection, time-out, 401, 403 for lack of a right, 429, 5xx).

    Unknown, never failed: try again later.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        """Keep the server's wish for a pause in seconds, where it named one."""
        super().__init__(message)
        self.retry_after = retry_after


class Silent(Unreachable):
    """The connection stands, but nothing came in the time that was given."""


class Refused(ClusterError):
    """The API server refuses it as invalid (400, 403 but for quota, 404 of a kind, 422): repeating it cannot help."""


class NotThere(Refused):
    """What was asked about is not there (404)."""


class QuotaRefused(ClusterError):
    """A ResourceQuota of the namespace refuses the object: it may pass later."""


class NameTaken(ClusterError):
    """An object of that name exists and is not ours, or is being deleted."""

    def __init__(self, message: str, *, leaving: bool) -> None:
        """Tell whether the object is ours and on its way out (try again) or foreign."""
        super().__init__(message)
        self.leaving = leaving


class Gone(ClusterError):
    """The watch's position is too old (410): list again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node's taint; effect is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """What a pod puts up with; an empty effect means every effect, an empty key with operator Exists every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """A node as the API server shows it.

    ``counted`` has allocatable extended resources (``nvidia.com/gpu``: 8) and no zeros. ``conditions`` are those that
    are amiss (``DiskPressure``), readiness aside.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    ready: bool
    cordoned: bool
    cpu: int
    memory: int
    pods: int
    counted: Mapping[str, int]
    capacity: Mapping[str, int]
    conditions: tuple[str, ...] = ()


class PodPhase(StrEnum):
    """Kubernetes' own words for where a pod stands."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """A pod that exists.

    ``wave`` and ``group`` are set for our pods, read from labels; ``index`` is the Job completion index, ``ordinal``
    counts the copies of its Job in a JobSet. ``family`` names its object where that cannot give pods our labels.

    ``waiting_reason`` names why a container or the scheduler waits (ErrImagePull, Unschedulable …), ``message`` its
    text. ``container`` is the one that waits or ended badly. ``leaving_since`` is when somebody asked a leaving pod to
    go.
    """

    namespace: str
    name: str
    uid: str
    node: str | None
    phase: PodPhase
    leaving: bool
    gated: bool
    cpu: int
    memory: int
    counted: Mapping[str, int]
    wave: str | None = None
    group: int = 0
    index: int | None = None
    leaving_since: datetime | None = None
    ordinal: int = 0
    family: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    container: str = ""
    waiting_reason: str = ""
    message: str = ""
    end_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveSeen:
    """An object that carries our labels: the Job of one group of a wave, or what people wrote for all its groups.

    ``refusal`` says why its pods cannot be created (a ResourceQuota, a webhook); only an inventory looks for it.
    ``kind`` names what people wrote (a key of ``clusters.kinds``), nothing for our own Jobs; ``adopted``: people made
    it too, so that it is never deleted. ``begun``: such an object says that all pods run which it still
    wants; ``suspended``: it makes none. ``completions``: how many of its pods have to succeed, where it says so.
    """

    namespace: str
    name: str
    uid: str
    wave: str
    group: int
    leaving: bool
    complete: bool
    failed: bool
    message: str = ""
    refusal: str = ""
    kind: str = ""
    adopted: bool = False
    begun: bool = False
    suspended: bool = False
    completions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An object that people made and gave into a queue by a label, and that is no wave's.

    ``manifest`` is what they wrote, ``refused`` what was told them about it, ``over``: it has come to its end, and
    perhaps it ``failed``.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    suspended: bool
    over: bool
    leaving: bool
    manifest: Mapping[str, Any]
    refused: str = ""
    failed: bool = False

    @property
    def complete(self) -> bool:
        """Whether it says that all went well."""
        return self.over and not self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All that a list shows, and the position from which a watch goes on (opaque to everyone but the adapter).

    ``devices`` has, by node and driver, how many devices dynamic resource allocation (DRA) announces there, ``claimed``
    how many of them are held by claims that are not ours; ``offered`` and ``taken`` say the same by node and by the
    resource that a device class is counted as. ``unseen`` are the kinds of which the list can say nothing.
    """

    nodes: tuple[NodeSeen, ...]
    pods: tuple[PodSeen, ...]
    waves: tuple[WaveSeen, ...]
    offers: tuple[Offer, ...] = ()
    devices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    claimed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    offered: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    taken: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    position: Mapping[str, str] = field(default_factory=dict)
    unseen: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesSeen:
    """All devices of DRA by node, as an inventory has them: drivers' announcements changed."""

    devices: Mapping[str, Mapping[str, int]]
    claimed: Mapping[str, Mapping[str, int]]
    offered: Mapping[str, Mapping[str, int]]
    taken: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One event: what was seen, or (``deleted``) seen for the last time; a watch may go on from ``position``."""

    seen: NodeSeen | PodSeen | WaveSeen | Offer | DevicesSeen
    deleted: bool = False
    position: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """Where one task of a group goes: completion index in the object, index in the job, and its witness node."""

    index: int
    task: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """Something mounted at ``path``: a claim, a path of the node (``host``), or scratch space of ``size`` bytes."""

    path: str
    claim: str = ""
    host: str = ""
    size: int = 0
    memory: bool = False
    read_only: bool = False


class Near(StrEnum):
    """How tasks want to lie: all in one domain, if possible in one, or evenly over domains."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Closeness:
    """A wish for domains, which are the values of the node label ``key`` ("": nodes themselves).

    ``domains`` are those in which tasks lie as planned, ``whole``: it counts the tasks of all groups together.
    """

    near: Near
    key: str = ""
    domains: tuple[str, ...] = ()
    max_skew: int | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """One Kubernetes Job of a wave: equal pods. In an object that people wrote it is the part of that ``name``."""

    group: int
    name: str = ""
    tasks: tuple[TaskSpec, ...]
    resource: str
    units: int
    cpu: int
    memory: int
    shm: int = 0
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()
    secret_env: tuple[tuple[str, str], ...] = ()
    pull_secrets: tuple[str, ...] = ()
    pre_stop: tuple[str, ...] = ()
    service_account: str = ""
    mounts: tuple[Mount, ...] = ()
    node_labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    closeness: tuple[Closeness, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """That a job has from ``least`` to ``most`` tasks; the first wave of the attempt, by number, has the least."""

    least: int
    most: int
    first: int


class Placement(StrEnum):
    """How strictly pods go to their witness node: required, preferred, or left to kube-scheduler."""

    PIN = "pin"
    PREFER = "prefer"
    FREE = "free"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawObject:
    """What people wrote, of which kind, and the UID of the object that they made where one is ``adopted``."""

    kind: str
    manifest: Mapping[str, Any]
    adopted: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A wave to run: everything that its Kubernetes objects need.

    ``wave`` is its UUID, ``number`` counts the job's waves from 1. ``gang``: one task that fails ends the others, which
    is not so of what an elastic job has beyond its least. ``labels`` are the owner's for the pods.
    ``raw`` runs instead of Jobs of ours.
    """

    wave: str
    job: str
    job_name: str
    number: int
    attempt: int
    team: str
    queue: str
    namespace: str
    gang: bool
    groups: tuple[GroupSpec, ...]
    priority_class: str
    priority_value: int
    placement: Placement = Placement.PIN
    grace_seconds: int = 30
    fence_seconds: int | None = None
    task_count: int = 0
    elastic: Elastic | None = None
    labels: tuple[tuple[str, str], ...] = ()
    raw: RawObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRef:
    """Which wave: enough to find its objects without asking the database.

    ``kind`` where people wrote its object, ``adopted`` the object's name where they made it too.
    """

    wave: str
    job: str
    number: int
    namespace: str
    groups: int
    kind: str = ""
    adopted: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A gated pod that may go to one node; ``task`` is its index in the job."""

    namespace: str
    pod: str
    node: str
    task: int
    placement: Placement = Placement.PIN


class Log(Protocol):
    """A pod's log that is still arriving: read it to its end, or shut it."""

    def chunks(self) -> Iterator[bytes]:
        """Yield bytes as they come; raise Unreachable where they break off."""
        ...

    def shut(self) -> None:
        """End it from another thread: its reader wakes up."""
        ...


class Cluster(Protocol):
    """One Kubernetes cluster."""

    def check(self) -> str:
        """Return the server's version, or raise Unreachable."""
        ...

    def inventory(self) -> Inventory:
        """List nodes, pods and our Jobs."""
        ...

    def watch(self, position: Mapping[str, str], *, seconds: float) -> Iterator[Change]:
        """Yield changes behind ``position`` for at most ``seconds``; raise Gone when the position is too old."""
        ...

    def ensure_team(self, namespace: str, *, team: str, ceiling: Mapping[str, int] | None) -> None:
        """Make sure of the team's namespace and its ResourceQuota fence, by counted resource (``None``: no fence)."""
        ...

    def launch(self, launch: Launch) -> None:
        """Create what the wave needs, or find it there; raise Refused, QuotaRefused, NameTaken or Unreachable."""
        ...

    def pin(self, pins: Sequence[Pin]) -> None:
        """Narrow each gated pod to its node and remove our gate; pods that are gone or free already are passed over."""
        ...

    def stop(self, ref: WaveRef, *, grace_seconds: int | None = None, pods_first: bool = False) -> None:
        """Delete the wave's objects and pods, suspend an adopted object; what is gone already is passed over.

        ``pods_first``: the objects stay, and keep their names, until no pod of theirs is left.
        """
        ...

    def refuse(self, offer: Offer, text: str) -> None:
        """Tell on an object, and by an event, why it is not taken into the queue; telling it again changes nothing."""
        ...

    def stop_pods(self, namespace: str, pods: Mapping[str, str], *, grace_seconds: int | None = None) -> None:
        """Delete these pods, by name and UID, and nothing else of their waves.

        What is gone already is passed over, and so is another pod that has the name by now.
        """
        ...

    def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        tail: int | None = None,
        since: datetime | None = None,
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
        patience: float | None = None,
    ) -> Log:
        """Open a container's log ("" is the only one; ``previous`` the run before its restart).

        ``since`` counts whole seconds. Raise NotThere when the pod is gone, Refused when it has no such log (yet), and
        Silent when nothing came within ``patience`` seconds: a followed log begins with its first line.
        """
        ...
