"""What is remembered between decisions follows what changes: each decision is what it would be without a memory."""

from dataclasses import replace

import pytest

from queues.admission.decide import Memory, decide
from queues.admission.frame import Frame
from queues.admission.reasons import Code
from queues.admission.world import HOUR, JobShape, Placed
from tests.admission.site import NOW, Site


def both(site: Site, memory: Memory) -> list[tuple[Code, object]]:
    """Decide with the memory, which must change nothing; return the reasons and what they tell of the ask."""
    warm = decide(site.world(), site.heads(), memory)
    assert warm == decide(site.world(), site.heads())
    return [(row.reason.code, dict(row.reason.numbers).get("needs")) for row in warm.verdicts]


def test_a_class_that_asks_for_something_else_now_is_judged_by_that() -> None:
    site, memory = Site(), Memory()
    site.node(8)
    team = site.team(8)
    site.runs(team, 1, units=6)
    site.waits(team, 3, gang=1)

    before = both(site, memory)
    (group,) = site.classes[0].ask.groups
    site.classes[0] = replace(site.classes[0], ask=replace(site.classes[0].ask, groups=(replace(group, units=4),)))
    after = both(site, memory)

    assert (before, after) == ([(Code.NO_FREE_CAPACITY, 3)], [(Code.NO_FREE_CAPACITY, 4)])


@pytest.mark.parametrize("used", [(3, 0), (4, 3)])
def test_a_class_that_has_gone_is_no_part_of_the_mix_any_more(used: tuple[int, int]) -> None:
    site, memory = Site(), Memory()
    site.node(8, count=2)
    team, poor = site.team(16), site.team(borrow=0)
    for node, units in enumerate(used, start=1):
        if units:
            site.runs(team, node, tasks=units)
    site.waits(team)
    site.waits(poor, 4)

    both(site, memory)
    site.waiting.pop()
    site.classes.pop()
    after = decide(site.world(), site.heads(), memory)

    # Tasks of one unit lose nothing anywhere: the node with the fewest free units.
    assert [row.placed[0].node for row in after.admissions] == [1]
    assert after == decide(site.world(), site.heads())


def test_two_attempts_of_one_number_both_count() -> None:
    site, memory = Site(), Memory()
    site.node(8)
    team = site.team(8)
    for units in (3, 4):
        site.runs(team, 1, units=units)
    site.attempts[1] = replace(site.attempts[1], id=site.attempts[0].id)
    site.waits(team, 2, gang=1)

    assert both(site, memory) == [(Code.NO_FREE_CAPACITY, 2)]


def test_an_attempt_without_tasks_counts_for_nobody() -> None:
    site, memory = Site(), Memory()
    site.node(8)
    team, other = site.team(per_user_limit=2), site.team(8)
    site.runs(team)
    site.runs(other, 1, units=7)
    site.waits(team, 2, gang=1)

    assert both(site, memory) == [(Code.NO_FREE_CAPACITY, 2)]


def test_a_planned_start_follows_the_end_of_what_runs() -> None:
    site, memory = Site(), Memory()
    site.node(8)
    team = site.team(8)
    site.runs(team, 1, units=8, ends_by=NOW + HOUR)
    site.waits(team, 8, gang=1, minutes=60)

    before = decide(site.world(), site.heads(), memory)
    site.attempts[0] = replace(site.attempts[0], ends_by=NOW + 2 * HOUR)
    after = decide(replace(site.world(), holds=before.holds), site.heads(), memory)

    assert [row.at for row in (*before.holds, *after.holds)] == [NOW + HOUR, NOW + 2 * HOUR]


def test_what_was_counted_of_one_world_is_not_told_of_another() -> None:
    site = Site()
    site.node(8)
    site.team(8)
    world = site.world()
    frame = Frame(world)
    frame.move(world)

    assert frame.settled(world) is not None
    assert frame.settled(replace(world)) is None


def test_all_that_a_person_has_counts_where_users_share() -> None:
    site, memory = Site(), Memory()
    site.node(8)
    team = site.team(8)
    for user, units in ((1, 2), (1, 2), (2, 3)):
        site.runs(team, 1, units=units, user=user)
    site.waits(team, gang=1, user=1, minutes=5)
    second = site.waits(team, gang=1, user=2)

    started = decide(site.world(), site.heads(), memory).admissions

    assert [row.job for row in started] == [second]


def test_a_class_that_was_read_anew_beside_a_new_one_is_what_it_was() -> None:
    site, memory = Site(), Memory()
    site.node(8)
    team = site.team(8)
    site.runs(team, 1, units=6)
    site.waits(team, 3, gang=1)

    both(site, memory)
    site.classes[0] = replace(site.classes[0])
    site.waits(team, 4, gang=1)

    assert both(site, memory) == [(Code.NO_FREE_CAPACITY, 3), (Code.NO_FREE_CAPACITY, 4)]


@pytest.mark.parametrize("limit", [{"queue_limit": 4}, {"per_user_limit": 4}])
def test_all_surplus_of_a_person_counts_as_what_may_be_taken_back_for_another_job_of_theirs(
    limit: dict[str, int],
) -> None:
    site, memory = Site(), Memory()
    site.node(8)
    team = site.team(8, **limit)  # type: ignore[arg-type]
    for _ in range(2):
        site.runs(team, 1, shape=JobShape.ELASTIC)
        group = replace(site.attempts[-1].groups[0], most=2)
        surplus = (Placed(group=0, node=1, tasks=1),)
        site.attempts[-1] = replace(site.attempts[-1], groups=(group,), surplus=surplus)
    job = site.waits(team, 2, gang=1)

    decided = decide(site.world(), site.heads(), memory)

    assert [row.job for row in decided.admissions] == [job]
    assert [(row.attempt, row.surplus) for row in decided.evictions] == [(1, True), (2, True)]
    assert decided == decide(site.world(), site.heads())
