"""Open pages hear which topics to look at again: one subscription a process, one stream a page, no database meanwhile.

A stream is open only while hints flow: when Redis goes, streams end and pages poll until they can connect again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from http import HTTPStatus
from importlib import import_module
from time import time
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

import redis.asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.db import connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.views.decorators.http import require_safe
from redis.exceptions import RedisError

from queues.hints import CHANNEL, SECONDS
from queues.models import Job
from tenants.models import User
from tenants.permissions import Permission, visible_teams

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 15.0
CHECK_SECONDS = 60.0
STREAMS_PER_USER = 12
TOPICS_PER_STREAM = 8
MOST_TOPICS = 10_000
OPEN_TO_ALL = frozenset({"jobs", "queue", "nodes", "teams", "decisions"})

P = ParamSpec("P")
R = TypeVar("R")

open_streams: Counter[int] = Counter()


class Listener:
    """The topics that one stream still has to pass on; doubles melt together while its reader is slow."""

    def __init__(self, topics: frozenset[str]) -> None:
        """Start with nothing to say."""
        self.topics = topics
        self.pending: list[str] = []
        self.over = False
        self.news = asyncio.Event()

    def hear(self, topic: str) -> None:
        """Remember a topic, once."""
        if topic in self.topics and topic not in self.pending:
            self.pending.append(topic)
            self.news.set()

    def end(self) -> None:
        """Tell the reader that no more hints will come."""
        self.over = True
        self.news.set()

    async def take(self, seconds: float) -> list[str]:
        """Return what came in, or nothing after ``seconds``."""
        try:
            await asyncio.wait_for(self.news.wait(), seconds)
        except TimeoutError:
            return []
        self.news.clear()
        taken, self.pending = self.pending, []
        return taken


class Hub:
    """One subscription to the hints of all, shared by the streams of one event loop.

    It remembers when each topic last moved, so that a page hears of what moved between its making and its stream.
    """

    def __init__(self) -> None:
        """Subscribe when somebody first listens, and stay subscribed."""
        self.listeners: set[Listener] = set()
        self.moved: dict[str, float] = {}
        self.knows_from = 0.0
        self.lock = asyncio.Lock()
        self.reader: asyncio.Task[None] | None = None

    async def join(self, topics: frozenset[str], since: float) -> Listener:
        """Return a listener that has heard all since then. Raises RedisError or OSError where there is no broker."""
        async with self.lock:
            if self.reader is None:
                await self._subscribe()
        listener = Listener(topics)
        for topic in sorted(topics):
            if since < self.knows_from or self.moved.get(topic, 0.0) >= since:
                listener.hear(topic)
        self.listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """Forget a listener."""
        self.listeners.discard(listener)

    async def _subscribe(self) -> None:
        client = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=SECONDS)
        channel = client.pubsub(ignore_subscribe_messages=True)
        try:
            await channel.subscribe(CHANNEL)
        except (RedisError, OSError):
            await client.aclose()
            raise
        self.listeners, self.moved, self.knows_from = set(), {}, time()
        self.reader = asyncio.create_task(self._read(client, channel, self.listeners))

    async def _read(
        self, client: redis.asyncio.Redis, channel: redis.asyncio.client.PubSub, mine: set[Listener]
    ) -> None:
        try:
            async for message in channel.listen():
                self._pass_on(message["data"].decode(errors="replace"), mine)
        except (RedisError, OSError) as error:
            log.warning("no broker for live pages (%s); they poll", error)
        finally:
            # Before anything is awaited: who joins from here on must subscribe anew, not listen to an ended reader.
            self.reader = None
            for listener in mine:
                listener.end()
            await channel.aclose()  # type: ignore[no-untyped-call]
            await client.aclose()

    def _pass_on(self, topic: str, listeners: set[Listener]) -> None:
        if len(self.moved) >= MOST_TOPICS:
            self.moved, self.knows_from = {}, time()
        self.moved[topic] = time()
        for listener in listeners:
            listener.hear(topic)


hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """Return the hub of the running event loop."""
    return hubs.setdefault(asyncio.get_running_loop(), Hub())


@require_safe
async def live(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """Stream hints on ``topics`` to a signed-in person."""
    wanted = [topic for topic in request.GET.get("topics", "").split(" ") if topic][:TOPICS_PER_STREAM]
    user, topics = await apart(who_hears)(request, wanted)
    if user is None:
        return HttpResponse(status=HTTPStatus.UNAUTHORIZED)
    if open_streams[user.pk] >= STREAMS_PER_USER:
        return HttpResponse(status=HTTPStatus.TOO_MANY_REQUESTS, headers={"Retry-After": "30"})
    try:
        listener = await hub().join(topics, since_of(request))
    except (RedisError, OSError):
        return HttpResponse(status=HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "10"})

    async def topics_now() -> frozenset[str] | None:
        again, now = await apart(who_hears)(request, wanted, fresh=True)
        return now if again is not None and again.pk == user.pk else None

    response = StreamingHttpResponse(hints(listener, user.pk, topics_now), content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    return response


async def hints(
    listener: Listener, user_id: int, topics_now: Callable[[], Coroutine[Any, Any, frozenset[str] | None]]
) -> AsyncGenerator[str]:
    """Yield one message a topic, a comment while it is quiet, and ``bye`` when the session is over."""
    open_streams[user_id] += 1
    clock = asyncio.get_running_loop().time
    check_at = clock() + CHECK_SECONDS
    try:
        yield "retry: 3000\n: hello\n\n"
        while not listener.over:
            taken = await listener.take(min(HEARTBEAT_SECONDS, max(0.01, check_at - clock())))
            if clock() >= check_at:
                topics = await topics_now()
                if topics is None:
                    yield "event: bye\ndata: signed out\n\n"
                    return
                listener.topics, check_at = topics, clock() + CHECK_SECONDS
            yield "".join(f"data: {topic}\n\n" for topic in taken) or ": quiet\n\n"
    finally:
        hub().leave(listener)
        open_streams[user_id] -= 1
        if not open_streams[user_id]:
            del open_streams[user_id]


def since_of(request: HttpRequest) -> float:
    """Return when the page was made, in seconds since the epoch; without it, as if it were long ago."""
    try:
        return float(request.GET.get("since", ""))
    except ValueError:
        return 0.0


def who_hears(request: HttpRequest, wanted: list[str], *, fresh: bool = False) -> tuple[User | None, frozenset[str]]:
    """Return the person of a session, read anew where ``fresh``, and those of the wanted topics they may hear."""
    if fresh:
        request.session = import_module(settings.SESSION_ENGINE).SessionStore(request.session.session_key)
    user = get_user(request)
    if not isinstance(user, User):
        return None, frozenset()
    return user, frozenset(topic for topic in wanted if may_hear(user, topic))


def may_hear(user: User, topic: str) -> bool:
    """Return whether a person may know that something of this topic moved."""
    kind, _, name = topic.partition(":")
    if kind == "team":
        return visible_teams(user).filter(name=name).exists()
    if kind == "job":
        return is_uid(name) and Job.objects.filter(uid=name, team__in=visible_teams(user, Permission.VIEW_JOB)).exists()
    return topic in OPEN_TO_ALL


def is_uid(text: str) -> bool:
    """Return whether a text is a UUID."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def apart(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Run a function that reads the database in its thread, and give the connection back at once."""

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        finally:
            connections.close_all()

    return sync_to_async(run)
