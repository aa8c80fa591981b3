"""Reading what people wrote as Kubernetes objects: shape, tasks and units from their pods, our wishes from labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clusters import kinds, names, paths, quantities, raw
from queues.inventory import is_gpu
from queues.spec import containers as asks
from queues.spec import podrules
from queues.spec.fields import MOST_NAMES, Section, kind, show
from queues.spec.forms import LABEL_KEY, MOST_CPU_MILLI, MOST_GROUPS, MOST_LABELS, MOST_MEMORY, MOST_TASKS, MOST_UNITS
from queues.spec.hidden import SAY_AGAIN, credentials
from queues.spec.values import API_VERSION, FlavorChoice, Run, SpecGroup, TeamChoice
from tenants.allowances import Allowance

if TYPE_CHECKING:
    from clusters.kinds import Kind, Part

Json = Mapping[str, Any]

QUEUE = raw.QUEUE_LABELS
PRIORITY = (f"{names.PREFIX}/priority-class", "kueue.x-k8s.io/priority-class")
TEAM = names.LABEL_TEAM
METADATA = frozenset({"name", "generateName", "namespace", "labels", "annotations"})
KNOWN = ", ".join(f"{each.name} ({each.api})" for each in kinds.KINDS)
# As many as Kubernetes can count.
MOST_COUNT = 2**31 - 1
# The path of a container's resources in a pod.
WRAPPING = 3
NEAR = ("required", "preferred", "spread")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """A spec around an object, and where each of its pointers stands in what was sent."""

    spec: dict[str, Any]
    pointers: Mapping[str, str] = field(default_factory=dict)

    def pointer(self, inside: str) -> str:
        """Return where a field of the spec was written by whom sent the object."""
        for start in sorted(self.pointers, key=len, reverse=True):
            if inside == start or inside.startswith(f"{start}/"):
                return self.pointers[start] + inside[len(start) :]
        return inside


def is_object(data: object) -> bool:
    """Tell whether a body is a Kubernetes object rather than a compact spec."""
    version = data.get("apiVersion") if isinstance(data, Mapping) else None
    return isinstance(version, str) and "/" in version and not version.startswith(API_VERSION.partition("/")[0] + "/")


def wrapped(manifest: Json, namespaces: Mapping[str, str]) -> Wrapped:
    """Return an object as the spec that it means; ``namespaces`` names the team of each namespace."""
    meta = paths.mapping(manifest.get("metadata"))
    labels, notes = paths.mapping(meta.get("labels")), paths.mapping(meta.get("annotations"))
    pointers = {"/spec/manifest": "", "/metadata/name": "/metadata/name", "/metadata/team": "/metadata/namespace"}
    metadata: dict[str, Any] = {"name": meta.get("name") or str(meta.get("generateName") or "").rstrip("-._") or None}
    body: dict[str, Any] = {"manifest": manifest}
    for label in (TEAM,):
        if label in labels:
            metadata["team"] = labels[label]
            pointers["/metadata/team"] = f"/metadata/labels{paths.pointer((label,))}"
    namespace = meta.get("namespace")
    if namespace is not None and "team" not in metadata:
        metadata["team"] = namespaces.get(str(namespace), namespace)
    for into, key, choices in ((metadata, "queue", QUEUE), (body, "priority", PRIORITY)):
        found = next((label for label in choices if label in labels), None)
        if found is not None:
            into[key] = labels[found]
            start = "/metadata" if into is metadata else "/spec"
            pointers[f"{start}/{key}"] = f"/metadata/labels{paths.pointer((found,))}"
    for note, key in raw.WISHES.items():
        if note in notes:
            name, value = _wish(key, notes[note])
            body[name] = value
            pointers[f"/spec/{name}"] = f"/metadata/annotations{paths.pointer((note,))}"
    kept = {key: value for key, value in labels.items() if _is_theirs(key)}
    if kept:
        metadata["labels"] = dict(list(kept.items())[:MOST_LABELS])
    spec = {
        "apiVersion": API_VERSION,
        "kind": "Job",
        "metadata": {key: value for key, value in metadata.items() if value is not None},
        "spec": body,
    }
    return Wrapped(spec=spec, pointers=pointers)


def deadline(manifest: object) -> object | None:
    """Return the object's own time limit in seconds, if it has one."""
    found = kinds.kind_of(manifest) if isinstance(manifest, Mapping) else None
    return paths.at(manifest, found.deadline) if found and found.deadline else None


def grace(manifest: object) -> int | None:
    """Return the longest time in seconds that its pods want to end, if one says so."""
    found = kinds.kind_of(manifest) if isinstance(manifest, Mapping) else None
    if found is None or not isinstance(manifest, Mapping):
        return None
    wanted = (part.spec.get("terminationGracePeriodSeconds") for part in kinds.parts(found, manifest))
    return max((each for each in wanted if isinstance(each, int) and not isinstance(each, bool)), default=None)


class Manifest:
    """Reads the object of a job; what is wrong is noted with its pointer."""

    def __init__(self, body: Section, team: TeamChoice, flavors: tuple[FlavorChoice, ...]) -> None:
        """Take the spec's body, the team and the flavors that its pods may have, in order of wish."""
        self.body, self.team, self.flavors = body, team, flavors
        self.start = body.at("manifest")
        given = body.take("manifest", None)
        self.manifest: Json = given if isinstance(given, Mapping) else {}
        if not isinstance(given, Mapping):
            body.wrong("manifest", "not_a_mapping", f"manifest is a Kubernetes object, not {kind(given)}", given=given)
        self.kind = kinds.kind_of(self.manifest)
        if self.kind is None and self.manifest:
            self._unknown_kind()

    def kept(self) -> Json:
        """Return the object as it was sent, without a status and kubectl's own copy of it."""
        kept = {key: deepcopy(value) for key, value in self.manifest.items() if key != "status"}
        paths.drop(kept, ("metadata", "annotations", raw.APPLIED))
        return kept

    def groups(self) -> tuple[SpecGroup, ...]:
        """Return the pods that count units as groups."""
        if self.kind is None:
            return ()
        self._check_object(self.kind)
        for each in credentials(self.manifest):
            if each.is_hidden:
                self._wrong(each.pointer, "hidden", f"{each.name} {SAY_AGAIN}")
        parts = kinds.parts(self.kind, self.manifest)
        named = [part.name for part in parts]
        for name in sorted({name for name in named if named.count(name) > 1}):
            self._wrong("/spec", "twice", f"two parts are called {show(name)}")
        groups = tuple(found for part in parts if (found := self._group(part)) is not None)
        if not groups and not self.body.errors:
            self._counts_none(self.kind, parts)
        if len(groups) > MOST_GROUPS:
            self._wrong("/spec", "too_many", f"at most {MOST_GROUPS} kinds of pods with GPUs are taken")
        return groups

    def _counts_none(self, kind: Kind, parts: Sequence[Part]) -> None:
        """Note why no pod counts units: there would be none, or they ask for none."""
        none = [pointer for pointer, said in kinds.pod_counts(kind, self.manifest) if said == 0]
        for pointer in none:
            name = pointer.rpartition("/")[2]
            self._wrong(pointer, "no_pods", f"{name} is 0, so no pod would run: say how many do", given=0)
        if not none:
            resources = " or ".join(dict.fromkeys(flavor.resource for flavor in self.flavors)) or "a GPU"
            where = parts[0].pointer if parts else "/spec"
            self._wrong(where, "no_gpus", f"its pods ask for no GPU: set limits of {resources} in a container")

    def _unknown_kind(self) -> None:
        version, name = self.manifest.get("apiVersion"), self.manifest.get("kind")
        detail = f"{show(name)} of {show(version)} cannot be queued; one can queue {KNOWN}"
        self._wrong(
            "/kind",
            "unknown_kind",
            detail,
            given=f"{show(version)} {show(name)}",
            allowed=[k.name for k in kinds.KINDS],
        )

    def _check_object(self, kind: Kind) -> None:
        meta, spec = paths.mapping(self.manifest.get("metadata")), paths.mapping(self.manifest.get("spec"))
        for key in self.manifest.keys() - {"apiVersion", "kind", "metadata", "spec", "status"}:
            self._wrong(paths.pointer((str(key),)), "not_allowed", f"{show(key)} is not taken")
        self._only(meta, METADATA, "/metadata", "only name, namespace, labels and annotations are taken")
        for path, why in kind.refused:
            if paths.at(self.manifest, path) not in (None, False):
                self._wrong(paths.pointer(path), "not_allowed", f"{path[-1]} is not taken: {why}")
        known = kind.fields | {path[1] for path, _ in kind.refused} | {path[1] for path in kind.dropped}
        self._only(spec, known, "/spec", f"{kind.name} is taken without it")
        self._metadata(self.manifest, "")
        for pointer, said in kinds.pod_counts(kind, self.manifest):
            if isinstance(said, bool) or not isinstance(said, int) or not 0 <= said <= MOST_COUNT:
                name = pointer.rpartition("/")[2]
                detail = f"{name} is a whole number from 0 to {MOST_COUNT}, not {show(said)}"
                self._wrong(pointer, "not_a_whole_number", detail, given=said, allowed=(0, MOST_COUNT))
        self._inside(kind)
        for part in kinds.parts(kind, self.manifest):
            self._metadata(part.template, part.pointer)
            if part.job is not None:
                self._only(part.job, kinds.JOB_FIELDS, part.job_pointer, "Job is taken without it")

    def _inside(self, kind: Kind) -> None:
        """Note what is not taken between the spec and its pods, where pods could hide or change their number."""
        for pointer, found, fields in kinds.whole_parts(kind, self.manifest):
            self._only(found, fields, pointer, f"{kind.name} is taken without it")
        for pointer in kinds.unsaid(kind, self.manifest):
            self._wrong(pointer, "required", f"{pointer.rpartition('/')[2]} is needed: how many pods run is counted")
        for path, taken, why in kind.only:
            if paths.at(self.manifest, path) not in (None, taken) and Allowance.PRIVILEGED not in self.team.allows:
                said = show(paths.at(self.manifest, path))
                allow = f"only {taken} is taken, where an admin has not allowed more ({Allowance.PRIVILEGED})"
                self._wrong(paths.pointer(path), "not_allowed", f"{said} is not taken: {why}; {allow}")
        for pointer in kinds.places_itself(self.manifest):
            self._wrong(pointer, "not_allowed", "JobSet would place pods by it: say tidegate.io/topology instead")
        podrules.check_env(self._section(), paths.at(self.manifest, kind.env), self.start + paths.pointer(kind.env))

    def _metadata(self, found: Json, pointer: str) -> None:
        """Note what is no label or annotation of an object or a pod template."""
        meta = found.get("metadata")
        if meta is not None and not isinstance(meta, Mapping):
            detail = f"metadata is a mapping of fields, not {kind(meta)}"
            self._wrong(f"{pointer}/metadata", "not_a_mapping", detail, given=meta)
        for key in ("labels", "annotations"):
            self._pairs(paths.mapping(meta).get(key), f"{pointer}/metadata/{key}")

    def _only(self, found: Json, known: frozenset[str] | set[str], pointer: str, why: str) -> None:
        for key, value in found.items():
            if key not in known and value not in (None, {}, []):
                self._wrong(f"{pointer}{paths.pointer((str(key),))}", "not_allowed", f"{show(key)} is not taken: {why}")

    def _group(self, part: Part) -> SpecGroup | None:
        pod, pointer = part.spec, f"{part.pointer}/spec"
        if self.kind is not None and not self.kind.overrides:
            where = self.start + part.pointer
            podrules.check(self._section(), part.template, where, team=self.team.name, allowed=self.team.allows)
        elif self.kind is not None:
            pointer = part.pointer
        asked = self._asked(pod, pointer)
        counted = {resource: units for resource, units in asked.items() if resource in self._resources() and units}
        if part.pods < 1 or not any("/" in resource for resource in asked):
            return None
        if not counted:
            unknown = ", ".join(sorted(resource for resource in asked if "/" in resource))
            self._wrong(pointer, "no_gpus", f"it asks for {unknown}, which no GPU type has; add limits of one that has")
            return None
        gpus = {resource for resource in asked if resource in counted or is_gpu(resource)}
        if len(gpus) > 1:
            self._wrong(
                pointer, "two_resources", f"a pod may ask for one of {', '.join(sorted(gpus))}, not for several"
            )
        resource, units = next(iter(counted.items()))
        if part.pods > MOST_TASKS or units > MOST_UNITS:
            self._wrong(part.pointer, "out_of_range", f"at most {MOST_TASKS} pods with {MOST_UNITS} units are taken")
        selector = self._pairs(pod.get("nodeSelector"), f"{pointer}/nodeSelector")
        return SpecGroup(
            name=part.name,
            tasks=min(part.pods, MOST_TASKS),
            units=min(units, MOST_UNITS),
            flavors=self._fitting(resource, selector, f"{pointer}/nodeSelector"),
            cpu_milli=min(asked.get("cpu", 0), MOST_CPU_MILLI),
            memory=min(asked.get("memory", 0), MOST_MEMORY),
            run=Run(image=_image(pod), node_labels=tuple(sorted(selector.items()))),
        )

    def _asked(self, pod: Json, pointer: str) -> dict[str, int]:
        """Return what a pod asks for as kube-scheduler counts it; units must be limits."""
        containers = pod.get("containers")
        if not isinstance(containers, list) or not containers:
            self._wrong(f"{pointer}/containers", "required", "a pod needs containers")
            return {}
        for place, container in enumerate(containers):
            resources = paths.mapping(paths.mapping(container).get("resources"))
            limits, requests = paths.mapping(resources.get("limits")), paths.mapping(resources.get("requests"))
            for resource in sorted(self._resources() & requests.keys() - limits.keys()):
                where = f"{pointer}/containers/{place}/resources/limits"
                self._wrong(where, "required", f"{resource} is asked for by limits; requests alone are not enough")
        faults = list(asks.faults(pod))
        for path, code, detail in faults:
            # Where a kind has no template, what each pod asks for stands right there.
            inside = path[WRAPPING:] if self.kind is not None and self.kind.overrides else path
            self._wrong(pointer + paths.pointer(inside), code, detail)
        try:
            return {} if faults else dict(quantities.of_pod(pod))
        except (ValueError, TypeError, AttributeError):
            return {}  # in a field of the pod that is not taken, and told so

    def _fitting(self, resource: str, selector: Mapping[str, str], pointer: str) -> tuple[FlavorChoice, ...]:
        """Return the flavors whose nodes have the resource and are not ruled out by the pod's node selector."""
        having = tuple(flavor for flavor in self.flavors if flavor.resource == resource)
        fitting = tuple(
            flavor
            for flavor in having
            if all(selector.get(label, value) == value for label, value in flavor.node_labels)
        )
        if having and not fitting:
            there = ", ".join(flavor.name for flavor in having[:MOST_NAMES])
            self._wrong(pointer, "no_gpu_type", f"no node of {there} carries these labels")
        return fitting or having or self.flavors

    def _resources(self) -> set[str]:
        return {flavor.resource for flavor in self.flavors}

    def _pairs(self, found: object, pointer: str) -> dict[str, str]:
        given = paths.mapping(found)
        what = pointer.rpartition("/")[2]
        if found is not None and not isinstance(found, Mapping):
            self._wrong(pointer, "not_a_mapping", f"{what} is a mapping of texts, not {kind(found)}", given=found)
        for key, value in given.items():
            if not isinstance(value, str):
                detail = f"a value of {what} is a text, not {kind(value)}; write it in quotes"
                self._wrong(pointer + paths.pointer((str(key),)), "not_a_text", detail, given=value)
        return {str(key): value for key, value in given.items() if isinstance(value, str)}

    def _section(self) -> Section:
        return Section({}, self.start, self.body.errors)

    def _wrong(self, pointer: str, code: str, detail: str, **said: Any) -> None:  # noqa: ANN401  as of wrong
        self.body.wrong(self.start + pointer, code, detail, **said)


def images(manifest: Json) -> Iterator[str]:
    """Yield the image of each part that counts units, as ``groups`` orders them."""
    found = kinds.kind_of(manifest)
    for part in kinds.parts(found, manifest) if found else ():
        if part.pods and any("/" in resource for resource in quantities.of_pod(part.spec)):
            yield _image(part.spec)


def _image(pod: Json) -> str:
    first = next(iter(pod.get("containers") or ()), None)
    return str(paths.mapping(first).get("image") or "")


def _wish(key: str, text: object) -> tuple[str, object]:
    """Return the field of the spec that an annotation says, and its value."""
    words = str(text).strip()
    if key == "type":
        return "gpus", {"type": [word.strip() for word in words.split(",") if word.strip()]}
    if key == "borrow":
        return key, {"true": True, "false": False}.get(words.lower(), words)
    if key == "topology":
        near, _, level = words.partition("=")
        return key, {near.strip(): level.strip()}
    return key, words


def _is_theirs(label: object) -> bool:
    text = str(label)
    return not text.startswith((names.PREFIX, *raw.ALIEN)) and LABEL_KEY.fullmatch(text) is not None
