import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from config.limits import LimitBodies

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


async def ask(limit: int, chunks: list[bytes], headers: list[tuple[bytes, bytes]]) -> tuple[int, int]:
    """Send a body in chunks; return the status and how many bytes the application saw."""
    seen = 0
    answers: list[Mapping[str, Any]] = []
    parts = iter(chunks)

    async def app(_: object, receive: Receive, send: Send) -> None:
        nonlocal seen
        more = True
        while more:
            message = await receive()
            seen += len(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> dict[str, Any]:
        chunk = next(parts, None)
        return {"type": "http.request", "body": chunk or b"", "more_body": chunk is not None}

    async def send(message: Mapping[str, Any]) -> None:
        answers.append(message)

    await LimitBodies(app, largest=limit)({"type": "http", "path": "/api/v1/jobs", "headers": headers}, receive, send)
    return answers[0]["status"], seen


@pytest.mark.parametrize(
    ("chunks", "length", "expected"),
    [
        ([b"x" * 10], b"10", (200, 10)),
        ([b"x" * 6, b"x" * 4], None, (200, 10)),
        ([b"x" * 11], b"11", (413, 0)),
        ([b"x" * 6, b"x" * 6, b"x" * 6], None, (413, 6)),
        ([], b"-1", (413, 0)),
    ],
)
def test_no_more_than_the_limit_is_read(chunks: list[bytes], length: bytes | None, expected: tuple[int, int]) -> None:
    headers = [(b"content-length", length)] if length else []

    assert asyncio.run(ask(10, chunks, headers)) == expected
