"""Tidegate's own processes, really started: workers, beats, a watcher, Valkey and an emulated cluster."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import redis
from django.db import connection
from django.utils import timezone

from clusters.kube import connect
from clusters.port import WaveSeen
from config.celery import app as celery
from queues.models import Job
from stack.servers import Valkey
from tests.queues.lab import Lab

ROOT = Path(__file__).resolve().parents[2]
TICK_SECONDS = 1
CELERY = (sys.executable, "-W", "ignore", "-m", "celery", "--app", "config", "--quiet")


class Town:
    """Starts processes over the test's database, kills them, and waits for what becomes of jobs."""

    def __init__(self, folder: Path, lab: Lab, *, nodes: int = 4) -> None:
        self.folder, self.lab = folder, lab
        for flavor in (lab.h100, lab.l40s):
            flavor.node_labels = {"gpu": flavor.name}
            flavor.save()
        self.running: list[subprocess.Popen[bytes]] = []
        self.valkey = Valkey(folder / "valkey").start()
        self.env = os.environ | {
            "PYTHONPATH": f"{ROOT / 'platform'}{os.pathsep}{ROOT}",
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "DATABASE_URL": database_url(),
            "REDIS_URL": self.valkey.url,
            "TIDEGATE_TICK_SECONDS": str(TICK_SECONDS),
            "TIDEGATE_KEEP_SECONDS": "3600",
            "TIDEGATE_CLUSTERS": str(folder / "kubeconfig"),
        }
        self.emulator = self._emulator(nodes)
        self.cluster = connect("default", kubeconfig=folder / "kubeconfig")

    def worker(self, *, beat: bool = False) -> subprocess.Popen[bytes]:
        """Start a worker of both queues, with a beat inside where that is wanted."""
        name = f"w{len(self.running)}@test"
        schedule = ("--beat", "--schedule", str(self.folder / f"beat-{name}")) if beat else ()
        return self.start(
            *CELERY, "worker", "-Q", "admission,release", "-c", "2", "-n", name, "--without-mingle", *schedule
        )

    def beat(self) -> subprocess.Popen[bytes]:
        """Start a beat with a schedule of its own."""
        schedule = self.folder / f"beat-{len(self.running)}"
        return self.start(*CELERY, "beat", "--schedule", str(schedule), "--pidfile", "")

    def watcher(self) -> subprocess.Popen[bytes]:
        """Start the watcher."""
        return self.start(sys.executable, str(ROOT / "manage.py"), "watch_clusters")

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a process in a group of its own, its words in a log."""
        with (self.folder / f"process-{len(self.running)}.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=self.env, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.running.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process and its children without a word."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)

    def submit(self, **spec: Any) -> Job:  # noqa: ANN401  fields of a spec
        """Submit a job of nlp that runs for ``run_for``, or ``forever``."""
        lasts = spec.pop("forever", None)
        runs = {"tidegate.test/run-for": str(spec.pop("run_for", "300ms"))}
        notes = {"tidegate.test/forever": str(lasts)} if lasts else runs
        return self.lab.submit(now=timezone.now(), annotations=notes, **spec)

    def until(self, condition: Callable[[], bool], *, seconds: float = 120, pause: float = 0.05) -> float:
        """Wait until the condition holds; return how long that took."""
        begin = time.monotonic()
        while not condition():
            assert time.monotonic() - begin < seconds, self.words()
            time.sleep(pause)
        return time.monotonic() - begin

    def messages(self, queue: str) -> int:
        """Return how many messages lie in a queue of the broker."""
        with redis.Redis.from_url(self.valkey.url) as client:
            return int(client.llen(queue))

    def send(self, task: str) -> None:
        """Put a message for a task into the broker."""
        with celery.connection_for_write(url=self.valkey.url) as broker:
            celery.send_task(task, connection=broker)

    def objects(self) -> tuple[WaveSeen, ...]:
        """Return our Kubernetes Jobs that are there."""
        return self.cluster.inventory().waves

    def states(self) -> dict[str, int]:
        """Return how many jobs there are by state."""
        found: dict[str, int] = {}
        for state in Job.objects.values_list("state", flat=True):
            found[state] = found.get(state, 0) + 1
        return found

    def words(self) -> str:
        """Return where jobs stand and the end of each process's log, for a failed test."""
        jobs = list(Job.objects.order_by("id").values_list("state", "reason_code", "reason_text"))[:5]
        logs = [path.read_text(errors="replace")[-800:] for path in sorted(self.folder.glob("process-*.log"))]
        return "\n".join([str(self.states()), str(jobs), *logs])

    def close(self) -> None:
        """Kill everything that was started."""
        for process in [*self.running, self.emulator]:
            if process.poll() is None:
                self.kill(process)
        self.valkey.stop()
        self.cluster.close()

    def _emulator(self, nodes: int) -> subprocess.Popen[bytes]:
        allocatable = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
        world = [{"name": "h{n}", "count": nodes, "labels": {"gpu": "h100"}, "allocatable": allocatable}]
        (self.folder / "world.yaml").write_text(json.dumps(world))
        files = ("--nodes", str(self.folder / "world.yaml"), "--kubeconfig", str(self.folder / "kubeconfig"))
        process = subprocess.Popen(
            [sys.executable, "-m", "clusters.emulator", *files],
            env=self.env,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        with process.stdout as said:
            assert said.readline()
        return process


def database_url() -> str:
    """Return the address of the test's database."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    return urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}"))
