"""What the last cycles decided, for those who look after the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone
from django.views.decorators.http import require_safe

from queues import queries
from queues.views.drawing import spans
from queues.views.jobs import position
from tenants.pages import Part, page, palette, signed_in
from tenants.permissions import Permission, actor_of, require

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

PAGE = 50


@require_safe
@signed_in
def decisions(request: HttpRequest) -> HttpResponse:
    """Show the last cycles, newest first."""
    by, now = actor_of(request), timezone.now()
    before, busy = position(request.GET, "before"), request.GET.get("busy") == "1"
    parts = {
        "fresh": Part(template="_partials/fresh.html", rows=lambda: {"freshness": queries.freshness()}, seconds=15),
        "list": Part(
            template="_partials/decisions.html",
            rows=lambda: {"decisions": queries.decisions(by, limit=PAGE, before=before, busy=busy), "page_size": PAGE},
            topics=("decisions",),
            seconds=0 if before else 15,
        ),
    }
    return page(request, "portal/decisions.html", {"now": now, "busy": busy, "before": before}, parts)


@require_safe
@signed_in
def evictions(request: HttpRequest, team: str = "") -> HttpResponse:
    """Show who had to go for whom: of all teams to those who look after the loop, or what concerns one team."""
    by, now = actor_of(request), timezone.now()
    if not team:
        require(by, Permission.VIEW_DECISIONS)
    before = position(request.GET, "before")
    parts = {
        "list": Part(
            template="_partials/evictions.html",
            rows=lambda: {
                "evictions": queries.evictions(by, team=team, limit=PAGE, before=before),
                "page_size": PAGE,
                "palette": palette(by),
            },
            topics=("decisions",) if not team else ("jobs", f"team:{team}"),
        ),
    }
    return page(request, "portal/evictions.html", {"now": now, "before": before, "team": team}, parts)


@require_safe
@signed_in
def decision(request: HttpRequest, cycle: int) -> HttpResponse:
    """Show one cycle with what it admitted."""
    by = actor_of(request)
    found = queries.decision(by, cycle)
    pieces = [
        (value, f"s{place % 6}", f"{name}: {value} ms")
        for place, (name, value) in enumerate(found.row.durations.items())
    ]
    context = {
        "now": timezone.now(),
        "decision": found,
        "row": found.row,
        "spans": spans(pieces, sum(found.row.durations.values()) or 1),
        "palette": palette(by),
    }
    return page(request, "portal/decision.html", context)
