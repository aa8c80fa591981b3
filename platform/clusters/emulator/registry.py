"""Creating and replacing objects the way the API server does: defaults, rules, admission, version, store."""

import secrets
from uuid import uuid4

from clusters.emulator import admission, defaults, immutable, shapes, validation
from clusters.emulator.core import Core
from clusters.emulator.errors import already_exists, bad_request, conflict, invalid, not_found
from clusters.emulator.kinds import JOBS, NAMESPACES, NODES, PODS, Kind
from clusters.emulator.quotas import Quotas
from clusters.emulator.store import Object

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58
_FIXED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace", "name")
_INITIAL_STATUS: dict[Kind, Object] = {
    PODS: {"phase": "Pending", "qosClass": "Burstable"},
    NAMESPACES: {"phase": "Active"},
}


def suffix() -> str:
    """Return five letters that make a generated name unique."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(5))


class Registry:
    """The one way by which objects come in and change."""

    def __init__(self, core: Core, quotas: Quotas) -> None:
        """Write to the core's store."""
        self.core = core
        self._quotas = quotas

    def create(self, kind: Kind, namespace: str, body: Object, *, dry: bool = False) -> Object:
        """Store a new object and return it; raise 400, 403, 404, 409 or 422."""
        body = self._prepared(kind, namespace, body)
        namespace, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
        admission.namespace(self.core.store, kind, namespace, name)
        body = defaults.fill(kind, body)
        if kind is PODS:
            body = admission.pod(self.core.store, body)
        validation.creation(kind, body)
        self._quotas.admit(kind, namespace, body)
        if self.core.store.find(kind, namespace, name):
            raise already_exists(kind, name)
        if kind is JOBS:
            body = defaults.tie_job(body)
        return body if dry else self.core.store.put(kind, body)

    def _prepared(self, kind: Kind, namespace: str, body: Object) -> Object:
        """Return the body with its type, name, uid and time, its status as at birth."""
        shapes.check(kind, body)
        check_type(kind, body)
        given = body.get("metadata") or {}
        name = given.get("name") or ""
        if not name and given.get("generateName"):
            name = given["generateName"][:_LONGEST_BASE] + suffix()
        if not name:
            raise invalid(kind, "", [("metadata.name", "Required value: name or generateName is required")])
        if given.get("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if given.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        metadata = {
            **{
                key: value
                for key, value in given.items()
                if key not in {"deletionTimestamp", "selfLink", "managedFields"}
            },
            "name": name,
            "uid": str(uuid4()),
            "creationTimestamp": self.core.stamp(),
            "generation": 1,
        }
        if kind.namespaced:
            metadata["namespace"] = namespace
        born = {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        if "status" in kind.subresources and kind is not NODES:
            born["status"] = _INITIAL_STATUS.get(kind, {})
        return born

    def replace(self, kind: Kind, old: Object, body: Object, *, part: str = "", dry: bool = False) -> Object:
        """Store a changed object (``part`` is "status" or nothing) and return it; raise 400, 409 or 422."""
        shapes.check(kind, body)
        check_type(kind, body)
        name = old["metadata"]["name"]
        given = body.get("metadata") or {}
        if given.get("name", name) != name:
            raise bad_request(f"the name of the object ({given['name']}) does not match the name on the URL ({name})")
        sent = given.get("resourceVersion") or ""
        if sent and sent != old["metadata"]["resourceVersion"]:
            raise conflict(kind, name)
        uid, known = given.get("uid"), old["metadata"]["uid"]
        if uid and uid != known:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {known}"
            raise conflict(kind, name, why)
        new = self._merged(kind, old, body, part)
        if new == old or dry:
            return new
        return self.settle(kind, self.core.store.put(kind, new))

    def _merged(self, kind: Kind, old: Object, body: Object, part: str) -> Object:
        """Return what the object becomes: the caller's part from ``body``, the rest from ``old``."""
        given = body.get("metadata") or {}
        metadata = {**given, "resourceVersion": old["metadata"]["resourceVersion"]}
        for key in _FIXED:
            metadata.pop(key, None)
        metadata |= {key: old["metadata"][key] for key in (*_FIXED, "generation") if key in old["metadata"]}
        if part == "status":
            kept = {**old, "metadata": {**old["metadata"], **_only(metadata, "labels", "annotations", "finalizers")}}
            return {**kept, "status": body.get("status") or {}}
        new = defaults.fill(kind, {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata})
        if "status" in kind.subresources:
            new = {**new, "status": old["status"]} if "status" in old else _without(new, "status")
        if new.get("spec") != old.get("spec"):
            metadata = {**new["metadata"], "generation": old["metadata"].get("generation", 1) + 1}
            new = {**new, "metadata": metadata}
        validation.creation(kind, new)
        immutable.check(kind, old, new)
        return new

    def settle(self, kind: Kind, body: Object) -> Object:
        """Remove an object whose deletion waited only for what this change took away."""
        metadata = body["metadata"]
        if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
            return body
        if kind is NAMESPACES and (body.get("spec") or {}).get("finalizers"):
            return body
        if kind is PODS and metadata.get("deletionGracePeriodSeconds", 0):
            return body
        return self.core.store.remove(kind, metadata.get("namespace", ""), metadata["name"])

    def write(self, kind: Kind, body: Object) -> Object:
        """Store what a controller changed, unless nothing did, and settle it."""
        metadata = body["metadata"]
        old = self.core.store.get(kind, metadata.get("namespace", ""), metadata["name"])
        if old is None:
            raise not_found(kind, metadata["name"])
        if old == body:
            return old
        return self.settle(kind, self.core.store.put(kind, body))


def check_type(kind: Kind, body: Object) -> None:
    """Raise 400 when a body says that it is of another kind."""
    if body.get("kind") not in {None, "", kind.kind}:
        raise bad_request(f"no kind {body['kind']!r} is registered here: {kind.kind} expected")
    if body.get("apiVersion") not in {None, "", kind.api_version}:
        given, wanted = body["apiVersion"], kind.api_version
        raise bad_request(f"the API version in the data ({given}) does not match the expected API version ({wanted})")


def _only(metadata: Object, *keys: str) -> Object:
    return {key: metadata[key] for key in keys if key in metadata}


def _without(body: Object, key: str) -> Object:
    return {name: value for name, value in body.items() if name != key}
