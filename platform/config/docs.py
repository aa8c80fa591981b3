"""The API's own documentation: its schema, a page that shows it, and what each kind of error means."""

from collections.abc import Callable
from functools import cache, wraps
from threading import Lock

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer

from config import wording
from config.errors import MethodNotAllowed, answer, explain, kinds
from tenants.errors import NotFound

# drf-spectacular finds its extensions at the first schema, and fails where two threads do so at once.
making = Lock()


def only_read(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Refuse other methods as the rest of the API does; nothing is changed here, so no cookie is asked for first."""

    @csrf_exempt
    @wraps(view)
    def checked(request: HttpRequest, **values: str) -> HttpResponse:
        if request.method in {"GET", "HEAD"}:
            return view(request, **values)
        refused = answer(request, MethodNotAllowed(wording.method(str(request.method), ["GET"])))
        refused["Allow"] = "GET, HEAD"
        return refused

    return checked


@cache
def made() -> bytes:
    """Return the schema, which takes most of a second to make and stays the same as long as the process runs."""
    schema = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    return bytes(OpenApiJsonRenderer().render(schema))


@only_read
def schema(request: HttpRequest) -> HttpResponse:
    """Answer /api/v1/openapi.json."""
    del request
    with making:
        content = made()
    return HttpResponse(content, content_type=OpenApiJsonRenderer.media_type)


@only_read
def docs(request: HttpRequest) -> HttpResponse:
    """Show the schema with Swagger's viewer, which comes from our own origin."""
    return render(request, "api_docs.html")


@only_read
def error_kinds(request: HttpRequest) -> HttpResponse:
    """List every kind of error that a problem's ``type`` names."""
    del request
    return JsonResponse({"items": [dict(explain(name)) for name in sorted(kinds())]})


@only_read
def error_kind(request: HttpRequest, name: str) -> HttpResponse:
    """Explain one kind of error."""
    del request
    return JsonResponse(dict(explain(name)))


@csrf_exempt  # it changes nothing, and a client without cookies must read why it is wrong
def nothing(request: HttpRequest) -> HttpResponse:
    """Refuse every other address below /api."""
    raise NotFound(f"There is nothing at {request.path[:200]}. /api/docs lists what there is.")
