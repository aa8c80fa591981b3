"""Idempotency-Key: the same POST sent again is answered from the first answer and does nothing twice.

The work and its stored answer commit together, so a crash loses both and a repeat begins anew. Only successes are
stored: a refusal wrote nothing, and asking again is harmless.
"""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import connection, transaction
from django.http import HttpResponse, HttpResponseBase
from rest_framework.renderers import JSONRenderer

from tenants.errors import Conflict, Invalid, Unreadable
from tenants.models import IdempotentRequest, User

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from rest_framework.request import Request
    from rest_framework.response import Response

KEPT = timedelta(hours=24)
FORGOTTEN = timedelta(hours=48)
KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?")
STORED_HEADERS = ("Location", "ETag")


class StillRunning(Conflict):
    """The first request with this key has not been answered yet."""

    code = "still_running"
    retry_after = 1


def once(
    request: Request, handler: Callable[[], Response], *, now: datetime, secrets: tuple[str, ...] = ()
) -> HttpResponseBase:
    """Run a POST once per user and key. ``secrets`` are fields of the answer that are shown once and never stored."""
    key = request.headers["Idempotency-Key"]
    user = request.user
    if not isinstance(user, User):
        return handler()
    if not KEY.fullmatch(key):
        raise Unreadable("An Idempotency-Key has 1 to 255 printable ASCII characters.", code="bad_idempotency_key")
    print_ = fingerprint(request)
    with transaction.atomic():
        if not _locked(user, key):
            raise StillRunning("The first request with this Idempotency-Key is still running.")
        stored = IdempotentRequest.objects.filter(user=user, key=key).first()
        if stored is not None and stored.created_at > now - KEPT:
            return _replay(stored, print_)
        response = handler()
        if response.status_code < 300:  # noqa: PLR2004  HTTP's successes
            _store(response, user=user, key=key, fingerprint=print_, now=now, secrets=secrets)
    return response


def fingerprint(request: Request) -> str:
    """Return the digest of method, address and body."""
    head = f"{request.method} {request.get_full_path()}\n"
    return hashlib.sha256(head.encode() + request._request.body).hexdigest()  # noqa: SLF001  the bytes before parsing


def _locked(user: User, key: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 1))", [f"{user.pk}:{key}"])
        return bool(cursor.fetchone()[0])


def _replay(stored: IdempotentRequest, print_: str) -> HttpResponse:
    if stored.fingerprint != print_:
        raise Invalid(
            "This Idempotency-Key was used for another request within the last 24 hours.", code="idempotency_key_reused"
        )
    headers = {**stored.headers, "Idempotency-Replayed": "true"}
    return HttpResponse(stored.body, status=stored.status, content_type="application/json", headers=headers)


def _store(
    response: Response, *, user: User, key: str, fingerprint: str, now: datetime, secrets: tuple[str, ...]
) -> None:
    IdempotentRequest.objects.filter(user=user, created_at__lt=now - FORGOTTEN).delete()
    data: Any = response.data
    if secrets and isinstance(data, dict):
        data = {**data, **dict.fromkeys(secrets)}
    values = {
        "fingerprint": fingerprint,
        "created_at": now,
        "status": response.status_code,
        "headers": {name: response[name] for name in STORED_HEADERS if name in response},
        "body": "" if data is None else JSONRenderer().render(data).decode(),
    }
    IdempotentRequest.objects.update_or_create(user=user, key=key, defaults=values)
