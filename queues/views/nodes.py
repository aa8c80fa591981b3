"""Machines: which GPUs exist, which are sick or cordoned, and what is on each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from queues import queries
from queues.views.drawing import Span, spans
from tenants import queries as tenants
from tenants import services
from tenants.pages import Part, change, page, palette, signed_in
from tenants.permissions import Permission, actor_of, can

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest, HttpResponse

    from queues.queries.rows.machines import NodeRow, Suggestion
    from tenants.permissions import Actor

STATES = ("ready", "cordoned", "tainted", "not ready", "unknown")
NOT_USABLE = "not usable"


@require_safe
@signed_in
def nodes(request: HttpRequest) -> HttpResponse:
    """Show the machines; filters are in the URL."""
    by, now = actor_of(request), timezone.now()
    flavor, state, text = (request.GET.get(key, "") for key in ("flavor", "state", "q"))

    def rows() -> list[tuple[NodeRow, tuple[Span, ...]]]:
        found = queries.nodes(by, flavor=flavor, state="" if state == NOT_USABLE else state, text=text)
        return [(row, node_spans(row)) for row in found if state != NOT_USABLE or not row.usable]

    def listed() -> dict[str, object]:
        clusters = queries.clusters(by)
        tells = can(by, Permission.VIEW_DECISIONS) or any(each.state != "ready" for each in clusters)
        return {
            "nodes": rows(),
            "clusters": clusters,
            "lists_clusters": tells or len(clusters) > 1,
            "drift": queries.drift(by),
            "suggestions": suggested(by, request.GET) if can(by, Permission.EDIT_FLAVOR) else (),
        }

    parts = {
        "fresh": Part(template="_partials/fresh.html", rows=lambda: {"freshness": queries.freshness()}, seconds=15),
        "list": Part(
            template="_partials/nodes.html",
            rows=listed,
            topics=("jobs", "nodes"),
        ),
    }
    context = {
        "now": now,
        "flavor": flavor,
        "state": state,
        "text": text,
        "flavors": tenants.flavor_names(by),
        "states": (*STATES, NOT_USABLE),
    }
    return page(request, "portal/nodes.html", context, parts)


@require_safe
@signed_in
def node(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """Show one machine and the tasks on it."""
    by, now = actor_of(request), timezone.now()
    parts = {
        "now": Part(
            template="_partials/node_now.html",
            rows=lambda: {"node": (found := queries.node(by, name, cluster=cluster)), "spans": node_spans(found.row)},
            topics=("jobs", "nodes"),
        )
    }
    return page(request, "portal/node.html", {"now": now, "name": name, "palette": palette(by)}, parts)


@require_POST
@signed_in
def new_flavor(request: HttpRequest) -> HttpResponse:
    """Make the GPU type that a suggestion describes, under the name that the form gives it."""
    given = {key: request.POST.get(key, "").strip() for key in ("name", "title", "resource", "label", "value")}
    values: services.FlavorChanges = {
        "title": given["title"],
        "resource": given["resource"],
        "node_labels": {given["label"]: given["value"]} if given["label"] else {},
    }
    done = f"GPU type {given['name']} is made; its nodes are taken in within a minute. Then give teams their quotas."
    return change(
        request,
        lambda by: services.create_flavor(by=by, now=timezone.now(), name=given["name"], values=values),
        done,
        back=reverse("nodes"),
        typed=("label", "value", "resource", "name"),
    )


def suggested(by: Actor, typed: Mapping[str, str]) -> tuple[Suggestion, ...]:
    """Return the GPU types that would take in machines; one whose name was ``typed`` and refused still has that."""
    found = queries.suggestions(by)
    wanted = tuple(typed.get(key, "") for key in ("resource", "label", "value"))
    return tuple(
        replace(row, name=typed["name"]) if "name" in typed and (row.resource, row.label, row.value) == wanted else row
        for row in found
    )


def node_spans(row: NodeRow) -> tuple[Span, ...]:
    """Return how the units of a machine are spent."""
    rest = max(0, row.units - row.used - row.outside)
    pieces = (
        (row.used, "used", f"{row.used} in use"),
        (row.outside, "outside", f"{row.outside} used outside Tidegate"),
        (rest if row.usable else 0, "free", f"{rest} free"),
        (0 if row.usable else rest, "gone", f"{rest} not usable"),
    )
    return spans(pieces, max(1, row.used + row.outside + rest))
