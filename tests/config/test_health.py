import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.db import connections
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from queues.models import Decision
from tests.config.test_errors import in_fresh_thread
from tests.tenants.conftest import Site, api, guarantee, site

__all__ = ["api", "site"]
Api = Callable[..., Client]


def decided(at: datetime) -> Decision:
    return Decision.objects.create(
        at=at, digest="d", classes=0, admissions=0, tasks=0, units=0, durations={"load": 12, "decide": 8}
    )


def test_alive_needs_nothing(client: Client) -> None:
    assert client.get("/healthz").json() == {"alive": True}


@pytest.mark.django_db
@pytest.mark.parametrize(("age", "status"), [(None, 503), (5, 200), (2900, 200), (3001, 503)])
def test_ready_needs_a_cycle_within_three_beats(
    client: Client, settings: Settings, age: int | None, status: int
) -> None:
    settings.TIDEGATE_TICK_SECONDS = 1000
    if age is not None:
        decided(timezone.now() - timedelta(seconds=age))

    response = client.get("/readyz")

    assert response.status_code == status
    assert response.json()["parts"]["database"] == "ok"
    assert (response.json()["parts"]["loop"] == "ok") == (status == 200)


@pytest.mark.django_db
def test_ready_names_the_database_that_is_gone(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "PORT", "1")

    response = in_fresh_thread(lambda: client.get("/readyz"))

    assert response.status_code == 503
    assert response.json()["parts"]["database"].startswith("does not answer")


def test_metrics_have_the_numbers_that_matter(site: Site, api: Api) -> None:
    guarantee(site, "nlp", 8)
    decided(timezone.now() - timedelta(seconds=3000))

    text = api(site.auditor).get("/metrics", headers={"Accept": "text/plain;version=0.0.4"}).content.decode()

    assert 'tidegate_guaranteed_units{flavor="h100"} 8.0' in text
    assert 'tidegate_installed_units{flavor="h100"} 64.0' in text
    assert "tidegate_cycle_seconds 0.02" in text
    assert re.search(r"tidegate_cycle_age_seconds 30\d\d\.", text)


def test_metrics_take_few_queries(site: Site, api: Api, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    client = api(site.admin)

    with django_assert_max_num_queries(9):
        assert client.get("/metrics").status_code == 200


def test_metrics_are_for_those_who_see_all_teams(site: Site, api: Api, settings: Settings) -> None:
    stranger = Client()

    assert stranger.get("/metrics").status_code == 401
    assert api(site.lead).get("/metrics").status_code == 403
    assert api(site.admin, "quota:read").get("/metrics").status_code == 403
    settings.TIDEGATE_METRICS_OPEN = True
    assert stranger.get("/metrics").status_code == 200
