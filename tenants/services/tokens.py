"""Verbs about one's own bearer tokens.

Only a token with the scope ``admin`` makes others, so none can make one that may do more than itself.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Q

from tenants import checks, queries
from tenants.changes import Change, ChangeKind, made
from tenants.errors import Invalid, NotAllowed, NotFound
from tenants.models import ApiToken
from tenants.permissions import Actor, Permission, Scope, below, require

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

PREFIX = "tg_"
VISIBLE = 9  # characters of a token that may be shown afterwards
USED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token and its secret, which nobody can read again."""

    token: ApiToken
    secret: str


def digest(secret: str) -> str:
    """Return what is stored of a token: 256 random bits need no salt."""
    return hashlib.sha256(secret.encode()).hexdigest()


def create_token(
    *,
    by: Actor,
    now: datetime,
    name: str,
    scopes: Iterable[str],
    team: str | None = None,
    expires_at: datetime | None = None,
) -> NewToken:
    """Make a token of one's own with some scopes, perhaps for one team and those below only."""
    require(by, Permission.EDIT_TOKENS)
    wanted = _checked_scopes(scopes)
    checks.text(name, pointer="/name", longest=100)
    if not name.strip():
        raise Invalid.field("/name", "Give the token a name that says what uses it.", code="blank")
    if expires_at is not None and expires_at <= now:
        raise Invalid.field("/expires_at", "This is in the past.", code="in_the_past", given=expires_at.isoformat())
    limit = queries.team(team, by=by) if team is not None else None
    if by.team_id is not None and (limit is None or not below(by.team_id).filter(id=limit.id).exists()):
        raise NotAllowed("This token is for one team, and so are all that it makes.", code="token_team_limit")
    secret = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        row = ApiToken.objects.create(
            user=by.user,
            name=name,
            prefix=secret[:VISIBLE],
            digest=digest(secret),
            scopes=wanted,
            team=limit,
            created_at=now,
            expires_at=expires_at,
        )
        _made(row, kind=ChangeKind.TOKEN_CREATED, by=by, now=now, after=picture(row))
    return NewToken(token=row, secret=secret)


def rotate_token(*, by: Actor, now: datetime, token_id: int) -> NewToken:
    """Give a token a new secret; the old one stops at once."""
    require(by, Permission.EDIT_TOKENS)
    secret = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        row = _own(token_id, by=by)
        if row.expires_at is not None and row.expires_at <= now:
            raise Invalid.field("/expires_at", "This token has expired: make a new one.", code="expired")
        before = picture(row)
        row.prefix, row.digest, row.last_used_at = secret[:VISIBLE], digest(secret), None
        row.save(update_fields=["prefix", "digest", "last_used_at"])
        _made(row, kind=ChangeKind.TOKEN_ROTATED, by=by, now=now, before=before, after=picture(row))
    return NewToken(token=row, secret=secret)


def revoke_token(*, by: Actor, now: datetime, token_id: int) -> None:
    """End a token at once and for ever."""
    require(by, Permission.EDIT_TOKENS)
    with transaction.atomic():
        row = _own(token_id, by=by)
        row.revoked_at = now
        row.save(update_fields=["revoked_at"])
        _made(row, kind=ChangeKind.TOKEN_REVOKED, by=by, now=now, before=picture(row))


def used(token: ApiToken, *, now: datetime) -> None:
    """Note that a token was used, at most once a minute."""
    if token.last_used_at is None or token.last_used_at <= now - USED_EVERY:
        stale = Q(last_used_at=None) | Q(last_used_at__lte=now - USED_EVERY)
        ApiToken.objects.filter(stale, id=token.id).update(last_used_at=now)


def picture(row: ApiToken) -> dict[str, Any]:
    """Return a token as the audit shows it: never its secret."""
    return {
        "name": row.name,
        "prefix": row.prefix,
        "scopes": row.scopes,
        "team": row.team.name if row.team else None,
        "expires_at": row.expires_at.isoformat() if row.expires_at else None,
    }


def _own(token_id: int, *, by: Actor) -> ApiToken:
    """Return one's own live token, locked; a token for one team reaches only tokens of that team and below."""
    tokens = ApiToken.objects.select_for_update(of=("self",)).select_related("team")
    tokens = tokens.filter(id=token_id, user=by.user, revoked_at=None)
    if by.team_id is not None:
        tokens = tokens.filter(team__in=below(by.team_id))
    row = tokens.first()
    if row is None:
        raise NotFound("You have no such token.", code="unknown_token")
    return row


def _checked_scopes(scopes: Iterable[str]) -> list[str]:
    wanted = sorted(set(scopes))
    if not wanted:
        raise Invalid.field("/scopes", "Name at least one scope.", code="blank", allowed=list(Scope))
    for scope in wanted:
        checks.one_of(scope, list(Scope), pointer="/scopes")
    return wanted


def _made(
    row: ApiToken,
    *,
    kind: ChangeKind,
    by: Actor,
    now: datetime,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    target = f"{by.name}/{row.name}"
    made(Change(kind=kind, by=by, now=now, target=target, team=row.team, before=before, after=after))
