from itertools import combinations, count

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tenants.look import look, once
from tenants.models import Membership, Role, Team, User
from tenants.permissions import Actor, Permission, Scope, can, joined, leaves_seen, reached, teams_seen, visible_teams
from tests.tenants.conftest import NOW, Site


@pytest.fixture
def deep(site: Site) -> Site:
    """Give the site a third level, and somebody roles on two levels of one branch."""
    lab = Team.objects.create(name="lab", parent=site.nlp, created_at=NOW)
    mia = User.objects.create_user("mia")
    Membership.objects.create(user=mia, team=site.nlp, role=Role.VIEWER, created_at=NOW)
    Membership.objects.create(user=mia, team=lab, role=Role.LEAD, created_at=NOW)
    Membership.objects.create(user=site.auditor, team=lab, role=Role.MEMBER, created_at=NOW)
    return site


def at_hand(who: Actor, permission: Permission) -> frozenset[int]:
    parents = dict(Team.objects.values_list("id", "parent_id"))
    roles = dict(Membership.objects.filter(user=who.user).values_list("team_id", "role"))
    return reached(who, permission, parents=parents, roles=roles)


@pytest.mark.usefixtures("deep")
def test_the_rows_that_pages_read_are_the_teams_that_queries_start_from() -> None:
    for user in User.objects.all():
        for permission in Permission:
            asked = list(visible_teams(user, permission).order_by("id"))

            assert list(teams_seen(user, permission)) == asked, (user, permission)
            assert at_hand(Actor(user=user), permission) == {team.id for team in asked}, (user, permission)


def test_a_token_narrows_the_rows_as_it_narrows_the_queries(deep: Site) -> None:
    for user in User.objects.all():
        for team in Team.objects.all():
            for scopes in combinations(Scope, 2):
                actor = Actor(user=user, scopes=frozenset(scopes), team_id=team.id)

                for permission in (Permission.VIEW_JOB, Permission.EDIT_QUOTA, Permission.SUBMIT_JOB):
                    asked = list(visible_teams(actor, permission).order_by("id"))
                    assert list(teams_seen(actor, permission)) == asked
                    assert at_hand(actor, permission) == {row.id for row in asked}
    assert deep.nlp in teams_seen(deep.head)


@pytest.mark.usefixtures("deep")
def test_in_a_look_the_same_is_allowed_as_outside() -> None:
    questions = [
        (user, right, team) for user in User.objects.all() for right in Permission for team in Team.objects.all()
    ]
    outside = [can(user, right, team=team) for user, right, team in questions]

    with look():
        inside = [can(user, right, team=team) for user, right, team in questions]

    assert inside == outside


def test_leaves_are_the_teams_without_teams_below_them(deep: Site) -> None:
    assert [team.name for team in leaves_seen(deep.head)] == ["vision", "lab"]


def test_a_role_in_a_department_joins_its_teams(deep: Site) -> None:
    names = {team.id: team.name for team in Team.objects.all()}

    assert {names[pk] for pk in joined(Actor(user=deep.head))} == {"research", "nlp", "vision", "lab"}
    assert joined(Actor(user=deep.admin)) == frozenset()
    assert {names[pk] for pk in joined(Actor(user=deep.auditor))} == {"lab"}


def test_a_look_reads_the_teams_once_for_all_rights(deep: Site) -> None:
    with look(), CaptureQueriesContext(connection) as queries:
        for permission in Permission:
            teams_seen(deep.head, permission)
            can(deep.head, permission, team=deep.nlp)

    assert len(queries) == 1


def test_nothing_is_remembered_outside_of_a_look_or_from_one_to_the_next() -> None:
    calls = count(1)
    read = once(lambda _: next(calls))

    outside = (read(1), read(1))
    with look():
        inside = (read(1), read(1), read(2))
    with look():
        later = read(1)

    assert outside == (1, 2)
    assert inside == (3, 3, 4)
    assert later == 5
