"""Admission webhooks of others: they refuse our objects or our pods, or do not answer."""

import json
import ssl
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest
from django.utils import timezone

from clusters.asking import Failure
from queues import services
from queues.models import Wave
from queues.states import JobState
from tests.kubernetes.controlplane import ControlPlane
from tests.loop.stage import events, state
from tests.recovery.scene import Scene

pytestmark = pytest.mark.kubernetes

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NO = "jobs need a cost center"


class Gatekeeper:
    """A webhook that says no, or nothing; ``asked`` counts its questions."""

    def __init__(self, scene: Scene, plane: ControlPlane) -> None:
        self.scene, self.plane = scene, plane
        self.asked = 0
        self.silent = False
        self.ending = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.gatekeeper = self
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*plane.certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        return f"gatekeeper-{self.scene.ground.key}"

    def guard(self, group: str, kind: str) -> None:
        """Have the API server ask about each object of a kind in the team's namespace; without an answer it refuses."""
        hook = {
            "name": "gatekeeper.example.com",
            "clientConfig": {
                "url": f"https://127.0.0.1:{self._server.server_address[1]}/",
                "caBundle": self.plane.authority_bundle(),
            },
            "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "resources": [kind], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.scene.namespace}},
            "failurePolicy": "Fail",
            "timeoutSeconds": 1 if self.silent else 20,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": self.name},
            "webhooks": [hook],
        }
        self.scene.ground.cluster.ensure_team(self.scene.namespace, team="nlp", ceiling=None)
        self.scene.ground.send("create", HOOKS, body=body)

    def leave(self) -> None:
        """Take the webhook away, if it is there."""
        if self.scene.ground.exists(f"{HOOKS}/{self.name}"):
            self.scene.ground.send("delete", f"{HOOKS}/{self.name}")

    def close(self) -> None:
        self.leave()
        self.ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    gatekeeper: Gatekeeper

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: an API server that hangs up is part of the game."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        keeper = cast("_Server", self.server).gatekeeper
        review: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        keeper.asked += 1
        if keeper.silent:
            keeper.ending.wait(30)
            return
        status = {"uid": review["request"]["uid"], "allowed": False, "status": {"code": 403, "message": NO}}
        body = json.dumps({**review, "request": None, "response": status}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Print nothing."""


@pytest.fixture
def gatekeeper(real: Scene, plane: ControlPlane) -> Iterator[Gatekeeper]:
    keeper = Gatekeeper(real, plane)
    yield keeper
    keeper.close()


def test_a_webhook_that_denies_the_object_fails_the_job_with_its_words(real: Scene, gatekeeper: Gatekeeper) -> None:
    gatekeeper.guard("batch", "jobs")
    # A webhook is known to the API server a moment after it was made.
    real.until(lambda: _refused(real))

    job = real.submit(shape="gang", tasks=2, gpus="h100:8", forever="1")
    ended = real.ends(job)

    assert (ended, real.reason(job)["code"]) == (JobState.FAILED, "K8S_REJECTED")
    assert NO in real.reason(job)["summary"]
    real.all_free()


def test_a_webhook_that_denies_pods_is_named_while_the_job_waits_and_when_it_gives_up(
    real: Scene, gatekeeper: Gatekeeper
) -> None:
    gatekeeper.guard("", "pods")
    real.until(lambda: _refused(real, kind="pods"))
    job = real.submit(shape="gang", tasks=2, gpus="h100:8", forever="1")

    real.until(lambda: real.reason(job).get("code") == "K8S_REJECTED")
    said, was = real.reason(job)["summary"], state(job)
    job.queue.start_limit = timedelta()
    job.queue.save()
    Wave.objects.update(deadline_at=timezone.now())
    real.until(lambda: events(job).count("start_failed") == 1 and state(job) is JobState.QUEUED)
    reason, books = real.reason(job), real.books()

    assert was is JobState.ADMITTED
    assert NO in said
    assert (reason["code"], reason["details"]["cause"], books) == ("BACKING_OFF", "START_FAILED", (0, 0, 0))
    assert NO in reason["summary"]


def test_a_webhook_that_does_not_answer_is_unknown_and_the_job_starts_when_it_is_gone(
    real: Scene, gatekeeper: Gatekeeper
) -> None:
    gatekeeper.silent = True
    gatekeeper.guard("batch", "jobs")
    real.until(lambda: gatekeeper.asked or _refused(real))

    job = real.submit(shape="gang", tasks=2, gpus="h100:8", forever="1")
    real.until(lambda: real.reason(job).get("code") == "CLUSTER_UNREACHABLE")
    said, was = real.reason(job)["summary"], state(job)
    gatekeeper.leave()
    real.until(lambda: real.running(job) == 2)
    real.balance()

    assert was is JobState.ADMITTED
    assert "gatekeeper.example.com" in said
    assert (Wave.objects.count(), len(real.objects())) == (1, 1)
    assert real.books() == (16, 16, 16)
    services.cancel(uid=job.uid, by=real.lab.ann, now=timezone.now())
    real.ends(job)


def _refused(scene: Scene, kind: str = "jobs") -> bool:
    """Tell whether the API server refuses an object of a kind by now; nothing is made."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "probe-"}, "spec": pod}
    if kind == "jobs":
        body |= {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}}
    try:
        scene.ground.send("create", scene.path(kind), body=body, query={"dryRun": "All"})
    except Failure as failure:
        return b"gatekeeper" in failure.body
    return False
