"""Who reaches what: the table below has every address of the product, and a route that nobody classified fails.

Each line says what an address is and gives an example that belongs to team nlp. Asked are: a stranger without a
session, and carl, who is in team cv only. What he may open must not name nlp, its people, its jobs.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from queues.models import Decision, Job, KeptLog
from tenants import services
from tenants.models import ApiToken, AuditEntry, Membership, Quota, Team, User
from tenants.permissions import Actor
from tenants.services.tokens import digest
from tests.queues.lab import NOW, Lab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.http import HttpResponseBase


class Kind(Enum):
    """What an address is."""

    PUBLIC = "for everybody"
    PERSONAL = "for everybody who is known; shows what that person may see"
    TEAM = "about one team: who is not in it gets 404"
    ADMIN = "for platform admins (and auditors where they only look)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One address: what it is, how it is asked, and what carl may get other than the kind's usual answer."""

    kind: Kind
    example: str
    methods: tuple[str, ...] = ("GET",)
    body: dict[str, Any] | None = None
    also: frozenset[int] = frozenset()


def public(example: str) -> Line:
    return Line(kind=Kind.PUBLIC, example=example)


def personal(example: str, *methods: str, also: tuple[int, ...] = ()) -> Line:
    return Line(kind=Kind.PERSONAL, example=example, methods=methods or ("GET",), also=frozenset(also))


def of_team(example: str, *methods: str, body: dict[str, Any] | None = None) -> Line:
    return Line(kind=Kind.TEAM, example=example, methods=methods or ("GET",), body=body)


def admin(example: str, *methods: str, body: dict[str, Any] | None = None) -> Line:
    return Line(kind=Kind.ADMIN, example=example, methods=methods or ("GET",), body=body)


# Examples may name {job} (uid of nlp's job), {token} (id of ann's token), {cycle}. API methods come from the views.
ROUTES: dict[str, Line] = {
    "healthz": public("/healthz"),
    "readyz": public("/readyz"),
    "metrics": admin("/metrics"),
    "api/v1/openapi.json": public("/api/v1/openapi.json"),
    "api/docs": public("/api/docs"),
    "api/errors": public("/api/errors"),
    "api/errors/<str:name>": public("/api/errors/not_found"),
    "^api(?:/|$)": public("/api/nothing"),
    # tenants
    "api/v1/me": personal("/api/v1/me"),
    "api/v1/tokens": personal("/api/v1/tokens", also=(422,)),
    "api/v1/tokens/<int:token_id>": of_team("/api/v1/tokens/{token}"),
    "api/v1/tokens/<int:token_id>/rotate": of_team("/api/v1/tokens/{token}/rotate"),
    "api/v1/teams": personal("/api/v1/teams", also=(403, 422)),
    "api/v1/teams/<str:team>:pause": of_team("/api/v1/teams/nlp:pause"),
    "api/v1/teams/<str:team>:resume": of_team("/api/v1/teams/nlp:resume"),
    "api/v1/teams/<str:team>": of_team("/api/v1/teams/nlp"),
    "api/v1/teams/<str:team>/members": of_team("/api/v1/teams/nlp/members"),
    "api/v1/teams/<str:team>/members/<str:user>": of_team("/api/v1/teams/nlp/members/ann", body={"role": "viewer"}),
    "api/v1/users": admin("/api/v1/users", body={"username": "mallory"}),
    "api/v1/users/<str:user>": admin("/api/v1/users/ann"),
    "api/v1/flavors": personal("/api/v1/flavors", also=(403, 422)),
    "api/v1/flavors/<str:flavor>": personal("/api/v1/flavors/h100", also=(403,)),
    "api/v1/quotas": personal("/api/v1/quotas"),
    "api/v1/quotas/<str:team>/<str:flavor>": of_team("/api/v1/quotas/nlp/h100", body={"guaranteed": 1}),
    "api/v1/quotas/<str:team>/<str:flavor>/history": of_team("/api/v1/quotas/nlp/h100/history"),
    "api/v1/installation": personal("/api/v1/installation", also=(403,)),
    "api/v1/audit": admin("/api/v1/audit"),
    # queues
    "api/v1/jobs": personal("/api/v1/jobs", also=(400, 422)),
    "api/v1/jobs:batch": personal("/api/v1/jobs:batch", also=(400, 422)),
    "api/v1/jobs:cancel": personal("/api/v1/jobs:cancel", also=(400, 422)),
    "api/v1/jobs:plan": personal("/api/v1/jobs:plan"),
    "api/v1/jobs:count": personal("/api/v1/jobs:count?group_by=state"),
    "api/v1/jobs/<uuid:uid>": of_team("/api/v1/jobs/{job}", body={"labels": {}}),
    "api/v1/jobs/<uuid:uid>:cancel": of_team("/api/v1/jobs/{job}:cancel"),
    "api/v1/jobs/<uuid:uid>:hold": of_team("/api/v1/jobs/{job}:hold"),
    "api/v1/jobs/<uuid:uid>:release": of_team("/api/v1/jobs/{job}:release"),
    "api/v1/jobs/<uuid:uid>:rerun": of_team("/api/v1/jobs/{job}:rerun"),
    "api/v1/jobs/<uuid:uid>/checkpoint": of_team("/api/v1/jobs/{job}/checkpoint", body={}),
    "api/v1/jobs/<uuid:uid>/explain": of_team("/api/v1/jobs/{job}/explain"),
    "api/v1/jobs/<uuid:uid>/events": of_team("/api/v1/jobs/{job}/events"),
    "api/v1/jobs/<uuid:uid>/attempts": of_team("/api/v1/jobs/{job}/attempts"),
    "api/v1/jobs/<uuid:uid>/manifest": of_team("/api/v1/jobs/{job}/manifest"),
    "api/v1/jobs/<uuid:uid>/logs": of_team("/api/v1/jobs/{job}/logs"),
    "api/v1/jobs/<uuid:uid>/wait": of_team("/api/v1/jobs/{job}/wait?until=terminal&timeout=1"),
    "api/v1/queue": personal("/api/v1/queue?flavor=h100"),
    "api/v1/quota-changes/preview": of_team(
        "/api/v1/quota-changes/preview", body={"edits": [{"team": "nlp", "flavor": "h100", "guaranteed": 1}]}
    ),
    "teams/<slug:name>/quota/preview": of_team("/teams/nlp/quota/preview", "POST"),
    "api/v1/loans": personal("/api/v1/loans"),
    "api/v1/queues": personal("/api/v1/queues", also=(422,)),
    "api/v1/queues/<str:team>/<str:name>": of_team("/api/v1/queues/nlp/default"),
    "api/v1/priority-classes": personal("/api/v1/priority-classes"),
    "api/v1/priority-classes/<str:name>": personal("/api/v1/priority-classes/normal", also=(403, 422)),
    "api/v1/clusters": personal("/api/v1/clusters"),
    "api/v1/inventory": personal("/api/v1/inventory"),
    "api/v1/nodes": personal("/api/v1/nodes"),
    "api/v1/nodes/<str:name>": personal("/api/v1/nodes/h0"),
    "api/v1/allocation": personal("/api/v1/allocation"),
    "api/v1/evictions": personal("/api/v1/evictions"),
    "api/v1/decisions": admin("/api/v1/decisions"),
    "api/v1/decisions/<int:cycle>": admin("/api/v1/decisions/{cycle}"),
    # pages of one's own
    "login": public("/login"),
    "logout": Line(kind=Kind.PUBLIC, example="/logout", methods=("POST",)),
    "theme": Line(kind=Kind.PUBLIC, example="/theme", methods=("POST",)),
    "me/tokens": personal("/me/tokens", "GET", "POST"),
    "me/tokens/<int:token_id>/revoke": of_team("/me/tokens/{token}/revoke", "POST"),
    # pages of queues
    "": personal("/"),
    "jobs": personal("/jobs"),
    "jobs/new": personal("/jobs/new", "GET", "POST"),
    "jobs/bulk": personal("/jobs/bulk", "POST"),
    "jobs/<uuid:uid>": of_team("/jobs/{job}"),
    "jobs/<uuid:uid>/why": of_team("/jobs/{job}/why"),
    "jobs/<uuid:uid>/rerun": of_team("/jobs/{job}/rerun", "POST"),
    "^jobs/(?P<uid>[0-9a-f-]{36})/(?P<verb>cancel|hold|release)$": of_team("/jobs/{job}/cancel", "POST"),
    "queue": personal("/queue"),
    "teams": personal("/teams"),
    "teams/<slug:name>": of_team("/teams/nlp"),
    "teams/<slug:name>/quota": of_team("/teams/nlp/quota", "POST"),
    "teams/<slug:name>/members": of_team("/teams/nlp/members", "POST"),
    "nodes": personal("/nodes"),
    "nodes/<str:cluster>/<str:name>": personal("/nodes/default/h0"),
    "teams/<slug:team>/evictions": of_team("/teams/nlp/evictions", "GET"),
    "admin/evictions": admin("/admin/evictions"),
    "admin/flavors": Line(kind=Kind.PERSONAL, example="/admin/flavors", methods=("POST",)),
    "admin/decisions": admin("/admin/decisions"),
    "admin/decisions/<int:cycle>": admin("/admin/decisions/{cycle}"),
    # last, since it gives the database connection back, and with it the test's transaction; 503 without Redis
    "live": personal("/live", also=(503,)),
}
SECRETS = ("nlp-secret", "annabel", "NLP of", "\u00e4rger")
API = re.compile(r"/(api/|metrics$)")
FINE = {Kind.PERSONAL: frozenset({200}), Kind.TEAM: frozenset({404}), Kind.ADMIN: frozenset({403, 404})}


def routes(resolver: URLResolver | None = None, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every route of the product with its view."""
    for each in (resolver or get_resolver()).url_patterns:
        here = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from routes(each, here)
        else:
            assert isinstance(each, URLPattern)
            yield here, each.callback


def methods(route: str) -> tuple[str, ...]:
    """Return the methods of a route: those that a REST view has, else those of its line."""
    view = getattr(dict(routes())[route], "cls", None)
    if view is None or not API.match(ROUTES[route].example):
        return ROUTES[route].methods
    return tuple(name.upper() for name in view.http_method_names if hasattr(view, name) and name != "options")


@pytest.fixture
def lab(db: None) -> Lab:  # noqa: ARG001  asks for the database
    """Give nlp a job, a token and names that nobody else has."""
    made = Lab()
    Team.objects.filter(id=made.nlp.id).update(title="NLP of \u00e4rger")
    User.objects.filter(id=made.ann.user.id).update(first_name="annabel", email="annabel@example.org")
    made.submit(name="nlp-secret-waits")
    wave = made.start(made.submit(name="nlp-secret-runs"))
    wave.tasks.update(pod="nlp-secret-pod")
    KeptLog.objects.create(task=wave.tasks.get(), until=NOW, kept_at=NOW, text="nlp-secret line")
    services.create_token(by=made.ann, now=NOW, name="nlp-secret-token", scopes=["jobs:read"])
    services.set_member(by=made.lea, now=NOW, team="nlp", user="art", role="member", comment="nlp-secret")
    Decision.objects.create(at=NOW, digest="d", classes=0, admissions=0, tasks=0, units=0)
    return made


def ask(client: Client, route: str, method: str) -> HttpResponseBase:
    """Ask a route's example, as a browser or a program would."""
    line = ROUTES[route]
    token = ApiToken.objects.filter(name="nlp-secret-token").get()
    job = Job.objects.get(name="nlp-secret-runs")
    cycle = Decision.objects.get().id
    address = line.example.format(job=job.uid, token=token.id, cycle=cycle)
    if not API.match(address):
        return client.generic(method, address)
    body = json.dumps(line.body or {}) if method not in {"GET", "HEAD"} else ""
    return client.generic(method, address, body, content_type="application/json", headers={"If-Match": "*"})


def as_carl(lab: Lab, route: str) -> Client:
    """Return carl's client: his session for pages, a token of all scopes for the API."""
    client = Client()
    if not API.match(ROUTES[route].example):
        client.force_login(lab.carl.user)
        return client
    ApiToken.objects.get_or_create(
        user=lab.carl.user,
        digest=digest("tg_carl"),
        defaults={"name": "all", "prefix": "tg_carl", "scopes": ["admin"], "created_at": NOW},
    )
    return Client(headers={"Authorization": "Bearer tg_carl"})


def refuses(response: HttpResponseBase, line: Line) -> bool:
    """Return whether an answer tells a stranger to sign in."""
    if API.match(line.example):
        return response.status_code == 401
    return response.status_code == 401 or (response.status_code == 302 and "/login" in response["Location"])


def fine(line: Line, method: str) -> frozenset[int]:
    """Return how carl may be answered; a form that is posted to a page may lead on or be refused in words."""
    if line.kind is Kind.TEAM or method == "GET" or API.match(line.example):
        return FINE[line.kind] | line.also
    return FINE[line.kind] | line.also | {302, 400, 422}


def told(response: HttpResponseBase) -> str:
    """Return what an answer tells, without the address that was asked for."""
    content = b"" if response.streaming else response.content  # type: ignore[attr-defined]
    return re.sub(r'"instance": "[^"]*"', "", content.decode(errors="replace"))


def everything() -> list[list[dict[str, Any]]]:
    """Return all rows that people can change, but for when somebody signed in."""
    people = [{**row, "last_login": None} for row in User.objects.order_by("pk").values()]
    return [people, *(list(model.objects.order_by("pk").values()) for model in (Team, Membership, Quota, Job))]


def test_every_route_is_classified_and_every_line_has_its_route() -> None:
    assert {route for route, _ in routes()} == set(ROUTES)


def test_a_stranger_is_let_in_nowhere_else(lab: Lab) -> None:  # noqa: ARG001  there is something to see
    faults = [
        f"{method} {line.example}: {response.status_code}"
        for route, line in ROUTES.items()
        for method in methods(route)
        if line.kind is not Kind.PUBLIC and not refuses(response := ask(Client(), route, method), line)
    ]

    assert faults == []


def test_who_is_in_another_team_sees_nothing_of_this_one(lab: Lab) -> None:
    faults = []
    for route, line in ROUTES.items():
        for method in methods(route) if line.kind is not Kind.PUBLIC else ():
            response = ask(as_carl(lab, route), route, method)
            if response.status_code not in fine(line, method):
                faults.append(f"{method} {line.example}: {response.status_code}")
            faults += [f"{method} {line.example} tells {word!r}" for word in SECRETS if word in told(response)]

    assert faults == []


def test_nothing_was_changed_by_asking(lab: Lab) -> None:
    before = everything()
    entries = AuditEntry.objects.count()

    for route, line in ROUTES.items():
        if line.kind in {Kind.TEAM, Kind.ADMIN}:
            for method in methods(route):
                ask(as_carl(lab, route), route, method)

    assert everything() == before
    assert AuditEntry.objects.count() == entries


def test_an_admin_reaches_what_carl_does_not(lab: Lab) -> None:
    admin_ = Actor(user=lab.root.user)
    client = Client()
    client.force_login(admin_.user)

    for route, line in ROUTES.items():
        if line.kind in {Kind.TEAM, Kind.ADMIN} and "GET" in methods(route) and "{token}" not in line.example:
            assert ask(client, route, "GET").status_code in {200, 204}, route
