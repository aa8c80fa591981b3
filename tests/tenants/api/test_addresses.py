from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from tenants.models import ApiToken, AuditEntry, Quota
from tests.tenants.conftest import Site, guarantee

Api = Callable[..., Client]
JSON = "application/json"
QUOTA = "/api/v1/quotas/nlp/h100"


def put(client: Client, body: object, match: str | None = '"v0"', method: str = "put") -> object:
    headers = {"If-Match": match} if match is not None else {}
    return getattr(client, method)(QUOTA, body, content_type=JSON, headers=headers)


def test_me_says_who_asks_and_what_the_token_may(site: Site, api: Api) -> None:
    answer = api(site.lead, "jobs:read", team=site.nlp).get("/api/v1/me").json()

    assert answer == {
        "username": "lea",
        "email": "",
        "global_role": "",
        "roles": [{"team": "nlp", "role": "lead"}],
        "token": {"scopes": ["jobs:read"], "team": "nlp"},
    }


def test_a_token_is_made_used_rotated_and_revoked(site: Site) -> None:
    browser = Client()
    browser.force_login(site.member)
    expires = (datetime.now(UTC) + timedelta(days=1)).isoformat()

    made = browser.post(
        "/api/v1/tokens",
        {"name": "ci", "scopes": ["jobs:read"], "team": "nlp", "expires_at": expires},
        content_type=JSON,
    )
    first = made.json()

    def me(secret: str) -> int:
        return Client(headers={"Authorization": f"Bearer {secret}"}).get("/api/v1/me").status_code

    assert made.status_code == 201
    assert me(first["token"]) == 200
    second = browser.post(f"/api/v1/tokens/{first['id']}/rotate").json()
    assert (me(first["token"]), me(second["token"])) == (401, 200)
    listed = browser.get("/api/v1/tokens").json()["items"]
    assert [each["name"] for each in listed] == ["ci"]
    assert "token" not in listed[0]
    assert listed[0]["last_used_at"] is not None
    assert browser.delete(f"/api/v1/tokens/{first['id']}").status_code == 204
    assert me(second["token"]) == 401
    assert browser.get("/api/v1/tokens").json()["items"] == []


def test_a_write_from_a_browser_needs_the_csrf_token(site: Site) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(site.member)

    response = browser.post("/api/v1/tokens", {"name": "ci", "scopes": ["jobs:read"]}, content_type=JSON)

    assert (response.status_code, response["Content-Type"]) == (403, "application/problem+json")
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"revoked_at": datetime.now(UTC)}, "token_revoked"),
        ({"expires_at": datetime(2026, 1, 1, tzinfo=UTC)}, "token_expired"),
        ({"digest": "0" * 64}, "token_unknown"),
    ],
)
def test_a_token_that_no_longer_counts_is_401(site: Site, api: Api, change: dict[str, object], code: str) -> None:
    client = api(site.member)
    ApiToken.objects.update(**change)

    response = client.get("/api/v1/me")

    assert (response.status_code, response.json()["code"]) == (401, code)
    assert response["WWW-Authenticate"] == 'Bearer realm="tidegate"'


def test_the_token_of_somebody_switched_off_is_401(site: Site, api: Api) -> None:
    client = api(site.member)
    site.member.is_active = False
    site.member.save()

    assert client.get("/api/v1/me").status_code == 401


@pytest.mark.django_db
@pytest.mark.parametrize("header", ["Basic eDp5", "Bearer", "Bearer x", "Bearer tg_\u00e4", "tg_x"])
def test_a_header_that_is_no_token_is_401(header: str) -> None:
    response = Client(headers={"Authorization": header}).get("/api/v1/me")

    assert response.status_code == 401


def test_a_team_is_made_read_and_changed_with_its_etag(site: Site, api: Api) -> None:
    client = api(site.admin)

    made = client.post("/api/v1/teams", {"name": "audio", "parent": "research", "weight": 1.5}, content_type=JSON)
    read = client.get("/api/v1/teams/audio")
    changed = client.patch(
        "/api/v1/teams/audio", {"weight": 2, "per_user_limit": 8}, content_type=JSON, headers={"If-Match": read["ETag"]}
    )

    assert (made.status_code, made["Location"]) == (201, "/api/v1/teams/audio")
    assert read.json()["weight"] == 1.5
    assert (changed.json()["weight"], changed.json()["per_user_limit"]) == (2, 8)
    assert changed["ETag"] != read["ETag"]
    assert client.get("/api/v1/teams/research").json()["children"] == ["nlp", "vision", "audio"]


@pytest.mark.parametrize(
    ("headers", "status"), [({}, 428), ({"If-Match": '"v9"'}, 412), ({"If-Match": "x"}, 412), ({"If-Match": "*"}, 200)]
)
def test_a_write_says_which_version_it_changes(site: Site, api: Api, headers: dict[str, str], status: int) -> None:
    response = api(site.lead).patch("/api/v1/teams/nlp", {"title": "x"}, content_type=JSON, headers=headers)

    assert response.status_code == status


def test_anothers_team_is_404_and_not_403(site: Site, api: Api) -> None:
    client = api(site.stranger)

    for address in ("teams/nlp", "teams/nlp/members", "teams/nlp/members/max", "quotas/nlp/h100"):
        assert client.get(f"/api/v1/{address}").status_code == 404
    assert client.patch("/api/v1/teams/nlp", {}, content_type=JSON, headers={"If-Match": "*"}).status_code == 404
    assert [each["name"] for each in client.get("/api/v1/teams").json()["items"]] == ["ops"]


def test_the_name_of_a_department_that_one_does_not_see_is_not_told(site: Site, api: Api) -> None:
    assert api(site.lead).get("/api/v1/teams/nlp").json()["parent"] is None
    assert api(site.head).get("/api/v1/teams/nlp").json()["parent"] == "research"


def test_members_are_set_listed_and_removed_with_warnings(site: Site, api: Api) -> None:
    client = api(site.lead)

    put_ = client.put("/api/v1/teams/nlp/members/sam", {"role": "viewer"}, content_type=JSON)
    listed = client.get("/api/v1/teams/nlp/members").json()["items"]
    gone = client.delete("/api/v1/teams/nlp/members/lea")

    assert (put_.json()["role"], put_.json()["warnings"]) == ("viewer", [])
    assert [each["user"] for each in listed] == ["lea", "max", "vera", "sam"]
    assert [each["code"] for each in gone.json()["warnings"]] == ["no_lead"]
    assert client.get("/api/v1/teams/nlp").status_code == 404


def test_a_quota_that_nobody_set_is_zeros_with_an_etag(site: Site, api: Api) -> None:
    response = api(site.viewer).get(QUOTA)

    assert response["ETag"] == '"v0"'
    assert response.json() == {
        "team": "nlp",
        "flavor": "h100",
        "guaranteed": 0,
        "borrow_limit": None,
        "lend_limit": None,
        "version": 0,
    }


def test_a_quota_is_put_as_a_whole_and_patched_in_part(site: Site, api: Api) -> None:
    client = api(site.admin)

    first = put(client, {"guaranteed": 8, "borrow_limit": 4, "lend_limit": 0})
    patched = put(client, {"borrow_limit": None}, '"v1"', "patch")
    whole = put(client, {"guaranteed": 8}, '"v2"')

    assert first["ETag"] == '"v1"'  # type: ignore[index]
    assert (patched.json()["borrow_limit"], patched.json()["lend_limit"]) == (None, 0)  # type: ignore[attr-defined]
    assert (whole.json()["borrow_limit"], whole.json()["lend_limit"]) == (None, None)  # type: ignore[attr-defined]
    history = client.get(f"{QUOTA}/history").json()["items"]
    assert [each["after"]["lend_limit"] for each in history] == [None, 0, 0]
    assert history[-1]["actor"] == "ada"


@pytest.mark.parametrize(("match", "status"), [(None, 428), ('"v1"', 412), ("*", 200)])
def test_a_quota_needs_if_match(site: Site, api: Api, match: str | None, status: int) -> None:
    assert put(api(site.admin), {"guaranteed": 8}, match).status_code == status  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "pointer", "given"),
    [
        ({"guaranteed": -1}, "/guaranteed", -1),
        ({"guaranteed": "8"}, "/guaranteed", "8"),
        ({"guaranteed": 8.5}, "/guaranteed", 8.5),
        ({"guaranteed": True}, "/guaranteed", True),
        ({"guaranteed": 10**17}, "/guaranteed", 10**17),
        ({"guaranteed": 4, "lend_limit": 5}, "/lend_limit", 5),
        ({"guaranteed": 65}, "/guaranteed", 65),
        ({}, "/guaranteed", None),
        ([1], "", None),
        ({"guarantee": 4}, "/guarantee", 4),
    ],
)
def test_a_quota_that_cannot_be_is_refused_at_its_field(
    site: Site, api: Api, body: object, pointer: str, given: object
) -> None:
    response = put(api(site.admin), body)

    problem = response.json()  # type: ignore[attr-defined]
    assert problem["status"] == 422
    assert pointer in [each["pointer"] for each in problem["errors"]]
    found = next(each for each in problem["errors"] if each["pointer"] == pointer)
    assert found.get("given") == given
    assert not Quota.objects.exists()


def test_a_misspelt_field_names_the_one_that_is_meant(site: Site, api: Api) -> None:
    problem = put(api(site.admin), {"guarantee": 4}).json()  # type: ignore[attr-defined]

    assert {"pointer": "/guarantee", "code": "unknown_field"}.items() <= problem["errors"][0].items()
    assert "Did you mean 'guaranteed'?" in problem["errors"][0]["detail"]


def test_a_quota_above_what_is_usable_is_a_warning(site: Site, api: Api) -> None:
    site.h100.usable = 56
    site.h100.save()

    response = put(api(site.admin), {"guaranteed": 60})

    assert [each["code"] for each in response.json()["warnings"]] == ["over_usable"]  # type: ignore[attr-defined]


def test_scopes_narrow_what_an_admin_may(site: Site, api: Api) -> None:
    assert api(site.admin, "quota:write").get(QUOTA).status_code == 200
    assert put(api(site.admin, "quota:read"), {"guaranteed": 8}).status_code == 403  # type: ignore[attr-defined]
    assert put(api(site.admin, "quota:write"), {"guaranteed": 8}).status_code == 200  # type: ignore[attr-defined]
    assert api(site.admin, "jobs:read").get(QUOTA).status_code == 404
    assert api(site.admin, "jobs:read").get("/api/v1/audit").status_code == 403
    assert api(site.admin, "quota:read", team=site.ops).get(QUOTA).status_code == 404


def test_quotas_are_listed_for_teams_that_one_sees(site: Site, api: Api) -> None:
    guarantee(site, "nlp", 8)
    guarantee(site, "ops", 4)

    assert [each["team"] for each in api(site.viewer).get("/api/v1/quotas").json()["items"]] == ["nlp"]
    everything = api(site.auditor).get("/api/v1/quotas?flavor=h100&count=exact").json()
    assert everything["count"] == 2


def test_flavors_show_what_is_guaranteed_beside_what_is_there(site: Site, api: Api) -> None:
    guarantee(site, "nlp", 8)
    client = api(site.stranger)

    shown = client.get("/api/v1/flavors/h100").json()

    assert (shown["installed"], shown["usable"], shown["guaranteed"], shown["value"]) == (64, 64, 8, 1)
    assert client.get("/api/v1/flavors/x").status_code == 404
    assert client.post("/api/v1/flavors", {"name": "t4"}, content_type=JSON).status_code == 403


def test_an_admin_makes_and_changes_a_flavor(site: Site, api: Api) -> None:
    client = api(site.admin)

    made = client.post(
        "/api/v1/flavors", {"name": "t4", "value": 0.25, "node_labels": {"gpu": "t4"}}, content_type=JSON
    )
    changed = client.patch("/api/v1/flavors/t4", {"placement": "free", "value": 0}, content_type=JSON)
    sound = client.patch("/api/v1/flavors/t4", {"placement": "free"}, content_type=JSON)

    assert (made.status_code, made.json()["value"]) == (201, 0.25)
    assert [each["pointer"] for each in changed.json()["errors"]] == ["/value"]
    assert sound.json()["placement"] == "free"


def test_the_policy_is_read_by_all_and_changed_by_admins(site: Site, api: Api) -> None:
    read = api(site.viewer).get("/api/v1/installation")
    body = {"overcommit": True, "aging_every": "90m", "elastic_pause": "5m"}

    changed = api(site.admin).patch("/api/v1/installation", body, content_type=JSON, headers={"If-Match": read["ETag"]})

    assert (read.json()["aging_every"], read.json()["elastic_pause"]) == ("1h", "10m")
    assert (changed.json()["aging_every"], changed.json()["overcommit"]) == ("1h30m", True)
    assert changed.json()["elastic_pause"] == "5m"
    assert (AuditEntry.objects.latest("id").after or {})["elastic_pause"] == "300s"
    assert (
        api(site.lead).patch("/api/v1/installation", body, content_type=JSON, headers={"If-Match": "*"}).status_code
        == 403
    )


def test_accounts_are_for_admins(site: Site, api: Api) -> None:
    client = api(site.admin)

    made = client.post("/api/v1/users", {"username": "neo", "global_role": "auditor"}, content_type=JSON)
    weak = client.post("/api/v1/users", {"username": "trin", "password": "123"}, content_type=JSON)
    changed = client.patch("/api/v1/users/neo", {"is_active": False}, content_type=JSON)

    assert made.status_code == 201
    assert weak.json()["errors"][0]["pointer"] == "/password"
    assert "given" not in weak.json()["errors"][0]
    assert changed.json()["is_active"] is False
    assert api(site.head).get("/api/v1/users").status_code == 403


def test_the_audit_is_filtered_by_team_and_time(site: Site, api: Api) -> None:
    guarantee(site, "nlp", 8)
    guarantee(site, "ops", 8)
    client = api(site.auditor)

    mine = client.get("/api/v1/audit?team=nlp").json()["items"]

    assert [each["target"] for each in mine] == ["nlp/h100"]
    assert mine[0]["after"]["guaranteed"] == 8
    assert client.get("/api/v1/audit?at__gte=2027-01-01T00:00:00Z").json()["items"] == []
    assert client.get("/api/v1/audit?at__gte=yesterday").status_code == 422
    assert [each["target"] for each in api(site.lead).get("/api/v1/audit").json()["items"]] == ["nlp/h100"]
    assert api(site.member).get("/api/v1/audit").status_code == 403


def test_pausing_by_the_api(site: Site, api: Api) -> None:
    client = api(site.lead)

    assert client.post("/api/v1/teams/nlp:pause").json()["paused_at"] is not None
    assert client.post("/api/v1/teams/nlp:resume").json()["paused_at"] is None
    assert api(site.member).post("/api/v1/teams/nlp:pause").status_code == 403
