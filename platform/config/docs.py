"""The API's own documentation: its schema, a page that shows it, and what each kind of error means."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularAPIView

from config.errors import explain, kinds
from tenants.errors import NotFound


class SchemaView(SpectacularAPIView):
    """/api/v1/openapi.json."""

    authentication_classes = ()
    permission_classes = ()
    renderer_classes = [OpenApiJsonRenderer]  # noqa: RUF012  DRF's form


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """Show the schema with Swagger's viewer, which comes from our own origin."""
    return render(request, "api_docs.html")


@require_safe
def error_kinds(request: HttpRequest) -> HttpResponse:
    """List every kind of error that a problem's ``type`` names."""
    del request
    return JsonResponse({"items": [dict(explain(name)) for name in sorted(kinds())]})


@require_safe
def error_kind(request: HttpRequest, name: str) -> HttpResponse:
    """Explain one kind of error."""
    del request
    return JsonResponse(dict(explain(name)))


@csrf_exempt  # it changes nothing, and a client without cookies must read why it is wrong
def nothing(request: HttpRequest) -> HttpResponse:
    """Refuse every other address below /api."""
    raise NotFound(f"There is nothing at {request.path[:200]}. /api/docs lists what there is.")
