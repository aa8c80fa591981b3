from itertools import product

import pytest

from tenants import permissions
from tenants.models import GlobalRole, Membership, Role, Team, User
from tenants.permissions import Actor, Permission, Scope, can, roles_in, visible_teams
from tests.tenants.conftest import NOW, Site, by

P = Permission
VIEWS = {P.VIEW_TEAM, P.VIEW_JOB, P.VIEW_QUOTA}
WORKS = VIEWS | {P.SUBMIT_JOB, P.CHANGE_OWN_JOB}
LEADS = WORKS | {P.CHANGE_ANY_JOB, P.EDIT_QUEUE, P.EDIT_MEMBERS, P.EDIT_TEAM, P.VIEW_AUDIT}
EVERYONE = {P.VIEW_NODES, P.EDIT_TOKENS}
IN_NLP = {
    "ada": set(P),
    "otto": VIEWS | {P.VIEW_AUDIT, P.VIEW_DECISIONS} | EVERYONE,
    "hedy": LEADS,
    "lea": LEADS,
    "max": WORKS,
    "vera": VIEWS,
    "sam": set(),
}
EVERYWHERE = {
    "ada": set(P),
    "otto": VIEWS | {P.VIEW_AUDIT, P.VIEW_DECISIONS} | EVERYONE,
    **dict.fromkeys(("hedy", "lea", "max", "vera", "sam"), EVERYONE),
}


def test_the_matrix_of_roles_in_a_team(site: Site) -> None:
    people = {user.username: user for user in User.objects.all()}

    allowed = {name: {p for p in P if can(user, p, team=site.nlp)} for name, user in people.items()}

    assert allowed == IN_NLP


@pytest.mark.usefixtures("site")
def test_the_matrix_of_rights_everywhere() -> None:
    people = {user.username: user for user in User.objects.all()}

    allowed = {name: {p for p in P if can(user, p)} for name, user in people.items()}

    assert allowed == EVERYWHERE


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    ("name", "teams"),
    [
        ("ada", {"research", "nlp", "vision", "ops"}),
        ("otto", {"research", "nlp", "vision", "ops"}),
        ("hedy", {"research", "nlp", "vision"}),
        ("lea", {"nlp"}),
        ("vera", {"nlp"}),
        ("sam", {"ops"}),
    ],
)
def test_people_see_their_teams_and_those_below(name: str, teams: set[str]) -> None:
    user = User.objects.get(username=name)

    seen = set(visible_teams(user).values_list("name", flat=True))

    assert seen == teams


def test_who_is_switched_off_sees_nothing(site: Site) -> None:
    site.admin.is_active = False

    assert not can(site.admin, P.VIEW_TEAM, team=site.nlp)
    assert not visible_teams(site.admin).exists()


def test_roles_of_departments_above_count(site: Site) -> None:
    Membership.objects.create(user=site.head, team=site.nlp, role=Role.VIEWER, created_at=NOW)

    assert roles_in(site.head, site.nlp) == {Role.LEAD, Role.VIEWER}
    assert roles_in(site.head, site.ops) == frozenset()


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        (Scope.JOBS_READ, {P.VIEW_TEAM, P.VIEW_JOB, P.VIEW_NODES, P.VIEW_DECISIONS}),
        (
            Scope.JOBS_WRITE,
            {
                P.VIEW_TEAM,
                P.VIEW_JOB,
                P.VIEW_NODES,
                P.VIEW_DECISIONS,
                P.SUBMIT_JOB,
                P.CHANGE_OWN_JOB,
                P.CHANGE_ANY_JOB,
            },
        ),
        (Scope.QUOTA_READ, {P.VIEW_TEAM, P.VIEW_QUOTA, P.VIEW_NODES}),
        (Scope.QUOTA_WRITE, {P.VIEW_TEAM, P.VIEW_QUOTA, P.VIEW_NODES, P.EDIT_QUOTA}),
        (Scope.AUDIT_READ, {P.VIEW_AUDIT}),
        (Scope.ADMIN, set(P)),
    ],
)
def test_an_admins_token_may_only_what_its_scope_says(site: Site, scope: str, allowed: set[Permission]) -> None:
    actor = Actor(user=site.admin, scopes=frozenset({scope}))

    assert {p for p in P if can(actor, p, team=site.nlp)} == allowed


def test_a_scope_gives_nothing_that_the_owner_has_not(site: Site) -> None:
    for user, scope, permission in product((site.viewer, site.stranger), Scope, P):
        actor = Actor(user=user, scopes=frozenset({scope}))

        assert not can(actor, permission, team=site.nlp) or can(user, permission, team=site.nlp)


def test_a_token_for_one_team_sees_that_team_and_those_below(site: Site) -> None:
    actor = Actor(user=site.admin, scopes=frozenset({Scope.ADMIN}), team_id=site.research.id)

    assert set(visible_teams(actor).values_list("name", flat=True)) == {"research", "nlp", "vision"}
    assert not can(actor, P.EDIT_INSTALLATION)
    assert not can(actor, P.VIEW_AUDIT)
    assert can(actor, P.VIEW_NODES)


def test_a_circle_in_the_table_does_not_hang(site: Site) -> None:
    Team.objects.filter(id=site.research.id).update(parent=site.nlp)

    assert set(visible_teams(by(site.lead)).values_list("name", flat=True)) == {"research", "nlp", "vision"}


def test_every_global_role_is_in_the_table() -> None:
    assert set(permissions.EVERYWHERE) == set(GlobalRole.values)
    assert set(permissions.IN_TEAM) == set(Role.values)
    assert set(permissions.BY_SCOPE) == set(Scope)
