"""Plain HTTP to an emulator, objects to send, and waiting for a condition."""

import http.client
import json
import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar
from urllib.parse import urlsplit

from clusters.emulator import Emulator

T = TypeVar("T")
Object = dict[str, Any]
ENTRY = "let-me-in"
GPU = "nvidia.com/gpu"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
STEPS = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


def until(look: Callable[[], T | None], within: float = 60.0) -> T:
    end = time.monotonic() + within
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"still {found!r} after {within} s")
        time.sleep(0.005)


class Talk:
    """One namespace of an emulator, by plain HTTP."""

    def __init__(self, emulator: Emulator, namespace: str) -> None:
        self.emulator = emulator
        self.namespace = namespace
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self.quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
        self.maps = f"/api/v1/namespaces/{namespace}/configmaps"

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        media: str = "application/json",
        token: str | None = None,
        accept: str = "application/json",
    ) -> tuple[int, Any]:
        """Send one request; a body that is bytes goes as it is."""
        connection = http.client.HTTPConnection(urlsplit(self.emulator.url).netloc, timeout=90)
        token = self.emulator.token if token is None else token
        headers = {"Content-Type": media, "Accept": accept} | ({"Authorization": f"Bearer {token}"} if token else {})
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
            told = answer.headers.get("content-type", "").startswith("application/json")
            return answer.status, json.loads(text) if told and text else text.decode()
        finally:
            connection.close()

    def get(self, path: str) -> Object:
        status, body = self.ask("GET", path)
        assert status == 200, body
        found: Object = body
        return found

    def make(self, path: str, body: object) -> Object:
        status, made = self.ask("POST", path, body)
        assert status == 201, made
        found: Object = made
        return found

    def merge(self, path: str, patch: object) -> Object:
        status, body = self.ask("PATCH", path, patch, media=MERGE)
        assert status == 200, body
        found: Object = body
        return found

    def drop(self, path: str, **options: object) -> Object:
        status, body = self.ask("DELETE", path, options or None)
        assert status == 200, body
        found: Object = body
        return found

    def pods_of(self, job: str) -> list[Object]:
        items: list[Object] = self.get(f"{self.pods}?labelSelector=job-name%3D{job}")["items"]
        return items

    def running(self, job: str, count: int) -> list[Object]:
        """Wait until so many pods of the job run and return them by completion index."""
        pods = until(lambda: found if len(found := self._in_phase(job, "Running")) == count else None)
        return sorted(pods, key=lambda pod: pod["metadata"]["name"])

    def _in_phase(self, job: str, phase: str) -> list[Object]:
        return [pod for pod in self.pods_of(job) if pod["status"]["phase"] == phase]

    def job_over(self, name: str, kind: str = "Complete") -> Object:
        """Wait until the job has the condition and return the job."""
        return until(lambda: found if condition(found := self.get(f"{self.jobs}/{name}"), kind) == "True" else None)

    def gone(self, path: str) -> bool:
        return self.ask("GET", path)[0] == 404

    def reasons(self, name: str) -> set[str]:
        """Return the reasons of all events about an object."""
        events = self.get(f"/api/v1/namespaces/{self.namespace}/events?fieldSelector=involvedObject.name%3D{name}")
        return {event["reason"] for event in events["items"]}

    def watch(self, path: str, seconds: int = 60) -> Generator[Object, None, None]:
        """Yield events of a watch."""
        connection = http.client.HTTPConnection(urlsplit(self.emulator.url).netloc, timeout=90)
        join = "&" if "?" in path else "?"
        headers = {"Authorization": f"Bearer {self.emulator.token}"}
        connection.request("GET", f"{path}{join}watch=true&timeoutSeconds={seconds}", headers=headers)
        answer = connection.getresponse()
        try:
            while line := answer.readline():
                yield json.loads(line)
        finally:
            answer.close()
            connection.close()


def condition(body: Object, kind: str, field: str = "status") -> str | None:
    rows = (body.get("status") or {}).get("conditions") or []
    return next((row.get(field) for row in rows if row["type"] == kind), None)


def container(gpus: int = 1, cpu: str = "100m") -> Object:
    limits = {GPU: str(gpus)} if gpus else {}
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": limits}
    return {"name": "main", "image": "example.test/train:1", "command": ["train"], "resources": resources}


def pod(name: str, *, gpus: int = 1, cpu: str = "100m", wishes: dict[str, str] | None = None, **spec: object) -> Object:
    annotations = {f"tidegate.test/{key}": value for key, value in (wishes or {}).items()}
    spec = {"restartPolicy": "Never", "containers": [container(gpus, cpu)], **spec}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def job(
    name: str,
    *,
    gpus: int = 1,
    n: int = 1,
    wishes: dict[str, str] | None = None,
    inner: Object | None = None,
    **spec: object,
) -> Object:
    template = pod("ignored", gpus=gpus, wishes=wishes, **(inner or {}))
    del template["metadata"]["name"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completions": n,
            "parallelism": n,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            **spec,
            "template": template,
        },
    }
