"""Versions of things as ETags: a write says which version it changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tenants.errors import PreconditionRequired, Stale

if TYPE_CHECKING:
    from rest_framework.request import Request

TAG = re.compile(r'(?:W/)?"v(\d{1,9})"')


def etag(version: int) -> str:
    """Return the ETag of a version."""
    return f'"v{version}"'


def wanted_version(request: Request) -> int | None:
    """Return the version that If-Match names, None for ``*``; raise PreconditionRequired without the header."""
    header = request.headers.get("If-Match", "").strip()
    if not header:
        raise PreconditionRequired("Send If-Match with the ETag that you read ('*' overwrites whatever is there).")
    if header == "*":
        return None
    found = TAG.fullmatch(header)
    if found is None:
        raise Stale(f"If-Match {header[:80]} is no ETag of this address.", code="bad_etag")
    return int(found[1])
