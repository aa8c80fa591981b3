"""A forecast in the live loop: told while a job waits, judged once it has started, shown by its queue."""

import json

from django.utils import timezone

from queues import forecasting
from queues.models import Forecast, ForecastScore
from queues.states import JobState
from tests.loop.stage import Stage, state
from tests.queues.api.test_jobs import client
from tests.queues.test_views_pages import browser


def test_a_start_judges_what_was_told_of_it_and_the_queue_says_how_forecasts_held(stage: Stage) -> None:
    lab = stage.lab
    runs = stage.submit(gpus="h100:8", shape="gang", tasks=4, time_limit="1h", forever=True)
    stage.until(lambda: state(runs) is JobState.RUNNING)
    waits = stage.submit(gpus="h100:8", shape="gang", tasks=1, time_limit="1h", run_for="0.2s")
    stage.turn()

    forecasting.forecast(timezone.now())
    assert Forecast.objects.get().job == waits
    stage.finish(runs)
    stage.until_ended(waits)
    forecasting.forecast(timezone.now())

    score = ForecastScore.objects.get()
    assert (score.queue, score.forecasts, score.until_p50, score.until_p90) == (waits.queue, 1, 1, 1)
    found = json.loads(client(lab.ann).get("/api/v1/queues/nlp/default").content)["forecasts"]
    assert (found["forecasts"], found["until_p50"], found["until_p90"]) == (1, 1, 1)
    assert "1 of 1 started in time" in browser(lab.ann).get("/teams/nlp").content.decode()
