"""A proxy before an API server that passes everything on, but for the faults that a test puts in its way.

The answers of ``tests.clusters.faulty`` serve here too; those below change what the real server says.
"""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import yaml

from tests.clusters.faulty import Answer, Faulty, Handler, Request

Edit: TypeAlias = Callable[[Iterable[bytes]], Iterator[bytes]]
"""Changes the lines of a watch on their way."""

UPSTREAM_SECONDS = 60.0
UPSTREAM_ERRORS = (OSError, http.client.HTTPException, ValueError)
_PASSED = ("Content-Type", "Retry-After")


@dataclass(slots=True, kw_only=True, eq=False)
class Fault:
    """What is answered in the server's place, to which requests, and how often (None: for ever)."""

    answer: Answer
    hits: Callable[[Request], bool]
    times: int | None = None
    seen: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def takes(self, asked: Request) -> bool:
        """Tell whether this request is to suffer, and count it."""
        if not self.hits(asked):
            return False
        with self.lock:
            if self.times is not None and self.seen >= self.times:
                return False
            self.seen += 1
            return True


class Proxy(Faulty):
    """Speaks plain HTTP to a client, and to the server of a kubeconfig as that says, the client's token passed on."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__()
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        address = urlsplit(cluster["server"])
        self.user: dict[str, Any] = config["users"][0]["user"]
        self._host, self._port = address.hostname or "", address.port
        self._tls = (
            ssl.create_default_context(cafile=cluster.get("certificate-authority"))
            if address.scheme == "https"
            else None
        )
        self._faults: list[Fault] = []
        self._lent: set[http.client.HTTPConnection] = set()
        self._lent_lock = threading.Lock()
        self._bright = threading.Event()
        self._bright.set()

    def put(
        self,
        answer: Answer,
        *,
        verb: str = "",
        kind: str = "",
        watches: bool | None = None,
        times: int | None = None,
    ) -> Fault:
        """Answer so to requests of a verb, about a kind (``pods``), that watch or do not; the newest fault is first."""

        def hits(asked: Request) -> bool:
            return (
                verb in {"", asked.method}
                and (not kind or kind in asked.path.split("/"))
                and watches in {None, asked.watches}
            )

        fault = Fault(answer=answer, hits=hits, times=times)
        self._faults.insert(0, fault)
        return fault

    def heal(self) -> None:
        """Take every fault away; what suffers already is left as it is."""
        self._faults.clear()

    @contextmanager
    def dark(self) -> Iterator[None]:
        """Let nothing through while connections stay open, as where a cable was pulled: no byte, no end, no refusal."""
        self._bright.clear()
        try:
            yield
        finally:
            self._bright.set()

    def lit(self) -> bool:
        """Wait while it is dark; False when the test is over."""
        while not self._bright.wait(0.05):
            if self.ending.is_set():
                return False
        return not self.ending.is_set()

    def next_answer(self, asked: Request) -> Answer:
        """Return the newest fault that this request meets, else the server's own answer."""
        return next((fault.answer for fault in tuple(self._faults) if fault.takes(asked)), forward)

    @contextmanager
    def upstream(self) -> Iterator[http.client.HTTPConnection]:
        """Lend a connection of its own to the server; it is cut when the proxy ends."""
        connection = (
            http.client.HTTPConnection(self._host, self._port, timeout=UPSTREAM_SECONDS)
            if self._tls is None
            else http.client.HTTPSConnection(self._host, self._port, timeout=UPSTREAM_SECONDS, context=self._tls)
        )
        try:
            connection.connect()
            with self._lent_lock:
                self._lent.add(connection)
            yield connection
        finally:
            with self._lent_lock:
                self._lent.discard(connection)
            connection.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ending.set()
        with self._lent_lock:
            for connection in self._lent:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)
        super().__exit__(kind, error, trace)

    def kubeconfig(self, path: Path, *, token_file: Path | None = None) -> Path:
        """Write a kubeconfig that leads here, with the server's own user, or with a token that is read from a file."""
        super().kubeconfig(path, token_file=token_file)
        if token_file is None:
            content = json.loads(path.read_text())
            content["users"][0]["user"] = self.user
            path.write_text(json.dumps(content))
        return path


def forward(handler: Handler) -> None:
    """Give the server's own answer."""
    _pass_on(handler, iter)


def edited(edit: Edit) -> Answer:
    """Give the server's answer with the lines of its watch changed."""
    return lambda handler: _pass_on(handler, edit)


def slow(seconds: float) -> Answer:
    """Give the server's own answer, late."""

    def answer(handler: Handler) -> None:
        if not handler.faulty.ending.wait(seconds):
            forward(handler)

    return answer


def deaf(handler: Handler) -> None:
    """Let the request reach the server and lose its answer: the client hears nothing but the end of the connection."""
    with suppress(*UPSTREAM_ERRORS):
        _read(handler)
    handler.drop()


def cut(after: int) -> Answer:
    """Give so many bytes of the server's answer, then drop the connection."""

    def answer(handler: Handler) -> None:
        body = _read(handler)
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body) + 1))
        handler.end_headers()
        handler.wfile.write(body[:after])
        handler.wfile.flush()
        handler.drop()

    return answer


def remembered() -> Answer:
    """Give to each question the first answer that it got, however old: a list from a cache that stands still."""
    kept: dict[tuple[str, str], bytes] = {}
    lock = threading.Lock()

    def answer(handler: Handler) -> None:
        with lock:
            key = (handler.asked.path, handler.asked.query.get("continue", ""))
            if key not in kept:
                kept[key] = _read(handler)
            body = kept[key]
        _send(handler, body)

    return answer


def replayed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Say every event again behind each new one, oldest first."""
    said: list[bytes] = []
    for line in lines:
        said.append(line)
        yield from (line, *said)


def reordered(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Say each event behind the one that follows it; the last waits for the end."""
    held: bytes | None = None
    for line in lines:
        if held is None:
            held = line
        else:
            yield from (line, held)
            held = None
    if held is not None:
        yield held


def missing(kind: str) -> Edit:
    """Leave out events of a type (``DELETED``)."""

    def edit(lines: Iterable[bytes]) -> Iterator[bytes]:
        return (line for line in lines if json.loads(line)["type"] != kind)

    return edit


def broken(after: int) -> Edit:
    """Break the connection behind so many events."""

    def edit(lines: Iterable[bytes]) -> Iterator[bytes]:
        yield from islice(lines, after)
        raise ConnectionResetError

    return edit


@contextmanager
def _asked(handler: Handler) -> Iterator[http.client.HTTPResponse]:
    """Put the client's question to the server; its connection goes with the answer."""
    headers = {
        name: value
        for name in ("Accept", "Authorization", "Content-Type")
        if (value := handler.headers.get(name)) is not None
    }
    with _proxy(handler).upstream() as connection:
        connection.request(handler.command, handler.path, body=handler.asked.body or None, headers=headers)
        with connection.getresponse() as answer:
            yield answer


def _read(handler: Handler) -> bytes:
    with _asked(handler) as answer:
        return answer.read()


def _proxy(handler: Handler) -> Proxy:
    proxy = handler.faulty
    assert isinstance(proxy, Proxy)
    return proxy


def _pass_on(handler: Handler, edit: Edit) -> None:
    """Give the server's answer; where it dies meanwhile, or is not there, the connection just ends."""
    proxy = _proxy(handler)
    try:
        if not proxy.lit():
            return
        with _asked(handler) as answer:
            if handler.asked.watches and answer.status == http.client.OK:
                _stream(handler, edit(_lines(proxy, answer)))
            else:
                body = answer.read()
                proxy.lit()
                _send(handler, body, status=answer.status, headers=dict(answer.headers.items()))
    except UPSTREAM_ERRORS:
        handler.drop()


def _lines(proxy: Proxy, answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield a watch's lines as they come, none while it is dark."""
    while (line := answer.readline()) and proxy.lit():
        yield line


def _stream(handler: Handler, lines: Iterable[bytes]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.flush()
    for line in lines:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        handler.wfile.flush()
    handler.wfile.write(b"0\r\n\r\n")


def _send(handler: Handler, body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
    handler.send_response(status)
    for name in _PASSED:
        if headers and name in headers:
            handler.send_header(name, headers[name])
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
