"""What every request gets on arrival: a number, and an address that is clean."""

from __future__ import annotations

import re
import uuid
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from asgiref.sync import markcoroutinefunction

from config import errors
from config.addresses import clean
from tenants.errors import Unreadable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from django.http import HttpRequest, HttpResponse, HttpResponseBase

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Arrival:
    """The outermost middleware: ``request.request_id``, a slash at the end that does not matter to the API, no NUL."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        """Stand before the rest."""
        self.get_response = get_response
        self.asynchronous = iscoroutinefunction(get_response)
        if self.asynchronous:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Number the request, answer it, and put the number on the answer."""
        number(request)
        if self.asynchronous:
            return self._later(request)
        return leave(request, refuse(request) or self.get_response(request))

    async def _later(self, request: HttpRequest) -> HttpResponseBase:
        return leave(request, refuse(request) or await self.get_response(request))

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Translate what a page's view raised; None leaves what nobody anticipated to handler500."""
        return errors.translate(request, error)


def number(request: HttpRequest) -> None:
    """Take over a sensible X-Request-ID, or make one; the log uses the same."""
    given = request.META.get("HTTP_X_REQUEST_ID", "")  # request.headers would keep the first value for the log
    request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
    request.META["HTTP_X_REQUEST_ID"] = request_id
    request.request_id = request_id  # type: ignore[attr-defined]


def refuse(request: HttpRequest) -> HttpResponse | None:
    """Refuse an address that no table can be asked about, and drop the slash at the end of an API's address."""
    if "\0" in request.path_info or "%00" in request.META.get("QUERY_STRING", ""):
        return errors.answer(request, Unreadable("The address has a NUL character.", code="bad_character"))
    request.path_info = clean(request.path_info)
    return None


def leave(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Put the number on the answer."""
    response.headers["X-Request-ID"] = request.request_id  # type: ignore[attr-defined]
    return response
