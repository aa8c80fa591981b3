"""The ASGI application: who calls, what for, and the answer as bytes or as a stream."""

import asyncio
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from clusters.emulator import kinds, openapi
from clusters.emulator.calls import Call, Receive, Reply, Send, Stream, find_target, receive_call, reply
from clusters.emulator.errors import ApiError, bad_request, method_not_allowed, no_such_path, unauthorized
from clusters.emulator.kinds import PODS
from clusters.emulator.podcalls import PodCalls
from clusters.emulator.verbs import Verbs

_HEALTH = {"/healthz", "/readyz", "/livez"}
_POD_PARTS = {"log", "binding", "eviction"}


class App:
    """Answers HTTP; ``close`` ends every stream so that the server can stop."""

    def __init__(self, verbs: Verbs, pods: PodCalls, *, token: str, version: str, served: kinds.Served) -> None:
        """Ask for ``token`` unless it is empty; know only the kinds that are ``served``."""
        self._verbs = verbs
        self._pods = pods
        self._token = token
        self._version = version
        self._served = served
        self._groups = frozenset(kinds.groups(served))
        self._streams: set[asyncio.Future[None]] = set()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        try:
            call = await receive_call(scope, receive)
            answer = self._answer(call)
        except RecursionError:
            answer = reply((refusal := bad_request("json: exceeded max depth")).status(), refusal.code)
        except ApiError as refusal:
            answer = reply(refusal.status(), refusal.code)
        if isinstance(answer, Stream):
            await self._stream(answer, receive, send)
        else:
            await self._send(answer, send)

    def close(self) -> None:
        """End every stream."""
        for stream in self._streams:
            stream.cancel()

    def _answer(self, call: Call) -> Reply | Stream:
        if call.path in _HEALTH:
            return Reply(body=b"ok", content_type="text/plain")
        if self._token and not secrets.compare_digest(
            call.headers.get("authorization", "").encode(), f"Bearer {self._token}".encode()
        ):
            raise unauthorized()
        document = self._discovery(call)
        if document is not None:
            if call.method not in {"GET", "HEAD"}:
                raise method_not_allowed()
            return reply(document)
        target = find_target(call.path, self._served)
        if target.kind is PODS and target.part in _POD_PARTS:
            return self._pods.answer(call, target)
        match call.method:
            case "GET" | "HEAD":
                return self._verbs.read(call, target)
            case "POST" if not target.part:
                return self._verbs.create(call, target)
            case "PUT":
                return self._verbs.replace(call, target)
            case "PATCH":
                return self._verbs.patch(call, target)
            case "DELETE" if not target.part:
                return self._verbs.delete(call, target)
            case _:
                raise method_not_allowed()

    def _discovery(self, call: Call) -> dict[str, Any] | None:
        """Return what discovery says about a path, or None for paths of objects; raise 404."""
        match [step for step in call.path.split("/") if step]:
            case ["version"]:
                return kinds.version_document(self._version)
            case ["api"]:
                return kinds.core_versions(call.headers.get("host", ""))
            case ["apis"]:
                return kinds.group_list(self._served)
            case ["api", "v1"]:
                return kinds.resource_list("", "v1", self._served)
            case ["apis", group] if group in {name for name, _ in self._groups}:
                return kinds.group_document(group, self._served)
            case ["apis", group, version] if (group, version) in self._groups:
                return kinds.resource_list(group, version, self._served)
            case ["openapi", "v3"]:
                return openapi.index(self._served)
            case ["openapi", "v3", "api", "v1"]:
                return openapi.document("", "v1", self._served)
            case ["openapi", "v3", "apis", group, version] if (group, version) in self._groups:
                return openapi.document(group, version, self._served)
            case []:
                return {"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/readyz", "/version"]}
            case ["api" | "apis", _, _, *_]:
                return None
            case _:
                raise no_such_path()

    async def _send(self, answer: Reply, send: Send) -> None:
        headers = [(b"content-type", answer.content_type.encode()), (b"content-length", b"%d" % len(answer.body))]
        if answer.code == HTTPStatus.UNAUTHORIZED:
            headers.append((b"www-authenticate", b"Bearer"))
        await send({"type": "http.response.start", "status": int(answer.code), "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _stream(self, answer: Stream, receive: Receive, send: Send) -> None:
        """Send chunks until they end, the client leaves or the server closes."""
        pump = asyncio.ensure_future(_pump(answer, send))
        gone = asyncio.ensure_future(receive())
        self._streams.add(pump)
        try:
            await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(pump)
            pump.cancel()
            gone.cancel()
            await asyncio.gather(pump, gone, return_exceptions=True)


async def _pump(answer: Stream, send: Send) -> None:
    headers = [(b"content-type", answer.content_type.encode()), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for chunk in answer.chunks:
        if chunk:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
