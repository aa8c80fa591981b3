"""The verbs of the cluster port, each as few requests to the Kubernetes API as it takes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from math import ceil
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote

from clusters import answers, manifests, names, sightings, watching
from clusters.port import Change, ClusterError, Gone, Inventory, Launch, Log, NameTaken, Pin, Unreachable, WaveRef

PAGE = 500
READ_SECONDS = 30.0
# A followed log may be silent for so long; its reader shuts it before.
FOLLOW_SECONDS = 7200.0
OPEN_SECONDS = 10.0
# How much longer than asked for a watch may be silent before its connection counts as dead.
WATCH_SLACK_SECONDS = 5.0
PIN_THREADS = 8

_JSON = "application/json"
_STRATEGIC = "application/strategic-merge-patch+json"
_KINDS: Mapping[str, tuple[str, watching.Parse]] = {
    "nodes": ("/api/v1/nodes", sightings.node),
    "pods": ("/api/v1/pods", sightings.pod),
    "jobs": ("/apis/batch/v1/jobs", sightings.wave),
}

Json: TypeAlias = dict[str, Any]
Query: TypeAlias = Mapping[str, str]


class Failure(Exception):
    """An answer that is not a success, before a verb has judged it."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Keep the answer as it came."""
        super().__init__(status)
        self.status = status
        self.body = body
        self.headers = headers

    def judged(self) -> ClusterError:
        """Return what the answer means where a verb has no opinion of its own."""
        return answers.error(self.status, self.body, self.headers)


class Stream(watching.Stream, Protocol):
    """An answer that is still arriving."""

    def chunks(self) -> Iterator[bytes]:
        """Yield bytes as they come; raise Unreachable where they break off."""
        ...


class Api(Protocol):
    """HTTP to one API server; both calls raise Failure for an answer that is no success, Unreachable for none."""

    requests: Counter[str]

    def ask(
        self, verb: str, path: str, *, query: Query | None = None, body: Json | None = None, media: str = _JSON
    ) -> Json:
        """Make one request and return the decoded answer."""
        ...

    def open(self, verb: str, path: str, *, query: Query, first: float, between: float) -> Stream:
        """Make one request whose answer is read while it arrives.

        Until it begins ``first`` seconds may pass, and ``between`` from one piece to the next.
        """
        ...

    def close(self) -> None:
        """Close connections that are kept open."""
        ...


class KubeCluster:
    """One Kubernetes cluster, spoken to through its API server."""

    def __init__(self, name: str, api: Api) -> None:
        """Speak to the cluster of that name; nothing is asked yet."""
        self.name = name
        self.api = api
        self._namespaces: set[str] = set()
        self._priority_classes: set[str] = set()

    def check(self) -> str:
        """Return the server's version, or raise Unreachable."""
        return str(self._ask("get", "/version").get("gitVersion", ""))

    def inventory(self) -> Inventory:
        """List nodes, pods and our Jobs, and why Jobs that lack pods were refused them."""
        try:
            return self._inventory()
        except watching.UNREADABLE as error:
            raise Unreachable(f"cluster {self.name} listed something that cannot be read: {error}") from error

    def watch(self, position: Mapping[str, str], *, seconds: float) -> Iterator[Change]:
        """Yield changes behind ``position`` for at most ``seconds``; raise Gone when the position is too old."""
        parsers = {kind: parse for kind, (_, parse) in _KINDS.items()}
        return watching.changes(self._open_watch, parsers, position, seconds=seconds)

    def ensure_team(self, namespace: str, *, team: str, ceiling: Mapping[str, int] | None) -> None:
        """Make sure of the team's namespace and its ResourceQuota fence, by counted resource (``None``: no fence)."""
        if namespace not in self._namespaces:
            self._ensure_namespace(namespace, team=team)
        quotas = _path("/api/v1", namespace, "resourcequotas")
        fence = f"{quotas}/{names.FENCE}"
        if ceiling is None:
            self._unless_missing("delete", fence)
            return
        wanted = manifests.fence(namespace, ceiling=ceiling)
        if self._unless_missing("replace", fence, body=wanted) is None:
            self._create(quotas, wanted)

    def launch(self, launch: Launch) -> None:
        """Create what the wave needs, or find it there; raise Refused, QuotaRefused, NameTaken or Unreachable."""
        self._ensure_priority_class(launch.priority_class, launch.priority_value)
        jobs = _path("/apis/batch/v1", launch.namespace, "jobs")
        try:
            made = [self._create_owned(jobs, manifests.job(launch, group)) for group in launch.groups]
            if manifests.needs_service(launch):
                services = _path("/api/v1", launch.namespace, "services")
                self._create_owned(services, manifests.service(launch, owner=made[0]))
        except Failure as failure:
            raise self._judge_launch(launch, failure) from failure

    def pin(self, pins: Sequence[Pin]) -> None:
        """Narrow each gated pod to its node and remove our gate; pods that are gone or free already are passed over."""
        with ThreadPoolExecutor(max_workers=PIN_THREADS, thread_name_prefix="pin") as threads:
            # Every pod is tried before the first error is raised.
            outcomes = [threads.submit(self._pin_one, pin) for pin in pins]
        for outcome in outcomes:
            outcome.result()

    def stop(self, ref: WaveRef, *, grace_seconds: int | None = None) -> None:
        """Delete the wave's objects and pods; what is gone already is passed over."""
        # By label and not by name: it takes one request for all groups and cannot hit what is not ours.
        ours = {"labelSelector": f"{names.LABEL_WAVE}={names.label_value(ref.wave)}"}
        jobs = _path("/apis/batch/v1", ref.namespace, "jobs")
        self._unless_missing("delete", jobs, query={**ours, "propagationPolicy": "Background"})
        if grace_seconds is not None:
            pods = _path("/api/v1", ref.namespace, "pods")
            self._unless_missing("delete", pods, query={**ours, "gracePeriodSeconds": str(grace_seconds)})

    def stop_pods(self, namespace: str, pods: Sequence[str], *, grace_seconds: int | None = None) -> None:
        """Delete these pods and nothing else of their waves; what is gone already is passed over."""
        query = {} if grace_seconds is None else {"gracePeriodSeconds": str(grace_seconds)}
        for pod in pods:
            self._unless_missing("delete", _path("/api/v1", namespace, "pods", pod), query=query)

    def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        tail: int | None = None,
        since: datetime | None = None,
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
        patience: float | None = None,
    ) -> Log:
        """Open a container's log; raise NotThere, Refused, or Silent when nothing came within ``patience`` seconds."""
        flags = {"follow": follow, "previous": previous, "timestamps": timestamps}
        query = {name: "true" for name, on in flags.items() if on}
        query |= {"container": container} if container else {}
        query |= {"tailLines": str(tail)} if tail is not None else {}
        query |= {"sinceTime": f"{since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"} if since is not None else {}
        path = _path("/api/v1", namespace, "pods", pod) + "/log"
        # An answer begins with the first line, for which a followed pod may take its time.
        first = patience or (FOLLOW_SECONDS if follow else READ_SECONDS)
        between = FOLLOW_SECONDS if follow else first
        try:
            return self.api.open("logs", path, query=query, first=first, between=between)
        except Failure as failure:
            raise failure.judged() from failure

    def close(self) -> None:
        """Close connections that are kept open."""
        self.api.close()

    def _inventory(self) -> Inventory:
        listed = {kind: self._list(path, _selector(kind)) for kind, (path, _) in _KINDS.items()}
        jobs = listed["jobs"][0]
        refusals = self._refusals() if any(sightings.lacks_pods(job) for job in jobs) else {}
        return Inventory(
            nodes=tuple(sightings.node(node) for node in listed["nodes"][0]),
            pods=tuple(sightings.pod(pod) for pod in listed["pods"][0]),
            waves=tuple(sightings.wave(job, refusal=refusals.get(job["metadata"]["uid"], "")) for job in jobs),
            position={kind: version for kind, (_, version) in listed.items()},
        )

    def _ensure_namespace(self, namespace: str, *, team: str) -> None:
        try:
            made = self.api.ask("create", "/api/v1/namespaces", body=manifests.namespace(namespace, team=team))
        except Failure as failure:
            if failure.status != answers.CONFLICT:
                raise failure.judged() from failure
            made = self._ask("get", _path("/api/v1", namespace))
        if "deletionTimestamp" in made["metadata"]:
            raise NameTaken(f"namespace {namespace} is being deleted", leaving=True)
        self._namespaces.add(namespace)

    def _ensure_priority_class(self, name: str, value: int) -> None:
        if name in self._priority_classes:
            return
        self._create("/apis/scheduling.k8s.io/v1/priorityclasses", manifests.priority_class(name, value))
        self._priority_classes.add(name)

    def _judge_launch(self, launch: Launch, failure: Failure) -> ClusterError:
        error = failure.judged()
        if isinstance(error, NameTaken) or answers.is_missing_namespace(failure.body):
            self._namespaces.discard(launch.namespace)
        if answers.is_missing_namespace(failure.body):
            return Unreachable(f"namespace {launch.namespace} is not there")
        return error

    def _create_owned(self, collection: str, wanted: Json) -> Json:
        """Create an object, or return the one that is there if it is of the same wave and stays; raise NameTaken."""
        name = wanted["metadata"]["name"]
        try:
            return self.api.ask("create", collection, body=wanted)
        except Failure as failure:
            if failure.status != answers.CONFLICT:
                raise
        found = self._unless_missing("get", f"{collection}/{name}")
        if found is None:
            raise NameTaken(f"{name} was there and has just gone", leaving=True)
        meta = found["metadata"]
        if "deletionTimestamp" in meta:
            raise NameTaken(f"{name} is being deleted", leaving=True)
        if (meta.get("labels") or {}).get(names.LABEL_WAVE) != wanted["metadata"]["labels"][names.LABEL_WAVE]:
            raise NameTaken(f"{name} exists and is not of this wave", leaving=False)
        return found

    def _pin_one(self, pin: Pin) -> None:
        pod = _path("/api/v1", pin.namespace, "pods", pin.pod)
        try:
            self.api.ask("patch", pod, body=manifests.release(pin), media=_STRATEGIC)
        except Failure as failure:
            if failure.status == answers.NOT_FOUND:
                return
            # A pod without gates keeps its affinity: then somebody has pinned it before.
            if failure.status != answers.UNPROCESSABLE or self._is_gated(pod):
                raise failure.judged() from failure

    def _is_gated(self, pod: str) -> bool:
        found = self._unless_missing("get", pod)
        return found is not None and sightings.pod(found).gated

    def _create(self, collection: str, wanted: Json) -> None:
        """Create an object; one of that name is as good."""
        try:
            self.api.ask("create", collection, body=wanted)
        except Failure as failure:
            if failure.status != answers.CONFLICT:
                raise failure.judged() from failure

    def _unless_missing(
        self, verb: str, path: str, *, query: Query | None = None, body: Json | None = None
    ) -> Json | None:
        try:
            return self.api.ask(verb, path, query=query, body=body)
        except Failure as failure:
            if failure.status == answers.NOT_FOUND:
                return None
            raise failure.judged() from failure

    def _ask(self, verb: str, path: str, *, query: Query | None = None) -> Json:
        try:
            return self.api.ask(verb, path, query=query)
        except Failure as failure:
            raise failure.judged() from failure

    def _list(self, path: str, query: Query) -> tuple[list[Json], str]:
        """Return all items, page by page, and the position that they show; where a page expires, all at once."""
        try:
            return self._list_pages(path, query)
        except Gone:
            answer = self._ask("list", path, query=query)
            return answer.get("items") or [], answer["metadata"]["resourceVersion"]

    def _list_pages(self, path: str, query: Query) -> tuple[list[Json], str]:
        items: list[Json] = []
        token = ""
        while True:
            page = self._ask(
                "list", path, query={**query, "limit": str(PAGE), **({"continue": token} if token else {})}
            )
            items += page.get("items") or []
            token = page["metadata"].get("continue") or ""
            if not token:
                return items, page["metadata"]["resourceVersion"]

    def _refusals(self) -> dict[str, str]:
        events, _ = self._list("/api/v1/events", {"fieldSelector": "involvedObject.kind=Job,reason=FailedCreate"})
        return sightings.refusals(events)

    def _open_watch(self, kind: str, version: str, seconds: float) -> watching.Stream:
        query = {
            **_selector(kind),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(max(1, ceil(seconds))),
        }
        try:
            between = seconds + WATCH_SLACK_SECONDS
            return self.api.open("watch", _KINDS[kind][0], query=query, first=OPEN_SECONDS, between=between)
        except Failure as failure:
            raise failure.judged() from failure


def _selector(kind: str) -> Query:
    return {"labelSelector": names.LABEL_WAVE} if kind == "jobs" else {}


def _path(root: str, namespace: str, *parts: str) -> str:
    return "/".join((root, "namespaces", *(quote(part, safe="") for part in (namespace, *parts))))
