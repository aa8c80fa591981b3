from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery.schedules import crontab
from django.conf import settings

from config.celery import app

START = datetime(2026, 11, 30, 9, 3, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def clean_up(monkeypatch: pytest.MonkeyPatch, clock: list[datetime]) -> Any:  # noqa: ANN401  a schedule of Celery
    schedule = settings.CELERY_BEAT_SCHEDULE["clean-up"]["schedule"]
    assert isinstance(schedule, crontab)
    monkeypatch.setattr(schedule, "app", app)
    monkeypatch.setattr(schedule, "nowfun", lambda: clock[0])
    return schedule


def test_a_beat_that_is_started_anew_every_five_minutes_asks_for_the_clean_up_once_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [START]
    schedule = clean_up(monkeypatch, clock)
    asked = 0

    for _ in range(3 * 12):
        last = clock[0]  # what a beat without a past takes for its last time
        for _ in range(5):
            clock[0] += MINUTE
            if schedule.is_due(last).is_due:
                asked, last = asked + 1, clock[0]

    assert asked == 3


def test_after_three_hours_without_a_beat_the_clean_up_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [START + timedelta(hours=3)]
    schedule = clean_up(monkeypatch, clock)

    assert schedule.is_due(START).is_due
    assert not schedule.is_due(clock[0]).is_due
