"""What a job's own state adds to the reason of its class, and the waiting jobs held in memory."""

import pytest

from queues.admission.heads import SimpleHeads
from queues.admission.reasons import Code, pauses, would_borrow
from queues.admission.world import Waiting


@pytest.mark.parametrize(("needs", "left", "borrows"), [(3, 2, True), (2, 2, False), (1, 2, False), (1, 0, True)])
def test_a_job_would_borrow_where_it_needs_more_than_its_team_has_left(needs: int, left: int, *, borrows: bool) -> None:
    assert would_borrow(Code.NO_FREE_CAPACITY, {"needs": needs, "team_left": left}) is borrows


def test_what_cannot_start_at_all_or_tells_no_numbers_does_not_borrow() -> None:
    numbers: dict[str, int | str] = {"needs": 3, "team_left": 2}

    assert not any(would_borrow(code, numbers) for code in (Code.EXCEEDS_MAX, Code.HELD, Code.QUEUE_PAUSED))
    assert not would_borrow(Code.BEHIND, {"needs": 3})
    assert not would_borrow(Code.BEHIND, {"team_left": 2})
    assert not would_borrow(Code.BEHIND, {"needs": "3", "team_left": 2})


@pytest.mark.parametrize(
    ("evictions", "waited", "paused"),
    [(2, 0, False), (3, 9, True), (3, 10, False), (4, 19, True), (4, 20, False), (5, 39, True), (5, 40, False)],
)
def test_a_job_pauses_twice_as_long_with_each_further_eviction(evictions: int, waited: int, *, paused: bool) -> None:
    assert pauses(evictions=evictions, most=3, hold_after=10, waited=waited) is paused


def test_jobs_that_come_and_go_stand_in_order_of_their_waiting() -> None:
    first, second, other = (
        Waiting(id=number, job_class=1, user=user, wait_from=at, submitted=at)
        for number, user, at in ((1, 1, 5), (2, 1, 7), (3, 2, 6))
    )
    heads = SimpleHeads(())
    for row in (second, other, first):
        heads.add(row)

    assert heads.users(1) == (first, other)
    assert list(heads.after(1, 1, first)) == [second]

    heads.remove(first)
    heads.remove(other)

    assert heads.users(1) == (second,)
    assert heads.users(2) == ()
