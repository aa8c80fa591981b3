import pytest

from clusters.age import BELIEVED_AFTER_SECONDS, Age
from clusters.budget import Budget
from clusters.port import Unreachable


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def budget(clock: Clock, *, per_second: float = 8, burst: int = 3) -> Budget:
    return Budget(per_second=per_second, burst=burst, clock=clock, sleep=clock.sleep)


def test_a_burst_passes_at_once_and_the_rest_evenly(clock: Clock) -> None:
    gate = budget(clock)

    for _ in range(6):
        gate.enter()

    assert clock.slept == [0.125, 0.125]


def test_unused_time_gives_a_burst_back_and_no_more(clock: Clock) -> None:
    gate = budget(clock)
    for _ in range(4):
        gate.enter()

    clock.now += 60
    for _ in range(4):
        gate.enter()

    assert clock.slept == []


def test_no_limit_never_waits(clock: Clock) -> None:
    gate = budget(clock, per_second=0)

    for _ in range(1000):
        gate.enter()

    assert clock.slept == []


def test_who_would_wait_too_long_is_sent_away_and_takes_no_turn(clock: Clock) -> None:
    gate = Budget(per_second=0.1, burst=0, clock=clock, sleep=lambda _: None)
    gate.enter()

    with pytest.raises(Unreachable, match="wait for their turn") as caught:
        gate.enter()

    assert caught.value.retry_after == 10
    clock.now += 10
    gate.enter()


def test_a_pause_that_the_server_asks_for_binds_every_request(clock: Clock) -> None:
    gate = budget(clock)
    gate.pause(7)

    with pytest.raises(Unreachable, match="asked for a pause") as caught:
        gate.enter()

    assert caught.value.retry_after == 7
    clock.now += 7
    gate.enter()


@pytest.mark.parametrize(("asked", "lasts"), [(None, 1), (0, 0), (3600, 60)])
def test_a_pause_is_a_second_where_none_is_named_and_a_minute_at_most(
    clock: Clock, asked: float | None, lasts: float
) -> None:
    gate = budget(clock)

    gate.pause(asked)
    clock.now += lasts

    gate.enter()


def test_a_shorter_pause_does_not_cut_a_longer_one(clock: Clock) -> None:
    gate = budget(clock)
    gate.pause(20)
    gate.pause(1)
    clock.now += 2

    with pytest.raises(Unreachable):
        gate.enter()


def test_a_list_older_than_what_was_heard_before_it_began_is_not_believed() -> None:
    age = Age()
    age.heard({"pods": "20"})

    with pytest.raises(Unreachable, match="pods"):
        age.check({"pods": "19", "nodes": "7"}, since=age.mark())


def test_what_is_heard_while_a_list_is_made_does_not_make_it_old() -> None:
    age = Age()
    since = age.mark()
    age.heard({"pods": "20"})

    age.check({"pods": "19"}, since=since)


def test_a_cluster_that_was_restored_is_believed_after_a_while(clock: Clock) -> None:
    age = Age(clock)
    age.heard({"pods": "20"})
    with pytest.raises(Unreachable):
        age.check({"pods": "5"}, since=age.mark())

    clock.now += BELIEVED_AFTER_SECONDS
    age.check({"pods": "6"}, since=age.mark())

    age.check({"pods": "7"}, since=age.mark())


def test_positions_that_are_no_numbers_say_nothing_about_age() -> None:
    age = Age()
    age.heard({"pods": "b"})

    age.check({"pods": "a"}, since=age.mark())
