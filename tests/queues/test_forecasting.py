"""Forecasts of the stored world: what is told, why not, and how it is judged afterwards."""

from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from queues import forecasting, services, tasks
from queues.models import Forecast, ForecastScore, Job, Node, Queue, Task, Wave
from queues.states import JobState
from queues.waiting import milliseconds, moment
from tests.queues.lab import MINUTE, NOW, Lab

LATER = NOW + MINUTE
HOUR = 60 * MINUTE


@pytest.fixture
def line(lab: Lab) -> Lab:
    """Leave one machine of 8, which a job with an hour's limit fills; two more of an hour wait for it."""
    Node.objects.exclude(id=lab.nodes[0].id).delete()
    Queue.objects.update(max_grace=timedelta(0))
    whole: dict[str, Any] = {"gpus": "h100:8", "time_limit": "1h", "grace": "0s"}
    lab.start(lab.submit(name="runs", **whole), lab.nodes[0])
    lab.submit(name="first", **whole)
    lab.submit(lab.art, name="second", now=NOW + timedelta(seconds=1), **whole)
    return lab


def told(name: str) -> Forecast:
    return Forecast.objects.get(job__name=name)


def finish(lab: Lab, minutes: int, **spec: Any) -> None:  # noqa: ANN401  fields of a spec
    """Let a job of such a spec have run for so long, and be over."""
    job = lab.submit(name="over", now=NOW - 10 * HOUR, **spec)
    wave = lab.start(job, lab.nodes[0], now=NOW - 9 * HOUR)
    ended = NOW - 9 * HOUR + minutes * MINUTE
    Task.objects.filter(wave=wave).update(state="succeeded", ended_at=ended)
    Wave.objects.filter(id=wave.id).update(state="ended", ended_at=ended)
    Job.objects.filter(id=job.id).update(state=JobState.SUCCEEDED, ended_at=ended)


def test_two_jobs_in_line_are_told_from_time_limits(line: Lab) -> None:
    count = forecasting.forecast(NOW)

    assert count == 2
    assert (told("first").p50_at, told("first").p90_at) == (NOW + HOUR, NOW + HOUR)
    assert told("second").p50_at == NOW + 2 * HOUR
    assert {row.basis for row in Forecast.objects.all()} == {"time_limits"}
    assert line.nodes


def test_with_enough_finished_jobs_of_the_shape_their_run_times_give_the_range(line: Lab) -> None:
    for minutes in range(1, 21):
        finish(line, minutes, gpus="h100:8", time_limit="1h", grace="0s")

    forecasting.forecast(NOW)

    first = told("first")
    assert (first.p50_at, first.p90_at, first.basis) == (NOW + 10 * MINUTE, NOW + 18 * MINUTE, "run_times")
    assert (told("second").p50_at, told("second").p90_at) == (NOW + 20 * MINUTE, NOW + 36 * MINUTE)


def test_nineteen_finished_jobs_or_those_of_another_queue_are_not_enough(line: Lab) -> None:
    for minutes in range(1, 20):
        finish(line, minutes, gpus="h100:8", time_limit="1h", grace="0s")
    Queue.objects.create(team=line.nlp, name="other", created_at=NOW)
    finish(line, 20, gpus="h100:8", time_limit="1h", grace="0s", metadata={"queue": "other"})

    forecasting.forecast(NOW)

    assert told("first").p50_at == NOW + HOUR


def test_behind_jobs_without_a_time_limit_the_cause_is_told_by_class(lab: Lab) -> None:
    Queue.objects.update(default_time_limit=None)
    Node.objects.filter(name__in=["h2", "h3"]).delete()
    for place in (0, 1):
        lab.start(lab.submit(name="endless", gpus="h100:8"), lab.nodes[place])
    waits = lab.submit(name="waits", gpus="h100:8")

    forecasting.forecast(NOW)

    (row,) = Forecast.objects.all()
    assert (row.job, row.job_class, row.cause, row.running) == (None, waits.job_class, "endless", 2)


def test_telling_twice_at_the_same_moment_changes_nothing(line: Lab) -> None:
    forecasting.forecast(NOW)
    before = list(Forecast.objects.order_by("job").values())

    forecasting.forecast(NOW)

    assert list(Forecast.objects.order_by("job").values()) == before
    assert line.nodes


def test_a_late_worker_does_not_replace_what_is_newer(line: Lab) -> None:
    forecasting.forecast(LATER)
    before = list(Forecast.objects.order_by("job").values())

    count = forecasting.forecast(NOW)

    assert count == 0
    assert list(Forecast.objects.order_by("job").values()) == before
    assert line.nodes


def test_without_time_for_it_the_cause_is_that_too_much_waits(line: Lab) -> None:
    count = forecasting.forecast(NOW, go_on=lambda: False)

    assert count == 0
    assert {row.cause for row in Forecast.objects.all()} == {"too_far"}
    assert line.nodes


def test_the_score_judges_what_was_told_first(line: Lab) -> None:
    for minutes in range(1, 21):
        finish(line, minutes, gpus="h100:8", time_limit="1h", grace="0s")
    first = Job.objects.get(name="first")
    second = Job.objects.get(name="second")
    forecasting.forecast(NOW)
    forecasting.forecast(LATER)

    # p50 of the first was 10 min and p90 18 min; of the second 20 and 36 min.
    line.start(first, line.nodes[0], now=NOW + 12 * MINUTE)
    line.start(second, line.nodes[0], now=NOW + 40 * MINUTE)
    forecasting.forecast(NOW + 41 * MINUTE)
    forecasting.forecast(NOW + 41 * MINUTE)

    score = ForecastScore.objects.get()
    assert (score.queue, score.day) == (first.queue, NOW.date())
    assert (score.forecasts, score.until_p50, score.until_p90) == (2, 0, 1)
    assert score.width_seconds == (8 + 16) * 60
    assert not Forecast.objects.exists()


def test_a_job_that_is_cancelled_or_held_is_told_no_longer_and_not_judged(line: Lab) -> None:
    forecasting.forecast(NOW)
    services.cancel(uid=Job.objects.get(name="first").uid, by=line.ann, now=NOW)
    services.hold(uid=Job.objects.get(name="second").uid, by=line.art, now=NOW)

    forecasting.forecast(LATER)

    assert not Forecast.objects.exists()
    assert not ForecastScore.objects.exists()


def test_a_start_that_can_be_told_no_longer_keeps_what_was_told_first(line: Lab) -> None:
    forecasting.forecast(NOW)

    forecasting.forecast(LATER, go_on=lambda: False)

    first = told("first")
    assert (first.p50_at, first.cause, first.first_p90_at) == (None, "too_far", NOW + HOUR)
    assert line.nodes


def test_statements_do_not_grow_with_what_waits(line: Lab) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            forecasting.forecast(NOW, go_on=lambda: False)
        return len(queries)

    statements()
    few = statements()
    for number in range(20):
        line.submit(name=f"more-{number}", gpus="h100:8")
    statements()

    assert statements() == few


def test_moments_and_the_time_of_the_rules_are_the_same() -> None:
    assert moment(milliseconds(NOW)) == NOW


def test_beat_asks_for_forecasts_once_a_minute_and_only_for_tasks_that_there_are() -> None:
    beat = settings.CELERY_BEAT_SCHEDULE

    assert beat["forecast"]["task"] == tasks.forecast.name
    assert beat["forecast"]["schedule"] == 60.0
    assert {row["task"] for row in beat.values()} <= set(current_app.tasks)
