import base64
from collections.abc import Callable

import pytest
from django.test import Client

from tenants.models import Team
from tests.tenants.conftest import NOW, Site

Api = Callable[..., Client]


@pytest.fixture
def client(site: Site, api: Api) -> Client:
    for number in range(10):
        Team.objects.create(name=f"t{number}", created_at=NOW)
    return api(site.admin)


def names(answer: dict[str, list[dict[str, str]]]) -> list[str]:
    return [each["name"] for each in answer["items"]]


def test_pages_follow_one_another_and_lead_back(client: Client) -> None:
    first = client.get("/api/v1/teams?limit=6").json()
    second = client.get(first["next"]).json()
    third = client.get(second["next"]).json()

    assert names(first) == ["research", "nlp", "vision", "ops", "t0", "t1"]
    assert names(second) == ["t2", "t3", "t4", "t5", "t6", "t7"]
    assert names(third) == ["t8", "t9"]
    assert (first["prev"], third["next"]) == (None, None)
    assert client.get(third["prev"]).json()["items"] == second["items"]
    back = client.get(second["prev"]).json()
    assert back["items"] == first["items"]
    assert back["prev"] is None
    assert client.get(back["next"]).json()["items"] == second["items"]


def test_a_row_that_goes_meanwhile_leaves_no_gap(client: Client) -> None:
    first = client.get("/api/v1/teams?limit=6").json()
    Team.objects.filter(name__in=["t0", "t1"]).delete()

    assert names(client.get(first["next"]).json())[0] == "t2"


def test_rows_are_counted_on_request_only(client: Client) -> None:
    assert client.get("/api/v1/teams?limit=1").json()["count"] is None
    assert client.get("/api/v1/teams?limit=1&count=exact").json()["count"] == 14


def test_the_next_page_keeps_the_filter(client: Client) -> None:
    assert "parent=research" in client.get("/api/v1/teams?limit=1&parent=research").json()["next"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "bad_limit"),
        ("limit=501", "bad_limit"),
        ("limit=x", "bad_limit"),
        ("limit=%C2%B2", "bad_limit"),
        ("limit=" + "9" * 5000, "bad_limit"),
        ("count=all", "bad_count"),
        ("cursor=x", "bad_cursor"),
        ("cursor=%C3%A4", "bad_cursor"),
        ("cursor=WzAsIngiXQ", "bad_cursor"),
        ("cursor=e30", "bad_cursor"),
        ("parrent=nlp", "unknown_parameter"),
    ],
)
def test_odd_parameters_are_refused(client: Client, query: str, code: str) -> None:
    response = client.get(f"/api/v1/teams?{query}")

    assert (response.status_code, response.json()["code"]) == (400, code)


def test_a_cursor_beyond_every_number_is_an_empty_page(client: Client) -> None:
    cursor = base64.urlsafe_b64encode(b'[0,"' + b"9" * 100 + b'"]').decode()

    response = client.get(f"/api/v1/teams?cursor={cursor}")

    assert response.status_code in {200, 400}


def test_a_misspelt_filter_names_the_one_that_is_meant(client: Client) -> None:
    detail = client.get("/api/v1/teams?parrent=nlp").json()["detail"]

    assert detail == "There is no parameter 'parrent'. Did you mean 'parent'?"
