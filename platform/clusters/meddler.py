"""A proxy before an API server that loses, doubles and delays at random: the weather of a soak.

It speaks plain HTTP, passes tokens on, and draws its faults from a seed, each request and each line of a watch alone.
"""

import http.client
import json
import random
import re
import ssl
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self, cast
from urllib.parse import parse_qs, unquote_plus, urlsplit

import yaml

from clusters import names

UPSTREAM_SECONDS = 60.0
WAVE = re.compile(re.escape(names.LABEL_WAVE).encode() + rb'(?:="?|": ?")([0-9a-f-]{36})')
HTTP_ERRORS = (OSError, http.client.HTTPException)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How likely each fault is: of a request the first five, of a line of a watch the rest; ``delay`` in seconds.

    ``deaf``: the server does what was asked, and its answer is lost.
    """

    refuse: float = 0.01
    throttle: float = 0.005
    deaf: float = 0.01
    slow: float = 0.01
    delay: float = 0.7
    drop: float = 0.01
    double: float = 0.03
    late: float = 0.01
    cut: float = 0.002


@dataclass(slots=True, kw_only=True)
class Passed:
    """A request that names a wave: when it came, when the server was asked and had answered (None: never)."""

    what: str
    came: datetime
    asked: datetime | None = None
    answered: datetime | None = None
    status: int | None = None

    def __str__(self) -> str:
        """Say it in a line."""
        times = (f"{at:%H:%M:%S.%f}"[:-3] if at else "never" for at in (self.came, self.asked, self.answered))
        return f"{self.what}: came {next(times)}, passed on {next(times)}, answered {next(times)} by {self.status}"


CALM = Weather(refuse=0, throttle=0, deaf=0, slow=0, drop=0, double=0, late=0, cut=0)


class Meddler:
    """Passes requests on to the server of a kubeconfig; ``weather`` may be changed at any time."""

    def __init__(self, kubeconfig: Path, *, seed: int, weather: Weather) -> None:
        """Listen on a free port; nothing is answered before it is entered."""
        self.weather = weather
        self.faults: Counter[str] = Counter()
        self.passed: dict[str, list[Passed]] = defaultdict(list)
        """By wave, what was asked about it: changes only."""
        self.ending = threading.Event()
        self._config = yaml.safe_load(kubeconfig.read_text())
        cluster = self._config["clusters"][0]["cluster"]
        address = urlsplit(cluster["server"])
        self._host, self._port = address.hostname or "", address.port
        authority = cluster.get("certificate-authority")
        self._tls = ssl.create_default_context(cafile=authority) if address.scheme == "https" else None
        self._random = random.Random(seed)  # noqa: S311  faults, not secrets
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.meddler = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that leads here, with the server's own user."""
        here = {"server": f"http://127.0.0.1:{self._server.server_address[1]}"}
        cluster = {**self._config["clusters"][0], "cluster": here}
        path.write_text(json.dumps({**self._config, "clusters": [cluster]}))
        return path

    def strikes(self, fault: str) -> bool:
        """Draw whether a fault happens now, and count it."""
        with self._lock:
            hit = self._random.random() < float(getattr(self.weather, fault))
            if hit:
                self.faults[fault] += 1
        return hit

    def dial(self) -> http.client.HTTPConnection:
        """Return a new connection to the server."""
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=UPSTREAM_SECONDS)
        return http.client.HTTPSConnection(self._host, self._port, timeout=UPSTREAM_SECONDS, context=self._tls)

    def __enter__(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop answering; what still streams ends with its client."""
        self.ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    meddler: Meddler
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.meddler = cast("_Server", self.server).meddler
        self.upstream = self.meddler.dial()

    def finish(self) -> None:
        self.upstream.close()
        with suppress(OSError):
            super().finish()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Pass a question on; one that watches is answered line by line."""
        if "watch" in parse_qs(urlsplit(self.path).query):
            self._watch()
        else:
            self._pass_on()

    def do_POST(self) -> None:
        """Pass a request on, in its weather."""
        self._pass_on()

    def do_PUT(self) -> None:
        """Pass a request on, in its weather."""
        self._pass_on()

    def do_PATCH(self) -> None:
        """Pass a request on, in its weather."""
        self._pass_on()

    def do_DELETE(self) -> None:
        """Pass a request on, in its weather."""
        self._pass_on()

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        meddler = self.meddler
        noted = Passed(what=f"{self.command} {urlsplit(self.path).path}", came=datetime.now(UTC))
        for wave in set(WAVE.findall(unquote_plus(self.path).encode() + body)) if self.command != "GET" else ():
            meddler.passed[wave.decode()].append(noted)
        if meddler.strikes("refuse"):
            self._send(503, b'{"kind":"Status","code":503,"message":"the weather"}')
        elif meddler.strikes("throttle"):
            self._send(429, b'{"kind":"Status","code":429,"message":"the weather"}', {"Retry-After": "1"})
        else:
            if meddler.strikes("slow"):
                meddler.ending.wait(meddler.weather.delay)
            noted.asked = datetime.now(UTC)
            answer = self._ask(body)
            noted.answered, noted.status = datetime.now(UTC), answer[0] if answer else None
            if answer is None or meddler.strikes("deaf"):
                self.close_connection = True
            else:
                self._send(*answer)

    def _ask(self, body: bytes) -> tuple[int, bytes, dict[str, str]] | None:
        try:
            self.upstream.request(self.command, self.path, body=body or None, headers=self._headers())
            answer = self.upstream.getresponse()
            kept = {name: value for name in ("Content-Type", "Retry-After") if (value := answer.getheader(name))}
            return answer.status, answer.read(), kept
        except HTTP_ERRORS:
            self.upstream.close()
            return None

    def _headers(self) -> dict[str, str]:
        names = ("Accept", "Authorization", "Content-Type")
        return {name: value for name in names if (value := self.headers.get(name)) is not None}

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json"} | (headers or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _watch(self) -> None:
        self.close_connection = True
        with suppress(*HTTP_ERRORS, ValueError):
            self.upstream.request("GET", self.path, headers=self._headers())
            answer = self.upstream.getresponse()
            if answer.status != http.HTTPStatus.OK:
                self._send(answer.status, answer.read())
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.flush()
            for line in self._lines(answer):
                self.wfile.write(line)
                self.wfile.flush()

    def _lines(self, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        meddler = self.meddler
        while (line := answer.readline()) and not meddler.ending.is_set():
            if meddler.strikes("cut"):
                return
            if meddler.strikes("drop"):
                continue
            if meddler.strikes("late"):
                meddler.ending.wait(meddler.weather.delay)
            yield line
            if meddler.strikes("double"):
                yield line
