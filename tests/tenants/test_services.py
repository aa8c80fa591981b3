from collections.abc import Iterable
from datetime import timedelta

import pytest

from tenants import changes, queries, services
from tenants.changes import Change, ChangeKind
from tenants.errors import Conflict, Invalid, NotAllowed, NotFound, Notice, Stale
from tenants.models import ApiToken, AuditEntry, Membership, Quota, Team, User
from tenants.permissions import Actor, Scope, system
from tests.tenants.conftest import NOW, Site, by, guarantee


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Change]:
    """Return what callbacks are told, in place of what queues does."""
    heard: list[Change] = []

    def hear(change: Change) -> Iterable[Notice]:
        heard.append(change)
        return [Notice(code="heard", detail=change.target)]

    monkeypatch.setattr(changes, "_callbacks", [hear])
    return heard


def test_a_new_team_is_written_audited_and_told(site: Site, told: list[Change]) -> None:
    actor = Actor(user=site.admin, request_id="r-1")

    team = services.create_team(by=actor, now=NOW, name="audio", parent="research", weight_milli=2000, comment="new")

    entry = AuditEntry.objects.get()
    assert (team.parent, team.weight_milli, team.version) == (site.research, 2000, 1)
    assert (entry.action, entry.target, entry.team, entry.actor) == ("team.create", "audio", team, site.admin)
    assert (entry.before, entry.comment, entry.request_id) == (None, "new", "r-1")
    assert entry.after == {
        "name": "audio",
        "title": "",
        "parent": "research",
        "weight_milli": 2000,
        "per_user_limit": None,
        "pod_allowances": [],
        "paused_at": None,
    }
    assert [(each.kind, each.team) for each in told] == [(ChangeKind.TEAM_CREATED, team)]


def test_a_callback_can_refuse_a_change_and_nothing_is_written(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Change) -> Iterable[Notice]:
        raise Conflict("research has jobs")

    monkeypatch.setattr(changes, "_callbacks", [refuse])

    with pytest.raises(Conflict):
        services.create_team(by=by(site.admin), now=NOW, name="audio", parent="research")
    assert not Team.objects.filter(name="audio").exists()
    assert not AuditEntry.objects.exists()


def test_only_admins_make_teams(site: Site) -> None:
    with pytest.raises(NotAllowed):
        services.create_team(by=by(site.head), now=NOW, name="audio", parent="research")


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "x" * 64, "ä", "a b", "x" * 200])
def test_odd_names_are_refused_with_what_is_allowed(site: Site, name: str) -> None:
    with pytest.raises(Invalid) as error:
        services.create_team(by=by(site.admin), now=NOW, name=name)

    assert error.value.fields[0].pointer == "/name"


def test_a_taken_name_is_a_conflict(site: Site) -> None:
    with pytest.raises(Conflict, match="already a team 'nlp'"):
        services.create_team(by=by(site.admin), now=NOW, name="nlp")


@pytest.mark.parametrize("parent", ["research", "nlp"])
def test_a_department_cannot_lie_below_itself(site: Site, parent: str) -> None:
    with pytest.raises(Invalid) as error:
        services.update_team(by=by(site.admin), now=NOW, team="research", changes={"parent": parent})

    assert error.value.fields[0].code == "circle"


def test_a_lead_changes_the_title_but_not_the_weight(site: Site) -> None:
    services.update_team(by=by(site.lead), now=NOW, team="nlp", changes={"title": "Language"}, version=1)

    with pytest.raises(NotAllowed):
        services.update_team(by=by(site.lead), now=NOW, team="nlp", changes={"weight_milli": 9000})
    assert queries.team("nlp", by=by(site.lead)).title == "Language"


def test_only_an_admin_allows_pods_more_and_that_is_audited(site: Site) -> None:
    wanted: services.TeamChanges = {"pod_allowances": ["host_path", "privileged", "host_path"]}

    with pytest.raises(NotAllowed):
        services.update_team(by=by(site.lead), now=NOW, team="nlp", changes=wanted)
    with pytest.raises(Invalid, match="no allowance 'root'"):
        services.update_team(by=by(site.admin), now=NOW, team="nlp", changes={"pod_allowances": ["root"]})
    services.update_team(by=by(site.admin), now=NOW, team="nlp", changes=wanted)

    entry = AuditEntry.objects.order_by("-id")[0]
    assert Team.objects.get(name="nlp").pod_allowances == ["privileged", "host_path"]
    told = [(picture or {})["pod_allowances"] for picture in (entry.before, entry.after)]
    assert told == [[], ["privileged", "host_path"]]


def test_a_stale_version_changes_nothing(site: Site) -> None:
    services.update_team(by=by(site.lead), now=NOW, team="nlp", changes={"title": "One"}, version=1)

    with pytest.raises(Stale, match="version 2, not 1"):
        services.update_team(by=by(site.lead), now=NOW, team="nlp", changes={"title": "Two"}, version=1)
    assert Team.objects.get(name="nlp").title == "One"


def test_a_stranger_finds_no_team(site: Site) -> None:
    with pytest.raises(NotFound):
        services.update_team(by=by(site.stranger), now=NOW, team="nlp", changes={"title": "Mine"})


def test_pausing_twice_leaves_one_entry(site: Site, told: list[Change]) -> None:
    services.pause_team(by=by(site.lead), now=NOW, team="nlp")
    services.pause_team(by=by(site.lead), now=NOW + timedelta(minutes=1), team="nlp")

    assert Team.objects.get(name="nlp").paused_at == NOW
    assert [each.kind for each in told] == [ChangeKind.TEAM_PAUSED]


def test_resuming_tells_since_when_it_was_paused(site: Site, told: list[Change]) -> None:
    services.pause_team(by=by(site.lead), now=NOW, team="nlp")

    services.resume_team(by=by(site.lead), now=NOW + timedelta(hours=1), team="nlp")

    assert Team.objects.get(name="nlp").paused_at is None
    assert told[-1].kind is ChangeKind.TEAM_RESUMED
    assert told[-1].before is not None
    assert told[-1].before["paused_at"] == NOW.isoformat()


@pytest.mark.usefixtures("told")
def test_losing_the_last_lead_is_a_warning(site: Site) -> None:
    _, notices = services.set_member(by=by(site.head), now=NOW, team="nlp", user="lea", role="member")

    assert [each.code for each in notices] == ["heard", "no_lead"]
    assert AuditEntry.objects.get().before == {"role": "lead"}


def test_taking_out_a_member_ends_what_they_see(site: Site) -> None:
    assert services.remove_member(by=by(site.lead), now=NOW, team="nlp", user="max") == ()

    assert not Membership.objects.filter(user=site.member).exists()
    with pytest.raises(NotFound):
        queries.team("nlp", by=by(site.member))


@pytest.mark.parametrize(("user", "role", "pointer"), [("nobody", "member", "/user"), ("sam", "king", "/role")])
def test_an_unknown_person_or_role_is_refused(site: Site, user: str, role: str, pointer: str) -> None:
    with pytest.raises(Invalid) as error:
        services.set_member(by=by(site.lead), now=NOW, team="nlp", user=user, role=role)

    assert error.value.fields[0].pointer == pointer


def test_members_do_not_appoint_members(site: Site) -> None:
    with pytest.raises(NotAllowed):
        services.set_member(by=by(site.member), now=NOW, team="nlp", user="sam", role="member")


def test_a_quota_keeps_null_and_zero_apart(site: Site) -> None:
    guarantee(site, "nlp", 8, borrow_limit=0, lend_limit=None)

    result = services.set_quotas(
        by=by(site.admin),
        now=NOW,
        edits=[services.QuotaEdit(team="nlp", flavor="h100", borrow_limit=None, lend_limit=0, version=1)],
    )

    assert result.rows == (
        queries.QuotaRow(team="nlp", flavor="h100", guaranteed=8, borrow_limit=None, lend_limit=0, version=2),
    )
    assert AuditEntry.objects.latest("id").before == {"guaranteed": 8, "borrow_limit": 0, "lend_limit": None}


@pytest.mark.parametrize(
    ("field", "value"),
    [("guaranteed", -1), ("guaranteed", 2**31), ("borrow_limit", -1), ("lend_limit", 1.5), ("guaranteed", True)],
)
def test_only_whole_numbers_from_zero_are_quotas(site: Site, field: str, value: int) -> None:
    edit = services.QuotaEdit(team="nlp", flavor="h100", **{field: value})

    with pytest.raises(Invalid) as error:
        services.set_quotas(by=by(site.admin), now=NOW, edits=[edit])

    assert error.value.fields[0].pointer == f"/{field}"
    assert error.value.fields[0].given == value


def test_the_sum_of_guarantees_is_checked_against_what_is_installed(site: Site) -> None:
    guarantee(site, "nlp", 40)

    with pytest.raises(Invalid, match=r"70 would be guaranteed \(nlp 40, ops 30\), 64 are installed"):
        guarantee(site, "ops", 30)
    assert Quota.objects.count() == 1


def test_units_move_between_teams_in_one_call(site: Site) -> None:
    guarantee(site, "nlp", 40)
    guarantee(site, "ops", 24)

    services.set_quotas(
        by=by(site.admin),
        now=NOW,
        edits=[
            services.QuotaEdit(team="nlp", flavor="h100", guaranteed=30),
            services.QuotaEdit(team="ops", flavor="h100", guaranteed=34),
        ],
    )

    assert queries.totals() == [queries.FlavorTotal(flavor="h100", guaranteed=64, installed=64, usable=64)]


def test_a_quota_that_stays_as_it_is_leaves_no_trace(site: Site) -> None:
    guarantee(site, "nlp", 40)

    result = guarantee(site, "nlp", 40)

    assert result.rows[0].version == 1
    assert AuditEntry.objects.count() == 1


def test_overcommit_allows_more_and_cannot_end_while_it_is_used(site: Site) -> None:
    services.edit_installation(by=by(site.admin), now=NOW, changes={"overcommit": True}, version=0)

    result = guarantee(site, "nlp", 100)

    assert [each.code for each in result.notices] == ["over_installed"]
    with pytest.raises(Invalid, match="h100: 100 guaranteed, 64 installed"):
        services.edit_installation(by=by(site.admin), now=NOW, changes={"overcommit": False}, version=1)
    assert queries.installation().overcommit


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("user", ["hedy", "lea", "otto"])
def test_only_admins_set_quotas(user: str) -> None:
    edit = services.QuotaEdit(team="nlp", flavor="h100", guaranteed=1)

    with pytest.raises(NotAllowed):
        services.set_quotas(by=by(User.objects.get(username=user)), now=NOW, edits=[edit])


def test_an_unknown_flavor_is_not_found(site: Site) -> None:
    edit = services.QuotaEdit(team="nlp", flavor="b200", guaranteed=1)

    with pytest.raises(NotFound, match="no GPU type 'b200'"):
        services.set_quotas(by=by(site.admin), now=NOW, edits=[edit])


def test_a_token_is_stored_as_a_digest_only(site: Site) -> None:
    new = services.create_token(by=by(site.member), now=NOW, name="ci", scopes=["jobs:write"])

    row = ApiToken.objects.get()
    assert new.secret.startswith("tg_")
    assert new.secret.startswith(row.prefix)
    assert new.secret not in str(ApiToken.objects.values().get())
    assert new.secret not in str(list(AuditEntry.objects.values()))
    assert len(row.digest) == 64


def test_rotating_changes_the_secret_and_nothing_else(site: Site) -> None:
    old = services.create_token(by=by(site.member), now=NOW, name="ci", scopes=["jobs:write"])

    new = services.rotate_token(by=by(site.member), now=NOW, token_id=old.token.id)

    assert new.token.id == old.token.id
    assert new.token.scopes == ["jobs:write"]
    assert new.token.digest != old.token.digest


def test_nobody_reaches_anothers_token(site: Site) -> None:
    new = services.create_token(by=by(site.member), now=NOW, name="ci", scopes=["jobs:write"])

    with pytest.raises(NotFound):
        services.revoke_token(by=by(site.admin), now=NOW, token_id=new.token.id)


def test_a_token_without_the_scope_admin_makes_no_tokens(site: Site) -> None:
    actor = Actor(user=site.admin, scopes=frozenset(Scope) - {Scope.ADMIN})

    with pytest.raises(NotAllowed):
        services.create_token(by=actor, now=NOW, name="more", scopes=["admin"])


def test_a_token_for_one_team_makes_tokens_for_it_and_below_only(site: Site) -> None:
    actor = Actor(user=site.admin, scopes=frozenset({Scope.ADMIN}), team_id=site.research.id)

    below = services.create_token(by=actor, now=NOW, name="nlp", scopes=["admin"], team="nlp")

    assert below.token.team == site.nlp
    with pytest.raises(NotAllowed):
        services.create_token(by=actor, now=NOW, name="all", scopes=["admin"])
    with pytest.raises(NotFound):
        services.create_token(by=actor, now=NOW, name="ops", scopes=["admin"], team="ops")


@pytest.mark.parametrize(
    ("values", "pointer"),
    [
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["root"]}, "/scopes"),
        ({"name": " "}, "/name"),
        ({"name": "x" * 101}, "/name"),
        ({"expires_at": NOW}, "/expires_at"),
    ],
)
def test_odd_tokens_are_refused(site: Site, values: dict[str, object], pointer: str) -> None:
    wanted = {"name": "ci", "scopes": ["jobs:read"], **values}

    with pytest.raises(Invalid) as error:
        services.create_token(by=by(site.member), now=NOW, **wanted)  # type: ignore[arg-type]

    assert error.value.fields[0].pointer == pointer


def test_last_use_is_noted_once_a_minute(site: Site) -> None:
    token = services.create_token(by=by(site.member), now=NOW, name="ci", scopes=["jobs:read"]).token

    for seconds in (0, 59, 60):
        services.used(ApiToken.objects.get(), now=NOW + timedelta(seconds=seconds))
        token.refresh_from_db()
        assert token.last_used_at == NOW + timedelta(seconds=60 if seconds == 60 else 0)


def test_accounts_are_made_by_admins_and_can_be_switched_off(site: Site) -> None:
    services.create_user(by=by(site.admin), now=NOW, username="neo", email="neo@example.org")

    services.update_user(by=by(site.admin), now=NOW, username="neo", changes={"is_active": False})

    neo = User.objects.get(username="neo")
    assert (neo.is_active, neo.has_usable_password()) == (False, False)
    with pytest.raises(NotAllowed):
        services.create_user(by=by(site.head), now=NOW, username="other")
    with pytest.raises(Conflict):
        services.create_user(by=by(site.admin), now=NOW, username="neo")


def test_the_last_admin_stays(site: Site) -> None:
    with pytest.raises(Conflict, match="last platform admin"):
        services.update_user(by=by(site.admin), now=NOW, username="ada", changes={"global_role": ""})
    services.update_user(by=by(site.admin), now=NOW, username="otto", changes={"global_role": "admin"})
    services.update_user(by=by(site.admin), now=NOW, username="ada", changes={"is_active": False})

    assert not User.objects.get(username="ada").is_active


def test_long_names_fit_into_the_audit_and_long_comments_are_refused(site: Site) -> None:
    long = User.objects.create(username="u" * 150)

    services.create_token(by=by(long), now=NOW, name="t" * 100, scopes=["jobs:read"])
    with pytest.raises(Invalid) as error:
        services.pause_team(by=by(site.lead), now=NOW, team="nlp", comment="x" * 2001)

    assert len(AuditEntry.objects.get().target) == 200
    assert error.value.fields[0].pointer == "/comment"
    assert Team.objects.get(name="nlp").paused_at is None


def test_a_flavor_is_made_once_and_changed(site: Site) -> None:
    services.create_flavor(by=by(site.admin), now=NOW, name="t4", values={"value_milli": 250}, installed=16)

    services.update_flavor(by=by(site.admin), now=NOW, flavor="t4", changes={"title": "T4"})

    row = queries.flavor("t4")
    assert (row.title, row.value_milli, row.installed) == ("T4", 250, 16)
    with pytest.raises(Conflict):
        services.create_flavor(by=by(site.admin), now=NOW, name="t4")
    with pytest.raises(Invalid) as error:
        services.update_flavor(by=by(site.admin), now=NOW, flavor="t4", changes={"value_milli": 0})
    assert error.value.fields[0].pointer == "/value"


@pytest.mark.parametrize("labels", [{"bad label!": "x"}, {"": "x"}, {"a": "x y"}, {"a/b/c": "x"}, {"a": "x" * 64}])
def test_a_flavor_has_labels_as_kubernetes_writes_them(site: Site, labels: dict[str, str]) -> None:
    with pytest.raises(Invalid) as error:
        services.create_flavor(by=by(site.admin), now=NOW, name="t4", values={"node_labels": labels})

    assert error.value.fields[0].pointer == "/node_labels"


@pytest.mark.django_db
def test_the_system_changes_things_as_nobodys_account() -> None:
    services.create_team(by=system(), now=NOW, name="demo")

    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.actor_name) == (None, "system")


def test_leads_see_their_teams_audit_and_members_none(site: Site) -> None:
    services.pause_team(by=by(site.lead), now=NOW, team="nlp")
    services.create_team(by=by(site.admin), now=NOW, name="audio")

    assert [each.target for each in queries.audit(by=by(site.lead))] == ["nlp"]
    assert [each.target for each in queries.audit(by=by(site.auditor))] == ["audio", "nlp"]
    with pytest.raises(NotAllowed):
        queries.audit(by=by(site.member))
