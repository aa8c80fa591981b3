"""What pages and the API tell of expected starts, and of how such forecasts held."""

import html
import json
from datetime import timedelta

from django.utils import timezone

from queues import cleanup, forecasting, queries
from queues.models import Forecast, ForecastScore, Node, Queue
from queues.queries.estimates import summary
from queues.queries.rows.reasons import Estimate
from queues.templatetags.portal import expected
from tests.queues.api.test_jobs import client
from tests.queues.lab import MINUTE, NOW, Lab
from tests.queues.test_views_pages import browser

HOUR = 60 * MINUTE


def test_a_visible_job_tells_its_range_its_basis_and_when_that_was_told(lab: Lab) -> None:
    job = lab.submit()
    told = Forecast.objects.create(
        job=job, p50_at=NOW + HOUR, p90_at=NOW + 2 * HOUR, basis="run_times", as_of=NOW, first_as_of=NOW
    )

    data = client(lab.ann).get(f"/api/v1/jobs/{job.uid}").json()

    assert data["estimate"] == {
        "p50": "2026-11-29T13:00:00Z",
        "p90": "2026-11-29T14:00:00Z",
        "basis": "run_times",
        "cause": "",
        "summary": "from run times of finished jobs like those",
        "as_of": "2026-11-29T12:00:00Z",
    }
    assert told.job == job


def test_a_job_without_a_forecast_of_its_own_has_that_of_its_class(lab: Lab) -> None:
    job, other = lab.submit(), lab.submit(gpus="h100:2")
    Forecast.objects.create(job_class=job.job_class, cause="endless", running=2, as_of=NOW, first_as_of=NOW)

    found = queries.job(lab.ann, job.uid, now=NOW).estimate
    nothing = queries.job(lab.ann, other.uid, now=NOW).estimate

    assert found is not None
    assert (found.p50, found.cause, found.summary) == (None, "endless", "2 running jobs have no time limit")
    assert nothing is None


def test_what_does_not_wait_has_no_estimate(lab: Lab) -> None:
    job = lab.submit()
    Forecast.objects.create(job_class=job.job_class, cause="too_far", as_of=NOW, first_as_of=NOW)
    lab.start(job)

    assert queries.job(lab.ann, job.uid, now=NOW).estimate is None


def test_the_order_tells_estimates_of_visible_jobs_only(lab: Lab) -> None:
    for by, team in ((lab.ann, "nlp"), (lab.carl, "cv")):
        job = lab.submit(by, team=team)
        Forecast.objects.create(job=job, p50_at=NOW + HOUR, p90_at=NOW + HOUR, basis="room", as_of=NOW, first_as_of=NOW)

    order = queries.queue_order(lab.ann, "h100", now=NOW)

    assert {row.job.team if row.job else None: row.estimate is not None for row in order.rows} == {
        "nlp": True,
        None: False,
    }


def test_the_pages_say_when_a_job_is_expected_to_start(lab: Lab) -> None:
    Node.objects.exclude(id=lab.nodes[0].id).delete()
    now = timezone.now()
    lab.start(lab.submit(gpus="h100:8", time_limit="2h", grace="0s"), lab.nodes[0], now=now)
    job = lab.submit(gpus="h100:8", time_limit="1h", now=now)
    forecasting.forecast(now)

    order = html.unescape(browser(lab.ann).get("/queue").content.decode())
    page = html.unescape(browser(lab.ann).get(f"/jobs/{job.uid}").content.decode())

    assert "in about 1 h 59 min" in order or "in about 2 h" in order
    assert "From time limits" in order
    assert "(from time limits, told" in page


def test_the_pages_say_why_a_start_is_unknown(lab: Lab) -> None:
    job = lab.submit()
    Forecast.objects.create(job_class=job.job_class, cause="endless", running=1, as_of=NOW, first_as_of=NOW)

    order = browser(lab.ann).get("/queue").content.decode()
    page = browser(lab.ann).get(f"/jobs/{job.uid}").content.decode()

    assert "1 running job has no time limit" in order
    assert "Estimate unknown: 1 running job has no time limit" in page


def test_a_queue_tells_how_its_forecasts_held(lab: Lab) -> None:
    queue = Queue.objects.get(team=lab.nlp)
    for day, forecasts, until_p50, until_p90, width in ((1, 10, 4, 8, 6000), (2, 10, 6, 9, 12000)):
        ForecastScore.objects.create(
            queue=queue,
            day=NOW.date() - timedelta(days=day),
            forecasts=forecasts,
            until_p50=until_p50,
            until_p90=until_p90,
            width_seconds=width,
        )

    found = json.loads(client(lab.ann).get("/api/v1/queues/nlp/default").content)["forecasts"]
    page = browser(lab.ann).get("/teams/nlp").content.decode()

    assert found == {"forecasts": 20, "until_p50": 10, "until_p90": 17, "width": "15m"}
    assert "17 of 20 started in time" in page


def test_a_queue_without_judged_forecasts_has_no_score(lab: Lab) -> None:
    assert queries.queue(lab.ann, "nlp", "default").score is None


def test_causes_and_bases_are_said_in_words() -> None:
    assert summary("", "endless", running=2, before=1) == (
        "2 running jobs have no time limit and 1 waiting job before it has no time limit"
    )
    assert summary("", "too_late") == "it does not start within 7 days"
    assert summary("room", "") == "there is room for it now"


def test_a_range_is_said_to_the_minute() -> None:
    def said(early: timedelta, late: timedelta) -> str:
        row = Estimate(p50=NOW + early, p90=NOW + late, basis="room", cause="", summary="", as_of=NOW)
        return expected(row, NOW)

    assert said(timedelta(0), timedelta(0)) == "soon"
    assert said(-HOUR, -MINUTE) == "soon"
    assert said(timedelta(0), 5 * MINUTE) == "within 5 min"
    assert said(2 * HOUR, 5 * HOUR) == "in 2 h to 5 h"
    assert said(2 * HOUR, 2 * HOUR + timedelta(seconds=20)) == "in about 2 h"
    assert expected(None, NOW) == "unknown"


def test_old_scores_are_cleaned_up(lab: Lab) -> None:
    queue = Queue.objects.get(team=lab.nlp)
    for days in (5, 40):
        ForecastScore.objects.create(queue=queue, day=NOW.date() - timedelta(days=days))

    cleanup.clean_up(NOW)

    assert ForecastScore.objects.get().day == NOW.date() - timedelta(days=5)
