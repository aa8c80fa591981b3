from random import Random

import pytest

from queues.demo import pattern
from queues.demo.cast import KINDS, teams
from queues.demo.pattern import DAY, LOAD, LONGEST, SHORTEST, draw, failing, impossible, mean_work, rate


def test_the_same_seed_draws_the_same_jobs() -> None:
    one = [draw(Random(7), number=number) for number in range(20)]
    two = [draw(Random(7), number=number) for number in range(20)]

    assert one == two


def test_jobs_have_every_size_shape_and_fate() -> None:
    random = Random(1)
    jobs = [draw(random, number=number) for number in range(3000)]

    assert {job.units for job in jobs} == {1, 2, 4, 8, 16, 32, 20, 40, 100}
    assert {job.spec["spec"]["shape"] for job in jobs} == {"gang", "independent", "elastic"}
    assert {job.spec["spec"]["annotations"].get("tidegate.test/exit-code") for job in jobs} == {None, "1", "2", "137"}
    assert any("tidegate.test/never-start" in job.spec["spec"]["annotations"] for job in jobs)
    assert {job.spec["metadata"]["team"] for job in jobs} == {team.name for team in teams()}


def test_jobs_are_submitted_by_people_who_may() -> None:
    random = Random(2)
    people = {team.name: team.people for team in teams()}

    for number in range(500):
        job = draw(random, number=number)
        assert job.user in people[job.spec["metadata"]["team"]]


def test_a_gang_fills_whole_machines_and_a_single_task_fits_on_one() -> None:
    random = Random(3)

    for number in range(1000):
        spec = draw(random, number=number).spec["spec"]
        assert spec["gpus"]["count"] <= 8
        assert spec["shape"] != "gang" or (spec["gpus"]["count"] == 8 and spec["tasks"] > 1)


def test_a_flexible_job_grows_to_twice_its_minimum() -> None:
    random = Random(9)
    specs = [draw(random, number=number) for number in range(1000)]
    flexible = [job for job in specs if job.spec["spec"]["shape"] == "elastic"]

    assert flexible
    for job in flexible:
        tasks, each = job.spec["spec"]["tasks"], job.spec["spec"]["gpus"]["count"]
        assert (tasks["max"], tasks["min"] * each) == (2 * tasks["min"], job.units)


def test_only_teams_that_own_something_have_jobs_that_do_not_borrow() -> None:
    random = Random(8)
    jobs = [draw(random, number=number).spec for number in range(5000)]
    quotas = {team.name: team.quotas for team in teams()}

    firm = [job for job in jobs if not job["spec"]["borrow"]]

    assert firm
    for job in firm:
        kinds = job["spec"]["gpus"]["type"]
        assert any(quotas[job["metadata"]["team"]][kind].guaranteed for kind in kinds)


def test_run_times_stay_within_what_a_demo_can_show() -> None:
    random = Random(4)

    seconds = [draw(random, number=number).seconds for number in range(1000)]

    assert min(seconds) >= SHORTEST
    assert max(seconds) <= LONGEST


def test_arrivals_ask_for_the_wanted_load_over_a_day_and_swing_within_it() -> None:
    capacity = sum(kind.units for kind in KINDS)
    at = [rate(DAY * step / 100, capacity=capacity, work=500.0) for step in range(100)]

    assert sum(at) / len(at) * 500.0 / capacity == pytest.approx(LOAD)
    assert max(at) / min(at) == pytest.approx((1 + pattern.SWING) / (1 - pattern.SWING), rel=0.01)


def test_the_mean_job_is_stable_enough_to_steer_by() -> None:
    assert mean_work(Random(5)) == pytest.approx(mean_work(Random(6)), rel=0.15)


def test_one_job_asks_for_more_than_there_is_and_comes_once() -> None:
    spec = impossible().spec

    assert spec["spec"]["tasks"] * spec["spec"]["gpus"]["count"] > max(kind.units for kind in KINDS)
    assert spec["metadata"]["external_id"]


def test_one_job_fails_within_seconds_whatever_the_dice_say() -> None:
    spec = failing().spec

    assert spec["spec"]["annotations"] == {"tidegate.test/run-for": "5s", "tidegate.test/exit-code": "2"}
    assert spec["metadata"]["external_id"]
