"""Objects of the Kubernetes API, as decoded JSON, in the port's words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from clusters import names, quantities
from clusters.port import NodeSeen, PodPhase, PodSeen, Taint, WaveSeen

Json: TypeAlias = Mapping[str, Any]


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
    )


def pod(seen: Json) -> PodSeen:
    """Return a pod as the port shows it, its requests as kube-scheduler counts them."""
    meta, spec, status = seen["metadata"], seen.get("spec") or {}, seen.get("status") or {}
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    requests = _requests(spec)
    ended = [state["terminated"] for state in _states(status) if "terminated" in state]
    stuck, waiting_reason, waiting_message = _waiting(status)
    failed, end = _failed(status)
    end_reason, end_message = _ending(status, end)
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
        counted={resource: units for resource, units in requests.items() if "/" in resource and units},
        wave=labels.get(names.LABEL_WAVE),
        group=_number(labels.get(names.LABEL_GROUP)) or 0,
        index=_number(annotations.get(names.COMPLETION_INDEX)),
        leaving_since=_leaving_since(meta),
        started_at=min(_times(_started(status)), default=None),
        ended_at=max(_times(end.get("finishedAt") for end in ended), default=None),
        exit_code=_exit_code(status, end, ended),
        container=failed or stuck,
        waiting_reason=waiting_reason,
        message=waiting_message or end_message,
        end_reason=end_reason,
    )


def wave(seen: Json, *, refusal: str = "") -> WaveSeen:
    """Return one of our Jobs as the port shows it."""
    meta, status = seen["metadata"], seen.get("status") or {}
    failed = _condition(status, "Failed")
    return WaveSeen(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        wave=meta["labels"][names.LABEL_WAVE],
        group=_number(meta["labels"].get(names.LABEL_GROUP)) or 0,
        leaving="deletionTimestamp" in meta,
        complete=_condition(status, "Complete").get("status") == "True",
        failed=failed.get("status") == "True",
        message=": ".join(filter(None, (failed.get("reason"), failed.get("message")))),
        refusal=refusal,
    )


def lacks_pods(seen: Json) -> bool:
    """Tell whether a Job that has not ended has fewer pods than it wants, so that something may refuse them."""
    status = seen.get("status") or {}
    if any(_condition(status, end).get("status") == "True" for end in ("Complete", "Failed")):
        return False
    made = sum(status.get(count) or 0 for count in ("active", "succeeded", "failed"))
    return int(made) < int(seen["spec"].get("completions") or 0) and "deletionTimestamp" not in seen["metadata"]


def refusals(events: Iterable[Json]) -> dict[str, str]:
    """Return the newest text for each object (by uid) whose pods were refused."""
    texts: dict[str, tuple[str, str]] = {}
    for event in events:
        uid = event.get("involvedObject", {}).get("uid", "")
        when = event.get("lastTimestamp") or event.get("eventTime") or ""
        if uid not in texts or texts[uid][0] <= when:
            texts[uid] = (when, event.get("message") or "")
    return {uid: text for uid, (_, text) in texts.items()}


def _taint(taint: Json) -> Taint:
    return Taint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"])


def _condition(status: Json, kind: str) -> Json:
    return next((entry for entry in status.get("conditions") or () if entry.get("type") == kind), {})


def _requests(spec: Json) -> Counter[str]:
    """Add up containers; init containers count where one alone needs more, sidecars as long as they run."""
    total: Counter[str] = Counter()
    for container in spec.get("containers") or ():
        total.update(_asked(container))
    peak, sidecars = Counter[str](), Counter[str]()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars.update(_asked(container))
            peak |= sidecars
        else:
            peak |= sidecars + _asked(container)
    total = (total + sidecars) | peak
    for resource, amount in _asked(spec).items():
        total[resource] = amount
    return total + _amounts(spec.get("overhead") or {})


def _asked(container: Json) -> Counter[str]:
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(resources: Json) -> Counter[str]:
    amounts = Counter({resource: quantities.whole(q) for resource, q in resources.items() if resource != "cpu"})
    if "cpu" in resources:
        amounts["cpu"] = quantities.milli(resources["cpu"])
    return amounts


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


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
