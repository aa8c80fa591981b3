"""Who answers a request: one thread from beginning to end, or the loop where an answer takes its time."""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.core.signals import request_finished, request_started
from django.dispatch import Signal

from config.handler import Handler, takes_its_time

JOB = UUID(int=7)


@pytest.mark.parametrize(
    "path",
    [f"/api/v1/jobs/{JOB}/wait", f"/api/v1/jobs/{JOB}/wait/", f"/api/v1/jobs/{JOB}/logs", "/live"],
)
def test_what_waits_or_streams_holds_no_thread(path: str) -> None:
    assert takes_its_time(path)


def test_files_are_read_on_the_loop() -> None:
    assert takes_its_time(f"{settings.STATIC_URL}app.css")


@pytest.mark.parametrize("path", ["/", "/api/v1/jobs", "/api/v1/jobs/", "/api/v1/nothing", "/nothing"])
def test_everything_else_is_answered_in_a_thread(path: str) -> None:
    assert not takes_its_time(path)


@pytest.fixture
def threads() -> Iterator[dict[Signal, str]]:
    """Where requests begin and end, by the name of the thread."""
    found: dict[Signal, str] = {}

    def note(signal: Signal, **_: object) -> None:
        found[signal] = threading.current_thread().name

    for signal in (request_started, request_finished):
        signal.connect(note)
    yield found
    for signal in (request_started, request_finished):
        signal.disconnect(note)


def test_a_plain_request_begins_and_ends_in_one_thread_and_its_answer_is_whole(threads: dict[Signal, str]) -> None:
    sent = asyncio.run(ask(Handler(), "/api/v1/nothing"))

    assert sent[0]["status"] == 404
    assert json.loads(b"".join(part["body"] for part in sent[1:]))["code"] == "not_found"
    assert dict(sent[0]["headers"])[b"X-Request-ID"] == b"mine"
    assert threads[request_started].startswith("request")
    assert threads[request_finished] == threads[request_started]


def test_who_leaves_before_the_body_is_there_gets_nothing() -> None:
    assert asyncio.run(ask(Handler(), "/api/v1/nothing", {"type": "http.disconnect"})) == []


async def ask(app: Handler, path: str, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Make one request and return what the application sends."""
    said = iter(messages or ({"type": "http.request", "body": b""},))
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return next(said)

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(dict(message))

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"x-request-id", b"mine")],
    }
    await app(scope, receive, send)
    return sent
