"""What a cluster shows, kept in memory: a full list, then the changes of a watch."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from clusters.kinds import BY_KEY
from clusters.port import Change, DevicesSeen, Inventory, NodeSeen, Offer, PodPhase, PodSeen, WaveRef, WaveSeen
from queues import inventory

UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ENDED_PHASES = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})

TaskKey = tuple[str, int, int | None]
"""Wave, group and completion index."""


class MachineRows(NamedTuple):
    """The nodes' rows of a cluster as they were read: id, name, since when it is gone, and since when not ready."""

    at: datetime
    rows: Sequence[tuple[int, str, datetime | None, datetime | None]]


class View:
    """One cluster as seen. ``as_of`` is a moment before its list began: what was told before then shows in it.

    Changes are collected until ``settle``: ``waves`` (UUIDs) that they touched, those of them of which an object has
    ``arrived``, ``machines`` (names of nodes) that
    changed themselves, ``places`` on which others' pods changed, and ``active``, on which nodes a task of ours has, or
    had until then, a pod that has not ended. ``offered`` are the UIDs of
    objects that people gave into a queue, ``unseen`` the kinds of which the list could say nothing. ``machine_rows`` is
    what the last reading of the nodes' rows showed.
    """

    def __init__(self, listed: Inventory, *, as_of: datetime) -> None:
        """Start from a list."""
        self.as_of = as_of
        self.position: Mapping[str, str] = listed.position
        self.nodes = {node.name: node for node in listed.nodes}
        self.devices = listed.devices
        self.claimed = listed.claimed
        self.offered_classes = listed.offered
        self.taken_classes = listed.taken
        self.unseen = listed.unseen
        self.waves: set[str] = set()
        self.arrived: set[str] = set()
        self.machines: set[str] = set()
        self.places: set[str] = set()
        self.active: dict[TaskKey, set[str]] = defaultdict(set)
        self.machine_rows: MachineRows | None = None
        self.offered: set[str] = set()
        self.offers = {offer.uid: offer for offer in listed.offers}
        self._pods: dict[str, PodSeen] = {}
        self._objects: dict[str, WaveSeen] = {}
        self._pods_of: dict[str, set[str]] = defaultdict(set)
        self._pods_on: dict[str, set[str]] = defaultdict(set)
        self._objects_of: dict[str, set[str]] = defaultdict(set)
        self._parting: set[str] = set()
        self._lost: dict[str, WaveSeen] = {}
        self._families: dict[tuple[str, str], str] = {}
        for seen in listed.waves:
            self._put_object(seen)
        for pod in listed.pods:
            self._put_pod(self._claimed(pod))

    def take(self, change: Change) -> None:
        """Follow one change; a pod of ours deleted after its end is kept until ``settle``, to record its end."""
        self.position = change.position or self.position
        if not change.deleted and self._shows(change.seen):
            return  # what changed is nothing that counts here
        match change.seen:
            case NodeSeen() as node:
                self.machines.add(node.name)
                if change.deleted:
                    self.nodes.pop(node.name, None)
                else:
                    self.nodes[node.name] = node
            case PodSeen() as found:
                pod = self._as_it_ended(self._claimed(found))
                self._touch(pod)
                self._drop_pod(pod.uid)
                if not change.deleted:
                    self._put_pod(pod)
                elif pod.wave and pod.phase in ENDED_PHASES:
                    self._put_pod(pod)
                    self._parting.add(pod.uid)
            case WaveSeen() as seen:
                self.waves.add(seen.wave)
                if not change.deleted and seen.uid not in self._objects:
                    self.arrived.add(seen.wave)
                self.offers.pop(seen.uid, None)
                self._drop_object(seen.uid)
                if change.deleted:
                    self._lost[seen.wave] = seen
                else:
                    self._put_object(seen)
                    self._claim_early(seen)
            case DevicesSeen() as devices:
                self._announce(devices)
            case Offer() as offer:
                self.offered.add(offer.uid)
                # It may have been a wave's until now.
                self._drop_object(offer.uid)
                self.offers.pop(offer.uid, None)
                if not change.deleted:
                    self.offers[offer.uid] = offer

    @property
    def touched(self) -> bool:
        """Whether anything changed since the last ``settle``."""
        return bool(self.waves or self.machines or self.places or self.active or self.offered)

    def settle(self) -> None:
        """Forget what was touched, and the pods that were deleted after their end."""
        self.waves.clear()
        self.arrived.clear()
        self.machines.clear()
        self.places.clear()
        self.active.clear()
        self.offered.clear()
        while self._parting:
            self._drop_pod(self._parting.pop())

    def machine(self, name: str) -> NodeSeen:
        """Return a node with all that it counts, by plugins and by device classes."""
        node = self.nodes[name]
        counted = inventory.counted(node.counted, self.offered_classes.get(name, {}))
        return node if counted is node.counted else replace(node, counted=counted)

    def pods_of(self, wave: str) -> Iterable[PodSeen]:
        """Return the pods of a wave."""
        return [self._pods[uid] for uid in self._pods_of.get(wave, ())]

    def pods_on(self, node: str) -> Iterable[PodSeen]:
        """Return the pods bound to a node."""
        return [self._pods[uid] for uid in self._pods_on.get(node, ())]

    def objects_of(self, wave: str) -> Iterable[WaveSeen]:
        """Return the objects of a wave: Kubernetes Jobs, or what people wrote."""
        return [self._objects[uid] for uid in self._objects_of.get(wave, ())]

    def lost(self, wave: str) -> WaveSeen | None:
        """Return an object of the wave that was there and is there no more, as it was last seen."""
        return self._lost.get(wave)

    def is_there(self, uid: str) -> bool:
        """Tell whether an object that people made is there, given into a queue or as a wave's."""
        return uid in self.offers or uid in self._objects

    def known_waves(self) -> dict[str, WaveRef]:
        """Return every wave of which an object or a pod that has not ended is there.

        Pods that have ended use nothing: they go with their object, be it one that people made and that stays.
        """
        live = (pod for pod in self._pods.values() if pod.wave and pod.phase not in ENDED_PHASES)
        found = {str(pod.wave): _ref(str(pod.wave), pod.namespace) for pod in live}
        for seen in self._objects.values():
            adopted = seen.name if seen.adopted else ""
            found[seen.wave] = _ref(seen.wave, seen.namespace, kind=seen.kind, adopted=adopted)
        return found

    def standing_waves(self) -> set[str]:
        """Return the waves of which an object of ours is there that is not on its way out."""
        return {seen.wave for seen in self._objects.values() if not (seen.leaving or seen.adopted)}

    def _announce(self, seen: DevicesSeen) -> None:
        """Take what drivers announce now; nodes of which they say something else are touched."""
        before = (self.devices, self.claimed, self.offered_classes, self.taken_classes)
        after = (seen.devices, seen.claimed, seen.offered, seen.taken)
        self.devices, self.claimed, self.offered_classes, self.taken_classes = after
        self.machines |= {
            node
            for old, new in zip(before, after, strict=True)
            for node in old.keys() | new.keys()
            if old.get(node) != new.get(node) and node in self.nodes
        }

    def _shows(self, seen: NodeSeen | PodSeen | WaveSeen | Offer | DevicesSeen) -> bool:
        """Tell whether that is what is known already."""
        match seen:
            case NodeSeen():
                return self.nodes.get(seen.name) == seen
            case PodSeen():
                return self._pods.get(seen.uid) == self._as_it_ended(self._claimed(seen))
            case WaveSeen():
                return self._objects.get(seen.uid) == seen
            case Offer():
                return False  # it may be a wave's no more
            case DevicesSeen():
                return False

    def _claimed(self, pod: PodSeen) -> PodSeen:
        """Return a pod as its wave's whose object could not give it our labels, but is known by name."""
        wave = self._families.get((pod.namespace, pod.family)) if pod.family and not pod.wave else None
        return pod if wave is None else replace(pod, wave=wave)

    def _as_it_ended(self, pod: PodSeen) -> PodSeen:
        """Return a pod that had succeeded before it was told to go as one that was never told."""
        before = self._pods.get(pod.uid)
        if before is None or before.phase is not PodPhase.SUCCEEDED or before.leaving:
            return pod
        return replace(pod, leaving=False, leaving_since=None)

    def _claim_early(self, seen: WaveSeen) -> None:
        """Claim the pods that were seen before their object."""
        if (seen.namespace, seen.name) in self._families:
            for pod in [pod for pod in self._pods.values() if pod.family == seen.name and not pod.wave]:
                self._drop_pod(pod.uid)
                self._put_pod(self._claimed(pod))

    def _touch(self, pod: PodSeen) -> None:
        if pod.wave:
            self.waves.add(pod.wave)
        before = self._pods.get(pod.uid)
        # A pod that had ended and still has uses nothing, and used nothing.
        using = [each for each in (before, pod) if each is not None and each.phase not in ENDED_PHASES]
        nodes = {each.node for each in (before, pod) if using and each is not None and each.node}
        if not nodes:
            return
        if pod.wave:
            self.active[pod.wave, pod.group, pod.index].update(nodes)
        else:
            self.places.update(nodes)

    def _put_pod(self, pod: PodSeen) -> None:
        self._pods[pod.uid] = pod
        if pod.wave:
            self._pods_of[pod.wave].add(pod.uid)
        if pod.node:
            self._pods_on[pod.node].add(pod.uid)

    def _drop_pod(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        if pod.wave:
            _discard(self._pods_of, pod.wave, uid)
        if pod.node:
            _discard(self._pods_on, pod.node, uid)

    def _put_object(self, seen: WaveSeen) -> None:
        self._objects[seen.uid] = seen
        if seen.kind and BY_KEY[seen.kind].family:
            self._families[seen.namespace, seen.name] = seen.wave
        self._lost.pop(seen.wave, None)
        self._objects_of[seen.wave].add(seen.uid)

    def _drop_object(self, uid: str) -> None:
        seen = self._objects.pop(uid, None)
        if seen is not None:
            self._families.pop((seen.namespace, seen.name), None)
            self.waves.add(seen.wave)
            self._lost[seen.wave] = seen
            _discard(self._objects_of, seen.wave, uid)


def valid_uids(waves: Iterable[str]) -> list[UUID]:
    """Return those that are UUIDs, in order; what others wrote into our label is passed over."""
    return [UUID(wave) for wave in sorted(waves) if UID.fullmatch(wave)]


def _ref(wave: str, namespace: str, *, kind: str = "", adopted: str = "") -> WaveRef:
    return WaveRef(wave=wave, job="", number=0, namespace=namespace, groups=0, kind=kind, adopted=adopted)


def _discard(index: dict[str, set[str]], key: str, uid: str) -> None:
    """Take a uid out of an index that keeps no empty sets, so that it does not grow for ever."""
    index[key].discard(uid)
    if not index[key]:
        del index[key]
