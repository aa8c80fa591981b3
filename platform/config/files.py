"""Static files, which are read on the loop; where there is none (a thread, a test's client) there are no files."""

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from servestatic.middleware import ServeStaticMiddleware

Sync = Callable[[HttpRequest], HttpResponseBase]
Async = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@sync_and_async_middleware
def static_files(get_response: Sync | Async) -> Sync | Async:
    """Serve files before the rest; a plain stack passes everything on, instead of going through a loop and back."""
    return ServeStaticMiddleware(get_response) if iscoroutinefunction(get_response) else get_response
