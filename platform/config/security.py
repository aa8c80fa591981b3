"""The content security policy of every answer: nothing inline, nothing from elsewhere."""

from collections.abc import Awaitable, Callable
from typing import cast

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; "
    "img-src 'self' data:"
)
Sync = Callable[[HttpRequest], HttpResponseBase]
Async = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@sync_and_async_middleware
def content_security_policy(get_response: Sync | Async) -> Sync | Async:
    """Say what a page may load, in a way that suits both the sync and the async stack."""
    if iscoroutinefunction(get_response):

        async def answer(request: HttpRequest) -> HttpResponseBase:
            return guarded(await cast("Async", get_response)(request))

        return answer
    return lambda request: guarded(cast("Sync", get_response)(request))


def guarded(response: HttpResponseBase) -> HttpResponseBase:
    """Add the policy unless a view has set its own."""
    response.headers.setdefault("Content-Security-Policy", POLICY)
    return response
