"""A wave as stored and as seen: pure comparison of rows with a view, nothing is written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta

from clusters.port import PodPhase, PodSeen, WaveSeen
from clusters.raw import UNCOUNTED
from queues import managed
from queues.limits import run_ends_at
from queues.models import Task, Wave
from queues.nodes import Places
from queues.progress import DISRUPTED, TAKEN, TaskNow, Trouble, with_pod, without_node, without_pod
from queues.states import TaskState, WaveState
from queues.view import ENDED_PHASES, View

# How far the clocks of two of our processes may differ.
SKEW = timedelta(seconds=1)
COLUMNS = tuple(column.name for column in fields(TaskNow))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A wave with its tasks, what they are now and their pods (by id), and why the cluster refuses it pods.

    ``changed`` are the tasks that are not as stored, ``ended`` those of them that hold no longer.
    ``seen``: anything of it is there.
    """

    wave: Wave
    tasks: tuple[Task, ...]
    now: dict[int, TaskNow]
    pods: dict[int, PodSeen]
    changed: tuple[Task, ...]
    ended: tuple[Task, ...]
    refusal: str
    seen: bool

    @property
    def holds(self) -> bool:
        """Whether any task holds units now."""
        return any(task.holds for task in self.now.values())

    @property
    def moves(self) -> bool:
        """Whether anything is to be written."""
        return bool(
            self.changed
            or (self.seen and self.wave.seen_at is None)
            or (self.lacks_pods and self.refusal != self.wave.job.reason_text)
            or not self.holds
        )

    @property
    def lacks_pods(self) -> bool:
        """Whether the cluster refuses pods to tasks that wait for one."""
        return bool(self.refusal and self.wave.state != WaveState.EVICTING and self.count(TaskState.PENDING))

    def count(self, *states: TaskState) -> int:
        """Return how many tasks are in one of these states now."""
        return sum(task.state in states for task in self.now.values())


def look(wave: Wave, tasks: Sequence[Task], view: View, places: Places, *, now: datetime) -> Sight:
    """Compare a wave with what is seen of it."""
    uid = str(wave.uid)
    objects = list(view.objects_of(uid))
    pods = list(view.pods_of(uid))
    if wave.job.kind:
        found = managed.pair(tasks, pods)
        after = _see_managed(wave, tasks, found, objects, pods, view, places, now)
    else:
        found = _by_index(tasks, pods)
        groups = {seen.group for seen in objects}
        after = {task.id: _see(wave, task, found.get(task.id), groups, view, places, now) for task in tasks}
    changed = tuple(task for task in tasks if after[task.id] != stored(task))
    return Sight(
        wave=wave,
        tasks=tuple(tasks),
        now=after,
        pods=found,
        changed=changed,
        ended=tuple(task for task in changed if not after[task.id].holds),
        refusal=next((seen.refusal for seen in objects if seen.refusal), ""),
        seen=bool(objects or pods),
    )


def stored(task: Task) -> TaskNow:
    """Return a task as its row says."""
    return TaskNow(
        state=TaskState(task.state),
        node_id=task.node_id,
        bound=task.bound,
        pod=task.pod,
        pod_uid=task.pod_uid,
        started_at=task.started_at,
        ended_at=task.ended_at,
        exit_code=task.exit_code,
        container=task.container,
        reason=task.reason,
        message=task.message,
    )


def _by_index(tasks: Sequence[Task], pods: Iterable[PodSeen]) -> dict[int, PodSeen]:
    """Return the pod of each task by id: of several one that has not ended, then one that is not leaving."""
    best: dict[tuple[int, int | None], PodSeen] = {}
    for pod in sorted(pods, key=lambda pod: (pod.phase not in ENDED_PHASES, not pod.leaving, pod.uid)):
        best[pod.group, pod.index] = pod
    found = ((task.id, best.get((task.group, task.pod_index))) for task in tasks)
    return {pk: pod for pk, pod in found if pod is not None}


def _see(
    wave: Wave, task: Task, pod: PodSeen | None, groups: set[int], view: View, places: Places, now: datetime
) -> TaskNow:
    before = stored(task)
    if not before.holds:
        return before
    node = places.ids.get(pod.node) if pod and pod.node else None
    if pod is not None and pod.phase in ENDED_PHASES:
        return _fenced(with_pod(before, pod, node=node, admitted=wave.admitted_at, now=now), wave)
    lost = _lost_node(task, pod, node, places)
    if lost is not None:
        return without_node(before, now=now, name=lost)
    if pod is not None:
        return with_pod(before, pod, node=node, admitted=wave.admitted_at, now=now)
    if task.pod_uid or (task.group not in groups and _is_shown(wave, view)):
        return without_pod(before, now=now)
    return before


def _fenced(task: TaskNow, wave: Wave) -> TaskNow:
    """Call out of time what Kubernetes' own deadline ended, which stands behind ours for when we cannot act."""
    limit = run_ends_at(wave)
    if task.reason != Trouble.DELETED_OUTSIDE or limit is None or task.ended_at is None or task.ended_at < limit:
        return task
    text = f"Ran longer than its time limit of {wave.job.time_limit}"
    return replace(task, state=TaskState.FAILED, reason=Trouble.TIMED_OUT, message=text)


def _see_managed(
    wave: Wave,
    tasks: Sequence[Task],
    found: dict[int, PodSeen],
    objects: Sequence[WaveSeen],
    pods: Sequence[PodSeen],
    view: View,
    places: Places,
    now: datetime,
) -> dict[int, TaskNow]:
    """See the tasks of an object that people wrote; one whose node is lost has lost its place there too."""
    parted = view.lost(str(wave.uid))
    failed = [pod for pod in pods if _failed_by_itself(pod)]
    thing = managed.Thing(
        seen=objects[0] if objects else parted,
        done=managed.all_done(objects[0] if objects else parted, pods),
        back=view.offers.get(wave.job.object_uid or ""),
        gone=not objects and (parted is not None or (_is_shown(wave, view) and _is_seen(wave, view))),
        failed_pods=bool(failed),
        failed_tasks=any(map(_failed_by_itself, found.values())),
        fault=next((_fault(pod) for pod in failed if pod.group >= UNCOUNTED), ""),
        lost_pods=any(pod.phase is PodPhase.FAILED and pod.leaving for pod in pods)
        or not {task.pod_uid for task in tasks if task.pod_uid} <= {pod.uid for pod in pods},
        disrupted=any(task.reason in TAKEN for task in tasks)
        or any(pod.end_reason in DISRUPTED for pod in found.values()),
    )
    after = {}
    for task in tasks:
        before, pod = stored(task), found.get(task.id)
        node = places.ids.get(pod.node) if pod and pod.node else None
        lost = _lost_node(task, pod, node, places) if pod is None or pod.phase not in ENDED_PHASES else None
        if not before.holds:
            after[task.id] = before
        elif lost is not None:
            after[task.id] = without_node(before, now=now, name=lost)
        else:
            after[task.id] = managed.see(before, pod, thing, node=node, admitted=wave.admitted_at, now=now)
    return after


def _failed_by_itself(pod: PodSeen) -> bool:
    return pod.phase is PodPhase.FAILED and not pod.leaving and pod.end_reason not in DISRUPTED


def _fault(pod: PodSeen) -> str:
    code = "" if pod.exit_code is None else f" with exit code {pod.exit_code}"
    return f"{pod.name} failed{code}"


def _lost_node(task: Task, pod: PodSeen | None, node: int | None, places: Places) -> str | None:
    """Return the name of the node on which the task runs, or is to run, if that is lost."""
    if pod is not None and pod.node:
        return pod.node if node is None or node in places.lost else None
    return places.names[task.node_id] if task.node_id in places.lost else None


def _is_shown(wave: Wave, view: View) -> bool:
    """Whether the view is newer than what was last told the cluster about the wave, so that it shows the effect."""
    told = wave.stopped_at if wave.state == WaveState.EVICTING else wave.launched_at
    return told is not None and told + SKEW < view.as_of


def _is_seen(wave: Wave, view: View) -> bool:
    """Whether the view would show the object that people wrote; what we told to go is believed to have gone."""
    return wave.state == WaveState.EVICTING or wave.job.kind not in view.unseen
