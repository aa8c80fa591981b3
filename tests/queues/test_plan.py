"""A plan: what would become of a job, told without writing anything."""

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from queues import queries, services
from queues.models import Node, Queue
from queues.queries.rows.reasons import Plan
from tenants.errors import NotAllowed, NotFound
from tenants.models import Quota
from tests.queues.api.test_jobs import client
from tests.queues.lab import MINUTE, NOW, Lab, compact

HOUR = 60 * MINUTE
PLAN = "/api/v1/jobs:plan"


@pytest.fixture
def one(lab: Lab) -> Lab:
    """Leave one machine of 8, of which nlp owns 4, in a world without grace."""
    Node.objects.exclude(id=lab.nodes[0].id).delete()
    Quota.objects.filter(team=lab.nlp).update(guaranteed=4)
    Quota.objects.exclude(team=lab.nlp).delete()
    Queue.objects.update(max_grace=timedelta(0))
    return lab


def planned(lab: Lab, **spec: Any) -> Plan:  # noqa: ANN401  fields of a spec
    return queries.plan(lab.ann, compact(**spec), now=NOW)


def rows() -> dict[str, int]:
    return {str(model): QuerySet(model).count() for model in apps.get_models()}


def test_what_fits_inside_the_guarantee_starts_now_on_own_units(one: Lab) -> None:
    plan = planned(one, gpus="h100:4")

    assert (plan.valid, plan.fits, plan.starts_now) == (True, True, True)
    assert (plan.flavor, plan.needs, plan.own, plan.borrowed) == ("h100", 4, 4, 0)
    assert (plan.reason, plan.position) == (None, None)
    assert plan.estimate is not None
    assert (plan.estimate.p50, plan.estimate.basis) == (NOW, "room")


def test_what_is_beyond_the_guarantee_says_how_much_it_would_borrow(one: Lab) -> None:
    plan = planned(one, gpus="h100:7")

    assert plan.starts_now
    assert (plan.own, plan.borrowed) == (4, 3)


def test_what_must_wait_says_why_its_place_and_when_it_starts(one: Lab) -> None:
    one.start(one.submit(gpus="h100:8", time_limit="1h", grace="0s"), one.nodes[0])
    one.submit(gpus="h100:8", time_limit="2h", grace="0s")

    plan = planned(one, gpus="h100:8", time_limit="1h")

    assert not plan.starts_now
    assert plan.reason is not None
    assert not plan.reason.permanent
    assert plan.position is not None
    assert (plan.position.rank, plan.position.units_ahead) == (2, 8)
    assert plan.estimate is not None
    assert (plan.estimate.p50, plan.estimate.p90) == (NOW + 3 * HOUR, NOW + 3 * HOUR)
    assert plan.estimate.basis == "time_limits"


def test_behind_a_job_without_limit_the_estimate_names_that(one: Lab) -> None:
    one.start(one.submit(gpus="h100:8", time_limit="none"), one.nodes[0])

    plan = planned(one, gpus="h100:8", borrow=True)

    assert plan.estimate is not None
    assert (plan.estimate.p50, plan.estimate.summary) == (None, "1 running job has no time limit")


def test_without_time_to_look_ahead_the_estimate_says_so(one: Lab) -> None:
    one.start(one.submit(gpus="h100:8", time_limit="1h"), one.nodes[0])

    plan = queries.plan(one.ann, compact(gpus="h100:8"), now=NOW, go_on=lambda: False)

    assert plan.estimate is not None
    assert plan.estimate.cause == "too_far"


def test_what_can_never_start_does_not_fit_and_warns_as_submitting_does(one: Lab) -> None:
    plan = planned(one, gpus="h100:9")

    warned = services.submit(spec=compact(gpus="h100:9"), by=one.ann, now=NOW).warnings
    assert (plan.valid, plan.fits, plan.starts_now) == (True, False, False)
    assert plan.reason is not None
    assert plan.reason.permanent
    assert plan.warnings == warned
    assert (plan.position, plan.estimate) == (None, None)


def test_what_is_wrong_is_named_by_field(one: Lab) -> None:
    plan = planned(one, gpus="h100:0", time_limit="soon")

    assert not plan.valid
    assert {error.pointer for error in plan.errors} == {"/spec/gpus/count", "/spec/time_limit"}


def test_an_external_id_that_is_taken_is_warned_about(one: Lab) -> None:
    one.submit(metadata={"external_id": "dag/1"})

    plan = planned(one, metadata={"external_id": "dag/1"})

    assert [notice.code for notice in plan.warnings] == ["external_id_taken"]


def test_a_team_of_others_is_not_found_and_one_that_is_only_seen_is_refused(lab: Lab) -> None:
    with pytest.raises(NotFound):
        queries.plan(lab.carl, compact(team="nlp"), now=NOW)
    with pytest.raises(NotAllowed):
        queries.plan(lab.vic, compact(team="nlp"), now=NOW)


def test_a_team_that_is_not_visible_is_not_named_as_the_cause(one: Lab) -> None:
    Quota.objects.create(team=one.cv, flavor=one.h100, guaranteed=4)
    one.submit(one.carl, team="cv", gpus="h100:4", name="secret")
    one.submit(one.carl, team="cv", gpus="h100:4", name="secret")

    plan = planned(one, gpus="h100:8", borrow=True)

    assert plan.reason is not None
    assert "cv" not in plan.reason.summary
    assert "cv" not in str(plan.reason.details)


def test_nothing_is_written(one: Lab) -> None:
    one.start(one.submit(gpus="h100:8", time_limit="1h"), one.nodes[0])
    before = rows()

    for spec in ({"gpus": "h100:8"}, {"gpus": "h100:9"}, {"gpus": "h100:0"}, {"shape": "gang", "tasks": 2}):
        planned(one, **spec)

    assert rows() == before


def test_statements_do_not_grow_with_what_waits_and_runs(lab: Lab) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            queries.plan(lab.ann, compact(gpus="h100:8"), now=NOW, go_on=lambda: False)
        return len(captured)

    for place in range(4):
        lab.start(lab.submit(gpus="h100:8"), lab.nodes[place])
    for _ in range(5):
        lab.submit(gpus="h100:8", shape="gang", tasks=4)
    few = statements()
    lab.start(lab.submit(gpus="l40s:4"), lab.nodes[4])
    for _ in range(20):
        lab.submit(gpus="h100:8", shape="gang", tasks=4)

    assert statements() <= few
    assert few <= 40


def test_over_http_a_plan_answers_200_also_where_the_spec_is_wrong(one: Lab) -> None:
    good, bad = (
        client(one.ann).post(PLAN, compact(gpus=gpus), content_type="application/json") for gpus in ("h100:7", "h100:0")
    )

    assert (good.status_code, bad.status_code) == (200, 200)
    data = good.json()
    assert (data["valid"], data["starts_now"], data["gpu_type"], data["own"], data["borrowed"]) == (
        True,
        True,
        "h100",
        4,
        3,
    )
    assert data["estimate"]["basis"] == "room"
    assert bad.json()["valid"] is False
    assert bad.json()["errors"][0]["pointer"] == "/spec/gpus/count"


def test_over_http_a_strangers_team_is_not_found(lab: Lab) -> None:
    response = client(lab.carl).post(PLAN, compact(team="nlp"), content_type="application/json")

    assert response.status_code == 404
