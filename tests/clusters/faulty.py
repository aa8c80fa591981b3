"""A tiny API server that answers exactly what a test tells it to, faults included."""

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, cast
from urllib.parse import parse_qsl, urlsplit

SILENT_SECONDS = 60.0

Answer: TypeAlias = Callable[["Handler"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    token: str
    body: bytes

    @property
    def watches(self) -> bool:
        return self.query.get("watch") == "true"


class Faulty:
    """Serves scripted answers by method and path, each once and in order; the last one stays."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.ending = threading.Event()
        self._script: dict[tuple[str, str], list[Answer]] = {}
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.faulty = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def tell(self, method: str, path: str, *answers: Answer) -> None:
        self._script[method, path] = list(answers)

    def next_answer(self, asked: Request) -> Answer:
        unknown = failure(404, f"nothing is scripted for {asked.method} {asked.path}")
        answers = self._script.get((asked.method, asked.path), [unknown])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def kubeconfig(self, path: Path, *, token_file: Path | None = None) -> Path:
        user = {"tokenFile": str(token_file)} if token_file else {"token": "first"}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": user}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        }
        path.write_text(json.dumps(content))
        return path

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def answer(body: object, *, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """Answer with JSON, or with bytes as they are."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    def send(handler: "Handler") -> None:
        handler.send_response(status)
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)

    return send


def failure(status: int, message: str, **more: object) -> Answer:
    headers = cast("dict[str, str]", more.pop("headers", {}))
    return answer({"kind": "Status", "message": message, "code": status, **more}, status=status, headers=headers)


def silence(handler: "Handler") -> None:
    """Keep the connection and say nothing until the test ends."""
    handler.faulty.ending.wait(SILENT_SECONDS)
    handler.close_connection = True


def half(handler: "Handler") -> None:
    """Promise more bytes than come."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"items": [')
    handler.wfile.flush()
    handler.drop()


def stream(*events: dict[str, Any] | bytes, then: str = "end") -> Answer:
    """Send a watch's events, then end it well, drop the connection, or stay silent."""

    def send(handler: "Handler") -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for event in events:
            line = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            handler.wfile.flush()
        if then == "silence":
            silence(handler)
        elif then == "drop":
            handler.drop()
        else:
            handler.wfile.write(b"0\r\n\r\n")

    return send


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    faulty: Faulty

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that hang up are part of the game."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked: Request

    @property
    def faulty(self) -> Faulty:
        return cast("_Server", self.server).faulty

    def drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Print nothing."""

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        query = dict(parse_qsl(parts.query))
        self.asked = Request(method=self.command, path=parts.path, query=query, token=token, body=body)
        self.faulty.requests.append(self.asked)
        self.faulty.next_answer(self.asked)(self)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - the base class's names
