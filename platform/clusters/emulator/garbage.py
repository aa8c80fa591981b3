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
                for owner in body["metadata"].get("ownerReferences") or ():
                    self._look(owner)
                if leaving(body):
                    self._soon(kind, body)

    def _heed(self, change: Change) -> None:
        if change.kind is EVENTS:
            return
        metadata = change.new.body["metadata"]
        if change.deleted or (change.old is None and metadata.get("ownerReferences")):
            for owner in metadata.get("ownerReferences") or ():
                self._look(owner)
        if change.deleted or FOREGROUND in (ends := metadata.get("finalizers") or ()) or ORPHAN in ends:
            self._soon(change.kind, change.new.body)

    def _look(self, reference: Object) -> None:
        """Collect soon for the owner that a reference names, be it there or not."""
        uid = reference["uid"]
        self._core.agenda.soon(("garbage", uid), lambda: self._collect_reference(reference))

    def _collect_reference(self, reference: Object) -> None:
        for kind, dependent in self._core.store.owned(reference["uid"]):
            owner = self._owner(kind, dependent, reference)
            if owner is None:
                self._cascade(reference["uid"])
            elif FOREGROUND in (owner["metadata"].get("finalizers") or ()):
                self._collect(BY_OWNER[reference["apiVersion"], reference["kind"]], owner)
            return
        for kind in KINDS:
            if (kind.api_version, kind.kind) == (reference["apiVersion"], reference["kind"]):
                self._release_waiting(kind, reference)

    def _release_waiting(self, kind: Kind, reference: Object) -> None:
        """Let an owner go whose last dependent went."""
        for body in self._core.store.bodies(kind):
            if body["metadata"]["uid"] == reference["uid"] and FOREGROUND in (body["metadata"].get("finalizers") or ()):
                self._collect(kind, body)
                return

    def _soon(self, kind: Kind, body: Object) -> None:
        metadata = body["metadata"]
        namespace, name, uid = metadata.get("namespace", ""), metadata["name"], metadata["uid"]

        def collect() -> None:
            owner = self._core.store.get(kind, namespace, name)
            if owner is None or owner["metadata"]["uid"] != uid:
                self._cascade(uid)
            else:
                self._collect(kind, owner)

        self._core.agenda.soon(("garbage of", uid), collect)

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
            references = body["metadata"]["ownerReferences"]
            if any(self._owner(kind, body, each) for each in references):
                self._disown(kind, body, uid)
            elif not leaving(body):
                _delete(self._registry, kind, body, Options(propagation="Background"))

    def _owner(self, kind: Kind, dependent: Object, reference: Object) -> Object | None:
        """Return the owner that a reference names, if it is there with that uid."""
        owner_kind = BY_OWNER.get((reference["apiVersion"], reference["kind"]))
        if owner_kind is None:
            return dependent
        space = dependent["metadata"].get("namespace", "") if owner_kind.namespaced and kind.namespaced else ""
        found = self._core.store.get(owner_kind, space, reference["name"])
        return found if found and found["metadata"]["uid"] == reference["uid"] else None

    def _disown(self, kind: Kind, body: Object, uid: str) -> None:
        kept = [each for each in body["metadata"]["ownerReferences"] if each["uid"] != uid]
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
