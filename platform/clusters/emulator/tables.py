"""Tables: how the API shows objects to people, the columns that kubectl prints."""

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from clusters.emulator.calls import Call
from clusters.emulator.clock import parse
from clusters.emulator.core import holds, leaving
from clusters.emulator.kinds import JOBS, NODES, PODS, Kind
from clusters.emulator.store import Object, Version

Cells = Callable[[Object, datetime], list[Any]]

# Columns as kubectl shows them; those with priority 1 appear with -o wide.
_AGE = ("Age", "string", 0)
_COLUMNS: dict[Kind, tuple[tuple[str, str, int], ...]] = {
    PODS: (
        ("Ready", "string", 0),
        ("Status", "string", 0),
        ("Restarts", "integer", 0),
        _AGE,
        ("IP", "string", 1),
        ("Node", "string", 1),
    ),
    NODES: (("Status", "string", 0), ("Roles", "string", 0), _AGE, ("Version", "string", 0)),
    JOBS: (("Status", "string", 0), ("Completions", "string", 0), ("Duration", "string", 0), _AGE),
}


def wanted(call: Call) -> bool:
    """Return whether a request would rather have a table."""
    first = call.headers.get("accept", "").partition(",")[0].replace(" ", "")
    return "as=Table" in first and "g=meta.k8s.io" in first and "v=v1" in first.split(";")


def table(kind: Kind, versions: Iterable[Version], metadata: dict[str, object], now: datetime) -> bytes:
    """Return objects as a table."""
    columns = (("Name", "string", 0), *_COLUMNS.get(kind, (_AGE,)))
    body = {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [
            {"name": name, "type": type_, "format": "name" if name == "Name" else "", "priority": priority}
            for name, type_, priority in columns
        ],
        "rows": [_row(kind, version.body, now) for version in versions],
    }
    return json.dumps(body, separators=(",", ":")).encode()


def _row(kind: Kind, body: Object, now: datetime) -> dict[str, Any]:
    cells = _CELLS.get(kind, _plain)(body, now)
    shown = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]}
    return {"cells": [body["metadata"]["name"], *cells], "object": shown}


def _plain(body: Object, now: datetime) -> list[Any]:
    return [_age(body, now)]


def _pod(body: Object, now: datetime) -> list[Any]:
    status = body.get("status", {})
    states = status.get("containerStatuses", [])
    ready = f"{sum(bool(each.get('ready')) for each in states)}/{len(body['spec']['containers'])}"
    restarts = sum(each.get("restartCount", 0) for each in states)
    node = body["spec"].get("nodeName", "<none>")
    return [ready, _pod_status(body), restarts, _age(body, now), status.get("podIP", "<none>"), node]


def _pod_status(body: Object) -> str:
    if leaving(body):
        return "Terminating"
    status = body.get("status", {})
    for each in status.get("containerStatuses", []):
        for state in ("waiting", "terminated"):
            if reason := each.get("state", {}).get(state, {}).get("reason"):
                return str(reason)
    return str(status.get("reason") or status.get("phase", "Pending"))


def _node(body: Object, now: datetime) -> list[Any]:
    parts = ["Ready" if holds(body, "Ready") else "NotReady"]
    if body.get("spec", {}).get("unschedulable"):
        parts.append("SchedulingDisabled")
    version = body.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")
    return [",".join(parts), "<none>", _age(body, now), version]


def _job(body: Object, now: datetime) -> list[Any]:
    status, spec = body.get("status", {}), body["spec"]
    named = (name for name in ("Complete", "Failed", "Suspended") if holds(body, name))
    state = next(named, "Terminating" if leaving(body) else "Running")
    done = f"{status.get('succeeded', 0)}/{spec.get('completions', 1)}"
    start, end = status.get("startTime"), status.get("completionTime")
    duration = _span(parse(start), parse(end) if end else now) if start else ""
    return [state, done, duration, _age(body, now)]


_CELLS: dict[Kind, Cells] = {PODS: _pod, NODES: _node, JOBS: _job}


def _age(body: Object, now: datetime) -> str:
    return _span(parse(body["metadata"]["creationTimestamp"]), now)


def _span(start: datetime, end: datetime) -> str:
    """Return a length of time in the two largest units, such as ``3m20s``."""
    left = max(int((end - start).total_seconds()), 0)
    parts = []
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, seconds)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"
