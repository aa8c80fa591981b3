import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from tenants import services
from tenants.models import ApiToken, IdempotentRequest, Team
from tests.tenants.conftest import Site

Api = Callable[..., Client]
JSON = "application/json"


def make(client: Client, name: str, key: str = "k-1", **extra: str) -> object:
    return client.post("/api/v1/teams", {"name": name}, content_type=JSON, headers={"Idempotency-Key": key, **extra})


def test_the_same_post_again_is_answered_from_the_first(site: Site, api: Api) -> None:
    client = api(site.admin)

    first, again = make(client, "audio"), make(client, "audio")

    assert (first.status_code, again.status_code) == (201, 201)  # type: ignore[attr-defined]
    assert again.json() == first.json()  # type: ignore[attr-defined]
    assert again["Idempotency-Replayed"] == "true"  # type: ignore[index]
    assert again["ETag"] == first["ETag"]  # type: ignore[index]
    assert again["Location"] == "/api/v1/teams/audio"  # type: ignore[index]
    assert "Idempotency-Replayed" not in first  # type: ignore[operator]
    assert Team.objects.filter(name="audio").count() == 1


def test_another_body_with_the_same_key_is_refused(site: Site, api: Api) -> None:
    client = api(site.admin)
    make(client, "audio")

    other = make(client, "video")

    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")  # type: ignore[attr-defined]
    assert not Team.objects.filter(name="video").exists()


def test_a_key_is_one_persons(site: Site, api: Api) -> None:
    make(api(site.admin), "audio")

    other = make(api(site.lead), "audio")

    assert other.status_code == 403  # type: ignore[attr-defined]


def test_a_refusal_is_not_stored(site: Site, api: Api) -> None:
    client = api(site.admin)

    assert make(client, "Bad Name").status_code == 422  # type: ignore[attr-defined]
    assert not IdempotentRequest.objects.exists()
    assert make(client, "good-name").status_code == 201  # type: ignore[attr-defined]


def test_a_key_counts_for_a_day(site: Site, api: Api) -> None:
    client = api(site.admin)
    make(client, "audio")
    Team.objects.filter(name="audio").delete()
    IdempotentRequest.objects.update(created_at=timezone.now() - timedelta(hours=24, minutes=1))

    again = make(client, "audio")

    assert again.status_code == 201  # type: ignore[attr-defined]
    assert "Idempotency-Replayed" not in again  # type: ignore[operator]
    assert IdempotentRequest.objects.count() == 1


@pytest.mark.parametrize("key", ["x" * 256, "\u00e4"])
def test_odd_keys_are_refused(site: Site, api: Api, key: str) -> None:
    response = make(api(site.admin), "audio", key)

    assert (response.status_code, response.json()["code"]) == (400, "bad_idempotency_key")  # type: ignore[attr-defined]


def test_the_secret_of_a_token_is_not_stored_with_the_answer(site: Site, api: Api) -> None:
    client = api(site.member)
    body = {"name": "ci", "scopes": ["jobs:read"]}
    headers = {"Idempotency-Key": "k-1"}

    first = client.post("/api/v1/tokens", body, content_type=JSON, headers=headers).json()
    again = client.post("/api/v1/tokens", body, content_type=JSON, headers=headers).json()

    assert again == {**first, "token": None}
    assert first["token"] not in IdempotentRequest.objects.get().body
    assert ApiToken.objects.filter(name="ci").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_second_request_while_the_first_runs_is_told_to_wait(
    site: Site, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, go_on = threading.Event(), threading.Event()
    real = services.create_team
    answers: list[int] = []

    def slow(**wanted: object) -> Team:
        inside.set()
        assert go_on.wait(30)
        return real(**wanted)  # type: ignore[arg-type]

    monkeypatch.setattr(services, "create_team", slow)
    client = api(site.admin)

    def first() -> None:
        answers.append(make(client, "audio").status_code)  # type: ignore[attr-defined]
        connection.close()

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(30)
    second = make(Client(headers=client.defaults and {"Authorization": client.defaults["HTTP_AUTHORIZATION"]}), "audio")
    go_on.set()
    thread.join(30)

    assert answers == [201]
    assert (second.status_code, second.json()["code"]) == (409, "still_running")  # type: ignore[attr-defined]
    assert second["Retry-After"] == "1"  # type: ignore[index]
    assert make(client, "audio")["Idempotency-Replayed"] == "true"  # type: ignore[index]


@pytest.mark.django_db(transaction=True)
def test_eight_parallel_posts_with_one_key_do_it_once(site: Site, api: Api) -> None:
    client = api(site.admin)
    together = threading.Barrier(8)
    seen: list[tuple[int, bool]] = []

    def post() -> None:
        mine = Client(headers={"Authorization": client.defaults["HTTP_AUTHORIZATION"]})
        together.wait(60)
        response = make(mine, "audio")
        seen.append((response.status_code, "Idempotency-Replayed" in response))  # type: ignore[attr-defined, operator]
        connection.close()

    threads = [threading.Thread(target=post) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert seen.count((201, False)) == 1
    assert set(seen) <= {(201, False), (201, True), (409, False)}
    assert Team.objects.filter(name="audio").count() == 1
