"""The verbs of the cluster port, each as few requests to the Kubernetes API as it takes."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil

from clusters import answers, classes, kinds, manifests, names, rendezvous, sightings, watching
from clusters.age import Age
from clusters.asking import STRATEGIC, Api, Asker, Failure, Json, path_of
from clusters.devices import SLICES, Devices
from clusters.port import (
    Change,
    ClusterError,
    Inventory,
    Launch,
    Log,
    NameTaken,
    Offer,
    Pin,
    Unreachable,
    WaveRef,
    WaveSeen,
)
from clusters.written import WrittenObjects

READ_SECONDS = 30.0
# A followed log may be silent for so long; its reader shuts it before.
FOLLOW_SECONDS = 7200.0
OPEN_SECONDS = 10.0
# How much longer than asked for a watch may be silent before its connection counts as dead.
WATCH_SLACK_SECONDS = 5.0
PIN_THREADS = 8

_ALWAYS: Mapping[str, tuple[str, watching.Parse]] = {
    "nodes": ("/api/v1/nodes", sightings.node),
    "pods": ("/api/v1/pods", sightings.pod),
    "jobs": (kinds.JOB.path, sightings.written(kinds.JOB)),
}
# What people may write where the cluster serves it.
_PERHAPS: Mapping[str, tuple[str, watching.Parse]] = {
    kind.key: (kind.path, sightings.written(kind)) for kind in kinds.KINDS if kind is not kinds.JOB
}
_KINDS = {**_ALWAYS, **_PERHAPS}


class KubeCluster:
    """One Kubernetes cluster, spoken to through its API server."""

    def __init__(self, name: str, api: Api) -> None:
        """Speak to the cluster of that name; nothing is asked yet."""
        self.name = name
        self.api = api
        self._asker = Asker(api)
        self._written = WrittenObjects(self._asker)
        self._devices = Devices(self._asker, cluster=name)
        self._age = Age()
        self._namespaces: set[str] = set()
        self._priority_classes: set[tuple[str, int]] = set()

    def check(self) -> str:
        """Return the server's version, or raise Unreachable."""
        return str(self._asker.ask("get", "/version").get("gitVersion", ""))

    def inventory(self) -> Inventory:
        """List nodes, pods and our Jobs, and why Jobs that lack pods were refused them."""
        try:
            return self._inventory()
        except watching.UNREADABLE as error:
            raise Unreachable(f"cluster {self.name} listed something that cannot be read: {error}") from error

    def watch(self, position: Mapping[str, str], *, seconds: float) -> Iterator[Change]:
        """Yield changes behind ``position`` for at most ``seconds``; raise Gone when the position is too old."""
        wanted = _ALWAYS.keys() | (position.keys() & _PERHAPS.keys())
        parsers = {kind: parse for kind, (_, parse) in _KINDS.items() if kind in wanted}
        if SLICES in position:
            parsers[SLICES] = self._devices.event
        for change in watching.changes(self._open_watch, parsers, position, seconds=seconds):
            self._age.heard(change.position)
            yield change

    def ensure_team(self, namespace: str, *, team: str, ceiling: Mapping[str, int] | None) -> None:
        """Make sure of the team's namespace and its ResourceQuota fence, by counted resource (``None``: no fence)."""
        if namespace not in self._namespaces:
            self._ensure_namespace(namespace, team=team)
        quotas = path_of("/api/v1", namespace, "resourcequotas")
        fence = f"{quotas}/{names.FENCE}"
        if ceiling is None:
            self._asker.unless_missing("delete", fence)
            return
        wanted = manifests.fence(namespace, ceiling=ceiling)
        if self._asker.unless_missing("replace", fence, body=wanted) is None:
            self._asker.create(quotas, wanted)

    def launch(self, launch: Launch) -> None:
        """Create what the wave needs, or find it there; raise Refused, QuotaRefused, NameTaken or Unreachable."""
        if launch.raw is not None:
            # JobSet's webhook writes a pod's priority into a label, where no negative number may stand.
            launch = replace(launch, priority_value=max(0, launch.priority_value))
        self._ensure_priority_class(launch.priority_class, launch.priority_value)
        try:
            if launch.raw is not None:
                self._written.start(launch, launch.raw)
                return
            if any(classes.class_of(group.resource) for group in launch.groups):
                self._devices.ensure_served()
            jobs = path_of("/apis/batch/v1", launch.namespace, "jobs")
            made = [self._asker.create_owned(jobs, manifests.job(launch, group)) for group in launch.groups]
            for group, owner in zip(launch.groups, made, strict=True):
                if classes.class_of(group.resource):
                    self._devices.ensure_template(launch, group, owner=owner)
            if rendezvous.needs_service(launch):
                services = path_of("/api/v1", launch.namespace, "services")
                self._asker.create_owned(services, manifests.service(launch, owner=made[0]))
        except Failure as failure:
            raise self._judge_launch(launch, failure) from failure

    def pin(self, pins: Sequence[Pin]) -> None:
        """Narrow each gated pod to its node and remove our gate; pods that are gone or free already are passed over."""
        with ThreadPoolExecutor(max_workers=PIN_THREADS, thread_name_prefix="pin") as threads:
            # Every pod is tried before the first error is raised.
            outcomes = [threads.submit(self._pin_one, pin) for pin in pins]
        for outcome in outcomes:
            outcome.result()

    def stop(self, ref: WaveRef, *, grace_seconds: int | None = None, pods_first: bool = False) -> None:
        """Delete the wave's objects (once ``pods_first`` have gone) and pods; what is gone already is passed over."""
        # By label and not by name: it takes one request for all groups and cannot hit what is not ours.
        ours = {"labelSelector": f"{names.LABEL_WAVE}={names.label_value(ref.wave)}"}
        kind = kinds.BY_KEY[ref.kind or kinds.JOB.key]
        if ref.adopted:
            self._written.take_back(ref, kind)
        else:
            objects = path_of(f"/apis/{kind.api}", ref.namespace, kind.plural)
            policy = "Foreground" if pods_first else "Background"
            self._asker.unless_missing("delete", objects, query={**ours, "propagationPolicy": policy})
        if grace_seconds is not None:
            pods = path_of("/api/v1", ref.namespace, "pods")
            self._asker.unless_missing("delete", pods, query={**ours, "gracePeriodSeconds": str(grace_seconds)})

    def refuse(self, offer: Offer, text: str) -> None:
        """Tell on an object, and by an event, why it is not taken into the queue; telling it again changes nothing."""
        if offer.refused != text:
            self._written.refuse(offer, text)

    def stop_pods(self, namespace: str, pods: Mapping[str, str], *, grace_seconds: int | None = None) -> None:
        """Delete these pods, by name and UID, and nothing else; what is gone already is passed over."""
        grace = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        for pod, uid in pods.items():
            self._asker.delete_this(path_of("/api/v1", namespace, "pods", pod), uid, options=grace)

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
        path = path_of("/api/v1", namespace, "pods", pod) + "/log"
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
        since = self._age.mark()
        listed = {kind: self._asker.listed(path, {}) for kind, (path, _) in _ALWAYS.items()}
        written, unseen = self._written.listed(_PERHAPS)
        listed |= written
        self._age.check({kind: version for kind, (_, version) in listed.items()}, since=since)
        # Events outlive what they tell: a Job that has its pods by now is refused nothing.
        makers = (seen for kind in listed.keys() & _PERHAPS.keys() for seen in listed[kind][0])
        lacking = sightings.lacking(listed["jobs"][0], makers)
        refused = self._refusals() if lacking else {}
        refusals = {wave: refused[job] for job, wave in lacking.items() if job in refused}
        awaiting = [pod for pod in listed["pods"][0] if sightings.lacks_claims(pod)]
        refusals |= self._refused_claims(awaiting) if awaiting else {}
        seen = [
            found
            for kind in listed.keys() - {"nodes", "pods"}
            for found in map(_KINDS[kind][1], listed[kind][0])
            if found is not None
        ]
        waves = (found for found in seen if isinstance(found, WaveSeen))
        return Inventory(
            nodes=tuple(sightings.node(node) for node in listed["nodes"][0]),
            pods=tuple(sightings.pod(pod) for pod in listed["pods"][0]),
            waves=tuple(replace(wave, refusal=refusals.get(wave.uid, "")) for wave in waves),
            offers=tuple(found for found in seen if isinstance(found, Offer)),
            devices=self._devices.listed(),
            claimed=self._devices.claimed(),
            offered=self._devices.offered(),
            taken=self._devices.taken(),
            position={**{kind: version for kind, (_, version) in listed.items()}, **self._devices.position},
            unseen=unseen,
        )

    def _ensure_namespace(self, namespace: str, *, team: str) -> None:
        try:
            made = self.api.ask("create", "/api/v1/namespaces", body=manifests.namespace(namespace, team=team))
        except Failure as failure:
            if failure.status != answers.CONFLICT:
                raise failure.judged() from failure
            made = self._asker.ask("get", path_of("/api/v1", namespace))
        if "deletionTimestamp" in made["metadata"]:
            raise NameTaken(f"namespace {namespace} is being deleted", leaving=True)
        self._namespaces.add(namespace)

    def _ensure_priority_class(self, name: str, value: int) -> None:
        if (name, value) in self._priority_classes:
            return
        self._asker.create("/apis/scheduling.k8s.io/v1/priorityclasses", manifests.priority_class(name, value))
        self._priority_classes.add((name, value))

    def _judge_launch(self, launch: Launch, failure: Failure) -> ClusterError:
        error = failure.judged()
        if isinstance(error, NameTaken) or answers.is_missing_namespace(failure.body):
            self._namespaces.discard(launch.namespace)
        if answers.is_missing_namespace(failure.body):
            return Unreachable(f"namespace {launch.namespace} is not there")
        return error

    def _pin_one(self, pin: Pin) -> None:
        pod = path_of("/api/v1", pin.namespace, "pods", pin.pod)
        try:
            self.api.ask("patch", pod, body=manifests.release(pin), media=STRATEGIC)
        except Failure as failure:
            if failure.status == answers.NOT_FOUND:
                return
            # A pod without gates keeps its affinity: then somebody has pinned it before.
            if failure.status != answers.UNPROCESSABLE or self._is_gated(pod):
                raise failure.judged() from failure

    def _is_gated(self, pod: str) -> bool:
        found = self._asker.unless_missing("get", pod)
        return found is not None and sightings.pod(found).gated

    def _refusals(self) -> dict[str, str]:
        events, _ = self._asker.listed(
            "/api/v1/events", {"fieldSelector": "involvedObject.kind=Job,reason=FailedCreate"}
        )
        return sightings.refusals(events)

    def _refused_claims(self, awaiting: Sequence[Json]) -> dict[str, str]:
        events, _ = self._asker.listed(
            "/api/v1/events", {"fieldSelector": "involvedObject.kind=Pod,reason=FailedResourceClaimCreation"}
        )
        return sightings.refused_claims(events, awaiting)

    def _open_watch(self, kind: str, version: str, seconds: float) -> watching.Stream:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(max(1, ceil(seconds))),
        }
        try:
            between = seconds + WATCH_SLACK_SECONDS
            path = self._devices.path if kind == SLICES else _KINDS[kind][0]
            return self.api.open("watch", path, query=query, first=OPEN_SECONDS, between=between)
        except Failure as failure:
            if kind == SLICES and failure.status in {answers.FORBIDDEN, answers.NOT_FOUND}:
                # Without this right, or this version, they are seen with each list.
                return watching.Silence()
            raise failure.judged() from failure
