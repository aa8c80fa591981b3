"""The log of a job's task, as text or as server-sent events. While it is read no database connection is held."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any
from uuid import UUID

from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.port import ClusterError, NotThere, Refused, Unreachable
from queues import fleet, queries
from queues.api.logforms import Events, Form, Plain
from queues.api.patient import dress, look_afresh, look_once
from queues.api.shapes import logs as shapes
from queues.logreader import LogReader, Piece, Wanted
from queues.logtext import Line, Stamp
from queues.queries.logs import LogSource
from tenants.errors import Conflict, DomainError, NotFound, TooManyAtOnce, Unavailable
from tenants.rest.views import RestView

LOGS_PER_USER = 6
LOGS_PER_PROCESS = 48
HEARTBEAT_SECONDS = 15.0
CHECK_SECONDS = 60.0
FOLLOW_SECONDS = 3600.0
MOST_BYTES = 64 * 2**20
# After these nothing more can come.
FINAL = frozenset({"log_gone"})
KEPT_OF = " Last lines are kept of tasks that fail."

readers = ThreadPoolExecutor(LOGS_PER_PROCESS, thread_name_prefix="log")


class Seats:
    """How many logs each person has open in this process; taken and given back from any thread."""

    def __init__(self) -> None:
        """Start with all free."""
        self._taken: Counter[int] = Counter()
        self._lock = Lock()

    def take(self, user: int) -> bool:
        """Take one, or return False where there is none for this person."""
        with self._lock:
            free = self._taken[user] < LOGS_PER_USER and self._taken.total() < LOGS_PER_PROCESS
            self._taken[user] += free
            return free

    def give_back(self, user: int) -> None:
        """Give one back."""
        with self._lock:
            self._taken[user] -= 1
            self._taken += Counter()  # forgets people who have none

    def total(self) -> int:
        """Return how many are taken."""
        with self._lock:
            return self._taken.total()


seats = Seats()


class Found(Response):
    """What a look has found: where the log is and what of it is wanted; never sent."""

    def __init__(self, source: LogSource, wanted: Wanted, form: Form, user: int) -> None:
        """Keep it for whoever reads the log."""
        super().__init__()
        self.source, self.wanted, self.form, self.user = source, wanted, form, user


class LogsView(RestView):
    """/jobs/{id}/logs. ``get`` finds the pod; the view that is served reads its log, without a database connection."""

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002  DRF's signature
        """Leave Accept to ``get``."""
        return JSONRenderer(), JSONRenderer.media_type

    @extend_schema(
        operation_id="getLogs",
        parameters=[shapes.LogQuery],
        responses={(200, "text/plain"): OpenApiTypes.STR, (200, "text/event-stream"): OpenApiTypes.STR},
    )
    def get(self, request: Request, uid: UUID) -> Response:
        """Show what a task has written: its last lines, and with ``follow`` what it writes from now on.

        Lines that Tidegate adds begin with ``[tidegate]``: older lines are cut, or the pod is gone and these are the
        last lines that were kept. As ``text/event-stream`` each message is a JSON list of lines.
        """
        asked = self.query(shapes.LogQuery)
        source = queries.log_source(
            self.actor, uid, **{name: asked.get(name) for name in ("task", "attempt", "group", "wave")}
        )
        events = "text/event-stream" in request.headers.get("Accept", "")
        wanted = Wanted(
            tail=asked["tail"],
            after=_after(request, asked.get("since")),
            follow=asked["follow"],
            previous=asked["previous"],
            container=asked["container"],
        )
        form = (Events if events else Plain)(timestamps=asked["timestamps"])
        return Found(source, wanted, form, self.actor.user.pk)

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:  # noqa: ANN401  DRF's signature, asynchronous
        """Return the asynchronous view around the one that looks."""
        look = super().as_view(**initkwargs)

        async def logs(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:  # noqa: ANN401  what the address names
            found = await look_once(look, request, **kwargs)
            if not isinstance(found, Found):
                return found

            async def may_still() -> bool:
                return isinstance(await look_afresh(look, request, **kwargs), Found)

            return await _answer(found, may_still)

        return dress(logs, cls, initkwargs)


async def _answer(found: Found, may_still: Callable[[], Awaitable[bool]]) -> HttpResponseBase:
    """Read the first piece, so that what is wrong becomes an error with a status, then stream the rest."""
    form, told = found.form, Told(found, may_still)
    try:
        first = await told.first()
    except DomainError as error:
        if not isinstance(form, Events):
            raise
        # A browser's EventSource cannot read an error.
        first = form.note(error.code, error.detail) + form.end(ended=error.code in FINAL)
        told.over = True
    return Telling(told, first)


class Telling(StreamingHttpResponse):
    """The answer; whatever becomes of it, the log is left."""

    def __init__(self, told: "Told", first: str) -> None:
        """Begin with what has been read."""
        super().__init__(told.rest(first), content_type=told.form.content_type)
        self._told = told
        self.headers["Cache-Control"] = "no-store"
        self.headers["X-Accel-Buffering"] = "no"
        self.headers["X-Content-Type-Options"] = "nosniff"

    def close(self) -> None:
        """Leave the log, also where nothing of it was sent."""
        self._told.close()
        super().close()


class Told:
    """One log on its way to one reader."""

    def __init__(self, found: Found, may_still: Callable[[], Awaitable[bool]]) -> None:
        """Open nothing yet."""
        self.source, self.form, self.user = found.source, found.form, found.user
        self.over = False
        self._wanted, self._may_still = found.wanted, may_still
        self._reader: LogReader | None = None
        self._sent = 0
        self._seated = False

    async def first(self) -> str:
        """Return how it begins: the first piece, or the lines that were kept; raise what is wrong."""
        if not self.source.pod:
            why = f": {self.source.why_no_pod}" if self.source.why_no_pod else ""
            raise Conflict(f"Task {self.source.task} has no pod{why}.", code="log_not_yet")
        if not seats.take(self.user):
            raise TooManyAtOnce("Too many logs are open; close one and try again.", code="too_many_logs")
        self._seated = True
        try:
            return self._text(await asyncio.get_running_loop().run_in_executor(readers, self._open))
        except ClusterError as error:
            self.close()
            return self._without(error)
        except BaseException:
            self.close()
            raise

    async def rest(self, first: str) -> AsyncGenerator[str]:
        """Yield the beginning and all that follows it."""
        try:
            yield first
            if self.over or self._reader is None:
                return
            clock = asyncio.get_running_loop().time
            ends, check_at = clock() + FOLLOW_SECONDS, clock() + CHECK_SECONDS
            while not self.over:
                reading = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(readers, self._next))
                while not reading.done():
                    await asyncio.wait({reading}, timeout=min(HEARTBEAT_SECONDS, max(0.01, check_at - clock())))
                    if clock() >= check_at:
                        check_at = clock() + CHECK_SECONDS
                        if not await self._may_still():
                            yield self._stop("bye", "You may not read this log any more.", ended=True)
                            return
                    if not reading.done():
                        yield self.form.quiet()
                yield self._piece(reading)
                if clock() >= ends or self._sent > MOST_BYTES:
                    yield self._stop("limit", "Cut here: ask again for what follows.", ended=False)
        finally:
            self.close()

    def _open(self) -> Piece | None:
        cluster = fleet.clusters().get(self.source.cluster)
        if cluster is None:
            raise Unreachable(f"no cluster is configured as {self.source.cluster}")
        self._reader = LogReader(cluster, self.source, self._wanted)
        return self._reader.read()

    def _next(self) -> Piece | None:
        return self._reader.read() if self._reader else None

    def _piece(self, reading: asyncio.Future[Piece | None]) -> str:
        try:
            return self._text(reading.result())
        except ClusterError:
            return self._stop("cluster_unreachable", f"Cluster {self.source.cluster} stopped answering.", ended=False)

    def _text(self, piece: Piece | None) -> str:
        if piece is None:
            self.over = True
            return self.form.end(ended=self.source.ended or not self._wanted.follow)
        cut = self.form.note("cut", "Older lines are cut.") if piece.cut else ""
        text = cut + self.form.lines(piece.lines)
        self._sent += len(text)
        return text

    def _stop(self, code: str, text: str, *, ended: bool) -> str:
        self.over = True
        return self.form.note(code, text) + self.form.end(ended=ended)

    def _without(self, error: ClusterError) -> str:
        """Return the kept lines where the log cannot be read; raise why it cannot where there are none."""
        self.over = True
        source = self.source
        gone = isinstance(error, NotThere)
        if isinstance(error, Refused) and not gone:
            raise Conflict(f"There is no such log (yet): {error}.", code="log_not_yet") from error
        why = "Its pod is gone" if gone else f"Cluster {source.cluster} does not answer"
        if source.kept is not None and source.kept.lines:
            text = f"{why}. These are the last lines, kept when the task failed."
            cut = self.form.note("cut", "Older lines are cut.") if source.kept.cut else ""
            lines = self.form.lines(Line(text=line) for line in source.kept.lines)
            return self.form.note("kept", text) + cut + lines + self.form.end(ended=True)
        if not gone:
            raise Unavailable(f"{why}, so this log cannot be read now.", code="cluster_unreachable") from error
        more = f" Nothing could be kept: {source.kept.error}." if source.kept and source.kept.error else KEPT_OF
        raise NotFound(f"The pod of task {source.task} is gone, and its log with it.{more}", code="log_gone") from error

    def close(self) -> None:
        """Leave the log and give the seat back; repeating it does nothing."""
        reader, self._reader = self._reader, None
        seated, self._seated = self._seated, False
        if reader is not None:
            reader.leave()
        if seated:
            seats.give_back(self.user)


def _after(request: Request, since: Stamp | None) -> Stamp | None:
    """Return the moment behind which lines are wanted: where a broken stream ended, else ``since``."""
    resumed = Stamp.read(request.headers.get("Last-Event-ID", ""))
    return resumed[0] if resumed else since
