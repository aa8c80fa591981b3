"""A small tree of teams: department research with nlp and vision, and ops beside it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from tenants import services
from tenants.models import ApiToken, Flavor, Membership, Role, Team, User
from tenants.permissions import Actor, Scope
from tenants.services.tokens import digest

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The people and teams that tests speak of."""

    admin: User
    auditor: User
    head: User  # lead of research
    lead: User  # lead of nlp
    member: User  # member of nlp
    viewer: User  # viewer of nlp
    stranger: User  # member of ops
    research: Team
    nlp: Team
    vision: Team
    ops: Team
    h100: Flavor


@pytest.fixture
def site(db: None) -> Site:  # noqa: ARG001  asks for the database
    # Each kind of row in one statement: some hundred tests begin with this.
    names = {"ada": "admin", "otto": "auditor", "hedy": "", "lea": "", "max": "", "vera": "", "sam": ""}
    admin, auditor, head, lead, member, viewer, stranger = User.objects.bulk_create(
        User(username=name, global_role=role) for name, role in names.items()
    )
    research = Team.objects.create(name="research", created_at=NOW)
    below = (("nlp", research), ("vision", research), ("ops", None))
    nlp, vision, ops = Team.objects.bulk_create(
        Team(name=name, parent=parent, created_at=NOW) for name, parent in below
    )
    made = Site(
        admin=admin,
        auditor=auditor,
        head=head,
        lead=lead,
        member=member,
        viewer=viewer,
        stranger=stranger,
        research=research,
        nlp=nlp,
        vision=vision,
        ops=ops,
        h100=Flavor.objects.create(name="h100", installed=64, usable=64, created_at=NOW),
    )
    roles = (
        (made.head, made.research, Role.LEAD),
        (made.lead, made.nlp, Role.LEAD),
        (made.member, made.nlp, Role.MEMBER),
        (made.viewer, made.nlp, Role.VIEWER),
        (made.stranger, made.ops, Role.MEMBER),
    )
    Membership.objects.bulk_create(
        Membership(user=person, team=where, role=role, created_at=NOW) for person, where, role in roles
    )
    return made


@pytest.fixture
def api() -> Callable[..., Client]:
    """Return a client with a token of somebody, of all scopes unless said otherwise."""

    def client(user: User, *scopes: str, team: Team | None = None) -> Client:
        secret = f"tg_{user.username}_{ApiToken.objects.count()}"
        ApiToken.objects.create(
            user=user,
            name="test",
            prefix=secret[:9],
            digest=digest(secret),
            scopes=list(scopes or [Scope.ADMIN]),
            team=team,
            created_at=NOW,
            expires_at=datetime.now(UTC) + timedelta(hours=1),
        )
        return Client(headers={"Authorization": f"Bearer {secret}"})

    return client


def by(user: User) -> Actor:
    """Return a person as actor."""
    return Actor(user=user)


def guarantee(site: Site, team: str, units: int, **limits: int | None) -> services.QuotaResult:
    """Let the admin set a quota on h100."""
    edit = services.QuotaEdit(team=team, flavor="h100", guaranteed=units, **limits)
    return services.set_quotas(by=by(site.admin), now=NOW, edits=[edit])
