"""The kubelets: they pretend to run pods, for as long and with the end that annotations ask for."""

from datetime import datetime

from clusters.emulator.clock import duration, parse
from clusters.emulator.core import controller, finished, leaving, with_condition
from clusters.emulator.deletion import AT_ONCE, delete
from clusters.emulator.events import Recorder
from clusters.emulator.kinds import INSTALLED, JOBS, NODES, PODS
from clusters.emulator.registry import Registry
from clusters.emulator.store import Change, Object

_JOBS = (JOBS.kind, *(kind.kind for kind in INSTALLED))
PREFIX = "tidegate.test/"
DEFAULT_RUN = 0.2
KILLED, TERMINATED = 137, 143


def wish(pod: Object, name: str) -> str | None:
    """Return one of the annotations that steer a pod."""
    found: str | None = (pod["metadata"].get("annotations") or {}).get(PREFIX + name)
    return found


def run_for(pod: Object) -> float | None:
    """Return how many seconds the pod runs by itself, or None for ever; only pods of jobs end by themselves."""
    if wish(pod, "forever") is not None or not any(controller(pod, kind) for kind in _JOBS):
        return None
    return duration(wish(pod, "run-for") or "", DEFAULT_RUN)


def exit_code(pod: Object) -> int:
    """Return the code with which the pod ends by itself; what is no number counts as 1."""
    text = wish(pod, "exit-code") or "0"
    return int(text) if text.isascii() and text.isdigit() else 1


def is_up(node: Object | None) -> bool:
    """Tell whether the node has a kubelet that answers."""
    return node is not None and (node["metadata"].get("labels") or {}).get(PREFIX + "kubelet") != "down"


class Kubelets:
    """All kubelets in one: each pod that is bound to a node whose kubelet is up takes its next step when it is due."""

    def __init__(self, registry: Registry, recorder: Recorder) -> None:
        """Follow pods, and nodes that come back."""
        self._registry = registry
        self._core = registry.core
        self._recorder = recorder
        self._started: dict[str, datetime] = {}
        self._bound: dict[str, datetime] = {}
        self._core.store.listen(self._heed)

    def resume(self) -> None:
        """Go on with every pod, as after a start."""
        for pod in self._core.store.bodies(PODS):
            self._heed_pod(pod)

    def started(self, pod: Object) -> datetime | None:
        """Return when the pod started, as exactly as is known."""
        exact = self._started.get(pod["metadata"]["uid"])
        text = (pod.get("status") or {}).get("startTime")
        return exact or (parse(text) if text and pod["status"].get("containerStatuses") else None)

    def _heed(self, change: Change) -> None:
        body = change.new.body
        if change.kind is PODS:
            if change.deleted:
                self._forget(body["metadata"]["uid"])
            else:
                self._heed_pod(body)
        elif change.kind is NODES and change.old and is_up(body) and not is_up(change.old.body):
            for pod in self._core.store.bodies(PODS):
                if pod["spec"].get("nodeName") == body["metadata"]["name"]:
                    self._heed_pod(pod)

    def _forget(self, uid: str) -> None:
        self._core.agenda.cancel(("pod", uid))
        self._started.pop(uid, None)
        self._bound.pop(uid, None)

    def _heed_pod(self, pod: Object) -> None:
        """Arm what the pod does next."""
        uid = pod["metadata"]["uid"]
        if finished(pod) and not leaving(pod):
            self._core.agenda.cancel(("pod", uid))
            return
        wait = self._next(pod)
        if wait is None:
            return
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        if wait <= 0:
            self._core.agenda.cancel(("pod", uid))
            self._core.agenda.soon(("pod", uid), lambda: self._step(namespace, name, uid))
        else:
            self._core.agenda.later(("pod", uid), wait, lambda: self._step(namespace, name, uid))

    def _next(self, pod: Object) -> float | None:
        """Return in how many seconds the pod's next step is due, or None when nothing is to come."""
        node = pod["spec"].get("nodeName")
        if leaving(pod):
            return self._grace(pod) if node or not finished(pod) else None
        if not node:
            return None
        now, uid = self._core.clock(), pod["metadata"]["uid"]
        if pod["status"]["phase"] == "Pending":
            if pod["status"].get("containerStatuses"):
                return None
            bound = self._bound.setdefault(uid, now)
            return duration(wish(pod, "start-after") or "", 0.0) - (now - bound).total_seconds()
        length = run_for(pod)
        started = self.started(pod)
        return None if length is None or started is None else length - (now - started).total_seconds()

    def _grace(self, pod: Object) -> float:
        """Return how long a pod that is told to end takes: nothing, or its whole grace when it ignores the signal."""
        if wish(pod, "ignore-term") is None or finished(pod) or pod["status"]["phase"] != "Running":
            return 0.0
        due = parse(pod["metadata"]["deletionTimestamp"])
        grace: int = pod["metadata"].get("deletionGracePeriodSeconds", 0)
        return min((due - self._core.clock()).total_seconds(), grace) if grace else 0.0

    def _step(self, namespace: str, name: str, uid: str) -> None:
        """Do what is due for one pod, unless its kubelet is down."""
        pod = self._core.store.get(PODS, namespace, name)
        if pod is None or pod["metadata"]["uid"] != uid:
            return
        node = pod["spec"].get("nodeName")
        if node and not is_up(self._core.store.get(NODES, "", node)):
            return
        if leaving(pod):
            self._end_of(pod)
        elif pod["status"]["phase"] == "Pending":
            self._start(pod)
        elif pod["status"]["phase"] == "Running":
            self._registry.write(PODS, {**pod, "status": self._ended(pod, exit_code(pod))})

    def _end_of(self, pod: Object) -> None:
        """End a pod that is being deleted, then let go of it."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        if not finished(pod):
            code = KILLED if wish(pod, "ignore-term") is not None else TERMINATED
            self._registry.write(PODS, {**pod, "status": self._ended(pod, code)})
        current = self._core.store.get(PODS, namespace, name)
        if current and current["metadata"].get("deletionGracePeriodSeconds", 0):
            delete(self._core, PODS, namespace, name, AT_ONCE)

    def _start(self, pod: Object) -> None:
        """Start the pod's containers, or say why they never will."""
        never = wish(pod, "never-start")
        if never is not None:
            self._refuse(pod, never or "ErrImagePull")
            return
        moment, now = self._core.clock(), self._core.stamp()
        self._started[pod["metadata"]["uid"]] = moment
        containers = [
            {**_container(each), "ready": True, "started": True, "state": {"running": {"startedAt": now}}}
            for each in pod["spec"]["containers"]
        ]
        status = {**pod["status"], "phase": "Running", "startTime": now, "containerStatuses": containers}
        status |= {"hostIP": "10.0.0.1", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}]}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
            status = with_condition(status, _condition(kind, "True", now))
        self._registry.write(PODS, {**pod, "status": status})
        self._recorder.note(pod, PODS, "Started", "Container started", source="kubelet")

    def _refuse(self, pod: Object, reason: str) -> None:
        """Leave the pod waiting with the reason that its annotation names."""
        now = self._core.stamp()
        message = f"the emulator was told never to start this pod ({reason})"
        containers = [
            {
                **_container(each),
                "ready": False,
                "started": False,
                "state": {"waiting": {"reason": reason, "message": message}},
            }
            for each in pod["spec"]["containers"]
        ]
        status = with_condition(
            {**pod["status"], "startTime": now, "containerStatuses": containers}, _condition("Ready", "False", now)
        )
        self._registry.write(PODS, {**pod, "status": status})
        self._recorder.note(pod, PODS, "Failed", f"Error: {reason}", source="kubelet", warning=True)

    def _ended(self, pod: Object, code: int) -> Object:
        """Return the status of a pod that ended with that exit code."""
        now = self._core.stamp()
        started = pod["status"].get("startTime") or now
        why = "Completed" if code == 0 else "Error"
        end = {"exitCode": code, "reason": why, "startedAt": started, "finishedAt": now}
        status = {**pod["status"], "phase": "Succeeded" if code == 0 else "Failed"}
        if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Running":
            status["containerStatuses"] = [
                {**_container(each), "ready": False, "started": False, "state": {"terminated": end}}
                for each in pod["spec"]["containers"]
            ]
        for kind in ("Ready", "ContainersReady"):
            reason = "PodCompleted" if code == 0 else "PodFailed"
            status = with_condition(status, {**_condition(kind, "False", now), "reason": reason})
        return status


def _container(container: Object) -> Object:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "restartCount": 0,
        "lastState": {},
    }


def _condition(kind: str, status: str, now: str) -> Object:
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": now}
