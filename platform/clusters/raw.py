"""Objects that people wrote themselves, made ready to be released: ours is added, what they wrote stays."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, TypeAlias

from clusters import kinds, manifests, names, paths, steering
from clusters.kinds import Kind, Part
from clusters.port import GroupSpec, Launch, Offer, Placement, RawObject

Manifest: TypeAlias = dict[str, Any]

# Labels by which another queue (Kueue) would take the object as its own.
ALIEN = ("kueue.x-k8s.io/",)
QUEUE_LABELS = (names.LABEL_QUEUE, "kueue.x-k8s.io/queue-name")
# The group of pods that count no units: a launcher, the head of a Ray cluster.
UNCOUNTED = 1000


def new(launch: Launch, raw: RawObject) -> Manifest:
    """Return the object to create: under our name and labels, not suspended, its pods sent where they were planned."""
    kind = kinds.BY_KEY[raw.kind]
    made = deepcopy(dict(raw.manifest))
    meta = made.get("metadata") or {}
    made["metadata"] = {
        "name": names.raw_name(launch.job, launch.number),
        "namespace": launch.namespace,
        "labels": {**_theirs(meta.get("labels")), **manifests.shared_labels(launch)},
        "annotations": {**_theirs(meta.get("annotations")), **manifests.annotations(launch)},
    }
    made.pop("status", None)
    for path in kind.dropped:
        paths.drop(made, path)
    for path, value in kind.forced:
        paths.put(made, path, value)
    _clean(made.get("spec"))
    kinds.settle(kind, made)
    paths.put(made, kind.suspend, value=False)
    for number, part in enumerate(kinds.parts(kind, made)):
        template, group = part.template, _group_of(launch, part)
        if kind.overrides:
            _override(made, kind, launch, group)
        elif isinstance(template, dict):
            _direct(template, launch, group, number)
            _keep_from_preempting(template, launch)
    return made


def release(launch: Launch, found: Manifest, kind: Kind) -> Manifest:
    """Return an adopted object as it starts: our labels, its pods sent where they were planned, no longer suspended."""
    made = deepcopy(found)
    for number, part in enumerate(kinds.parts(kind, made)):
        if isinstance(part.template, dict):
            _direct(part.template, launch, _group_of(launch, part), number)
    paths.put(made, kind.suspend, value=False)
    # The queue label is theirs: it says to whom the object was given.
    ours = {key: value for key, value in manifests.shared_labels(launch).items() if key != names.LABEL_QUEUE}
    meta = made["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), **ours}
    notes = {**(meta.get("annotations") or {}), **manifests.annotations(launch), names.ANNOTATION_ADOPTED: "true"}
    meta["annotations"] = {key: value for key, value in notes.items() if key != names.ANNOTATION_REFUSED}
    return made


def back(kind: Kind, *, over: bool) -> Manifest:
    """Return the merge patch that takes an adopted object back: it is no wave's any more, and (unless over) waits."""
    patch: Manifest = {"metadata": {"labels": {names.LABEL_WAVE: None, names.LABEL_JOB: None}}}
    if not over:
        paths.put(patch, kind.suspend, value=True)
    return patch


def refusal(text: str) -> Manifest:
    """Return the merge patch that tells on an object why it is not taken."""
    return {"metadata": {"annotations": {names.ANNOTATION_REFUSED: text}}}


def offer(seen: Mapping[str, Any], kind: Kind) -> Offer | None:
    """Return an object that somebody gives into the queue, None where nobody does."""
    meta = seen["metadata"]
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    if not kind.adopts or not any(label in labels for label in QUEUE_LABELS):
        return None
    if any(owner.get("controller") and owner.get("kind") in _OWNERS for owner in meta.get("ownerReferences") or ()):
        return None
    return Offer(
        kind=kind.key,
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        suspended=paths.at(seen, kind.suspend) is True,
        over=kinds.has_succeeded(kind, seen) or kinds.has_failed(kind, seen),
        failed=kinds.has_failed(kind, seen),
        leaving="deletionTimestamp" in meta,
        refused=annotations.get(names.ANNOTATION_REFUSED, ""),
        manifest=as_written(seen, kind),
    )


def as_written(seen: Mapping[str, Any], kind: Kind) -> Manifest:
    """Return an object without what the API server and controllers added to it."""
    meta = seen["metadata"]
    kept: Manifest = {"apiVersion": kind.api, "kind": kind.name, "metadata": {"name": meta["name"]}}
    kept["metadata"]["namespace"] = meta["namespace"]
    for where in ("labels", "annotations"):
        found = {
            key: value
            for key, value in (meta.get(where) or {}).items()
            if not key.startswith((*_SERVERS, f"{names.PREFIX}/")) or key in QUEUE_LABELS or key in WISHES
        }
        if found:
            kept["metadata"][where] = found
    kept["spec"] = deepcopy(dict(seen["spec"]))
    for path in kind.dropped:
        paths.drop(kept, path)
    for part in kinds.parts(kind, kept):
        for key in ("labels", "annotations"):
            there = (part.template.get("metadata") or {}).get(key)
            if isinstance(there, dict):
                for label in [each for each in there if each.startswith((*_SERVERS, f"{names.PREFIX}/"))]:
                    del there[label]
    return kept


def same_size(kind: Kind, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two versions of an object run as many pods that ask for the same."""
    return list(_sizes(kind, one)) == list(_sizes(kind, other))


def _sizes(kind: Kind, manifest: Mapping[str, Any]) -> Iterator[object]:
    for part in kinds.parts(kind, manifest):
        containers = [each.get("resources") or {} for each in part.spec.get("containers") or ()]
        first = [each.get("resources") or {} for each in part.spec.get("initContainers") or ()]
        yield part.name, part.pods, containers, first


def _group_of(launch: Launch, part: Part) -> GroupSpec | None:
    return next((group for group in launch.groups if group.name == part.name), None)


def _direct(template: Manifest, launch: Launch, group: GroupSpec | None, number: int) -> None:
    """Label the pods of a part, and send them to their nodes: those of one node by affinity, others behind a gate."""
    meta = template.get("metadata") or {}
    label = UNCOUNTED + number if group is None else group.group
    template["metadata"] = {
        **meta,
        "labels": {**(meta.get("labels") or {}), **manifests.shared_labels(launch), names.LABEL_GROUP: str(label)},
        "annotations": {**(meta.get("annotations") or {}), **manifests.annotations(launch)},
    }
    if group is not None:
        _send(template.setdefault("spec", {}), launch, group, may_wish=not _is_adopted(launch))


def _override(made: Manifest, kind: Kind, launch: Launch, group: GroupSpec | None) -> None:
    """Send pods to their nodes whose template is not in the object: it says what is changed of that."""
    if group is None:
        return
    changed: Manifest = {"targetJobs": [{"name": group.name}]}
    # An affinity cannot be said there.
    _send(changed, launch, group, gated=launch.placement is not Placement.FREE)
    paths.put(made, kind.overrides, [changed])


def _send(spec: Manifest, launch: Launch, group: GroupSpec, *, gated: bool = False, may_wish: bool = False) -> None:
    there = spec.get("tolerations") or []
    ours = [steering.toleration(each) for each in group.tolerations]
    gated = gated or _is_gated(launch, group)
    node = None if gated else group.tasks[0].node
    if may_wish:
        affinity = steering.narrowed(launch, group, node)
    else:
        affinity = None if node is None else steering.affinity(node, launch.placement)
    wanted: Manifest = {
        "nodeSelector": {
            **(spec.get("nodeSelector") or {}),
            **dict(group.node_labels),
            # Where no affinity can be said, one domain can be.
            **({} if may_wish else steering.domain_labels(launch, group)),
        },
        "tolerations": [*there, *(each for each in ours if each not in there)],
        "schedulingGates": [{"name": names.GATE}] if gated else [],
        "affinity": affinity,
        "topologySpreadConstraints": steering.spreading(launch, group) if may_wish else [],
    }
    for key, value in wanted.items():
        if value:
            spec[key] = value
        else:
            spec.pop(key, None)


def _is_gated(launch: Launch, group: GroupSpec) -> bool:
    # Not every kind lets an affinity into an object that exists; a gate passes everywhere.
    several = len({task.node for task in group.tasks}) > 1
    return launch.placement is not Placement.FREE and (several or _is_adopted(launch))


def _is_adopted(launch: Launch) -> bool:
    return launch.raw is not None and bool(launch.raw.adopted)


def _keep_from_preempting(template: Manifest, launch: Launch) -> None:
    spec: Manifest = template.setdefault("spec", {})
    spec["priorityClassName"] = names.priority_class_name(launch.priority_class, launch.priority_value)
    spec.pop("priority", None)
    spec.pop("preemptionPolicy", None)
    spec.setdefault("automountServiceAccountToken", False)
    spec.setdefault("enableServiceLinks", False)


def _clean(found: object) -> None:
    """Take labels and annotations that are ours or another queue's out of all that is made of an object."""
    if isinstance(found, list):
        for inner in found:
            _clean(inner)
    elif isinstance(found, dict):
        for key in ("labels", "annotations"):
            if isinstance(found.get(key), dict):
                found[key] = _theirs(found[key])
        for inner in found.values():
            _clean(inner)


def _theirs(found: Mapping[str, str] | None) -> dict[str, str]:
    return {
        key: value
        for key, value in (found or {}).items()
        if not str(key).startswith((*ALIEN, *_SERVERS, f"{names.PREFIX}/"))
    }


# What an object says about its job as annotations: fields of the compact spec.
WISHES = {
    f"{names.PREFIX}/gpu-type": "type",
    f"{names.PREFIX}/time-limit": "time_limit",
    f"{names.PREFIX}/borrow": "borrow",
    f"{names.PREFIX}/topology": "topology",
}
# kubectl keeps a copy of all that it was given here.
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_SERVERS = (
    "batch.kubernetes.io/",
    "controller-uid",
    "job-name",
    APPLIED,
    "jobset.sigs.k8s.io/",
)
_OWNERS = frozenset(kind.name for kind in kinds.KINDS)
