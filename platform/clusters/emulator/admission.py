"""What the API server adds to or refuses of an object in view of others."""

from http import HTTPStatus

from clusters.emulator.core import leaving
from clusters.emulator.errors import ApiError, about, forbidden, not_found
from clusters.emulator.kinds import NAMESPACES, PODS, PRIORITY_CLASSES, Kind
from clusters.emulator.store import Object, Store

_EVICT_AFTER = 300
_SYSTEM_CLASSES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


def namespace(store: Store, kind: Kind, space: str, name: str) -> None:
    """Raise 404 for a namespace that is not there and 403 for one that is being deleted."""
    if not kind.namespaced:
        return
    found = store.get(NAMESPACES, "", space)
    if found is None:
        raise not_found(NAMESPACES, space)
    if leaving(found):
        why = f"unable to create new content in namespace {space} because it is being terminated"
        raise forbidden(kind, name, why, cause="NamespaceTerminating")


def pod(store: Store, body: Object) -> Object:
    """Return the pod with its priority, its service account and the tolerations that every pod gets."""
    spec = {**body["spec"]}
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec.setdefault("enableServiceLinks", True)
    spec["tolerations"] = _tolerations(spec.get("tolerations") or [])
    spec |= _priority(store, body["metadata"]["name"], spec)
    return {**body, "spec": spec}


def _tolerations(given: list[Object]) -> list[Object]:
    added = []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        covered = any(
            each.get("key", key) in {key, ""} and each.get("effect", "NoExecute") in {"NoExecute", ""} for each in given
        )
        if not covered:
            added.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICT_AFTER})
    return [*given, *added]


def _priority(store: Store, name: str, spec: Object) -> Object:
    """Return priority and preemption policy from the pod's class; raise 403 for an unknown class."""
    title = spec.get("priorityClassName", "")
    if title in _SYSTEM_CLASSES:
        return {"priority": _SYSTEM_CLASSES[title], "preemptionPolicy": "PreemptLowerPriority"}
    found: Object | None
    if title:
        found = store.get(PRIORITY_CLASSES, "", title)
        if found is None:
            message = f'pods "{name}" is forbidden: no PriorityClass with name {title} was found'
            raise ApiError(HTTPStatus.FORBIDDEN, "Forbidden", message, details=about(PODS, name))
    else:
        found = next((each for each in store.bodies(PRIORITY_CLASSES) if each.get("globalDefault")), None)
    if found is None:
        return {"priority": 0, "preemptionPolicy": spec.get("preemptionPolicy", "PreemptLowerPriority")}
    return {
        "priorityClassName": found["metadata"]["name"],
        "priority": found["value"],
        "preemptionPolicy": spec.get("preemptionPolicy", found.get("preemptionPolicy", "PreemptLowerPriority")),
    }
