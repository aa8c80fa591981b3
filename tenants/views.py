"""One's own pages: signing in, tokens, theme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from tenants import queries, services
from tenants.errors import DomainError
from tenants.forms import TokenForm
from tenants.pages import change, next_page, signed_in
from tenants.permissions import actor_of, teams_seen

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest

    from tenants.permissions import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A token as its owner sees it again."""

    id: int
    name: str
    prefix: str
    scopes: tuple[str, ...]
    team: str
    last_used_at: datetime | None
    expires_at: datetime | None
    expired: bool


YEAR_SECONDS = 365 * 86400
THEMES = ("light", "dark")


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Remember light or dark in a cookie; anything else follows the system."""
    response = HttpResponseRedirect(next_page(request))
    wanted = request.POST.get("theme", "")
    if wanted in THEMES:
        response.set_cookie("theme", wanted, max_age=YEAR_SECONDS, samesite="Lax", secure=request.is_secure())
    else:
        response.delete_cookie("theme")
    return response


@never_cache
@require_http_methods(["GET", "POST"])
@signed_in
def tokens(request: HttpRequest) -> HttpResponse:
    """List one's tokens; make one, and show its secret this once."""
    by, now = actor_of(request), timezone.now()
    names = sorted(team.name for team in teams_seen(by))
    form = TokenForm(request.POST or None, teams=names)
    made = None
    if request.method == "POST" and form.is_valid():
        try:
            made = services.create_token(
                by=by,
                now=now,
                name=form.cleaned_data["name"],
                scopes=form.cleaned_data["scopes"],
                team=form.cleaned_data["team"] or None,
                expires_at=form.ends(now),
            )
            form = TokenForm(teams=names)
        except DomainError as error:
            form.add_error(None, error.detail)
    context = {"now": now, "form": form, "made": made, "tokens": token_rows(by, now)}
    return render(request, "portal/tokens.html", context, status=422 if form.errors else 200)


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Say in words why a form was not taken: it was open too long, or cookies are off."""
    del reason
    detail = "This form is out of date, or your browser keeps no cookies. Nothing was changed: load the page again."
    return render(request, "403.html", {"detail": detail}, status=403)


def token_rows(by: Actor, now: datetime) -> list[TokenRow]:
    """Return one's tokens that are not revoked, newest first."""
    return [
        TokenRow(
            id=token.id,
            name=token.name,
            prefix=token.prefix,
            scopes=tuple(token.scopes),
            team=token.team.name if token.team else "",
            last_used_at=token.last_used_at,
            expires_at=token.expires_at,
            expired=token.expires_at is not None and token.expires_at <= now,
        )
        for token in queries.tokens(by=by)
    ]


@require_POST
@signed_in
def revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    """Make a token of one's own worthless at once."""
    return change(
        request,
        lambda by: services.revoke_token(by=by, now=timezone.now(), token_id=token_id),
        "Revoked. Whatever used this token is refused from now on.",
        back=reverse("tokens"),
    )
