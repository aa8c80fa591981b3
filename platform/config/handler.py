"""The ASGI application: a plain view is answered whole in one thread, an asynchronous one on the loop.

Django would carry a plain view's request between loop and threads for each middleware, which cost as much as the view.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import lru_cache, partial
from inspect import iscoroutinefunction
from typing import IO, Any, cast

from django.conf import settings
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.core.signals import request_started
from django.http.response import HttpResponse, HttpResponseBase
from django.urls import Resolver404, resolve, set_script_prefix

from config.addresses import clean

THREADS = 32

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Handler(ASGIHandler):
    """Django's handler, with a short way for plain views: all middlewares, the view and the close in one thread."""

    def __init__(self) -> None:
        """Load the middlewares twice, for the loop and for threads."""
        super().__init__()
        self._plain = BaseHandler()
        self._plain.load_middleware()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="request")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or takes_its_time(scope["path"]):
            await super().__call__(scope, receive, send)
            return
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        # Each request has variables of its own.
        work = partial(copy_context().run, self._answer, scope, body)
        response = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        await self.send_response(response, send)

    def _answer(self, scope: Scope, body: IO[bytes]) -> HttpResponseBase:
        """Answer in this thread and give back what the request held; the answer is whole."""
        set_script_prefix(get_script_prefix(scope))
        request_started.send(sender=type(self), scope=scope)
        with body:
            request, refused = self.create_request(scope, body)
            response = self._plain.get_response(request) if request is not None else cast("HttpResponse", refused)
            response.close()
        return response


@lru_cache(maxsize=1000)
def takes_its_time(path: str) -> bool:
    """Tell whether what answers at a path is asynchronous: it waits or streams, as files do, and may hold no thread."""
    if path.startswith(settings.STATIC_URL):
        return True
    try:
        return iscoroutinefunction(resolve(clean(path)).func)
    except Resolver404:
        return False
