"""The garbage collector and the end of namespaces."""

from clusters.emulator.core import leaving
from clusters.emulator.deletion import FOREGROUND, ORPHAN, Options, delete
from clusters.emulator.kinds import BY_OWNER, EVENTS, KINDS, NAMESPACES, SERVICE_ACCOUNTS, Kind
from clusters.emulator.registry import Registry
from clusters.emulator.store import Change, Object


class Garbage:
    """Deletes what has lost its owner and carries out Foreground and Orphan deletions."""

    def __init__(self, registry: Registry) -> None:
        """Follow every change."""
        self._registry = registry
        self._core = registry.core
        self._core.store.listen(self._heed)

    def resume(self) -> None:
        """Go on with deletions that were under way, and look for lost owners."""
        for kind in KINDS:
            for body in self._core.store.bodies(kind) if kind is not EVENTS else ():
                self._look_at_owners(body)
                if leaving(body):
                    self._soon(kind, body["metadata"].get("namespace", ""), body["metadata"])

    def _heed(self, change: Change) -> None:
        if change.kind is EVENTS:
            return
        metadata = change.new.body["metadata"]
        if change.deleted or change.old is None:
            self._look_at_owners(change.new.body)
        finalizers = metadata.get("finalizers") or ()
        if change.deleted or FOREGROUND in finalizers or ORPHAN in finalizers:
            self._soon(change.kind, metadata.get("namespace", ""), metadata)

    def _look_at_owners(self, dependent: Object) -> None:
        """Collect soon for every owner that an object names, be it there or not."""
        for owner in dependent["metadata"].get("ownerReferences") or ():
            kind = BY_OWNER.get((owner["apiVersion"], owner["kind"]))
            if kind is not None:
                self._soon(kind, _space(kind, dependent), owner)

    def _soon(self, kind: Kind, namespace: str, owner: Object) -> None:
        """Do soon what the deletion of an owner, by name and uid, asks for now."""
        name, uid = owner["name"], owner["uid"]

        def collect() -> None:
            found = self._core.store.get(kind, namespace, name)
            if found is None or found["metadata"]["uid"] != uid:
                self._cascade(uid)
            else:
                self._collect(kind, found)

        self._core.agenda.soon(("garbage", uid), collect)

    def _collect(self, kind: Kind, owner: Object) -> None:
        """Carry out a Foreground or Orphan deletion as far as it goes now."""
        metadata = owner["metadata"]
        finalizers = metadata.get("finalizers") or []
        dependents = self._core.store.owned(metadata["uid"])
        if ORPHAN in finalizers:
            for each, body in dependents:
                self._disown(each, body, metadata["uid"])
            self._drop(kind, owner, ORPHAN)
        elif FOREGROUND in finalizers:
            for each, body in dependents:
                if not leaving(body):
                    _delete(self._registry, each, body, Options(propagation="Foreground"))
            if not any(_blocks(body, metadata["uid"]) for _, body in self._core.store.owned(metadata["uid"])):
                self._drop(kind, owner, FOREGROUND)

    def _cascade(self, uid: str) -> None:
        """Delete the dependents of an owner that is gone, unless another owner keeps them."""
        for kind, body in self._core.store.owned(uid):
            owners = body["metadata"]["ownerReferences"]
            there = [each for each in owners if self._is_there(body, each)]
            if there and there != owners:
                self._own(kind, body, there)
            elif not there and not leaving(body):
                _delete(self._registry, kind, body, Options(propagation="Background"))

    def _is_there(self, dependent: Object, owner: Object) -> bool:
        """Tell whether an owner exists with the uid that is named; owners of unknown kinds count as there."""
        kind = BY_OWNER.get((owner["apiVersion"], owner["kind"]))
        if kind is None:
            return True
        found = self._core.store.get(kind, _space(kind, dependent), owner["name"])
        return found is not None and bool(found["metadata"]["uid"] == owner["uid"])

    def _disown(self, kind: Kind, body: Object, uid: str) -> None:
        self._own(kind, body, [each for each in body["metadata"]["ownerReferences"] if each["uid"] != uid])

    def _own(self, kind: Kind, body: Object, kept: list[Object]) -> None:
        """Leave the object these owners only."""
        metadata = {key: value for key, value in body["metadata"].items() if key != "ownerReferences"}
        self._registry.write(kind, {**body, "metadata": {**metadata, "ownerReferences": kept} if kept else metadata})

    def _drop(self, kind: Kind, body: Object, finalizer: str) -> None:
        current = self._core.store.get(kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])
        if current is None:
            return
        kept = [each for each in current["metadata"].get("finalizers") or [] if each != finalizer]
        metadata = {key: value for key, value in current["metadata"].items() if key != "finalizers"}
        self._registry.write(kind, {**current, "metadata": {**metadata, "finalizers": kept} if kept else metadata})


class Namespaces:
    """Gives each namespace its service account and empties it at its end."""

    def __init__(self, registry: Registry) -> None:
        """Follow namespaces and what is in those that end."""
        self._registry = registry
        self._core = registry.core
        self._ending: set[str] = set()
        self._core.store.listen(self._heed)

    def resume(self) -> None:
        """Go on emptying namespaces."""
        for body in self._core.store.bodies(NAMESPACES):
            if leaving(body):
                self._ending.add(body["metadata"]["name"])
                self._soon(body["metadata"]["name"])

    def _heed(self, change: Change) -> None:
        body = change.new.body
        if change.kind is NAMESPACES:
            self._heed_namespace(change, body["metadata"]["name"])
        elif change.deleted and body["metadata"].get("namespace", "") in self._ending:
            self._soon(body["metadata"]["namespace"])

    def _heed_namespace(self, change: Change, name: str) -> None:
        if change.deleted:
            self._ending.discard(name)
        elif leaving(change.new.body):
            self._ending.add(name)
            self._soon(name)
        elif change.old is None:
            self._registry.create(SERVICE_ACCOUNTS, name, {"metadata": {"name": "default"}})

    def _soon(self, name: str) -> None:
        self._core.agenda.soon(("namespace", name), lambda: self._empty(name))

    def _empty(self, name: str) -> None:
        """Delete all that is left in the namespace; when nothing is, let it go."""
        store = self._core.store
        left = False
        for kind in KINDS:
            for body in store.bodies(kind, name) if kind.namespaced else ():
                if not leaving(body):
                    _delete(self._registry, kind, body, Options(propagation="Background"))
                left = True
        namespace = store.get(NAMESPACES, "", name)
        if namespace is None or not leaving(namespace):
            return
        if left and any(store.bodies(kind, name) for kind in KINDS if kind.namespaced):
            return
        self._registry.write(NAMESPACES, {**namespace, "spec": {}})


def _delete(registry: Registry, kind: Kind, body: Object, options: Options) -> None:
    metadata = body["metadata"]
    if registry.core.store.find(kind, metadata.get("namespace", ""), metadata["name"]):
        delete(registry.core, kind, metadata.get("namespace", ""), metadata["name"], options)


def _blocks(body: Object, uid: str) -> bool:
    return any(
        each["uid"] == uid and each.get("blockOwnerDeletion") for each in body["metadata"].get("ownerReferences") or ()
    )


def _space(owner: Kind, dependent: Object) -> str:
    """Return the namespace of an owner: the dependent's own, or none."""
    namespace: str = dependent["metadata"].get("namespace", "")
    return namespace if owner.namespaced else ""
