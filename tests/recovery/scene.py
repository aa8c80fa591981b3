"""The live loop on a cluster that faults can be brought to: the production watcher, cycle and outbox on real rows."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from django.db import connections
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from clusters.asking import Failure
from clusters.kube import connect
from clusters.names import object_name
from clusters.port import PodSeen
from queues import cycle
from queues.models import ClusterState, Job, Node, Task, Wave
from queues.namespaces import namespace_of
from queues.queries.numbers import numbers
from queues.states import ENDED, HOLDING, TASK_HOLDING, JobState
from queues.view import ENDED_PHASES
from queues.watcher import Follower
from tenants.models import ApiToken
from tenants.permissions import Scope
from tenants.services.tokens import digest
from tests.clusters.contract.ground import GPU, OWN_LABEL, Ground, Site
from tests.kubernetes.proxy import Proxy
from tests.loop.stage import Stage, state, units_in_use
from tests.queues.lab import NOW, Lab

PAUSE = 0.03
MERGE = "application/merge-patch+json"


class Scene(Stage):
    """Nodes of a test's own; a proxy that faults are put into; a watcher in its thread; hands for cycle and outbox.

    Everything of Tidegate goes through the proxy, what the test does itself (``ground``) goes around it.
    """

    def __init__(
        self, site: Site, proxy: Proxy, folder: Path, *, nodes: int = 3, token_file: Path | None = None
    ) -> None:
        self.ground = Ground(site)
        self.proxy = proxy
        cluster = connect("default", kubeconfig=proxy.kubeconfig(folder / "proxied", token_file=token_file))
        super().__init__(Lab(), cluster, **{OWN_LABEL: self.ground.key})
        self.names = [self.ground.node(labels={"gpu": "h100"}) for _ in range(nodes)]
        self._client = reader(self.lab)
        self.follower = Follower("default", cluster, timezone.now)
        self._stop = Event()
        self._thread = Thread(target=self._follow, name="follower")

    def open(self) -> None:
        """Start the watcher and wait until it has seen the nodes."""
        self._thread.start()
        self.until(lambda: Node.objects.filter(name__in=self.names, ready=True, flavor=self.lab.h100).count() > 0)
        self.until(lambda: self.lab.h100.nodes.filter(gone_at=None, ready=True).count() == len(self.names))

    def close(self) -> None:
        """Stop the watcher and leave nothing on the cluster."""
        self.proxy.heal()
        self._stop.set()
        self._thread.join(90)
        assert not self._thread.is_alive()
        self._sweep()
        self.cluster.close()

    def turn(self) -> None:
        """Decide and tell the cluster; the watcher looks by itself."""
        cycle.run_cycle(timezone.now)
        self.release()
        time.sleep(PAUSE)

    def until(self, condition: Callable[[], object], *, seconds: float = 120) -> None:
        """Turn until the condition holds."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.words()
            self.turn()

    def words(self) -> str:
        """Return where everything stands, for a test that waited in vain."""
        jobs = [(job.name, job.state, job.reason_code, job.reason_text) for job in Job.objects.order_by("id")]
        waves = list(
            Wave.objects.order_by("id").values("number", "state", "outcome", "wish", "wish_due_at", "wish_error")
        )
        tasks = list(Task.objects.order_by("id").values_list("state", "reason", "message", "pod"))
        pods = [(pod.name, pod.node, pod.phase, pod.leaving, pod.end_reason) for pod in self.pods()]
        return f"{jobs}\n{waves}\n{tasks}\n{pods}\n{self.row().error}"

    def runs(self, **spec: Any) -> Job:  # noqa: ANN401  fields of a spec
        """Submit a job that runs for ever, unless told otherwise, and wait until all its tasks run."""
        job = self.submit(**{"forever": "1", **spec})
        self.until(lambda: self.running(job) == tasks_of(job))
        return job

    def running(self, job: Job) -> int:
        """Return how many tasks of a job run."""
        return Task.objects.filter(wave__job=job, state="running").count()

    def ends(self, job: Job) -> JobState:
        """Wait until a job has ended; return how."""
        self.until(lambda: state(job) in ENDED)
        return state(job)

    def reason(self, job: Job) -> dict[str, Any]:
        """Return the job's reason as the API shows it, or nothing."""
        answer = self._client.get(f"/api/v1/jobs/{job.uid}").json()
        assert answer["state"] in list(JobState), answer
        return dict(answer["reason"] or {})

    def get(self, path: str) -> dict[str, Any]:
        """Return what the API answers."""
        return dict(self._client.get(path).json())

    def node(self, name: str) -> dict[str, Any]:
        """Return what a node's page shows."""
        return self.get(f"/api/v1/nodes/{name}")

    def drift(self) -> dict[str, float]:
        """Return how many nodes differ from what is expected, by kind, as monitoring reads it."""
        text = self._client.get("/metrics").content.decode()
        found = [each for family in text_string_to_metric_families(text) for each in family.samples]
        return {each.labels["kind"]: each.value for each in found if each.name == "tidegate_node_drift" and each.value}

    def events(self, job: Job, kind: str) -> list[str]:
        """Return the texts of a job's events of one type, as its page shows them."""
        return list(job.events.filter(type=kind).order_by("id").values_list("summary", flat=True))

    def balance(self) -> None:
        """Wait until the ledger, a recount of the rows and the pods that are there agree (I5)."""
        self.until(lambda: len(set(self.books())) == 1)

    def books(self) -> tuple[int, int, int]:
        """Return units in use: as the numbers for monitoring say, recounted from waves, and counted on pods."""
        held = Task.objects.filter(wave__state__in=HOLDING, state__in=TASK_HOLDING)
        pods = sum(pod.counted.get(GPU, 0) for pod in self.pods() if pod.phase not in ENDED_PHASES)
        return sum(numbers(now=timezone.now()).used.values()), sum(task.units for task in held), pods

    def all_free(self) -> None:
        """Wait until nothing is in use, by every count, and none of our objects is left."""
        self.until(lambda: self.books() == (0, 0, 0) and not self.objects())
        assert units_in_use() == 0

    def row(self) -> ClusterState:
        """Return what is kept about the cluster."""
        return ClusterState.objects.get(name="default")

    def patch_node(self, name: str, body: dict[str, Any]) -> None:
        """Change a node as an operator would."""
        self.ground.send("patch", f"/api/v1/nodes/{name}", body=body, media=MERGE)

    def attempt(self, job: Job) -> int:
        """Return which attempt of a job runs with all its tasks; 0 while none does."""
        ran = state(job) is JobState.RUNNING
        whole = Task.objects.filter(wave__job=job, wave__attempt=job.attempt, state="running").count() == tasks_of(job)
        return job.attempt if ran and whole else 0

    def places(self, job: Job) -> list[str]:
        """Return the nodes of the tasks of a job that hold."""
        held = Task.objects.filter(wave__job=job, state__in=TASK_HOLDING).order_by("id")
        return list(held.values_list("node__name", flat=True))

    def node_of(self, job: Job) -> str:
        """Return where the first running task of a job runs."""
        return (
            Task.objects.filter(wave__job=job, state="running").order_by("id").values_list("node__name", flat=True)[0]
        )

    @property
    def namespace(self) -> str:
        """Return where the pods of team nlp run."""
        return namespace_of("nlp")

    def path(self, kind: str, name: str = "") -> str:
        """Return the path of the team's objects of a kind, or of one."""
        root = "/apis/batch/v1" if kind == "jobs" else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    def object_path(self, job: Job) -> str:
        """Return the path of the Kubernetes Job of a job's newest wave."""
        number = Wave.objects.filter(job=job).order_by("-number").values_list("number", flat=True).first() or 1
        return self.path("jobs", object_name(str(job.uid), number, 0))

    def pod_paths(self) -> list[str]:
        """Return the paths of our pods."""
        return [self.path("pods", pod.name) for pod in self.pods()]

    def mine(self) -> tuple[PodSeen, ...]:
        """Return our pods that have not ended."""
        return tuple(pod for pod in self.pods() if pod.phase not in ENDED_PHASES)

    def pods(self) -> tuple[PodSeen, ...]:
        """Return our pods, seen past the proxy."""
        ours = {str(uid) for uid in Wave.objects.values_list("uid", flat=True)}
        return tuple(pod for pod in self.ground.cluster.inventory().pods if pod.wave in ours)

    def objects(self) -> tuple[Any, ...]:
        """Return the Kubernetes Jobs of our waves, seen past the proxy."""
        ours = {str(uid) for uid in Wave.objects.values_list("uid", flat=True)}
        return tuple(seen for seen in self.ground.cluster.inventory().waves if seen.wave in ours)

    def created(self) -> Counter[str]:
        """Return how often each Kubernetes Job was asked for."""
        asked = (request for request in self.proxy.requests if request.method == "POST")
        return Counter(request.body.decode().split('"name"')[1][:80] for request in asked if "/jobs" in request.path)

    def _follow(self) -> None:
        try:
            self.follower.run(self._stop)
        finally:
            connections.close_all()

    def _sweep(self) -> None:
        for node in self.ground.nodes:
            self._try("delete", f"/api/v1/nodes/{node}")
        self._try("delete", self.path("jobs"), query={"propagationPolicy": "Background"})
        self._try("delete", self.path("pods"), query={"gracePeriodSeconds": "0"})
        self._try("delete", f"/api/v1/namespaces/{self.namespace}")

    def _try(self, verb: str, path: str, **request: Any) -> None:  # noqa: ANN401  parts of a request
        try:
            self.ground.send(verb, path, **request)
        except Failure as failure:
            if failure.status != 404:
                raise


def tasks_of(job: Job) -> int:
    """Return how many tasks a job has."""
    return sum(job.groups.values_list("tasks", flat=True))


def reader(lab: Lab) -> Client:
    """Return a REST client of somebody who sees everything."""
    secret = f"tg_{uuid4().hex}"
    ApiToken.objects.create(
        user=lab.root.user,
        name="reader",
        prefix=secret[:9],
        digest=digest(secret),
        scopes=[Scope.ADMIN],
        created_at=NOW,
        expires_at=datetime.now(UTC) + timedelta(hours=1),
        last_used_at=datetime.now(UTC),
    )
    return Client(headers={"Authorization": f"Bearer {secret}"})
