"""What a pod says about its task: one pure function from what is stored and what is seen to what is true now."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from clusters.port import PodPhase, PodSeen
from queues.states import TASK_HOLDING, TaskState


class Trouble(StrEnum):
    """What can go wrong after admission."""

    UNSCHEDULABLE = "UNSCHEDULABLE"
    IMAGE_PULL = "IMAGE_PULL"
    NODE_LOST = "NODE_LOST"
    DELETED_OUTSIDE = "DELETED_OUTSIDE"
    EVICTED = "EVICTED"
    SHRUNK = "SHRUNK"
    TIMED_OUT = "TIMED_OUT"
    TASK_FAILED = "TASK_FAILED"
    START_FAILED = "START_FAILED"
    K8S_QUOTA = "K8S_QUOTA"
    K8S_REJECTED = "K8S_REJECTED"
    NAME_CONFLICT = "NAME_CONFLICT"
    CLUSTER_UNREACHABLE = "CLUSTER_UNREACHABLE"


# What Kubernetes says of pods that it ended itself, the job being not to blame, and of pods that a node did not take.
LOST_NODE = frozenset(
    {"NodeLost", "NodeShutdown", "Shutdown", "Terminated", "DeletionByTaintManager", "DeletionByPodGC"}
)
REMOVED = frozenset(
    {
        "EvictionByEvictionAPI",
        "PreemptionByScheduler",
        "PreemptionByKubeScheduler",
        "TerminationByKubelet",
        "Evicted",
        "Preempting",
    }
)
DISRUPTED = LOST_NODE | REMOVED
TAKEN = (Trouble.NODE_LOST, Trouble.DELETED_OUTSIDE)
NOT_ADMITTED = frozenset(
    {"NodeAffinity", "NodeName", "OutOfcpu", "OutOfmemory", "OutOfpods", "UnexpectedAdmissionError"}
)
CANNOT_PULL = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
)
DELETED = "Its pod was deleted by somebody else"
# How far the clocks of a node and of the API server, both in whole seconds, may differ.
CLOCKS = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNow:
    """A task as it stands."""

    state: TaskState
    node_id: int
    bound: bool = False
    pod: str = ""
    pod_uid: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    container: str = ""
    reason: str = ""
    message: str = ""

    @property
    def holds(self) -> bool:
        """Whether it still holds its units."""
        return self.state in TASK_HOLDING


def with_pod(task: TaskNow, pod: PodSeen, *, node: int | None, admitted: datetime, now: datetime) -> TaskNow:
    """Return a task that holds as its pod shows it; ``node`` is where the pod is bound.

    Kubernetes' times are whole seconds: none is taken to be before the admission, nor an end before its start.
    """
    started = task.started_at or (pod.started_at and max(pod.started_at, admitted))
    seen = replace(
        task,
        pod=pod.name,
        pod_uid=pod.uid,
        bound=task.bound or node is not None,
        node_id=task.node_id if node is None else node,
        started_at=started,
    )
    match pod.phase:
        case PodPhase.SUCCEEDED:
            ended = _ended_at(seen, pod, now)
            return replace(seen, state=TaskState.SUCCEEDED, ended_at=ended, exit_code=0, reason="", message="")
        case PodPhase.FAILED:
            return _failed(seen, pod, now)
        case PodPhase.RUNNING if task.state is TaskState.PENDING:
            return replace(seen, state=TaskState.RUNNING, started_at=seen.started_at or now, reason="", message="")
        case PodPhase.PENDING if task.state is TaskState.PENDING:
            return replace(seen, reason=_trouble(pod), message=pod.message if _trouble(pod) else "")
        case _:
            return seen


def without_pod(task: TaskNow, *, now: datetime) -> TaskNow:
    """Return a task that held and whose pod is known to be gone."""
    if task.state is TaskState.LEAVING:
        return _gone(task, now)
    return _deleted(task, now)


def without_node(task: TaskNow, *, now: datetime, name: str) -> TaskNow:
    """Return a task that held on a node that is lost."""
    if task.state is TaskState.LEAVING:
        return _gone(task, now)
    text = f"Node {name} was lost"
    return replace(task, state=TaskState.STOPPED, ended_at=now, reason=Trouble.NODE_LOST, message=text)


def disrupted(task: TaskNow, pod: PodSeen) -> TaskNow:
    """Return a task with what Kubernetes did to its pod, which it ended itself."""
    reason = Trouble.NODE_LOST if pod.end_reason in LOST_NODE else Trouble.DELETED_OUTSIDE
    return replace(task, reason=reason, message=pod.message)


def _deleted(task: TaskNow, ended: datetime) -> TaskNow:
    return replace(task, state=TaskState.STOPPED, ended_at=ended, reason=Trouble.DELETED_OUTSIDE, message=DELETED)


def _was_told_to_go(pod: PodSeen, ended: datetime) -> bool:
    """Whether a pod ended because somebody deleted it, and was not deleted after its end."""
    return pod.leaving and (pod.leaving_since is None or pod.leaving_since - CLOCKS <= ended)


def _gone(task: TaskNow, now: datetime) -> TaskNow:
    """End a task that had to go; one that ran out of time has failed."""
    state = TaskState.FAILED if task.reason == Trouble.TIMED_OUT else TaskState.STOPPED
    return replace(task, state=state, ended_at=now)


def _failed(task: TaskNow, pod: PodSeen, now: datetime) -> TaskNow:
    ended = _ended_at(task, pod, now)
    if task.state is TaskState.LEAVING:
        return replace(_gone(task, ended), exit_code=pod.exit_code)
    message = pod.message
    if pod.end_reason in DISRUPTED:
        return replace(disrupted(task, pod), state=TaskState.STOPPED, ended_at=ended)
    if pod.end_reason in NOT_ADMITTED:
        return replace(task, state=TaskState.STOPPED, ended_at=ended, reason=Trouble.START_FAILED, message=message)
    if _was_told_to_go(pod, ended):
        return _deleted(task, ended)
    return replace(
        task,
        state=TaskState.FAILED,
        ended_at=ended,
        exit_code=pod.exit_code,
        container=pod.container,
        reason=pod.end_reason[:60] or Trouble.TASK_FAILED,
        message=message,
    )


def _ended_at(task: TaskNow, pod: PodSeen, now: datetime) -> datetime:
    ended = pod.ended_at or now
    return ended if task.started_at is None else max(ended, task.started_at)


def _trouble(pod: PodSeen) -> str:
    if pod.waiting_reason in CANNOT_PULL:
        return Trouble.IMAGE_PULL
    return Trouble.UNSCHEDULABLE if pod.waiting_reason == "Unschedulable" else ""
