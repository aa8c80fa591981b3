"""Which classes have waited long, by hand: whatever changed, each answer is what a first look would say."""

from queues.admission.heads import SimpleHeads
from queues.admission.waits import Waits
from queues.admission.world import MINUTE, Ask, Group, JobClass, JobShape, Waiting

HOLD_AFTER = {1: 30 * MINUTE, 2: 10 * MINUTE}
OFTEN = 3


def class_of(number: int, queue: int = 1) -> JobClass:
    ask = Ask(shape=JobShape.GANG, groups=(Group(tasks=1, units=number, flavors=(1,)),))
    return JobClass(id=number, queue=queue, priority=0, ask=ask)


ONE, TWO = class_of(1), class_of(2)


def job(number: int, job_class: int, *, since: int = 0, user: int = 1, evictions: int = 0) -> Waiting:
    at = since * MINUTE
    return Waiting(id=number, job_class=job_class, user=user, wait_from=at, submitted=at, evictions=evictions)


def long(waits: Waits, heads: SimpleHeads, minute: int, *classes: JobClass, evictions: int = OFTEN) -> list[int]:
    waits.look({row.id: row for row in classes}, heads, minute * MINUTE, HOLD_AFTER, evictions)
    return sorted(waits.long | waits.often)


def test_a_class_has_waited_long_from_the_moment_at_which_its_first_job_has() -> None:
    waits, heads = Waits(), SimpleHeads([job(1, 1, since=5), job(2, 1, since=0, user=2), job(3, 2, since=29)])

    assert [long(waits, heads, minute, ONE, TWO) for minute in (29, 30, 58, 59)] == [[], [1], [1], [1, 2]]


def test_who_was_evicted_often_need_not_wait_long() -> None:
    waits, heads = Waits(), SimpleHeads([job(1, 1, evictions=3), job(2, 2, evictions=2)])

    assert long(waits, heads, 1, ONE, TWO) == [1]
    assert (waits.long, waits.often) == (set(), {1})


def test_how_often_is_often_may_change() -> None:
    waits, heads = Waits(), SimpleHeads([job(1, 1, evictions=2)])

    assert [long(waits, heads, 1, ONE, evictions=often) for often in (3, 2, 3)] == [[], [1], []]


def test_a_class_is_looked_at_again_when_its_first_job_has_changed() -> None:
    waits, heads, first = Waits(), SimpleHeads([job(2, 1, since=25)]), job(1, 1)
    heads.add(first)

    before = long(waits, heads, 30, ONE)
    heads.remove(first)

    assert (before, long(waits, heads, 31, ONE), long(waits, heads, 55, ONE)) == ([1], [], [1])


def test_a_class_that_comes_is_looked_at_and_one_that_has_gone_is_not() -> None:
    waits, heads = Waits(), SimpleHeads([job(1, 1), job(2, 2)])

    assert [long(waits, heads, 30, *rows) for rows in ((ONE,), (ONE, TWO), (TWO,), (ONE,))] == [[1], [1, 2], [2], [1]]


def test_a_class_that_waits_in_another_queue_now_waits_as_long_as_that_one_says() -> None:
    waits, heads = Waits(), SimpleHeads([job(1, 1)])

    assert [long(waits, heads, 15, class_of(1, queue)) for queue in (1, 2, 1)] == [[], [1], []]


def test_a_class_of_which_nobody_waits_any_more_has_not_waited_long() -> None:
    waits, heads, only = Waits(), SimpleHeads([]), job(1, 1)
    heads.add(only)

    before = long(waits, heads, 30, ONE)
    heads.remove(only)

    assert (before, long(waits, heads, 30, ONE)) == ([1], [])


def test_other_jobs_or_an_earlier_time_are_looked_at_from_the_first() -> None:
    waits, heads = Waits(), SimpleHeads([job(1, 1)])

    assert long(waits, heads, 30, ONE) == [1]
    assert long(waits, heads, 29, ONE) == []
    assert long(waits, SimpleHeads([job(2, 1, since=20)]), 49, ONE) == []
    assert long(waits, SimpleHeads([job(3, 1, since=10)]), 49, ONE) == [1]


def test_a_mark_tells_what_has_changed_since_and_nothing_about_other_jobs() -> None:
    heads = SimpleHeads([job(1, 1)])
    first, unknown = heads.changed(None)
    heads.add(job(2, 2))

    second, changed = heads.changed(first)

    assert (unknown, changed, heads.changed(second)[1]) == (None, {2}, set())
    assert SimpleHeads([job(1, 1)]).changed(second)[1] is None
