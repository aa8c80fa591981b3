"""Who asks: a bearer token, or the session of a browser (with CSRF protection)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication

from tenants.errors import NotAuthenticated
from tenants.models import ApiToken, User
from tenants.services.tokens import PREFIX, digest, used

if TYPE_CHECKING:
    from datetime import datetime

    from rest_framework.request import Request

REALM = 'Bearer realm="tidegate"'


def token_owner(secret: str, *, now: datetime) -> ApiToken:
    """Return the live token that a secret belongs to, and note its use; raise NotAuthenticated otherwise."""
    token = None
    if secret.startswith(PREFIX) and secret.isascii():
        token = ApiToken.objects.select_related("user").filter(digest=digest(secret)).first()
    if token is None or not token.user.is_active:
        raise NotAuthenticated("This token is not known.", code="token_unknown")
    if token.revoked_at is not None:
        raise NotAuthenticated("This token was revoked.", code="token_revoked")
    if token.expires_at is not None and token.expires_at <= now:
        raise NotAuthenticated(f"This token expired at {token.expires_at.isoformat()}.", code="token_expired")
    used(token, now=now)
    return token


class BearerAuthentication(BaseAuthentication):
    """``Authorization: Bearer tg_…``; ``request.auth`` is the token."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """Return owner and token, or None where the request carries no Authorization header."""
        header = request.headers.get("Authorization", "")
        if not header:
            return None
        kind, _, secret = header.partition(" ")
        if kind.lower() != "bearer":
            raise NotAuthenticated("Send the token as 'Authorization: Bearer tg_…'.", code="token_missing")
        token = token_owner(secret.strip(), now=timezone.now())
        return token.user, token

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002  DRF's signature
        """Return what a 401 says about how to sign in."""
        return REALM


class BrowserAuthentication(SessionAuthentication):
    """The session of a page, for calls that pages make; writes need the CSRF token."""
