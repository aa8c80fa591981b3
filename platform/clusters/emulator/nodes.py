"""Nodes: made ready when they come, unknown when their kubelet falls silent, emptied by NoExecute taints."""

from clusters.emulator.clock import duration
from clusters.emulator.core import condition, finished, leaving, with_condition
from clusters.emulator.deletion import AT_ONCE, delete
from clusters.emulator.events import Recorder
from clusters.emulator.fitting import UNSCHEDULABLE, tolerates
from clusters.emulator.kinds import NODES, PODS
from clusters.emulator.kubelet import is_up
from clusters.emulator.registry import Registry
from clusters.emulator.store import Change, Object

UNREACHABLE = "node.kubernetes.io/unreachable"
DEFAULT_PATIENCE = duration("6s", 0)
_DEFAULT_RESOURCES = {"cpu": "1k", "memory": "1Ti", "pods": "1M"}
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class Nodes:
    """The node lifecycle controller and the taint manager."""

    def __init__(self, registry: Registry, recorder: Recorder, *, patience: float = DEFAULT_PATIENCE) -> None:
        """Call a node unknown after ``patience`` seconds of silence."""
        self._registry = registry
        self._core = registry.core
        self._recorder = recorder
        self._patience = patience
        self._core.store.listen(self._heed)

    def resume(self) -> None:
        """Look at every node and pod, as after a start."""
        for node in self._core.store.bodies(NODES):
            self._soon(node["metadata"]["name"])

    def _heed(self, change: Change) -> None:
        if change.kind is NODES:
            self._soon(change.new.body["metadata"]["name"])
        elif change.kind is PODS:
            self._heed_pod(change)

    def _heed_pod(self, change: Change) -> None:
        pod = change.new.body
        uid, place = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if change.deleted or finished(pod):
            self._core.agenda.cancel(("evict", uid))
        elif place and not (change.old and change.old.body["spec"].get("nodeName")):
            node = self._core.store.get(NODES, "", place)
            if node is not None:
                self._judge(pod, _harsh(node))

    def _soon(self, name: str) -> None:
        self._core.agenda.soon(("node", name), lambda: self._sync(name))

    def _sync(self, name: str) -> None:
        """Bring a node's status and taints in line, then judge its pods."""
        node = self._core.store.get(NODES, "", name)
        if node is None:
            self._lose(name)
            return
        ready = condition(node, "Ready")
        if is_up(node):
            self._core.agenda.cancel(("silent", name))
            if ready is None or ready["status"] == "Unknown":
                node = self._registry.write(NODES, {**node, "status": self._ready(node)})
        elif (ready is None or ready["status"] == "True") and not self._core.agenda.waits(("silent", name)):
            self._core.agenda.later(("silent", name), self._patience, lambda: self._lost_sight(name))
        node = self._registry.write(NODES, _tainted(node))
        harsh = _harsh(node)
        for pod in self._core.store.bodies(PODS):
            if pod["spec"].get("nodeName") == name:
                self._judge(pod, harsh)

    def _ready(self, node: Object) -> Object:
        """Return the status of a node whose kubelet answers."""
        now, name = self._core.stamp(), node["metadata"]["name"]
        status = {**(node.get("status") or {})}
        status.setdefault("capacity", status.get("allocatable") or _DEFAULT_RESOURCES)
        status.setdefault("allocatable", status["capacity"])
        status.setdefault(
            "addresses", [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}]
        )
        status.setdefault("nodeInfo", _node_info())
        for kind, value, reason, message in _CONDITIONS:
            new = {"type": kind, "status": value, "reason": reason, "message": message}
            status = with_condition(status, {**new, "lastHeartbeatTime": now, "lastTransitionTime": now})
        return status

    def _lost_sight(self, name: str) -> None:
        """Call the node unknown: its kubelet has been silent for too long."""
        node = self._core.store.get(NODES, "", name)
        if node is None or is_up(node):
            return
        now = self._core.stamp()
        status = node.get("status") or {}
        for kind, *_ in _CONDITIONS:
            known = condition(node, kind) or {"type": kind}
            unknown = {
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
            }
            status = with_condition(status, {**known, **unknown, "lastTransitionTime": now})
        self._registry.write(NODES, {**node, "status": status})
        self._recorder.note(
            node, NODES, "NodeNotReady", f"Node {name} status is now: NodeNotReady", source="node-controller"
        )

    def _lose(self, name: str) -> None:
        """Remove the pods of a node that is gone: nobody else will."""
        for pod in self._core.store.bodies(PODS):
            if pod["spec"].get("nodeName") == name:
                metadata = pod["metadata"]
                if not finished(pod):
                    status = self._disrupted(pod, "DeletionByPodGC", "PodGC: node no longer exists")
                    self._registry.write(PODS, {**pod, "status": {**status, "phase": "Failed"}})
                if self._core.store.find(PODS, metadata["namespace"], metadata["name"]):
                    delete(self._core, PODS, metadata["namespace"], metadata["name"], AT_ONCE)

    def _judge(self, pod: Object, harsh: list[Object]) -> None:
        """Evict a pod that does not tolerate its node's taints, now or when its toleration ends."""
        uid = pod["metadata"]["uid"]
        wait = _patience(pod, harsh)
        if wait is None or finished(pod) or leaving(pod):
            self._core.agenda.cancel(("evict", uid))
        elif wait <= 0:
            self._evict(pod["metadata"]["namespace"], pod["metadata"]["name"], uid)
        elif not self._core.agenda.waits(("evict", uid)):
            namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            self._core.agenda.later(("evict", uid), wait, lambda: self._evict(namespace, name, uid))

    def _evict(self, namespace: str, name: str, uid: str) -> None:
        pod = self._core.store.get(PODS, namespace, name)
        if pod is None or pod["metadata"]["uid"] != uid or leaving(pod):
            return
        status = self._disrupted(pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
        self._registry.write(PODS, {**pod, "status": status})
        message = f"Marking for deletion Pod {namespace}/{name}"
        self._recorder.note(pod, PODS, "TaintManagerEviction", message, source="taint-eviction-controller")
        delete(self._core, PODS, namespace, name)

    def _disrupted(self, pod: Object, reason: str, message: str) -> Object:
        return disrupted(pod, reason, message, self._core.stamp())


def disrupted(pod: Object, reason: str, message: str, now: str) -> Object:
    """Return the pod's status with the mark of a disruption."""
    new = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    return with_condition(pod["status"], {**new, "lastProbeTime": None, "lastTransitionTime": now})


def _tainted(node: Object) -> Object:
    """Return the node with the taints that follow from its state."""
    spec = node.get("spec") or {}
    ready = condition(node, "Ready")
    ours = []
    if spec.get("unschedulable"):
        ours.append((UNSCHEDULABLE, "NoSchedule"))
    if ready is not None and ready["status"] == "Unknown":
        ours += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    taints = spec.get("taints") or []
    kept = [
        each
        for each in taints
        if each["key"] not in {UNREACHABLE, UNSCHEDULABLE} or (each["key"], each["effect"]) in ours
    ]
    present = {(each["key"], each["effect"]) for each in kept}
    wanted = [*kept, *({"key": key, "effect": effect} for key, effect in ours if (key, effect) not in present)]
    if wanted == taints:
        return node
    rest = {key: value for key, value in spec.items() if key != "taints"}
    return {**node, "spec": {**rest, "taints": wanted} if wanted else rest}


def _harsh(node: Object) -> list[Object]:
    return [taint for taint in (node.get("spec") or {}).get("taints") or [] if taint["effect"] == "NoExecute"]


def _patience(pod: Object, harsh: list[Object]) -> float | None:
    """Return how many seconds the pod tolerates these taints: None for ever, 0 not at all."""
    shortest: float | None = None
    for taint in harsh:
        covering = [each for each in pod["spec"].get("tolerations") or [] if tolerates(each, taint)]
        if not covering:
            return 0.0
        limits = [each["tolerationSeconds"] for each in covering if "tolerationSeconds" in each]
        if limits:
            limit = float(max(min(limits), 0))
            shortest = limit if shortest is None else min(shortest, limit)
    return shortest


def _node_info() -> Object:
    return {
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": "emulator",
        "kernelVersion": "emulator",
        "kubeProxyVersion": "emulator",
        "kubeletVersion": "emulator",
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": "",
        "systemUUID": "",
    }
