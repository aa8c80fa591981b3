"""Tidegate as a system of the side-by-side bench: jobs by REST, real processes, its own database, one control plane.

The bench's driver imports this class, makes cluster and nodes, submits, and watches the pods; see manage.py bench.
"""

import http.client
import json
import os
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, TypedDict
from urllib.parse import urlsplit

from stack.ensemble import Ensemble

FLAVOR = "gpu"
LOOK_SECONDS = 0.1
# Ids are given before their rows are committed: rows this far behind the last one may still appear.
BEHIND = 5000
WORDS = {"admitted": "admitted", "evicted": "evicted", "succeeded": "finished", "failed": "finished"}
READY_SECONDS = 120.0
MIN_RUNTIME_SECONDS, HOLD_AFTER_SECONDS = 60.0, 1800.0


class Item(Protocol):
    """What the bench submits: one pod of some GPUs that runs for a while."""

    name: str
    queue: str
    run_s: float
    units: int
    priority: int


class Policy(TypedDict):
    """What the load leaves to each system, and one thing that it asks of all: who may evict whom."""

    within: str
    min_runtime: timedelta
    hold_after: timedelta


class Tidegate:
    """A System of the bench, whose queues have their defaults but for what an administrator would choose here.

    Options: ``within`` (``lower_priority``, as the load asks of every system; ``never``). ``min_runtime`` (60): no job
    is recalled in so many seconds after its start, so that jobs of seconds end instead of starting over; 0 recalls at
    once, as the other system does. ``hold_after`` (1800, the default of a queue) is in seconds too.
    """

    name = "tidegate"

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  words of the command line
        """Keep the options; nothing runs yet."""
        self.options = options
        self._local = threading.local()
        self._uids: dict[int, str] = {}

    def versions(self) -> dict[str, str]:
        """Return nothing: the commit stands beside the results."""
        return {}

    def policy(self) -> Policy:
        """Return how the queues of this load recall and hold."""
        return {
            "within": str(self.options.get("within", "lower_priority")),
            "min_runtime": timedelta(seconds=float(self.options.get("min_runtime", MIN_RUNTIME_SECONDS))),
            "hold_after": timedelta(seconds=float(self.options.get("hold_after", HOLD_AFTER_SECONDS))),
        }

    def setup(self, cluster: Any, api: Any, load: Any, stop: threading.Event) -> None:  # noqa: ANN401  the bench's own
        """Start everything, make teams and quotas like the load's queues, and wait until nodes are known."""
        del api
        self.stop = stop
        self.ensemble = Ensemble(Path(cluster.dir) / "tidegate", clusters=f"real={cluster.kubeconfig}")
        self.ensemble.prepare()
        os.environ |= self.ensemble.env
        import django  # noqa: PLC0415  its settings are known only now

        django.setup()
        from queues.benchmarks import besideworld  # noqa: PLC0415

        self.token = besideworld.make(load, **self.policy())
        self.ensemble.start()
        self.ensemble.wait_for_web()
        besideworld.wait_for_nodes(READY_SECONDS)
        besideworld.ensure_namespaces(cluster.kubeconfig)

    def watch(self, tell: Any) -> None:  # noqa: ANN401  the bench's own
        """Tell what the jobs' events say, as soon as they are committed."""
        threading.Thread(target=self._follow, args=(tell,), name="events", daemon=True).start()

    def submit(self, item: Item) -> None:
        """POST one job; return when it is committed."""
        spec = {
            "apiVersion": "tidegate/v1",
            "kind": "Job",
            "metadata": {
                "name": item.name,
                "team": item.queue,
                "labels": {"sidebyside/item": item.name},
                "external_id": item.name,
            },
            "spec": {
                "gpus": {"count": item.units, "type": [FLAVOR]},
                "run": {"image": "example.test/train:1", "command": ["train"]},
                "annotations": {"tidegate.test/run-for": f"{round(item.run_s * 1000)}ms"},
                "priority": f"p{item.priority}",
            },
        }
        status, body = self._post("/api/v1/jobs?if_exists=attach", spec)
        if status >= http.HTTPStatus.BAD_REQUEST:
            raise RuntimeError(f"{status} {body[:500]!r}")

    def procs(self) -> dict[str, int]:
        """Return our processes, children included."""
        return self.ensemble.pids()

    def final(self) -> dict[str, Any]:
        """Return our own counts."""
        from queues.benchmarks import besideworld  # noqa: PLC0415

        return besideworld.counts()

    def close(self) -> None:
        """End everything."""
        if hasattr(self, "ensemble"):
            self.ensemble.close()

    def _post(self, path: str, body: object) -> tuple[int, bytes]:
        """Make a request on this thread's connection; where the server has closed that meanwhile, on a new one."""
        data = json.dumps(body).encode()
        words = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        old = getattr(self._local, "link", None)
        parts = urlsplit(self.ensemble.address)
        link = old or http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._local.link = link
        try:
            link.request("POST", path, data, words)
            answer = link.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            link.close()
            self._local.link = None
            if old is None:
                raise
        return self._post(path, body)

    def _follow(self, tell: Any) -> None:  # noqa: ANN401
        from queues.benchmarks import besideworld  # noqa: PLC0415

        told: set[int] = set()
        last = 0
        while not self.stop.wait(LOOK_SECONDS):
            rows = besideworld.events(max(0, last - BEHIND), tuple(WORDS), known=told)
            now = time.monotonic()
            for pk, name, kind in rows:
                told.add(pk)
                tell(name, WORDS[kind], now)
                last = max(last, pk)
