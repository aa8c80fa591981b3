"""A running portal: uvicorn on the tests' database with a Valkey of its own."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import redis
from django.db import connection

from queues.hints import CHANNEL
from stack.servers import Valkey, free_port

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 120
APPLICATION = "portal"  # by which the database tells its connections from others
POOL = 3  # connections to the database: far fewer than streams


class Site:
    """The web process and the broker; both can go and come back on the same ports. ``kubeconfig`` is its cluster's."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self.folder, self.kubeconfig = folder, kubeconfig
        self.port = free_port()
        self.valkey = Valkey(folder / "valkey")
        self.web: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def start(self) -> Self:
        self.valkey.start()
        environment = {
            **os.environ,
            "DATABASE_URL": f"{os.environ['DATABASE_URL'].rpartition('/')[0]}/{connection.settings_dict['NAME']}",
            "REDIS_URL": self.valkey.url,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "platform")]),
            "TIDEGATE_STATIC_ROOT": str(self.folder / "static"),
            "TIDEGATE_LOG_LEVEL": "WARNING",
            "TIDEGATE_DB_POOL": str(POOL),
            "PGAPPNAME": APPLICATION,
            "TIDEGATE_CLUSTERS": f"default={self.kubeconfig}",
        }
        manage = [sys.executable, str(ROOT / "manage.py"), "collectstatic", "--noinput", "-v0"]
        subprocess.run(manage, check=True, env=environment, cwd=ROOT)
        serve = [sys.executable, "-m", "uvicorn", "config.asgi:application", "--port", str(self.port)]
        quiet = ["--log-level", "warning", "--timeout-graceful-shutdown", "1"]
        with (self.folder / "web.log").open("wb") as log:
            self.web = subprocess.Popen([*serve, *quiet], env=environment, cwd=ROOT, stdout=log, stderr=log)
        self._wait()
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                urllib.request.urlopen(self.url + "/healthz", timeout=2).close()  # noqa: S310  our own address
            except (urllib.error.URLError, OSError) as error:
                dead = self.web is None or self.web.poll() is not None
                if dead or time.monotonic() > deadline:
                    log = (self.folder / "web.log").read_text(errors="replace")[-2000:]
                    raise AssertionError(f"no portal at {self.url}: {log}") from error
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        if self.web is not None:
            self.web.terminate()
            self.web.wait(60)
        self.valkey.stop()

    @contextmanager
    def without_broker(self) -> Iterator[None]:
        """Stop the broker; it comes back whatever happens meanwhile."""
        self.valkey.stop()
        try:
            yield
        finally:
            self.valkey.start()

    def tell(self, *topics: str) -> None:
        """Send hints as the loop does."""
        with redis.Redis.from_url(self.valkey.url) as broker:
            for topic in topics:
                broker.publish(CHANNEL, topic)
