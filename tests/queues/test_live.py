"""Hints to open pages: what a stream passes on, to whom, and when it ends."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
from pytest_django import Settings
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from queues import live
from queues.live import Listener
from stack.servers import Valkey
from tests.queues.lab import Lab


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(live, "CHECK_SECONDS", 60.0)
    yield
    assert not live.open_streams


async def still(*topics: str) -> frozenset[str] | None:
    return frozenset(topics)


async def gone() -> frozenset[str] | None:
    return None


async def first(stream: AsyncGenerator[str], count: int) -> list[str]:
    found = [await anext(stream) for _ in range(count)]
    await stream.aclose()
    return found


def test_a_stream_says_hello_then_what_it_hears_then_that_it_is_quiet() -> None:
    async def run() -> list[str]:
        listener = Listener(frozenset({"jobs"}))
        stream = live.hints(listener, 1, lambda: still("jobs"))
        opened = await anext(stream)
        listener.hear("jobs")
        return [opened, *await first(stream, 2)]

    assert asyncio.run(run()) == ["retry: 3000\n: hello\n\n", "data: jobs\n\n", ": quiet\n\n"]


def test_doubles_melt_together_while_nobody_reads() -> None:
    async def run() -> list[str]:
        listener = Listener(frozenset({"jobs", "nodes"}))
        for topic in ("jobs", "nodes", "jobs", "team:cv"):
            listener.hear(topic)
        return await listener.take(1)

    assert asyncio.run(run()) == ["jobs", "nodes"]


def test_a_stream_ends_when_its_session_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CHECK_SECONDS", 0.0)

    async def run() -> list[str]:
        return [text async for text in live.hints(Listener(frozenset()), 1, gone)]

    assert asyncio.run(run())[-1] == "event: bye\ndata: signed out\n\n"


def test_a_stream_ends_when_the_broker_is_gone() -> None:
    async def run() -> list[str]:
        listener = Listener(frozenset())
        listener.end()
        return [text async for text in live.hints(listener, 1, still)]

    assert asyncio.run(run()) == ["retry: 3000\n: hello\n\n"]


def test_who_joins_while_the_subscription_is_closing_is_refused_not_forgotten(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> bool:
        closing, closed = asyncio.Event(), asyncio.Event()

        async def slowly(_: PubSub) -> None:
            closing.set()
            await closed.wait()

        monkeypatch.setattr(PubSub, "aclose", slowly)
        hub = live.Hub()
        first = await hub.join(frozenset({"jobs"}), 0.0)
        valkey.stop()
        await asyncio.wait_for(closing.wait(), 60)
        with pytest.raises((RedisError, OSError)):
            await hub.join(frozenset({"jobs"}), 0.0)
        closed.set()
        return first.over

    with Valkey(tmp_path / "valkey") as valkey:
        settings.REDIS_URL = valkey.url

        assert asyncio.run(run())


def test_what_one_may_no_longer_see_is_no_longer_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CHECK_SECONDS", 0.0)

    async def run() -> list[str]:
        listener = Listener(frozenset({"team:nlp"}))
        stream = live.hints(listener, 1, lambda: still("jobs"))
        await anext(stream)
        await anext(stream)
        listener.hear("team:nlp")
        return await first(stream, 1)

    assert asyncio.run(run()) == [": quiet\n\n"]


def test_open_streams_are_counted_by_person() -> None:
    async def run() -> tuple[int, int]:
        streams = [live.hints(Listener(frozenset()), 7, still) for _ in range(2)]
        for stream in streams:
            await anext(stream)
        count = live.open_streams[7]
        for stream in streams:
            await stream.aclose()
        return count, live.open_streams[7]

    assert asyncio.run(run()) == (2, 0)


@pytest.mark.parametrize(
    ("topic", "member", "stranger"),
    [
        ("jobs", True, True),
        ("team:nlp", True, False),
        ("team:nobody", False, False),
        ("job:{job}", True, False),
        ("job:0193e9d0-0000-7000-8000-00000000dead", False, False),
        ("job:x", False, False),
        ("secrets", False, False),
        ("", False, False),
    ],
)
def test_a_topic_is_told_to_those_who_may_know(lab: Lab, topic: str, member: bool, stranger: bool) -> None:  # noqa: FBT001  two columns of a table
    topic = topic.format(job=lab.submit().uid)

    assert live.may_hear(lab.ann.user, topic) is member
    assert live.may_hear(lab.carl.user, topic) is stranger


def test_a_hub_repeats_what_moved_since_a_page_was_made_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[list[str]]:
        hub = live.Hub()
        hub.reader = asyncio.create_task(asyncio.sleep(60))  # as if it were subscribed
        hub.knows_from = 100.0
        for now, topic in ((110.0, "jobs"), (120.0, "nodes")):
            monkeypatch.setattr(live, "time", lambda now=now: now)
            hub._pass_on(topic, hub.listeners)  # noqa: SLF001  as its reader does
        topics = frozenset({"jobs", "nodes", "queue"})
        return [(await hub.join(topics, since)).pending for since in (99.0, 115.0, 121.0)]

    assert asyncio.run(run()) == [["jobs", "nodes", "queue"], ["nodes"], []]
