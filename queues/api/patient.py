"""Addresses that take their time: a REST view looks in a thread, and between looks nothing is held."""

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.db import connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase

Look = Callable[..., HttpResponseBase]
AsyncView = Callable[..., Awaitable[HttpResponseBase]]


async def look_once(look: Look, request: HttpRequest, **kwargs: object) -> HttpResponseBase:
    """Run a view in a thread and give its database connection back."""
    return await sync_to_async(_look)(look, request, **kwargs)


async def look_afresh(look: Look, request: HttpRequest, **kwargs: object) -> HttpResponseBase:
    """Run a view as for a new request: who asks, and what they may, is read again."""

    def run() -> HttpResponseBase:
        if hasattr(request, "session"):
            request.session = import_module(settings.SESSION_ENGINE).SessionStore(request.session.session_key)
            request.user = get_user(request)
        return _look(look, request, **kwargs)

    return await sync_to_async(run)()


def dress(view: Any, like: type, initkwargs: dict[str, Any]) -> Any:  # noqa: ANN401  a function with attributes
    """Give an asynchronous view what the document's writer and the CSRF check read from a REST view."""
    view.cls, view.initkwargs, view.csrf_exempt = like, initkwargs, True
    return view


def _look(look: Look, request: HttpRequest, **kwargs: object) -> HttpResponseBase:
    try:
        return look(request, **kwargs)
    finally:
        if not connection.in_atomic_block:
            connection.close()
