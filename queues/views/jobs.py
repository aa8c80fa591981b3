"""The list of jobs with its filters in the URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import QueryDict
from django.utils import timezone
from django.views.decorators.http import require_safe

from queues import queries
from queues.queries.filters import JobFilter
from queues.states import JobState
from tenants import queries as tenants
from tenants.errors import Unreadable
from tenants.pages import Part, page, palette, signed_in
from tenants.permissions import Permission, actor_of, leaves_seen

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

PAGE = 50
VIEWS = (
    ("Mine, active", "owner=me&state=active"),
    ("Mine", "owner=me&view=mine"),
    ("All active", "state=active"),
    ("All", "view=all"),
)
FILTERS = ("state", "team", "owner", "label", "gpu_type", "queue", "q", "external_id", "view")


def wanted(params: QueryDict) -> tuple[JobFilter, str]:
    """Return the filter that a URL asks for, and what is wrong with it; without parameters one's own active jobs."""
    if not any(key in params for key in FILTERS):
        params = QueryDict(VIEWS[0][1])
    try:
        return JobFilter.read(params), ""
    except Unreadable as error:
        return JobFilter(owner="me"), error.detail


def position(params: QueryDict, key: str) -> int | None:
    """Return a page position of the URL; one that is no number is none."""
    text = params.get(key, "")
    return int(text) if text.isdecimal() and len(text) < 19 else None  # noqa: PLR2004  digits of a big integer


@require_safe
@signed_in
def jobs(request: HttpRequest) -> HttpResponse:
    """Show a page of jobs."""
    by, now = actor_of(request), timezone.now()
    asked, wrong = wanted(request.GET)
    before, after = position(request.GET, "before"), position(request.GET, "after")
    parts = {
        "list": Part(
            template="_partials/jobs.html",
            rows=lambda: {
                "jobs": queries.jobs(by, asked, now=now, limit=PAGE, before=before, after=after),
                "palette": palette(by),
                "may_change": bool(leaves_seen(by, Permission.CHANGE_OWN_JOB)),
            },
            topics=("jobs",),
        )
    }
    current = request.GET.urlencode() or VIEWS[0][1]
    context = {
        "now": now,
        "asked": asked,
        "wrong": wrong,
        "params": dict(asked.params()),
        "query": request.GET.urlencode() or VIEWS[0][1],
        "narrowed": bool(asked.text or asked.gpu_types or asked.labels or asked.queue or asked.external_id or before),
        "views": [(title, query, current == query) for title, query in VIEWS],
        "states": list(JobState),
        "teams": sorted(team.name for team in leaves_seen(by, Permission.VIEW_JOB)),
        "flavors": tenants.flavor_names(by),
    }
    return page(request, "portal/jobs.html", context, parts)
