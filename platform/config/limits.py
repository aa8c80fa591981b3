"""A limit on bodies before Django reads them: what is larger than anything we read is refused while it arrives."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Message = Mapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

LARGEST = 8 * 2**20  # the largest limit that any view has


class TooMuch(Exception):
    """More has arrived than is read anywhere."""


class LimitBodies:
    """An ASGI application before another, which never sees more than ``largest`` bytes of a body."""

    def __init__(self, app: App, *, largest: int = LARGEST) -> None:
        """Stand before ``app``."""
        self.app, self.largest = app, largest

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 413."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > self.largest:
            await refuse(send, path=scope["path"], largest=self.largest)
            return
        try:
            await self.app(scope, self._counted(receive), send)
        except TooMuch:
            await refuse(send, path=scope["path"], largest=self.largest)

    def _counted(self, receive: Receive) -> Receive:
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.largest:
                raise TooMuch
            return message

        return counted


async def refuse(send: Send, *, path: str, largest: int) -> None:
    """Answer 413 in the form of every other problem and close the connection."""
    request_id = uuid.uuid4().hex
    problem = {
        "type": "/api/errors/too_large",
        "title": "Too large",
        "status": 413,
        "detail": f"At most {largest} bytes are read; send it in parts.",
        "instance": path,
        "code": "too_large",
        "request_id": request_id,
        "errors": [],
        "hints": [],
    }
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"connection", b"close"),
        (b"x-request-id", request_id.encode()),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(problem).encode()})
