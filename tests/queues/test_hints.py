import time
from collections.abc import Iterator

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from queues import hints
from queues.hints import bump, tell_pages, version, wake

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _own_broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(hints, "_alone_until", 0.0)
    hints.broker.cache_clear()
    yield
    hints.broker.cache_clear()


def test_a_wake_up_moves_the_version_when_the_transaction_commits() -> None:
    before = version()

    with transaction.atomic():
        wake()
        inside = version()

    assert inside == before
    assert version() > before


def test_the_very_first_wake_up_is_seen() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER SEQUENCE queues_wakeup RESTART")
    before = version()

    bump()

    assert version() > before


def test_a_wake_up_is_dropped_with_a_transaction_that_rolls_back() -> None:
    before = version()

    with transaction.atomic():
        wake()
        transaction.set_rollback(True)

    assert version() == before


def test_a_version_is_not_taken_back_by_a_roll_back() -> None:
    with transaction.atomic():
        bump()
        after = version()
        transaction.set_rollback(True)

    assert version() == after


def test_a_broker_that_is_gone_costs_nobody_more_than_a_moment(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    before, begin = version(), time.monotonic()

    for _ in range(20):
        wake()
        tell_pages("jobs")

    assert time.monotonic() - begin < 2
    assert version() >= before + 20
