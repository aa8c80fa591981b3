"""What every page does: let in who is signed in, show live parts alone or in the page, and come back after a change."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, cast
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotModified, HttpResponseRedirect
from django.shortcuts import render, resolve_url
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.utils.safestring import SafeString, mark_safe
from django_htmx.http import HttpResponseClientRedirect

from tenants.errors import DomainError, NotFound
from tenants.look import look
from tenants.models import User
from tenants.permissions import Actor, actor_of, leaves_seen

if TYPE_CHECKING:
    from django.template.context import Context

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]
HUES = 8
MOST_TYPED = 100
SAFE = ("GET", "HEAD")
TOKEN = re.compile(r'(name="csrfmiddlewaretoken" value=")[^"]*')


def signed_in(view: View[P]) -> View[P]:
    """Let a view be seen by people who are signed in; a fragment sends the whole page to the sign-in."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if isinstance(request.user, User):
            with look() if request.method in SAFE else nullcontext():
                return view(request, *args, **kwargs)
        if request.headers.get("HX-Request"):
            page = urlsplit(request.headers.get("HX-Current-URL", ""))
            there = page.path + (f"?{page.query}" if page.query else "")
            return HttpResponseClientRedirect(f"{resolve_url('login')}?{urlencode({'next': there or '/'})}")
        return redirect_to_login(request.get_full_path() if request.method == "GET" else "/")

    return cast("View[P]", guarded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A fragment, fetched again when one of ``topics`` moves or every ``seconds``; ``rows`` makes its context."""

    template: str
    rows: Callable[[], Mapping[str, Any]]
    topics: tuple[str, ...] = ()
    seconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The live fragments of a page by name."""

    by_name: Mapping[str, Part]

    @property
    def topics(self) -> str:
        """Return all topics of the page, for its one stream."""
        return " ".join(sorted({topic for part in self.by_name.values() for topic in part.topics}))

    def html(self, name: str, request: HttpRequest, context: Mapping[str, Any]) -> str:
        """Return a fragment."""
        part = self.by_name[name]
        return render_to_string(part.template, {**context, **part.rows()}, request)

    def frame(self, name: str, context: Context) -> SafeString:
        """Return a fragment inside the element that fetches it again."""
        part, request = self.by_name[name], context["request"]
        params = request.GET.copy()
        params["part"] = name
        return format_html(
            '<div class="live" id="live-{}" data-on="{}" data-every="{}" data-url="{}?{}">{}</div>',
            name,
            " ".join(part.topics),
            part.seconds or "",
            request.path,
            params.urlencode(),
            mark_safe(self.html(name, request, cast("dict[str, Any]", context.flatten()))),  # noqa: S308  a rendered template
        )


def page(
    request: HttpRequest, template: str, context: Mapping[str, Any], parts: Mapping[str, Part] | None = None
) -> HttpResponse:
    """Answer with the page, or where ``part`` is asked for with that fragment alone, if it has changed."""
    fragments = Parts(by_name=parts or {})
    name = request.GET.get("part", "")
    if not name:
        made = context["now"].timestamp() if "now" in context else 0
        live = {"topics": fragments.topics, "since": f"{made:.3f}"}
        response = render(request, template, {**context, "parts": fragments, **live})
        response.headers["Cache-Control"] = "private, no-cache"
        return response
    if name not in fragments.by_name:
        raise NotFound(f"This page has no part {name!r}.")
    html = fragments.html(name, request, context)
    etag = '"' + hashlib.sha256(TOKEN.sub(r"\1", html).encode()).hexdigest()[:20] + '"'
    same = request.headers.get("If-None-Match") == etag
    response = HttpResponseNotModified() if same else HttpResponse(html)
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = "no-store"
    return response


def change(
    request: HttpRequest, do: Callable[[Actor], object], done: str, *, back: str = "", typed: Iterable[str] = ()
) -> HttpResponse:
    """Do one change, say what came of it, and go back to where the form says, or to ``back``.

    Where it is refused the page gets back what was ``typed`` in these fields.
    """
    try:
        do(actor_of(request))
    except DomainError as error:
        if isinstance(error, NotFound):
            raise
        messages.error(request, error.detail)
        return HttpResponseRedirect(with_typed(request, next_page(request, back), typed))
    messages.success(request, done)
    return HttpResponseRedirect(next_page(request, back))


def with_typed(request: HttpRequest, address: str, fields: Iterable[str]) -> str:
    """Return the address of a page that shows what was typed in some fields of a form once more."""
    typed = {field: request.POST[field][:MOST_TYPED] for field in fields if field in request.POST}
    parts = urlsplit(address)
    return parts._replace(query="&".join(filter(None, (parts.query, urlencode(typed))))).geturl()


def next_page(request: HttpRequest, otherwise: str = "") -> str:
    """Return the page of our own that a form names to go on to."""
    wanted = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure()):
        return wanted
    return otherwise or resolve_url("overview")


def palette(by: Actor) -> dict[str, str]:
    """Return a colour class for each team that the reader sees, in order of creation, so that a team keeps its own."""
    return {team.name: f"c{number % HUES}" for number, team in enumerate(leaves_seen(by))}
