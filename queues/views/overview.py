"""The first page: is there room, who uses what, is anything wrong."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from django.utils import timezone
from django.views.decorators.http import require_safe

from queues import queries
from queues.views.drawing import bar_groups, flavor_spans
from queues.views.map import gpu_map
from tenants.pages import Part, page, palette, signed_in
from tenants.permissions import actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


@require_safe
@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    """Show numbers per GPU type, team bars, the map, what needs attention and the last changes."""
    by, now = actor_of(request), timezone.now()
    rows, colours = cache(lambda: queries.overview(by, now=now)), cache(lambda: palette(by))
    mode, mine = request.GET.get("map", "team"), request.GET.get("mine") == "1"
    parts = {
        "fresh": Part(
            template="_partials/fresh.html",
            rows=lambda: {"freshness": rows().freshness if not request.GET.get("part") else queries.freshness()},
            seconds=15,
        ),
        "numbers": Part(
            template="_partials/numbers.html",
            rows=lambda: {"numbers": [(row, flavor_spans(row)) for row in rows().flavors]},
            topics=("jobs", "nodes", "teams"),
        ),
        "bars": Part(
            template="_partials/bars.html",
            rows=lambda: {
                "groups": bar_groups(row for row in rows().bars if not row.department),
                "loans": [row for row in rows().loans if row.borrowed and not row.department],
                "palette": colours(),
            },
            topics=("jobs", "nodes", "teams"),
        ),
        "map": Part(
            template="_partials/map.html",
            rows=lambda: {"map": gpu_map(queries.allocation(by), colours(), mode=mode, only_mine=mine)},
            topics=("jobs", "nodes"),
        ),
        "news": Part(
            template="_partials/news.html",
            rows=lambda: {"attention": rows().attention, "changes": rows().changes},
            topics=("jobs", "nodes"),
        ),
    }
    return page(request, "portal/overview.html", {"now": now}, parts)
