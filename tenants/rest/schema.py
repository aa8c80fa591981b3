"""What the OpenAPI document says beyond the views: sign-in, pages, problems, headers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers

from tenants.rest.pages import MOST, USUAL

PREFIX = "/api/v1/"
UNSAFE = frozenset({"post", "put", "patch", "delete"})
IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, required=True, description="The ETag that you read, or *."
)
PAGING = [
    OpenApiParameter("limit", int, description=f"Rows of a page: 1 to {MOST}, {USUAL} if absent."),
    OpenApiParameter("cursor", str, description="Where the page begins; taken from next and prev."),
    OpenApiParameter("count", str, enum=["none", "exact"], description="Whether to count all rows."),
]


class WarningOut(serializers.Serializer[Any]):
    """A warning that goes with an accepted change."""

    code = serializers.CharField()
    detail = serializers.CharField()


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How BearerAuthentication is written down."""

    target_class = "tenants.rest.authentication.BearerAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, Any]:  # noqa: ARG002  the extension's signature
        """Return the scheme."""
        return {"type": "http", "scheme": "bearer", "bearerFormat": "tg_…"}


class BrowserScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How BrowserAuthentication is written down."""

    target_class = "tenants.rest.authentication.BrowserAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: object) -> dict[str, Any]:  # noqa: ARG002  the extension's signature
        """Return the scheme."""
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}


@lru_cache
def paged(row: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """Return the shape of a page of rows."""
    name = row.__name__.removesuffix("Out") + "Page"
    fields = {
        "items": row(many=True),
        "next": serializers.URLField(allow_null=True),
        "prev": serializers.URLField(allow_null=True),
        "count": serializers.IntegerField(allow_null=True),
    }
    return inline_serializer(name, fields)


def only_ours(endpoints: list[tuple[str, str, str, Any]], **_: object) -> list[tuple[str, str, str, Any]]:
    """Keep the addresses of the API (a hook of drf-spectacular)."""
    return [each for each in endpoints if each[0].startswith(PREFIX)]


def add_problems(result: dict[str, Any], generator: Any, request: object, public: bool) -> dict[str, Any]:  # noqa: ANN401, FBT001  the hook's signature
    """Add to every operation how it refuses, and to every POST its Idempotency-Key (a hook of drf-spectacular)."""
    del generator, request, public
    schemas = result["components"].setdefault("schemas", {})
    schemas["Problem"] = PROBLEM_SCHEMA
    refusal = {
        "description": "Refused; `code` says why, /api/errors/{kind} what it means.",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for path in result["paths"].values():
        for method, operation in path.items():
            if isinstance(operation, dict) and "responses" in operation:
                operation["responses"]["default"] = refusal
                if method == "post":
                    operation.setdefault("parameters", []).append(KEY_PARAMETER)
    return result


KEY_PARAMETER = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": "The same key and request within 24 h are answered from the first answer.",
}
TEXT = {"type": "string"}
PROBLEM_SCHEMA = {
    "type": "object",
    "description": "Why a request was refused (RFC 9457).",
    "required": ["type", "title", "status", "detail", "instance", "code", "request_id", "errors", "hints"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT,
        "instance": TEXT,
        "code": TEXT,
        "request_id": TEXT,
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "code", "detail"],
                "properties": {
                    "pointer": TEXT,
                    "code": TEXT,
                    "detail": TEXT,
                    "given": {},
                    "allowed": {"type": "array"},
                },
            },
        },
        "hints": {
            "type": "array",
            "items": {"type": "object", "properties": {"action": TEXT, "href": TEXT}},
        },
    },
}
