"""Waves whose pods are made by a controller of an object that people wrote: which pod is which task, and when it ends.

Such an object may replace its pods, so the end of a pod is not the end of its task: the object says when all is over.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from clusters.kinds import BY_KEY, JOB
from clusters.port import Offer, PodPhase, PodSeen, WaveSeen
from queues.models import Task
from queues.progress import DISRUPTED, TAKEN, TaskNow, Trouble, disrupted, with_pod, without_pod
from queues.states import TaskState
from queues.view import ENDED_PHASES

SUSPENDED = "Its object was suspended by somebody else"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """The object of a wave: not ``seen`` and yet not ``gone`` is unknown.

    One that is gone is ``seen`` as it was last. ``back``: the object that people made, while it is no wave's.
    ``failed_pods``: a pod of it has failed by itself, ``failed_tasks``: one of a task, ``fault``: how one failed that
    is no task, such as a launcher or a head, ``lost_pods``: somebody deleted one, ``disrupted``: Kubernetes took one
    away (a drain, a taint, a node under pressure) that was not made anew. ``done``: all pods have succeeded that it
    asks for, though it may not say so yet.
    """

    seen: WaveSeen | None
    gone: bool
    failed_pods: bool
    failed_tasks: bool = False
    fault: str = ""
    lost_pods: bool = False
    disrupted: bool = False
    done: bool = False
    back: Offer | None = None

    @property
    def complete(self) -> bool:
        """Whether it says that all went well."""
        return any(each is not None and each.complete for each in (self.seen, self.back))

    @property
    def failed(self) -> bool:
        """Whether it says that it has failed."""
        return any(each is not None and each.failed for each in (self.seen, self.back))

    @property
    def begun(self) -> bool:
        """Whether it says that all pods run which it still wants."""
        return self.seen is not None and self.seen.begun

    @property
    def suspended(self) -> bool:
        """Whether somebody suspended it, which nobody but a queue is to do: it makes no pods."""
        return self.seen is not None and self.seen.suspended

    @property
    def robbed(self) -> bool:
        """Whether it failed for no other reason than that pods of it were taken away, and may be made anew.

        That a pod is missing tells it only of a Job of batch/v1, which surely keeps the pods that failed by themselves.
        """
        seen = self.seen
        if seen is None or not seen.failed or seen.adopted or self.failed_pods:
            return False
        gave_up = seen.message.startswith(BY_KEY[seen.kind].gave_up or "")
        return gave_up and (self.disrupted or (self.lost_pods and seen.kind == JOB.key))


def all_done(seen: WaveSeen | None, pods: Iterable[PodSeen]) -> bool:
    """Tell whether as many pods of a Job have succeeded as it asks for, none of them when it had been told to go.

    Its controller says so a second later, or never, where it is taken back before.
    """
    if seen is None or seen.completions is None:
        return False
    well = (pod for pod in pods if pod.phase is PodPhase.SUCCEEDED and not _was_told_to_go(pod))
    return len({pod.uid if pod.index is None else pod.index for pod in well}) >= seen.completions


def _was_told_to_go(pod: PodSeen) -> bool:
    """Tell whether a pod may have ended because it was to go; times are in whole seconds."""
    if not pod.leaving:
        return False
    return pod.ended_at is None or pod.leaving_since is None or pod.ended_at >= pod.leaving_since


def pair(tasks: Sequence[Task], pods: Iterable[PodSeen]) -> dict[int, PodSeen]:
    """Return the pod of each task by the task's id: the one it had, else one of its group that nobody has.

    A pod that has ended makes room for one that its controller made instead.
    """
    order = sorted(pods, key=_order)
    live = [pod for pod in order if pod.phase not in ENDED_PHASES]
    had = {task.pod_uid: task for task in tasks if task.pod_uid}
    found = {had[pod.uid].id: pod for pod in live if pod.uid in had}
    taken = {pod.uid for pod in found.values()}
    for pods_left in (live, [pod for pod in order if pod.phase in ENDED_PHASES]):
        for pod in pods_left:
            if pod.uid in taken:
                continue
            task = _place(pod, tasks, found)
            if task is not None:
                found[task.id] = pod
    return found


def see(
    before: TaskNow, pod: PodSeen | None, thing: Thing, *, node: int | None, admitted: datetime, now: datetime
) -> TaskNow:
    """Return a task that holds as its pod and its object show it."""
    if pod is not None and pod.phase not in ENDED_PHASES:
        return _noted(with_pod(before, pod, node=node, admitted=admitted, now=now), pod)
    if thing.complete or (thing.done and (thing.gone or before.state is TaskState.LEAVING)):
        return _succeeded(before, pod, now)
    if thing.gone:
        # That a pod went well says nothing of the object, which may have wanted others behind it.
        if pod is None or pod.phase is PodPhase.SUCCEEDED:
            return without_pod(before, now=now)
        return with_pod(before, pod, node=node, admitted=admitted, now=now)
    if before.state is TaskState.LEAVING:
        return before
    before = _noted(before, pod)
    if thing.robbed:
        return _taken(before, now)
    if thing.failed:
        return _failed(before, pod, thing, node=node, admitted=admitted, now=now)
    if thing.suspended:
        return replace(without_pod(before, now=now), message=SUSPENDED)
    return _started(before, pod, thing, now)


def _noted(task: TaskNow, pod: PodSeen | None) -> TaskNow:
    """Note on a task that Kubernetes takes its pod away, until it has another: the object may fail for it later."""
    if pod is None or task.state is TaskState.LEAVING:
        return task
    if pod.end_reason in DISRUPTED:
        return disrupted(task, pod)
    return replace(task, reason="", message="") if task.state is TaskState.RUNNING else task


def _taken(before: TaskNow, now: datetime) -> TaskNow:
    stopped = without_pod(before, now=now)
    return replace(stopped, reason=before.reason, message=before.message) if before.reason in TAKEN else stopped


def _succeeded(before: TaskNow, pod: PodSeen | None, now: datetime) -> TaskNow:
    ended = (pod and pod.ended_at) or now
    ended = ended if before.started_at is None else max(ended, before.started_at)
    seen = _named(before, pod)
    return replace(seen, state=TaskState.SUCCEEDED, ended_at=ended, exit_code=0, reason="", message="")


def _failed(
    before: TaskNow, pod: PodSeen | None, thing: Thing, *, node: int | None, admitted: datetime, now: datetime
) -> TaskNow:
    """End a task of an object that has failed: the tasks that failed are to blame, else all for what it says."""
    if pod is not None and pod.phase is PodPhase.FAILED:
        told = with_pod(before, pod, node=node, admitted=admitted, now=now)
        if told.state is TaskState.FAILED:
            return told
    said = thing.seen.message if thing.seen else ""
    taken = before.message if before.reason in TAKEN else ""
    message = "; ".join(filter(None, (said, thing.fault, taken)))
    state = TaskState.STOPPED if thing.failed_tasks else TaskState.FAILED
    reason = (said or taken).partition(":")[0][:60] or Trouble.TASK_FAILED
    return replace(_named(before, pod), state=state, ended_at=now, reason=reason, message=message)


def _started(before: TaskNow, pod: PodSeen | None, thing: Thing, now: datetime) -> TaskNow:
    """Note that a task has run whose pod has come and gone between two looks, or that needs none any more.

    An object that runs again goes on from where it was: what has succeeded before gets no pod.
    """
    if before.state is not TaskState.PENDING or (pod is None and not thing.begun):
        return before
    started = (pod and pod.started_at) or now
    return replace(_named(before, pod), state=TaskState.RUNNING, started_at=started, reason="", message="")


def _named(before: TaskNow, pod: PodSeen | None) -> TaskNow:
    return before if pod is None else replace(before, pod=pod.name, pod_uid=pod.uid)


def _place(pod: PodSeen, tasks: Sequence[Task], found: dict[int, PodSeen]) -> Task | None:
    free = [task for task in tasks if task.group == pod.group and task.id not in found]
    same = (task for task in free if pod.ordinal == 0 and task.pod_index == pod.index)
    return next(same, free[0] if free else None)


def _order(pod: PodSeen) -> tuple[int, int, str, str]:
    return pod.ordinal, -1 if pod.index is None else pod.index, pod.name, pod.uid
