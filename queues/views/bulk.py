"""Cancel or hold many jobs at once: counted first, confirmed, with a result for each."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from queues import services
from queues.views.jobs import wanted
from tenants.pages import signed_in
from tenants.permissions import actor_of

if TYPE_CHECKING:
    from queues.services import ManyDone
    from tenants.permissions import Actor

TYPED_ABOVE = 20
NAMED = 10
VERBS = {"cancel": services.cancel_many, "hold": services.hold_many}
DONE = {"cancel": "cancelled", "hold": "held"}


@require_POST
@signed_in
def bulk(request: HttpRequest) -> HttpResponse:
    """Change the ticked jobs, or all that match; all, and many, are confirmed on a page of their own."""
    verb, query, every = request.POST.get("verb", ""), request.POST.get("query", ""), request.POST.get("every") == "1"
    back = f"{reverse('jobs')}?{query}"
    uids = () if every else tuple(uid for uid in map(uid_of, request.POST.getlist("uid")) if uid)
    if verb not in VERBS or not (uids or every):
        messages.error(request, "Tick at least one job first.")
        return HttpResponseRedirect(back)
    by = actor_of(request)
    plan = many(verb, by, uids, query, dry_run=True)
    count = sum(result.error is None for result in plan.results)
    if request.POST.get("count") == str(count) or (not every and count <= TYPED_ABOVE and "count" not in request.POST):
        return told(request, verb, many(verb, by, uids, query, dry_run=False), back)
    context = {
        "verb": verb,
        "count": count,
        "plan": plan,
        "uids": uids,
        "every": every,
        "query": query,
        "back": back,
        "typed": count > TYPED_ABOVE,
        "wrong": "count" in request.POST,
        "typed_count": request.POST.get("count", ""),
    }
    return render(request, "portal/bulk.html", context)


def many(verb: str, by: Actor, uids: tuple[UUID, ...], query: str, *, dry_run: bool) -> ManyDone:
    """Do the verb to the ticked jobs, or without any to all that the list's query finds."""
    asked = None if uids else wanted(QueryDict(query))[0]
    return VERBS[verb](by=by, now=timezone.now(), uids=uids, wanted=asked, dry_run=dry_run)


def told(request: HttpRequest, verb: str, done: ManyDone, back: str) -> HttpResponse:
    """Say how many were changed, and of each that was not why."""
    failed = [result for result in done.results if result.error is not None]
    count = len(done.results) - len(failed)
    if count:
        messages.success(request, f"{count} job{'' if count == 1 else 's'} {DONE[verb]}.")
    for result in failed[:NAMED]:
        messages.error(request, f"{result.name or result.uid}: {result.error}")
    if len(failed) > NAMED:
        messages.error(request, f"and {len(failed) - NAMED} more could not be changed.")
    if not done.results:
        messages.warning(request, "No job was there to change any more.")
    return HttpResponseRedirect(back)


def uid_of(text: str) -> UUID | None:
    """Return the id that a form names, or None."""
    try:
        return UUID(text)
    except ValueError:
        return None
