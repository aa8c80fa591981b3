"""Objects of the Kubernetes API, as decoded JSON, in the port's words."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, TypeAlias

from clusters import classes, kinds, names, paths, quantities, raw
from clusters.kinds import Kind
from clusters.port import NodeSeen, Offer, PodPhase, PodSeen, Taint, WaveSeen

Json: TypeAlias = Mapping[str, Any]

# Where pods say which of their object's they are.
_INDICES = tuple(dict.fromkeys(kind.index for kind in kinds.KINDS if kind.index))
_FAMILIES = tuple(dict.fromkeys(kind.family for kind in kinds.KINDS if kind.family))
_ORDINALS = tuple(dict.fromkeys(kind.ordinal for kind in kinds.KINDS if kind.ordinal))


def node(seen: Json) -> NodeSeen:
    """Return a node as the port shows it."""
    meta, spec, status = seen["metadata"], seen.get("spec") or {}, seen.get("status") or {}
    allocatable = status.get("allocatable") or {}
    return NodeSeen(
        name=meta["name"],
        labels=meta.get("labels") or {},
        taints=tuple(_taint(taint) for taint in spec.get("taints") or ()),
        ready=_condition(status, "Ready").get("status") == "True",
        cordoned=bool(spec.get("unschedulable")),
        cpu=quantities.milli(allocatable.get("cpu", 0)),
        memory=quantities.whole(allocatable.get("memory", 0)),
        pods=quantities.whole(allocatable.get("pods", 0)),
        counted=quantities.counted(allocatable),
        capacity=quantities.counted(status.get("capacity") or {}),
        conditions=tuple(sorted(_amiss(status))),
    )


def pod(seen: Json) -> PodSeen:
    """Return a pod as the port shows it, its requests as kube-scheduler counts them."""
    meta, spec, status = seen["metadata"], seen.get("spec") or {}, seen.get("status") or {}
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    requests = quantities.of_pod(spec)
    ended = [state["terminated"] for state in _states(status) if "terminated" in state]
    stuck, waiting_reason, waiting_message = _waiting(status)
    failed, end = _failed(status)
    end_reason, end_message = _ending(status, end)
    said = annotations.get(names.ANNOTATION_DEVICES, "") if names.LABEL_WAVE in labels else ""
    claimed = classes.claimed_by(said, spec.get("resourceClaims") or ())
    return PodSeen(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        node=spec.get("nodeName") or None,
        phase=PodPhase(status.get("phase") or PodPhase.PENDING),
        leaving="deletionTimestamp" in meta,
        gated=any(gate.get("name") == names.GATE for gate in spec.get("schedulingGates") or ()),
        cpu=requests["cpu"],
        memory=requests["memory"],
        counted={resource: units for resource, units in requests.items() if "/" in resource and units} | claimed,
        wave=labels.get(names.LABEL_WAVE),
        group=_number(labels.get(names.LABEL_GROUP)) or 0,
        index=_first(_INDICES, annotations, labels),
        ordinal=_first(_ORDINALS, labels) or 0,
        family=next((labels[label] for label in _FAMILIES if label in labels), ""),
        leaving_since=_leaving_since(meta),
        started_at=min(_times(_started(status)), default=None),
        ended_at=max(_times(end.get("finishedAt") for end in ended), default=None),
        exit_code=_exit_code(status, end, ended),
        container=failed or stuck,
        waiting_reason=waiting_reason,
        message=waiting_message or end_message,
        end_reason=end_reason,
    )


def written(kind: Kind) -> Callable[[Json], WaveSeen | Offer | None]:
    """Return what reads objects of a kind: ours, what people give into a queue, None for all others."""
    return lambda seen: wave(seen, kind) if is_ours(seen) else raw.offer(seen, kind)


def is_ours(seen: Json) -> bool:
    """Tell whether an object belongs to a wave."""
    return names.LABEL_WAVE in (seen["metadata"].get("labels") or {})


def wave(seen: Json, kind: Kind = kinds.JOB, *, refusal: str = "") -> WaveSeen:
    """Return an object of a wave as the port shows it; those that people wrote carry no label of a group."""
    meta = seen["metadata"]
    group = meta["labels"].get(names.LABEL_GROUP)
    return WaveSeen(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        wave=meta["labels"][names.LABEL_WAVE],
        group=_number(group) or 0,
        leaving="deletionTimestamp" in meta,
        complete=kinds.has_succeeded(kind, seen),
        failed=kinds.has_failed(kind, seen),
        message=kinds.failure(kind, seen),
        refusal=refusal,
        kind=kind.key if group is None else "",
        adopted=names.ANNOTATION_ADOPTED in (meta.get("annotations") or {}),
        begun=group is None and kinds.has_begun(kind, seen),
        suspended=group is None and paths.at(seen, kind.suspend) is True,
        completions=paths.at(seen, ("spec", "completions")) if group is None and kind is kinds.JOB else None,
    )


def lacking(jobs: Sequence[Json], makers: Iterable[Json]) -> dict[str, str]:
    """Return the Jobs (by uid) that lack pods, each with the object of a wave: itself, or what had it made."""
    above = {seen["metadata"]["uid"]: seen for seen in chain(jobs, makers)}
    result = {}
    for job in filter(lacks_pods, jobs):
        seen: Json | None = job
        passed = set[str]()
        while seen is not None and not is_ours(seen):
            # People write owners too, and may write a circle.
            passed.add(seen["metadata"]["uid"])
            seen = next((above[owner] for owner in _owners(seen) if owner in above and owner not in passed), None)
        if seen is not None:
            result[job["metadata"]["uid"]] = seen["metadata"]["uid"]
    return result


def _owners(seen: Json) -> list[str]:
    return [owner["uid"] for owner in seen["metadata"].get("ownerReferences") or () if owner.get("controller")]


def lacks_pods(seen: Json) -> bool:
    """Tell whether a Job that has not ended has fewer pods than it wants, so that something may refuse them."""
    status = seen.get("status") or {}
    if any(_condition(status, end).get("status") == "True" for end in ("Complete", "Failed")):
        return False
    spec, active = seen["spec"], status.get("active") or 0
    made = active + sum(status.get(count) or 0 for count in ("succeeded", "failed"))
    wanted = spec.get("completions") or spec.get("parallelism") or 0
    at_once = spec.get("parallelism") or wanted
    return bool(made < wanted and active < at_once and "deletionTimestamp" not in seen["metadata"])


def refusals(events: Iterable[Json]) -> dict[str, str]:
    """Return the newest text for each object (by uid) whose pods were refused."""
    texts: dict[str, tuple[str, str]] = {}
    for event in events:
        uid = event.get("involvedObject", {}).get("uid", "")
        when = event.get("lastTimestamp") or event.get("eventTime") or ""
        if uid not in texts or texts[uid][0] <= when:
            texts[uid] = (when, event.get("message") or "")
    return {uid: text for uid, (_, text) in texts.items()}


def lacks_claims(pod: Json) -> bool:
    """Tell whether a pod of ours waits for a claim to be made, which something may refuse."""
    wanted, made = pod["spec"].get("resourceClaims") or (), (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return len(made) < len(wanted) and is_ours(pod) and "deletionTimestamp" not in pod["metadata"]


def refused_claims(events: Iterable[Json], awaiting: Iterable[Json]) -> dict[str, str]:
    """Return the newest text for each object (by uid) whose pods a quota refuses their claims."""
    # A template that is not there yet refuses them too, for a moment.
    texts = refusals(event for event in events if "exceeded quota" in (event.get("message") or ""))
    return {
        owner["uid"]: texts[pod["metadata"]["uid"]]
        for pod in awaiting
        for owner in pod["metadata"].get("ownerReferences") or ()
        if pod["metadata"]["uid"] in texts
    }


def _taint(taint: Json) -> Taint:
    return Taint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"])


def _condition(status: Json, kind: str) -> Json:
    return next((entry for entry in status.get("conditions") or () if entry.get("type") == kind), {})


def _amiss(status: Json) -> Iterator[str]:
    """Name the conditions of a node that should not hold, whoever sets them (the kubelet, a problem detector)."""
    for entry in status.get("conditions") or ():
        if entry.get("type") != "Ready" and entry.get("status") == "True":
            yield entry["type"]


def _states(status: Json) -> Iterator[Json]:
    return (container.get("state") or {} for container in status.get("containerStatuses") or ())


def _started(status: Json) -> Iterator[str | None]:
    for state in _states(status):
        yield (state.get("running") or state.get("terminated") or {}).get("startedAt")


def _waiting(status: Json) -> tuple[str, str, str]:
    """Name what a pod waits for, with the container: a container's own reason, else the scheduler's."""
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting")
        if waiting:
            return container.get("name") or "", waiting.get("reason") or "", waiting.get("message") or ""
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return "", scheduled.get("reason") or "", scheduled.get("message") or ""
    return "", "", ""


def _failed(status: Json) -> tuple[str, Json]:
    """Return the first container that ended badly with its end; an init container where no other did."""
    for container in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        end = (container.get("state") or {}).get("terminated") or {}
        if end.get("exitCode"):
            return container.get("name") or "", end
    return "", {}


def _ending(status: Json, failed: Json) -> tuple[str, str]:
    """Name why a pod ends, the outermost cause first: a disruption, the kubelet's verdict, a container that failed."""
    disruption = _condition(status, "DisruptionTarget")
    if disruption.get("status") == "True":
        return disruption.get("reason") or "", disruption.get("message") or ""
    if status.get("reason"):
        return status["reason"], status.get("message") or ""
    return failed.get("reason") or "", failed.get("message") or ""


def _exit_code(status: Json, failed: Json, ended: Sequence[Json]) -> int | None:
    """Return the code of the container that ended badly, 0 where every one ended well, None while one still runs."""
    if failed:
        return int(failed["exitCode"])
    return 0 if ended and len(ended) == len(status.get("containerStatuses") or ()) else None


def _leaving_since(meta: Json) -> datetime | None:
    """Return when an object was asked to go: its deletion time stands at the end of its grace."""
    if "deletionTimestamp" not in meta:
        return None
    grace = timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
    return datetime.fromisoformat(meta["deletionTimestamp"]) - grace


def _times(texts: Iterable[str | None]) -> Iterator[datetime]:
    return (datetime.fromisoformat(text) for text in texts if text)


def _first(keys: Iterable[str], *sources: Mapping[str, str]) -> int | None:
    """Return the first of these labels or annotations that is a number."""
    found = (_number(source.get(key)) for key in keys for source in sources)
    return next((number for number in found if number is not None), None)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
