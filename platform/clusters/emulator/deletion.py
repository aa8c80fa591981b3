"""Deleting objects: preconditions, grace, finalizers."""

from dataclasses import dataclass

from clusters.emulator.clock import after, parse, stamp
from clusters.emulator.core import Core, finished
from clusters.emulator.errors import bad_request, conflict, invalid, not_found
from clusters.emulator.kinds import JOBS, NAMESPACES, PODS, Kind
from clusters.emulator.store import Object

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_POLICIES = {"Foreground": FOREGROUND, "Orphan": ORPHAN, "Background": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a caller may ask of a deletion; ``grace`` in seconds."""

    grace: int | None = None
    propagation: str = ""
    uid: str = ""
    resource_version: str = ""
    dry: bool = False


PLAIN = Options()
AT_ONCE = Options(grace=0)


def delete(core: Core, kind: Kind, namespace: str, name: str, options: Options = PLAIN) -> tuple[Object, bool]:
    """Delete an object, or mark it for those who must let it go; return its last sight and whether it is gone."""
    found = core.store.get(kind, namespace, name)
    if found is None:
        raise not_found(kind, name)
    _check(kind, found, options)
    metadata = {**found["metadata"]}
    finalizers = _finalizers(kind, metadata, options)
    grace = _grace(found, options) if kind is PODS else 0
    held = kind is NAMESPACES and bool((found.get("spec") or {}).get("finalizers"))
    if options.dry:
        return found, True
    if not finalizers and not grace and not held:
        return core.store.remove(kind, namespace, name), True
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = stamp(after(core.clock(), grace))
        metadata["deletionGracePeriodSeconds"] = grace
    elif (saved := metadata.get("deletionGracePeriodSeconds", 0) - grace) > 0:
        # What is asked for later shortens the grace; the moment at which it began stays.
        metadata["deletionTimestamp"] = stamp(after(parse(metadata["deletionTimestamp"]), -saved))
        metadata["deletionGracePeriodSeconds"] = grace
    _set(metadata, finalizers)
    body = {**found, "metadata": metadata}
    if kind is NAMESPACES:
        body["status"] = {**(found.get("status") or {}), "phase": "Terminating"}
    return (core.store.put(kind, body) if body != found else found), False


def _check(kind: Kind, found: Object, options: Options) -> None:
    """Raise 409 when a precondition does not hold, 400 or 422 for options that make no sense."""
    if options.propagation not in {"", *_POLICIES}:
        raise invalid(
            kind, found["metadata"]["name"], [("propagationPolicy", f'Unsupported value: "{options.propagation}"')]
        )
    if options.grace is not None and options.grace < 0:
        raise bad_request("gracePeriodSeconds: Invalid value: must be non-negative")
    for asked, key, title in (
        (options.uid, "uid", "UID"),
        (options.resource_version, "resourceVersion", "ResourceVersion"),
    ):
        known = found["metadata"][key]
        if asked and asked != known:
            why = f"Precondition failed: {title} in precondition: {asked}, {title} in object meta: {known}"
            raise conflict(kind, found["metadata"]["name"], why)


def _finalizers(kind: Kind, metadata: Object, options: Options) -> list[str]:
    """Return the finalizers that the propagation policy leaves or sets; batch/v1 Jobs orphan by default."""
    kept = [each for each in metadata.get("finalizers") or [] if each not in {FOREGROUND, ORPHAN}]
    asked = _POLICIES[options.propagation] if options.propagation else None
    if asked is None:
        before = [each for each in metadata.get("finalizers") or [] if each in {FOREGROUND, ORPHAN}]
        asked = before[0] if before else ORPHAN if kind is JOBS else ""
    return [*kept, asked] if asked else kept


def _set(metadata: Object, finalizers: list[str]) -> None:
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _grace(pod: Object, options: Options) -> int:
    """Return how many seconds a pod has; none when no kubelet has it or it has ended."""
    if not pod["spec"].get("nodeName") or finished(pod):
        return 0
    known: int = pod["metadata"].get("deletionGracePeriodSeconds", pod["spec"]["terminationGracePeriodSeconds"])
    if options.grace is None:
        return known
    return min(options.grace, known) if "deletionTimestamp" in pod["metadata"] else options.grace
