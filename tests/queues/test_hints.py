import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import current_app
from celery.signals import worker_ready
from django.db import connection, transaction
from pytest_django import Settings

from queues import hints, tasks
from queues.hints import bump, tell_pages, version, wake
from stack.servers import Valkey

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

    assert time.monotonic() - begin < 20
    assert version() >= before + 20


@pytest.fixture
def asked(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Return the tasks that were sent over a real broker's marks."""
    sent: list[str] = []
    monkeypatch.setattr(current_app, "send_task", lambda task, **_: sent.append(task))
    monkeypatch.setattr(hints, "ASKED_MS", 600_000)
    with Valkey(tmp_path / "valkey") as valkey:
        settings.REDIS_URL = valkey.url
        yield sent


def test_many_wake_ups_are_one_message_until_it_is_heard(asked: list[str]) -> None:
    for _ in range(5):
        wake()
    before = list(asked)
    tasks.admit()
    wake()

    assert before == ["queues.admit"]
    assert asked == ["queues.admit"] * 2


def test_a_worker_that_comes_up_asks_for_all_that_is_due(asked: list[str]) -> None:
    worker_ready.send(sender=None)

    assert asked == ["queues.admit", "queues.release"]


def test_what_is_woken_after_a_message_was_heard_is_asked_again_even_while_it_runs(asked: list[str]) -> None:
    wake()
    hints.heard("queues.admit")
    wake()

    assert asked == ["queues.admit"] * 2


def test_the_mark_of_a_message_that_was_lost_is_over_soon(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "ASKED_MS", 1)
    wake()
    end = time.monotonic() + 60
    while len(asked) < 2 and time.monotonic() < end:
        wake()

    assert len(asked) >= 2
