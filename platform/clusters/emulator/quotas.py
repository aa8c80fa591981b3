"""ResourceQuota: how much a namespace may ask for, and what it asks for."""

from collections import Counter
from collections.abc import Iterable, Mapping

from clusters.emulator.core import Core, finished
from clusters.emulator.errors import forbidden
from clusters.emulator.kinds import EVENTS, KINDS, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS, Kind
from clusters.emulator.quantities import milli, render
from clusters.emulator.store import Change, Object, Store

Amounts = dict[str, int]


def asked(pod: Object) -> Amounts:
    """Return what a pod counts for in quotas, in thousandths by quota name."""
    spec = pod.get("spec") or {}
    amounts: Amounts = {"pods": 1000, "count/pods": 1000}
    for part in ("requests", "limits"):
        for key, value in _summed(spec, part).items():
            amounts[f"{part}.{key}"] = value
            if part == "requests" and "/" not in key:
                amounts[key] = value
    return amounts


def taken(pod: Object) -> Amounts:
    """Return what a pod counts for as it stands: one that has ended is only there."""
    return {"count/pods": 1000} if finished(pod) else asked(pod)


def _summed(spec: Object, part: str) -> Amounts:
    """Return a pod's amounts: the sum of its containers, or its largest init container where that is more."""
    total: Amounts = {}
    for container in spec.get("containers") or []:
        for key, value in ((container.get("resources") or {}).get(part) or {}).items():
            total[key] = total.get(key, 0) + milli(value)
    for container in spec.get("initContainers") or []:
        for key, value in ((container.get("resources") or {}).get(part) or {}).items():
            total[key] = max(total.get(key, 0), milli(value))
    for key, value in (spec.get("overhead") or {}).items():
        total[key] = total.get(key, 0) + milli(value)
    return total


def requests(pod: Object) -> Amounts:
    """Return what a pod requests of a node, in thousandths."""
    return _summed(pod.get("spec") or {}, "requests")


def by_class(claim: Object) -> Amounts:
    """Return what a claim counts for in quotas: the devices that it wants of each class, in thousandths."""
    total: Amounts = {}
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or []:
        exactly = request.get("exactly") or {}
        key = f"{exactly.get('deviceClassName', '')}.deviceclass.resource.k8s.io/devices"
        total[key] = total.get(key, 0) + 1000 * exactly.get("count", 1)
    return total


class Usage:
    """What each namespace asks for, moved on with each change: what it costs does not grow with what is there."""

    def __init__(self, store: Store) -> None:
        """Take in what the store holds, then follow it."""
        self._sums: dict[str, Counter[str]] = {}
        for kind in (PODS, RESOURCE_CLAIMS):
            for body in store.bodies(kind):
                self._add(kind, body, 1)
        store.listen(self._heed)

    def of(self, namespace: str) -> Mapping[str, int]:
        """Return what pods and claims of a namespace ask for, in thousandths by quota name."""
        return self._sums.get(namespace, {})

    def _heed(self, change: Change) -> None:
        if change.kind not in {PODS, RESOURCE_CLAIMS}:
            return
        old, new = change.old and change.old.body, None if change.deleted else change.new.body
        if old and new and old.get("spec") is new.get("spec") and finished(old) == finished(new):
            return
        if old:
            self._add(change.kind, old, -1)
        if new:
            self._add(change.kind, new, 1)

    def _add(self, kind: Kind, body: Object, sign: int) -> None:
        sums = self._sums.setdefault(body["metadata"]["namespace"], Counter())
        for key, amount in (by_class(body) if kind is RESOURCE_CLAIMS else taken(body)).items():
            sums[key] += sign * amount


class Quotas:
    """Refuses what would exceed a quota and keeps the quotas' status."""

    def __init__(self, core: Core) -> None:
        """Follow pods and quotas."""
        self._core = core
        self._usage = Usage(core.store)
        core.store.listen(self._heed)

    def admit(self, kind: Kind, namespace: str, body: Object) -> None:
        """Raise 403 when ``body`` would exceed a quota of its namespace."""
        quotas = self._core.store.bodies(RESOURCE_QUOTAS, namespace) if kind.namespaced else []
        if not quotas or kind is RESOURCE_QUOTAS:
            return
        wanted = asked(body) if kind is PODS else {f"count/{kind.qualified}": 1000, kind.plural: 1000}
        if kind is RESOURCE_CLAIMS:
            wanted |= by_class(body)
        name = body["metadata"]["name"]
        for quota in sorted(quotas, key=lambda each: str(each["metadata"]["name"])):
            self._admit_one(kind, name, quota, wanted)

    def _admit_one(self, kind: Kind, name: str, quota: Object, wanted: Amounts) -> None:
        hard = {key: milli(str(value)) for key, value in (quota["spec"].get("hard") or {}).items()}
        title = quota["metadata"]["name"]
        if kind is PODS:
            missing = sorted(
                key for key in hard if key.endswith(("cpu", "memory")) and key not in wanted and "/" not in key
            )
            if missing:
                raise forbidden(kind, name, f"failed quota: {title}: must specify {', '.join(missing)}")
        concerned = {key: amount for key, amount in wanted.items() if key in hard and amount}
        used = self.used(quota)
        over = sorted(key for key, amount in concerned.items() if used.get(key, 0) + amount > hard[key])
        if over:
            requested, taken, limited = (
                ",".join(f"{key}={_show(key, amounts.get(key, 0))}" for key in over)
                for amounts in (concerned, used, hard)
            )
            why = f"exceeded quota: {title}, requested: {requested}, used: {taken}, limited: {limited}"
            raise forbidden(kind, name, why)

    def used(self, quota: Object) -> Amounts:
        """Return what the quota's namespace uses of each resource that the quota limits."""
        namespace = quota["metadata"]["namespace"]
        hard = quota["spec"].get("hard") or {}
        sums = self._usage.of(namespace)
        used = {key: sums.get(key, 0) for key in hard}
        for kind in _counted(hard):
            count = self._core.store.count(kind, namespace) * 1000
            used |= {key: count for key in (kind.plural, f"count/{kind.qualified}") if key in used}
        return used

    def _heed(self, change: Change) -> None:
        if change.kind.namespaced and change.kind is not EVENTS:
            namespace = change.new.body["metadata"]["namespace"]
            if self._core.store.count(RESOURCE_QUOTAS, namespace):
                self._core.agenda.soon(("quota", namespace), lambda: self._refresh(namespace))

    def _refresh(self, namespace: str) -> None:
        """Write the status of a namespace's quotas."""
        for quota in self._core.store.bodies(RESOURCE_QUOTAS, namespace):
            hard = {key: str(value) for key, value in (quota["spec"].get("hard") or {}).items()}
            status = {"hard": hard, "used": {key: _show(key, value) for key, value in self.used(quota).items()}}
            if quota.get("status") != status:
                self._core.store.put(RESOURCE_QUOTAS, {**quota, "status": status})


def _counted(hard: Iterable[str]) -> set[Kind]:
    """Return the kinds but pods that a quota counts."""
    return {
        kind for kind in KINDS if kind is not PODS and not {kind.plural, f"count/{kind.qualified}"}.isdisjoint(hard)
    }


def _show(key: str, thousandths: int) -> str:
    return render(thousandths, binary="memory" in key or "storage" in key)
