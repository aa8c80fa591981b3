from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from django.core.cache import cache
from django.db import OperationalError, connection, connections
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from pytest_django import Settings

from config import errors
from tenants.errors import Conflict, DomainError, FieldError, Hint
from tests.tenants.conftest import Site, api, site

__all__ = ["api", "site"]
Api = Callable[..., Client]
Result = TypeVar("Result")
JSON = "application/json"
PROBLEM = "application/problem+json"


def in_fresh_thread(work: Callable[[], Result]) -> Result:
    """Run work where no connection is open yet, and return what it returned."""

    def run() -> Result:
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result(60)


@pytest.fixture
def no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new connections go to a port on which nobody listens."""
    monkeypatch.setitem(connections.settings["default"], "PORT", "1")


def test_a_problem_has_every_member(site: Site, api: Api) -> None:
    response = api(site.lead).get("/api/v1/teams/ops", headers={"X-Request-ID": "abc-1"})

    assert response["Content-Type"] == PROBLEM
    assert response["X-Request-ID"] == "abc-1"
    assert response.json() == {
        "type": "/api/errors/not_found",
        "title": "Not found",
        "status": 404,
        "detail": "There is no team 'ops', or you are not in it.",
        "instance": "/api/v1/teams/ops",
        "code": "unknown_team",
        "request_id": "abc-1",
        "errors": [],
        "hints": [],
    }


def test_fields_and_hints_are_told(rf: RequestFactory) -> None:
    error = Conflict(
        "No.",
        fields=[FieldError(pointer="/a", code="x", detail="bad", given="y" * 300, allowed=(1, None))],
        hints=[Hint(action="Use less", href="/api/v1/quotas")],
    )

    body = errors.problem(rf.get("/api/v1/x"), error).content.decode()

    assert '"pointer": "/a", "code": "x", "detail": "bad", "given": "' + "y" * 200 + '…", "allowed": [1, null]' in body
    assert '"hints": [{"action": "Use less", "href": "/api/v1/quotas"}]' in body


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "ä", "a\tb"])
def test_an_odd_request_id_is_replaced(client: Client, given: str) -> None:
    response = client.get("/healthz", headers={"X-Request-ID": given})

    assert len(response["X-Request-ID"]) == 32


def test_the_log_has_the_request_id_of_the_answer(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    response = client.get("/healthz")

    logged = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
    assert {each["request_id"] for each in logged} == {response["X-Request-ID"]}


@pytest.mark.parametrize("address", ["/api/v1/me", "/"])
def test_a_foreign_host_is_refused(client: Client, address: str) -> None:
    assert client.get(address, headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.django_db
@pytest.mark.parametrize("address", ["/api", "/api/", "/api/v1", "/api/v1/nothing", "/api/v1/me/x", "/api/v2/jobs"])
def test_unknown_addresses_below_api_are_problems(client: Client, address: str) -> None:
    for method in ("get", "post", "put", "delete"):
        response = getattr(client, method)(address)

        assert (response.status_code, response["Content-Type"]) == (404, PROBLEM)


@pytest.mark.django_db
def test_a_post_without_cookies_to_an_unknown_address_is_a_problem_too() -> None:
    client = Client(enforce_csrf_checks=True)

    answer = client.post("/api/v1/nowhere", {}, content_type="application/json")

    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "application/problem+json")


@pytest.mark.parametrize("address", ["/api/v1/openapi.json", "/api/docs", "/api/errors", "/api/errors/not_found"])
def test_what_is_only_read_refuses_a_post_without_cookies_as_a_problem(address: str) -> None:
    refused = Client(enforce_csrf_checks=True).post(address, {}, content_type="application/json")

    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")
    assert refused.json()["detail"] == "POST is not for this address; it takes GET."


def test_unknown_pages_are_pages(client: Client) -> None:
    response = client.get("/nothing-here")

    assert response.status_code == 404
    assert response["Content-Type"].startswith("text/html")


def test_the_slash_at_the_end_does_not_matter(site: Site, api: Api) -> None:
    client = api(site.admin)

    assert client.get("/api/v1/me/").status_code == 200
    assert client.post("/api/v1/teams/", {"name": "audio"}, content_type=JSON).status_code == 201


@pytest.mark.parametrize(
    ("method", "address", "extra", "status"),
    [
        ("delete", "/api/v1/teams", {}, 405),
        ("get", "/api/v1/me", {"headers": {"Accept": "text/html"}}, 406),
        ("post", "/api/v1/teams", {"data": "a=b", "content_type": "application/x-www-form-urlencoded"}, 415),
        ("post", "/api/v1/teams", {"data": b"\xff", "content_type": JSON}, 400),
        ("post", "/api/v1/teams", {"data": b"{", "content_type": JSON}, 400),
        ("post", "/api/v1/teams", {"data": b"[" * 100_000, "content_type": JSON}, 400),
        ("post", "/api/v1/teams", {"data": b"a: &a 1\nb: *a", "content_type": "application/yaml"}, 400),
        ("post", "/api/v1/teams", {"data": b"x" * (2**20 + 1), "content_type": JSON}, 413),
        ("post", "/api/v1/teams", {"data": b"name: yaml-team", "content_type": "application/yaml"}, 201),
        ("post", "/api/v1/teams", {"data": b'"text"', "content_type": JSON}, 422),
        ("post", "/api/v1/teams", {"data": b'{"name": "' + b"x" * 200 + b'"}', "content_type": JSON}, 422),
        ("get", "/api/v1/teams/" + "x" * 3000, {}, 404),
        ("get", "/api/v1/teams/%00", {}, 400),
        ("get", "/api/v1/teams?parent=%00", {}, 400),
        ("get", "/api/v1/teams/%ff", {}, 404),
        ("delete", "/api/v1/tokens/" + "9" * 30, {}, 404),
    ],
)
def test_bad_input_gets_a_clear_answer(
    site: Site, api: Api, method: str, address: str, extra: dict[str, Any], status: int
) -> None:
    response = getattr(api(site.admin), method)(address, **extra)

    assert response.status_code == status
    if status >= 400:
        assert response["Content-Type"] == PROBLEM
        assert response.json()["request_id"] == response["X-Request-ID"]


def test_a_secret_that_is_refused_is_not_told_back(site: Site, api: Api) -> None:
    body = {"username": "neo", "password": "p" * 201}

    response = api(site.admin).post("/api/v1/users", body, content_type=JSON)

    assert [each["pointer"] for each in response.json()["errors"]] == ["/password"]
    assert "ppp" not in response.content.decode()


def test_a_nul_in_a_form_is_a_refusal(site: Site) -> None:
    client = Client()
    client.force_login(site.lead)

    response = client.post("/teams/nlp/members", {"user": "a\0b", "role": "member"})

    assert response.status_code in {302, 400}


def test_a_wrong_method_names_those_that_are_right(site: Site, api: Api) -> None:
    assert "GET" in api(site.admin).delete("/api/v1/teams")["Allow"]


def test_every_kind_of_error_is_explained(client: Client) -> None:
    items = client.get("/api/errors").json()["items"]

    assert {each["kind"] for each in items} == set(errors.kinds())
    assert client.get("/api/errors/not_found").json()["status"] == 404
    assert client.get("/api/errors/nothing").status_code == 404


@pytest.mark.django_db
@pytest.mark.usefixtures("no_database")
def test_a_database_that_is_gone_is_503_and_comes_back_by_itself() -> None:
    client = Client(headers={"Authorization": "Bearer tg_x"}, raise_request_exception=False)

    response = in_fresh_thread(lambda: client.get("/api/v1/me"))

    assert (response.status_code, response.json()["code"]) == (503, "database")
    assert response["Retry-After"] == "5"
    assert response["Content-Type"] == PROBLEM


@pytest.mark.django_db
@pytest.mark.usefixtures("no_database")
def test_a_page_says_that_the_database_is_gone() -> None:
    client = Client(raise_request_exception=False)
    client.cookies["sessionid"] = "x" * 32

    response = in_fresh_thread(lambda: client.get("/me/tokens"))

    assert response.status_code == 503
    assert "database" in response.content.decode()


def test_redis_that_is_gone_changes_nothing(site: Site, api: Api, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    cache.clear()

    assert api(site.admin).post("/api/v1/teams", {"name": "audio"}, content_type=JSON).status_code == 201


def test_what_nobody_anticipated_is_a_500_without_details(
    site: Site, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret text")

    monkeypatch.setattr("tenants.queries.roles_of", broken)
    client = api(site.admin)
    client.raise_request_exception = False

    response = client.get("/api/v1/me")

    assert (response.status_code, response.json()["code"]) == (500, "internal_error")
    assert "secret text" not in response.content.decode()


@pytest.mark.parametrize(("sqlstate", "status"), [(None, 503), ("08006", 503), ("57P01", 503), ("40P01", 503)])
def test_only_a_lost_database_is_called_lost(sqlstate: str | None, status: int) -> None:
    cause = Exception()
    cause.sqlstate = sqlstate  # type: ignore[attr-defined]
    error = OperationalError("x")
    error.__cause__ = cause

    known = errors.as_domain(error)

    assert known is not None
    assert known.status == status


def test_an_error_of_the_domain_becomes_a_page_for_people(rf: RequestFactory) -> None:
    request: HttpRequest = rf.get("/somewhere")

    response = errors.translate(request, DomainError("This cannot be done."))

    assert isinstance(response, HttpResponse)
    assert response.status_code == 400
    assert "This cannot be done." in response.content.decode()
