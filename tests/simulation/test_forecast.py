"""Forecasts of small worlds in which every start is known exactly."""

from dataclasses import replace

import pytest

from queues.admission.decide import decide
from queues.admission.outcome import Outcome
from queues.admission.world import MINUTE, Group, Heads, JobShape, Placed, Waiting, World
from queues.simulation import forecast as forward
from queues.simulation.expected import Basis, Cause, Expected, Present, Unknown
from queues.simulation.forecast import Forecast
from tests.admission.site import NOW, Site


def present(site: Site, limits: dict[int, int | None], **more: object) -> Present:
    """Return a site's world, with the time limits of its waiting jobs in minutes."""
    waiting = tuple(
        Waiting(**{name: getattr(row, name) for name in row.__slots__} | {"limit": limit and limit * MINUTE})
        for row in site.waiting
        for limit in (limits.get(row.id),)
    )
    classes = {row.id: row for row in site.classes}
    return Present(world=site.world(), waiting=waiting, classes=classes, **more)  # type: ignore[arg-type]


def run(now: Present, *, steps: int = 1000, **more: int) -> Forecast:
    forecast = Forecast(now, **more)
    left = iter(range(steps))
    forecast.run(lambda: next(left, None) is not None)
    return forecast


def minutes(forecast: Forecast) -> dict[int, tuple[int, int]]:
    """Return the expected starts in minutes from now."""
    return {job: ((row.p50 - NOW) // MINUTE, (row.p90 - NOW) // MINUTE) for job, row in forecast.starts().items()}


def easy() -> tuple[Site, dict[str, int]]:
    """Return the world of conformance vector 6, in which the first waiting job may hold."""
    site = Site()
    (node,) = site.node(8)
    team = site.team(8)
    jobs = {"r1": site.runs(team, node, units=6, ends_by=NOW + 10 * MINUTE)}
    jobs["j1"] = site.waits(team, 8, gang=1, minutes=40)
    jobs["j2"] = site.waits(team, 2, gang=1)
    jobs["j3"] = site.waits(team, 2, gang=1)
    return site, jobs


def test_easy_backfill_starts_as_the_vector_says() -> None:
    site, jobs = easy()

    found = run(present(site, {jobs["j1"]: 5, jobs["j2"]: 10, jobs["j3"]: 12}))

    assert minutes(found)[jobs["j2"]] == (0, 0)
    assert minutes(found)[jobs["j1"]] == (10, 10)
    assert minutes(found)[jobs["j3"]] == (15, 15)
    bases = {job: row.basis for job, row in found.starts().items()}
    assert bases == {jobs["j2"]: Basis.ROOM, jobs["j1"]: Basis.TIME_LIMITS, jobs["j3"]: Basis.TIME_LIMITS}


def test_two_jobs_in_line_start_one_after_the_other() -> None:
    site = Site()
    (node,) = site.node(8)
    team = site.team(8)
    site.runs(team, node, units=8, ends_by=NOW + 30 * MINUTE)
    first = site.waits(team, 8, gang=1, minutes=2)
    second = site.waits(team, 8, gang=1, minutes=1)

    found = run(present(site, {first: 60, second: 60}))

    assert minutes(found) == {first: (30, 30), second: (90, 90)}


def test_the_tasks_of_an_independent_job_start_one_by_one_and_the_first_counts() -> None:
    site = Site()
    (node,) = site.node(2)
    team = site.team(2)
    sweep = site.waits(team, 1, tasks=4, minutes=2)
    later = site.waits(team, 2, gang=1, minutes=1)

    found = run(present(site, {sweep: 10, later: 10}))

    assert minutes(found) == {sweep: (0, 0), later: (20, 20)}
    assert node == 1


def test_what_has_finished_before_tells_p50_and_p90() -> None:
    site = Site()
    (node,) = site.node(8)
    team = site.team(8)
    running = site.runs(team, node, units=8, since=NOW, ends_by=NOW + 600 * MINUTE)
    waits = site.waits(team, 8, gang=1)
    own = site.waiting[0].job_class
    lengths = {own: tuple(minute * MINUTE for minute in range(1, 21))}
    as_waiting = {running: Waiting(id=running, job_class=own, user=team, wait_from=NOW, submitted=NOW)}

    found = run(present(site, {waits: 600}, lengths=lengths, running=as_waiting))

    assert found.starts()[waits] == Expected(p50=NOW + 10 * MINUTE, p90=NOW + 18 * MINUTE, basis=Basis.RUN_TIMES)


def test_what_has_run_longer_than_half_of_its_like_is_judged_by_those_that_ran_longer_still() -> None:
    site = Site()
    (node,) = site.node(8)
    team = site.team(8)
    running = site.runs(team, node, units=8, since=NOW - 10 * MINUTE, ends_by=NOW + 600 * MINUTE)
    waits = site.waits(team, 8, gang=1)
    own = site.waiting[0].job_class
    lengths = {own: tuple(minute * MINUTE for minute in range(1, 21))}
    as_waiting = {running: Waiting(id=running, job_class=own, user=team, wait_from=NOW, submitted=NOW)}

    found = run(present(site, {waits: 600}, lengths=lengths, running=as_waiting))

    assert minutes(found) == {waits: (5, 9)}


def test_a_time_limit_ends_what_its_like_would_let_run_on() -> None:
    site = Site()
    (node,) = site.node(8)
    team = site.team(8)
    running = site.runs(team, node, units=8, since=NOW, ends_by=NOW + 12 * MINUTE)
    waits = site.waits(team, 8, gang=1)
    own = site.waiting[0].job_class
    lengths = {own: tuple(minute * MINUTE for minute in range(1, 21))}
    as_waiting = {running: Waiting(id=running, job_class=own, user=team, wait_from=NOW, submitted=NOW)}

    found = run(present(site, {waits: 600}, lengths=lengths, running=as_waiting))

    assert minutes(found) == {waits: (10, 12)}


def test_behind_endless_jobs_the_start_is_unknown_and_says_how_many_there_are() -> None:
    site = Site()
    site.node(8, count=2)
    team = site.team(16)
    site.runs(team, 1, units=8)
    site.runs(team, 2, units=8)
    waits = site.waits(team, 8, gang=1)

    found = run(present(site, {waits: 60}))

    assert found.starts() == {}
    assert found.unknown(site.waiting[0].job_class, team) == Unknown(cause=Cause.ENDLESS, running=2)


def test_a_job_without_limit_that_starts_before_is_a_cause_too() -> None:
    site = Site()
    (node,) = site.node(8)
    team = site.team(8)
    site.runs(team, node, units=8, ends_by=NOW + 10 * MINUTE)
    first = site.waits(team, 8, gang=1, minutes=2)
    site.waits(team, 4, gang=2, minutes=1)

    found = run(present(site, {}))

    assert minutes(found) == {first: (10, 10)}
    assert found.unknown(site.waiting[1].job_class, team) == Unknown(cause=Cause.ENDLESS, before=1)


def test_what_can_never_start_and_what_is_paused_say_so() -> None:
    site = Site()
    site.node(8)
    team, other = site.team(8), site.team(8, queue_paused=True)
    site.waits(team, 9, gang=1)
    site.waits(other, 1, gang=1)

    found = run(present(site, {}))

    causes = [found.unknown(row.job_class, row.user).cause for row in site.waiting]
    assert causes == [Cause.NEVER, Cause.PAUSED]


def test_what_no_end_of_a_running_job_lets_start_is_blocked() -> None:
    site = Site()
    site.node(8)
    team = site.team(8, per_user_limit=2)
    site.waits(team, 1, groups=(Group(tasks=1, units=4, flavors=(1,)),))
    site.cordon(1)

    found = run(present(site, {}))

    assert found.starts() == {}
    assert found.unknown(site.waiting[0].job_class, team).cause in {Cause.BLOCKED, Cause.NEVER}


def test_beyond_the_horizon_the_number_of_starts_the_list_and_the_steps_nothing_is_told() -> None:
    site = Site()
    (node,) = site.node(8)
    team = site.team(8)
    site.runs(team, node, units=8, ends_by=NOW + 30 * MINUTE)
    first = site.waits(team, 8, gang=1, minutes=2)
    second = site.waits(team, 8, gang=1, minutes=1)
    now = present(site, {first: 60, second: 60})
    own = site.waiting[0].job_class
    cut = present(site, {first: 60, second: 60}, cut=frozenset({(own, team)}))

    late = run(now, horizon=60 * MINUTE)
    few = run(now, most=1)
    short = run(now, steps=1)

    assert minutes(late) == {first: (30, 30)}
    assert late.unknown(own, team) == Unknown(cause=Cause.TOO_LATE)
    assert minutes(few) == {first: (30, 30)}
    assert few.unknown(own, team) == Unknown(cause=Cause.TOO_FAR)
    assert minutes(short) == {}
    assert short.unknown(own, team) == Unknown(cause=Cause.TOO_FAR)
    assert run(cut).unknown(own, team) == Unknown(cause=Cause.TOO_FAR)


def test_far_ends_are_taken_together() -> None:
    site = Site()
    site.node(1, count=200)
    team = site.team(200)
    for node in range(1, 201):
        site.runs(team, node, ends_by=NOW + (600 + node) * MINUTE)
    line = [site.waits(team, 1, gang=1, minutes=1000 - place) for place in range(200)]
    now = present(site, {})

    found = minutes(run(now, steps=120))

    assert len(found) == 200
    assert [found[job][0] for job in line[:49]] == [600 + place for place in range(1, 50)]
    assert all(600 + place <= found[job][0] <= (600 + place) * 1.05 for place, job in enumerate(line, start=1))


def test_a_guarantee_is_taken_back_in_the_forecast_as_in_the_loop() -> None:
    site = Site()
    (node,) = site.node(8)
    owner, guest = site.team(8), site.team(0)
    borrows = site.runs(guest, node, units=8, ends_by=NOW + 600 * MINUTE, grace=2 * MINUTE)
    claims = site.waits(owner, 8, gang=1)
    again = site.waits(guest, 8, gang=1)
    as_waiting = {
        borrows: Waiting(
            id=borrows, job_class=site.waiting[1].job_class, user=guest, wait_from=NOW, submitted=NOW, limit=10 * MINUTE
        )
    }

    found = run(present(site, {claims: 60, again: 30}, running=as_waiting))

    assert minutes(found)[claims] == (2, 2)
    assert minutes(found)[again] == (62, 62)


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_rows_does_not_matter(order: int) -> None:
    site, jobs = easy()
    now = present(site, {jobs["j1"]: 5, jobs["j2"]: 10, jobs["j3"]: 12})
    turned = Present(world=now.world, waiting=now.waiting[::order], classes=now.classes)

    assert run(turned).starts() == run(now).starts()


def test_surplus_that_goes_holds_its_gpus_for_its_grace_and_its_job_does_not_grow_for_the_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site()
    (node,) = site.node(2)
    team = site.team(2)
    site.runs(
        team,
        node,
        shape=JobShape.ELASTIC,
        surplus=(Placed(group=0, node=node, tasks=1),),
        grace=2 * MINUTE,
        ends_by=NOW + 300 * MINUTE,
    )
    # Its minimum is one task, its maximum two.
    site.attempts[0] = replace(site.attempts[0], groups=(Group(tasks=1, units=1, flavors=(1,), most=2),))
    short = site.waits(team, 1, gang=1, minutes=5)
    # A forecast goes on for as long as somebody waits.
    site.waits(site.team(0, queue_paused=True), 1, gang=1)
    now = present(site, {short: 10}, elastic_pause=30 * MINUTE)

    seen: list[tuple[int, int]] = []

    def watched(world: World, heads: Heads) -> Outcome:
        outcome = decide(world, heads)
        seen.extend(((world.now - NOW) // MINUTE, len(row.placed)) for row in outcome.growth)
        return outcome

    monkeypatch.setattr(forward, "decide", watched)

    forecast = run(now)

    assert minutes(forecast) == {short: (2, 2)}
    assert seen == [(30, 1)]
