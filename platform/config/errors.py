"""Errors, translated once: problem+json (RFC 9457) for the API, a page for people."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from rest_framework import exceptions

from config import wording
from config.addresses import is_for_programs
from tenants import errors as domain
from tenants.errors import DomainError, FieldError
from tenants.rest.authentication import REALM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

log = logging.getLogger(__name__)

PROBLEM = "application/problem+json"
RETRY_SECONDS = 5
LONGEST_GIVEN = 200
GONE = ("08", "53", "57", "40")  # SQLSTATE classes: connection, resources, operator, rolled back by the server
SECRET = re.compile(r"password|token|secret")
PAGES = {403: "403.html", 404: "404.html", 503: "503.html"}


class Failure(DomainError):
    """Nobody anticipated this; it is in the log under the request's number."""

    status = 500
    title = "Something broke on our side"
    code = "internal_error"


class MethodNotAllowed(DomainError):
    """The address exists, but not for this method; ``Allow`` names those it has."""

    status = 405
    title = "Method not allowed"
    code = "method_not_allowed"


class NotAcceptable(DomainError):
    """No form that ``Accept`` names can be produced here."""

    status = 406
    title = "No such form"
    code = "not_acceptable"


class UnsupportedMediaType(DomainError):
    """``Content-Type`` names a form that is not read here."""

    status = 415
    title = "This form is not read here"
    code = "unsupported_media_type"


class TooMany(DomainError):
    """Too many requests; ``Retry-After`` says when to go on."""

    status = 429
    title = "Too many requests"
    code = "too_many"


FROM_REST: tuple[tuple[type[Exception], type[DomainError]], ...] = (
    (exceptions.ParseError, domain.Unreadable),
    (exceptions.NotAuthenticated, domain.NotAuthenticated),
    (exceptions.AuthenticationFailed, domain.NotAuthenticated),
    (exceptions.PermissionDenied, domain.NotAllowed),
    (exceptions.NotFound, domain.NotFound),
    (exceptions.MethodNotAllowed, MethodNotAllowed),
    (exceptions.NotAcceptable, NotAcceptable),
    (exceptions.UnsupportedMediaType, UnsupportedMediaType),
    (exceptions.Throttled, TooMany),
)


def is_api(request: HttpRequest) -> bool:
    """Return whether a program asks, which wants problem+json."""
    return is_for_programs(request.path_info)


def handle(error: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """Answer what a REST view raised (DRF's EXCEPTION_HANDLER); None lets the unexpected go up."""
    request = context["request"]
    known = _of_rest(error, context) or as_domain(error, data=_data(request))
    if known is None:
        return None
    response = problem(request._request, known)  # noqa: SLF001  the request that carries the number
    wait = getattr(error, "wait", None) or getattr(known, "retry_after", None)
    if wait:
        response["Retry-After"] = str(int(wait))
    return response


def translate(request: HttpRequest, error: Exception) -> HttpResponse | None:
    """Answer what a page's view raised, or None where nobody anticipated it."""
    if isinstance(error, Http404 | PermissionDenied | SuspiciousOperation) and not is_api(request):
        return None
    known = as_domain(error)
    return answer(request, known) if known else None


def as_domain(error: BaseException | None, *, data: object = None) -> DomainError | None:
    """Return an error in the domain's words, or None where nobody anticipated it."""
    match error:
        case DomainError():
            return error
        case exceptions.ValidationError():
            return _invalid(error, data)
        case Http404():
            return domain.NotFound("There is nothing at this address.")
        case PermissionDenied():
            return domain.NotAllowed(str(error) or "This is not allowed.")
        case RequestDataTooBig():
            return domain.TooLarge("The body is too large.")
        case SuspiciousOperation():
            return domain.Unreadable("The request is malformed.")
        case OperationalError() | InterfaceError() if is_gone(error):
            log.warning("the database does not answer", exc_info=error)
            return domain.Unavailable("The database does not answer. Nothing was changed; try again.", code="database")
        case DataError() if "NUL" in str(error):
            return domain.Unreadable("A text has a NUL character.", code="bad_character")
    for rest, ours in FROM_REST:
        if isinstance(error, rest) and isinstance(error, exceptions.APIException):
            return ours(str(error.detail))
    return None


def _of_rest(error: Exception, context: dict[str, Any]) -> DomainError | None:
    """Return what REST framework itself refuses, with what is allowed at this address; None for all else."""
    request, view = context["request"], context.get("view")
    match error:
        case exceptions.MethodNotAllowed():
            allowed = getattr(view, "allowed_methods", ())
            return MethodNotAllowed(wording.method(str(request.method), sorted(set(allowed) - {"OPTIONS", "HEAD"})))
        case exceptions.UnsupportedMediaType():
            read = [parser.media_type for parser in getattr(view, "parser_classes", ())]
            return UnsupportedMediaType(wording.media_type(request.META.get("CONTENT_TYPE", ""), read))
        case exceptions.NotAcceptable():
            made = [renderer.media_type for renderer in getattr(view, "renderer_classes", ())]
            return NotAcceptable(wording.accepted(request.headers.get("Accept", ""), made))
        case exceptions.NotAuthenticated():
            return domain.NotAuthenticated(wording.WHO)
        case exceptions.Throttled():
            return TooMany(wording.throttled(getattr(error, "wait", None)))
        case _:
            return None


def is_gone(error: Exception) -> bool:
    """Return whether PostgreSQL could not be reached or gave the transaction up, so that trying again may help."""
    state = getattr(error.__cause__, "sqlstate", None)
    return state is None or state[:2] in GONE


def answer(request: HttpRequest, error: DomainError) -> HttpResponse:
    """Return an error as a problem or as a page, whoever asks."""
    return problem(request, error) if is_api(request) else page(request, error)


def problem(request: HttpRequest, error: DomainError) -> HttpResponse:
    """Return an error as application/problem+json."""
    request_id = getattr(request, "request_id", "")
    body = {
        "type": f"/api/errors/{kind(type(error))}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "instance": request.path,
        "code": error.code,
        "request_id": request_id,
        "errors": [_field(each) for each in error.fields],
        "hints": [{"action": hint.action, "href": hint.href} for hint in error.hints],
    }
    response = HttpResponse(
        json.dumps(body, ensure_ascii=False, default=str), status=error.status, content_type=PROBLEM
    )
    if error.status == domain.NotAuthenticated.status:
        response["WWW-Authenticate"] = REALM
    if error.status == domain.Unavailable.status:
        response["Retry-After"] = str(RETRY_SECONDS)
    response["Cache-Control"] = "no-store"
    return response


def page(request: HttpRequest, error: DomainError) -> HttpResponse:
    """Return an error as a page; those of servers in trouble ask no database."""
    template = PAGES.get(error.status, "500.html" if error.status == Failure.status else "error.html")
    context = {"detail": error.detail, "title": error.title, "request_id": getattr(request, "request_id", "")}
    asked = None if error.status >= Failure.status else request
    response = HttpResponse(render_to_string(template, context, request=asked), status=error.status)
    if error.status == domain.Unavailable.status:
        response["Retry-After"] = str(RETRY_SECONDS)
    return response


def kind(error: type[DomainError]) -> str:
    """Return the name of a class of errors in addresses."""
    return error.code


def kinds() -> dict[str, type[DomainError]]:
    """Return every class of errors that a problem's ``type`` can name."""
    return {kind(each): each for each in _below(DomainError)}


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Django's handler404."""
    del exception
    return answer(request, domain.NotFound("There is nothing at this address."))


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Django's handler403."""
    return answer(request, domain.NotAllowed(str(exception or "") or "This is not allowed."))


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Django's handler400."""
    return answer(request, as_domain(exception) or domain.Unreadable("The request is malformed."))


def broken(request: HttpRequest) -> HttpResponse:
    """Django's handler500: also for what a middleware met, such as a database that is gone."""
    known = as_domain(sys.exc_info()[1])
    return answer(request, known or Failure("Nothing was half saved. The log has the details under this number."))


def _below(parent: type[DomainError]) -> Iterator[type[DomainError]]:
    for each in parent.__subclasses__():
        yield each
        yield from _below(each)


def _data(request: Any) -> object:  # noqa: ANN401  DRF's request
    return getattr(request, "_full_data", None)


def _field(error: FieldError) -> dict[str, Any]:
    shown: dict[str, Any] = {"pointer": error.pointer, "code": error.code, "detail": error.detail}
    if error.given is not None and not SECRET.search(error.pointer):
        shown["given"] = _short(error.given)
    if error.allowed:
        shown["allowed"] = list(error.allowed)
    return shown


def _short(given: object) -> object:
    if isinstance(given, bool | int | float):
        return given
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_GIVEN else text[:LONGEST_GIVEN] + "…"


def _invalid(error: exceptions.ValidationError, data: object) -> domain.Invalid:
    fields = tuple(_leaves(error.detail, "", data))
    first = fields[0] if fields else None
    where = f"{first.pointer}: " if first and first.pointer else ""
    more = f" ({len(fields) - 1} more)" if len(fields) > 1 else ""
    return domain.Invalid(f"{where}{first.detail}{more}" if first else "A value is not allowed.", fields=fields)


def _leaves(detail: object, pointer: str, data: object) -> Iterator[FieldError]:
    """Yield each wrong field of DRF's nested details, with a JSON pointer and what was given there."""
    if isinstance(detail, dict):
        for key, inner in detail.items():
            step = "" if key == "non_field_errors" else "/" + str(key).replace("~", "~0").replace("/", "~1")
            yield from _leaves(inner, pointer + step, _at(data, key) if step else data)
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            if isinstance(inner, exceptions.ErrorDetail):
                words = wording.field(str(inner), pointer)
                yield FieldError(pointer=pointer, code=str(inner.code), detail=words, given=_scalar(data))
            else:
                yield from _leaves(inner, f"{pointer}/{index}", _at(data, index))
    else:
        words = wording.field(str(detail), pointer)
        yield FieldError(pointer=pointer, code="invalid", detail=words, given=_scalar(data))


def _at(data: object, key: object) -> object:
    if isinstance(data, dict):
        return data.get(key)
    if isinstance(data, list) and isinstance(key, int) and key < len(data):
        return data[key]
    return None


def _scalar(data: object) -> object:
    return data if isinstance(data, str | int | float | bool) else None


def explain(name: str) -> Mapping[str, object]:
    """Return what a class of errors means, for the address that a problem's ``type`` names."""
    found = kinds().get(name)
    if found is None:
        raise domain.NotFound(f"There is no kind of error {name[:80]!r}. Known are {', '.join(sorted(kinds()))}.")
    return {"kind": name, "title": found.title, "status": found.status, "meaning": (found.__doc__ or "").split("\n")[0]}
