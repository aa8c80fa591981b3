"""The scheduler: binds each waiting pod to a node where it fits, or says why it fits nowhere."""

import json
from collections import Counter
from collections.abc import Sequence

from clusters.emulator.claims import Claims, claims_made
from clusters.emulator.core import condition, finished, leaving, with_condition
from clusters.emulator.events import Recorder
from clusters.emulator.fitting import Room, allocatable, amounts, complaints, explanation, named, score
from clusters.emulator.kinds import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from clusters.emulator.quotas import Amounts
from clusters.emulator.registry import Registry
from clusters.emulator.store import Change, Object

SOURCE = "default-scheduler"
_GATED = "Scheduling is blocked due to non-empty scheduling gates"
_SHAPING = ("nodeSelector", "affinity", "tolerations")


class Scheduler:
    """Keeps count of every node's room; tries a pod when it comes, and the stranded ones when room may have come."""

    def __init__(self, registry: Registry, recorder: Recorder, claims: Claims) -> None:
        """Follow pods, nodes, and the devices that pods claim."""
        self._claims = claims
        self._registry = registry
        self._core = registry.core
        self._recorder = recorder
        self._rooms: dict[str, Room] = {}
        self._placed: dict[str, tuple[str, Amounts]] = {}
        self._fresh: dict[str, tuple[str, str]] = {}
        self._stranded: dict[str, tuple[str, str]] = {}
        self._core.store.listen(self._heed)

    def resume(self) -> None:
        """Take in what the store holds, as after a start."""
        for node in self._core.store.bodies(NODES):
            self._heed_node(node, gone=False)
        for pod in self._core.store.bodies(PODS):
            self._heed_pod(pod, gone=False)

    def _heed(self, change: Change) -> None:
        if change.kind is PODS:
            self._heed_pod(change.new.body, gone=change.deleted)
        elif change.kind is NODES:
            self._heed_node(change.new.body, gone=change.deleted)
        elif change.kind in {RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES}:
            self._retry()

    def _heed_node(self, node: Object, *, gone: bool) -> None:
        name = node["metadata"]["name"]
        if gone:
            self._rooms.pop(name, None)
            return
        known = self._rooms.get(name)
        if known is None:
            room = Room(node=node, total=allocatable(node))
            for place, taken in self._placed.values():
                if place == name:
                    room.take(taken, 1)
            self._rooms[name] = room
            self._retry()
            return
        before, known.node = known.node, node
        known.total = allocatable(node)
        if _seat(before) != _seat(node):
            self._retry()

    def _heed_pod(self, pod: Object, *, gone: bool) -> None:
        uid = pod["metadata"]["uid"]
        place = pod["spec"].get("nodeName")
        if gone or finished(pod):
            self._forget(uid)
        elif place:
            self._fresh.pop(uid, None)
            self._stranded.pop(uid, None)
            self._place(uid, place, pod)
        elif leaving(pod):
            self._fresh.pop(uid, None)
            self._stranded.pop(uid, None)
        elif pod["spec"].get("schedulerName") == SOURCE:
            self._queue(uid, pod)

    def _queue(self, uid: str, pod: Object) -> None:
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        if pod["spec"].get("schedulingGates"):
            self._mark(pod, "SchedulingGated", _GATED)
        elif not claims_made(pod):
            self._fresh.pop(uid, None)
            self._stranded.pop(uid, None)
        elif uid not in self._stranded or _gated(pod):
            self._stranded.pop(uid, None)
            self._fresh[uid] = key
            self._core.agenda.soon("schedule", self._pass)

    def _place(self, uid: str, place: str, pod: Object) -> None:
        known = self._placed.get(uid)
        if known and known[0] == place:
            return
        taken = amounts(pod)
        self._placed[uid] = (place, taken)
        if place in self._rooms:
            self._rooms[place].take(taken, 1)

    def _forget(self, uid: str) -> None:
        self._fresh.pop(uid, None)
        self._stranded.pop(uid, None)
        known = self._placed.pop(uid, None)
        if known:
            if known[0] in self._rooms:
                self._rooms[known[0]].take(known[1], -1)
            self._retry()

    def _retry(self) -> None:
        """Try the stranded pods again soon."""
        if self._stranded:
            self._fresh |= self._stranded
            self._stranded.clear()
            self._core.agenda.soon("schedule", self._pass)

    def _pass(self) -> None:
        """Try every waiting pod once, by priority and age; pods of one shape fail together."""
        waiting = [
            pod
            for key in self._fresh.values()
            if (pod := self._core.store.get(PODS, *key)) and not pod["spec"].get("nodeName")
        ]
        self._stranded |= self._fresh
        self._fresh.clear()
        waiting.sort(key=_turn)
        hopeless: dict[str, str] = {}
        for pod in waiting:
            wanted = amounts(pod)
            devices = self._claims.wanted(pod)
            shape = json.dumps([wanted, devices, *(pod["spec"].get(key) for key in _SHAPING)], sort_keys=True)
            if shape not in hopeless:
                chosen, why = self._choose(pod["spec"], wanted, devices)
                if chosen:
                    self._claims.allocate(pod, chosen)
                    self._bind(pod, chosen)
                    continue
                hopeless[shape] = why
            self._strand(pod, hopeless[shape])

    def _choose(self, spec: Object, wanted: Amounts, devices: dict[str, int]) -> tuple[str, str]:
        """Return the best node, or why there is none."""
        names = named(spec)
        # Of all others is asked only to say why there is none.
        if names is not None and (found := self._best(sorted(names & self._rooms.keys()), spec, wanted, devices)[0]):
            return found, ""
        found, reasons = self._best(sorted(self._rooms), spec, wanted, devices)
        return (found, "") if found else ("", explanation(reasons, len(self._rooms)))

    def _best(
        self, names: Sequence[str], spec: Object, wanted: Amounts, devices: dict[str, int]
    ) -> tuple[str, Counter[str]]:
        """Return the best of these nodes, or nothing and what keeps the pod out."""
        best: tuple[tuple[int, int, int], str] | None = None
        reasons: Counter[str] = Counter()
        for name in names:
            room = self._rooms[name]
            told = complaints(spec, wanted, room) or self._claims.complaints(devices, name)
            reasons.update(told)
            if not told:
                value = score(spec, wanted, room)
                if best is None or value > best[0]:
                    best = (value, name)
        return (best[1] if best else ""), reasons

    def _bind(self, pod: Object, node: str) -> None:
        metadata = pod["metadata"]
        bind(self._registry, pod, node)
        message = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {node}"
        self._recorder.note(pod, PODS, "Scheduled", message, source=SOURCE)

    def _strand(self, pod: Object, why: str) -> None:
        known = condition(pod, "PodScheduled")
        if known is None or known.get("message") != why:
            self._recorder.note(pod, PODS, "FailedScheduling", why, source=SOURCE, warning=True)
        self._mark(pod, "Unschedulable", why)

    def _mark(self, pod: Object, reason: str, message: str) -> None:
        """Write why the pod is not scheduled."""
        known = condition(pod, "PodScheduled")
        if known and (known.get("reason"), known.get("message")) == (reason, message):
            return
        new = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": self._core.stamp(),
        }
        self._registry.write(PODS, {**pod, "status": with_condition(pod["status"], new)})


def bind(registry: Registry, pod: Object, node: str) -> None:
    """Give the pod its node."""
    status = pod["status"]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": registry.core.stamp(),
    }
    registry.write(
        PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": with_condition(status, scheduled)}
    )


def _gated(pod: Object) -> bool:
    """Tell whether the pod's last word was that gates hold it."""
    known = condition(pod, "PodScheduled")
    return known is not None and known.get("reason") == "SchedulingGated"


def _seat(node: Object) -> tuple[object, ...]:
    """Return what of a node decides who may come."""
    spec, metadata = node.get("spec") or {}, node["metadata"]
    return (spec.get("taints"), spec.get("unschedulable"), metadata.get("labels"), allocatable(node))


def _turn(pod: Object) -> tuple[int, str, str]:
    metadata = pod["metadata"]
    return (-pod["spec"].get("priority", 0), metadata["creationTimestamp"], metadata["uid"])
