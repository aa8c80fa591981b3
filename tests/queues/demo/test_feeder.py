from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from queues.demo.feeder import ENOUGH_WAITING, FIRST_JOBS, Api, Failed, Feeder

if TYPE_CHECKING:
    from queues.demo.pattern import Draw


class FakeApi(Api):
    """An API that remembers what it was asked and fails when told to."""

    def __init__(self) -> None:
        super().__init__("http://nowhere", {})
        self.jobs: list[Draw] = []
        self.attached: list[Draw] = []
        self.cancelled: list[str] = []
        self.count = 0
        self.failure: Failed | None = None

    def submit(self, job: Draw, *, attach: bool = False) -> dict[str, Any]:
        if self.failure:
            raise self.failure
        (self.attached if attach else self.jobs).append(job)
        return {"id": str(len(self.jobs))}

    def cancel(self, user: str, job: str) -> None:
        self.cancelled.append(f"{user} {job}")

    def waiting(self) -> int:
        if self.failure and self.failure.status != 422:
            raise self.failure
        return self.count


class Clock:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


def feed(api: FakeApi, *, seconds: float) -> tuple[Feeder, Clock, list[str]]:
    clock, said = Clock(), list[str]()
    feeder = Feeder(api, Random(11), say=said.append)
    feeder.run(clock=lambda: clock.now, sleep=clock.sleep, seconds=seconds)
    return feeder, clock, said


def test_a_first_bunch_fills_the_cluster_and_its_two_examples_are_attached_to_earlier_ones() -> None:
    api = FakeApi()

    feed(api, seconds=1)

    assert sum(job.units for job in api.jobs) >= 160 or len(api.jobs) >= FIRST_JOBS
    assert [job.spec["metadata"]["external_id"] for job in api.attached] == ["demo-impossible", "demo-failing"]


def test_jobs_keep_coming_while_few_wait() -> None:
    api = FakeApi()

    feed(api, seconds=1)
    first = len(api.jobs)
    later = FakeApi()
    feed(later, seconds=120)

    assert len(later.jobs) > first + 10


def test_nothing_is_submitted_while_enough_wait() -> None:
    api = FakeApi()
    api.count = ENOUGH_WAITING

    feed(api, seconds=300)

    assert len(api.jobs) <= FIRST_JOBS


def test_an_api_that_does_not_answer_is_asked_less_and_less_often() -> None:
    api = FakeApi()
    api.failure = Failed(0, "connection refused")

    _, clock, said = feed(api, seconds=100)

    assert api.jobs == []
    assert clock.slept[:5] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert max(clock.slept) <= 30.0
    assert "does not take jobs now (connection refused)" in said[0]


def test_jobs_that_are_refused_are_counted_and_the_first_ones_shown() -> None:
    api = FakeApi()
    api.failure = Failed(422, "no such team")

    feeder, _, said = feed(api, seconds=30)

    assert feeder.refused > 5
    assert said.count("refused: 422: no such team") == 5


def test_now_and_then_somebody_changes_their_mind() -> None:
    api = FakeApi()

    feed(api, seconds=600)

    assert 0 < len(api.cancelled) < len(api.jobs) / 10
