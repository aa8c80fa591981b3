"""One job: why it stands where it stands, what it did, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from queues import queries, services
from queues.spec import hidden
from queues.states import JobState
from queues.views.phases import tracks
from queues.yamltext import dump
from tenants.pages import Part, change, page, palette, signed_in
from tenants.permissions import actor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from uuid import UUID

    from django.http import HttpRequest

    from queues.models import Job
    from queues.queries.rows.history import AttemptRow
    from queues.queries.rows.jobs import JobDetail
    from tenants.permissions import Actor

SHOWN_EVICTIONS = 5
DIGITS = 10
TABS = ("tasks", "logs", "events", "spec")
WAITING = frozenset({JobState.QUEUED, JobState.HELD})
DONE = {
    "cancel": "Cancelled. Where pods still run, they are being stopped.",
    "hold": "Held. It starts only after a release.",
    "release": "Released. It waits again.",
}


@require_safe
@signed_in
def job(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Show one job; the tab is in the URL."""
    by, now = actor_of(request), timezone.now()
    detail = queries.job(by, uid, now=now, position=False)
    history = queries.attempts(by, uid)
    tab = request.GET.get("tab", "")
    tab = tab if tab in TABS else TABS[0]
    moving = (f"job:{uid}",)
    parts = {
        "now": Part(
            template="_partials/job_now.html",
            rows=lambda: {
                "why": queries.explain(by, uid, now=now) if detail.row.state == JobState.QUEUED else None,
                "tracks": tracks(detail, history, now),
                "evictions": queries.evictions(by, job=uid, limit=SHOWN_EVICTIONS),
                "lines": queries.last_lines(by, uid) if detail.row.state == JobState.FAILED else None,
            },
            topics=(*moving, *(("queue",) if detail.row.state in WAITING else ())),
        ),
    }
    # A log moves by itself: drawn anew it would lose its place.
    if tab != "logs":
        parts[tab] = Part(template=f"_partials/job_{tab}.html", rows=lambda: tab_rows(by, detail, tab), topics=moving)
    context = {
        "now": now,
        "job": detail,
        "row": detail.row,
        "attempts": history,
        "saved_at": last_saved(history),
        "tab": tab,
        "tab_title": tab,
        "palette": palette(by),
        "api_href": f"/api/v1/jobs/{uid}",
        **(log_rows(request, by, uid) if tab == "logs" else {}),
        "curl": f'curl -H "Authorization: Bearer $TIDEGATE_TOKEN" {request.build_absolute_uri(f"/api/v1/jobs/{uid}")}',
    }
    return page(request, "portal/job.html", context, parts)


def last_saved(history: Iterable[AttemptRow]) -> datetime | None:
    """Return when a running task last reported a checkpoint."""
    tasks = (task for attempt in history for wave in attempt.waves for task in wave.tasks)
    return max((task.saved_at for task in tasks if task.saved_at and not task.ended_at), default=None)


def tab_rows(by: Actor, detail: JobDetail, tab: str) -> dict[str, object]:
    """Return what a tab shows beyond the job and its attempts."""
    uid = detail.row.uid
    if tab == "events":
        return {"events": queries.events(by, uid, newest_first=True)}
    if tab == "spec":
        found = queries.manifest(by, uid)
        manifest = yaml.safe_dump_all(found.objects, sort_keys=False, allow_unicode=True)
        hides = next(hidden.credentials(detail.spec), None) is not None
        return {"spec": dump(detail.spec), "manifest": manifest, "changed": found.changed, "hides": hides}
    return {}


def log_rows(request: HttpRequest, by: Actor, uid: UUID) -> dict[str, object]:
    """Return which log the tab shows: the one that the URL names, else the one that people most likely want."""
    wanted = {name: number(request.GET.get(name, "")) for name in ("attempt", "task")}
    source = queries.log_source_or_none(by, uid, **wanted) or queries.log_source_or_none(by, uid)
    if source is None:
        return {"log": None}
    params: dict[str, str | int] = {"attempt": source.attempt, "task": source.task}
    for name in ("container", "previous"):
        if request.GET.get(name):
            params[name] = request.GET[name]
    return {
        "log": {
            "task": source.task,
            "attempt": source.attempt,
            "ended": source.ended,
            "address": f"/api/v1/jobs/{uid}/logs?{urlencode(params)}",
        },
        "choices": queries.log_choices(by, uid, attempt=source.attempt),
        "container": request.GET.get("container", ""),
        "previous": request.GET.get("previous") == "true",
    }


def number(text: str) -> int | None:
    """Return a small whole number of a URL; None where it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < DIGITS else None


@require_POST
@signed_in
def act(request: HttpRequest, uid: UUID, verb: str) -> HttpResponse:
    """Cancel, hold or release a job."""
    verbs: dict[str, Callable[..., Job]] = {
        "cancel": services.cancel,
        "hold": services.hold,
        "release": services.release,
    }
    do = verbs[verb]
    return change(
        request, lambda by: do(uid=uid, by=by, now=timezone.now()), DONE[verb], back=reverse("job", args=[uid])
    )


@require_POST
@signed_in
def rerun(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Queue the same job again, as one's own."""
    made: list[UUID] = []

    def again(by: Actor) -> None:
        made.append(services.rerun(uid=uid, by=by, now=timezone.now()).job.uid)

    answer = change(request, again, "Queued again as a new job.", back=reverse("job", args=[uid]))
    return HttpResponseRedirect(reverse("job", args=made)) if made else answer
