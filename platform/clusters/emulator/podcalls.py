"""The subresources of pods: binding, eviction, log."""

from collections.abc import AsyncIterator
from datetime import datetime
from http import HTTPStatus

from clusters.emulator.calls import Call, Reply, Stream, Target, reply
from clusters.emulator.clock import after, parse
from clusters.emulator.core import finished, holds
from clusters.emulator.deletion import Options, delete
from clusters.emulator.errors import bad_request, conflict, method_not_allowed, not_found
from clusters.emulator.kinds import NODES, PODS
from clusters.emulator.kubelet import Kubelets
from clusters.emulator.logs import Line, next_at, written
from clusters.emulator.nodes import disrupted
from clusters.emulator.registry import Registry
from clusters.emulator.scheduler import bind
from clusters.emulator.shapes import check_parameters
from clusters.emulator.store import Feed, Object

_DONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_TEXT = "text/plain"
_LONGEST_PAUSE = 3600.0


class PodCalls:
    """Answers what is asked of one pod beyond the common verbs."""

    def __init__(self, registry: Registry, kubelets: Kubelets) -> None:
        """Ask the kubelets when a pod started."""
        self._registry = registry
        self._core = registry.core
        self._kubelets = kubelets

    def answer(self, call: Call, target: Target) -> Reply | Stream:
        """Answer a request for a subresource; raise 405 for other methods."""
        pod = self._core.store.get(PODS, target.namespace or "", target.name)
        if pod is None:
            raise not_found(PODS, target.name)
        match target.part, call.method:
            case "log", "GET":
                return self._log(call, pod)
            case "binding", "POST":
                return self._bind(call, pod)
            case "eviction", "POST":
                return self._evict(call, pod)
            case _:
                raise method_not_allowed()

    def _bind(self, call: Call, pod: Object) -> Reply:
        node = (check_parameters("Binding", call.object()).get("target") or {}).get("name", "")
        known = pod["spec"].get("nodeName")
        if known:
            raise conflict(PODS, pod["metadata"]["name"], f"pod is already assigned to node {known!r}")
        if pod["spec"].get("schedulingGates"):
            raise conflict(PODS, pod["metadata"]["name"], "pod has non-empty .spec.schedulingGates")
        if not self._core.store.find(NODES, "", node):
            raise not_found(NODES, node)
        bind(self._registry, pod, node)
        return reply(_DONE, HTTPStatus.CREATED)

    def _evict(self, call: Call, pod: Object) -> Reply:
        given = check_parameters("Eviction", call.object()).get("deleteOptions") or {}
        if not holds(pod, "DisruptionTarget"):
            now = self._core.stamp()
            status = disrupted(pod, "EvictionByEvictionAPI", "Eviction API: evicting", now)
            self._registry.write(PODS, {**pod, "status": status})
        options = Options(grace=given.get("gracePeriodSeconds"), propagation=given.get("propagationPolicy") or "")
        delete(self._core, PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], options)
        return reply(_DONE, HTTPStatus.CREATED)

    def _log(self, call: Call, pod: Object) -> Reply | Stream:
        """Return what the pod wrote, and with ``follow`` what it writes until it ends."""
        self._check_log(call, pod)
        if not pod["spec"].get("nodeName"):
            return Reply(body=b"", content_type=_TEXT)
        started = self._kubelets.started(pod)
        lines = written(pod, started, self._core.clock()) if started else []
        if (seconds := call.number("sinceSeconds")) is not None:
            oldest = after(self._core.clock(), -seconds)
            lines = [line for line in lines if line.at >= oldest]
        if since := call.query.get("sinceTime", ""):
            lines = [line for line in lines if line.at >= _time(since)]
        if (tail := call.number("tailLines")) is not None:
            lines = lines[-tail:] if tail > 0 else []
        stamped = call.flag("timestamps")
        if call.flag("follow"):
            return Stream(chunks=self._follow(pod, lines, timestamps=stamped), content_type=_TEXT)
        text = b"".join(line.render(timestamps=stamped) for line in lines)
        limit = call.number("limitBytes")
        return Reply(body=text if limit is None else text[:limit], content_type=_TEXT)

    def _check_log(self, call: Call, pod: Object) -> None:
        """Raise 400 for a log that cannot be there yet, in the API server's words."""
        name, spec = pod["metadata"]["name"], pod["spec"]
        names = [container["name"] for container in spec["containers"]]
        asked = call.query.get("container", "")
        if asked and asked not in names:
            raise bad_request(f"container {asked} is not valid for pod {name}")
        if not asked and len(names) > 1:
            raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")
        if call.flag("previous"):
            raise bad_request(f'previous terminated container "{asked or names[0]}" in pod "{name}" not found')
        if spec.get("nodeName") and pod["status"]["phase"] == "Pending":
            statuses = pod["status"].get("containerStatuses") or [{}]
            reason = ((statuses[0].get("state") or {}).get("waiting") or {}).get("reason", "ContainerCreating")
            raise bad_request(f'container "{asked or names[0]}" in pod "{name}" is waiting to start: {reason}')

    async def _follow(self, pod: Object, lines: list[Line], *, timestamps: bool) -> AsyncIterator[bytes]:
        """Yield lines as they come, until the pod has ended or is gone."""
        sent = self._count(pod)
        yield b"".join(line.render(timestamps=timestamps) for line in lines)
        namespace, name, uid = pod["metadata"]["namespace"], pod["metadata"]["name"], pod["metadata"]["uid"]
        feed = self._core.store.follow(PODS)
        current: Object | None = pod
        try:
            while current is not None and current["metadata"]["uid"] == uid:
                now, started = self._core.clock(), self._kubelets.started(current)
                fresh = written(current, started, now)[sent:] if started else []
                if fresh:
                    sent += len(fresh)
                    yield b"".join(line.render(timestamps=timestamps) for line in fresh)
                if finished(current):
                    return
                await self._pause(feed, uid, next_at(current, started, now) if started else None)
                current = self._core.store.get(PODS, namespace, name)
        finally:
            self._core.store.unfollow(PODS, feed)

    def _count(self, pod: Object) -> int:
        started = self._kubelets.started(pod)
        return len(written(pod, started, self._core.clock())) if started else 0

    async def _pause(self, feed: Feed, uid: str, due: datetime | None) -> None:
        """Return when the pod changed or its next line is due."""
        while True:
            left = (due - self._core.clock()).total_seconds() if due else _LONGEST_PAUSE
            if left <= 0:
                return
            await feed.wait(left)
            changes = list(feed.pending)
            feed.pending.clear()
            if any(change.new.body["metadata"]["uid"] == uid for change in changes):
                return


def _time(text: str) -> datetime:
    try:
        return parse(text)
    except ValueError as error:
        raise bad_request(f'parsing time "{text}": invalid (sinceTime)') from error
