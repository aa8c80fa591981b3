"""The queue: in which order things start on a GPU type, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from queues import queries
from tenants import queries as tenants
from tenants.pages import Part, page, palette, signed_in
from tenants.permissions import Permission, actor_of, leaves_seen

if TYPE_CHECKING:
    from uuid import UUID

    from django.http import HttpRequest, HttpResponse

SHOWN = 200


@require_safe
@signed_in
def queue(request: HttpRequest) -> HttpResponse:
    """Show the order on one GPU type, the first where none is asked for."""
    by, now = actor_of(request), timezone.now()
    flavors = tenants.flavor_names(by)
    flavor = request.GET.get("flavor") or next(iter(flavors), "")
    team = request.GET.get("team", "")
    parts = {
        "fresh": Part(template="_partials/fresh.html", rows=lambda: {"freshness": queries.freshness()}, seconds=15),
        "order": Part(
            template="_partials/order.html",
            rows=lambda: {
                "order": queries.queue_order(by, flavor, now=now, limit=SHOWN, team=team) if flavor else None,
                "palette": palette(by),
            },
            topics=("jobs", "queue"),
        ),
    }
    context = {
        "now": now,
        "flavors": flavors,
        "flavor": flavor,
        "team": team,
        "teams": sorted(team.name for team in leaves_seen(by, Permission.VIEW_JOB)),
    }
    return page(request, "portal/queue.html", context, parts)


@require_safe
@signed_in
def why(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Explain one waiting job: the fragment that a row of the queue opens."""
    by, now = actor_of(request), timezone.now()
    explanation = queries.explain(by, uid, now=now)
    return render(request, "_partials/why.html", {"why": explanation, "now": now, "uid": uid})
