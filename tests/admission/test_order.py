"""Whose turn it is: SEMANTICS 3 and 4."""

from dataclasses import replace

from queues.admission.board import Board
from queues.admission.holds import Planner
from queues.admission.order import Stream, effective_priority
from queues.admission.ranking import ranking
from queues.admission.record import Record
from queues.admission.shares import Share
from queues.admission.world import HOUR, MINUTE, Aging, Claim, Placed, QueueOrder, Quota
from tests.admission.site import NOW, Site


def test_a_weight_of_zero_that_borrows_is_above_every_share() -> None:
    assert Share(1_000_000, 1).below(Share(1, 0))
    assert not Share(1, 0).below(Share(1_000_000, 1))
    assert not Share(1, 0).below(Share(2, 0))
    assert Share(0, 0).below(Share(1, 1000))
    assert Share(4000, 2000).below(Share(3000, 1000))


def test_waiting_raises_the_priority_up_to_the_cap() -> None:
    aging = Aging()

    assert [effective_priority(aging, -1, 0, hours * HOUR) for hours in (0, 1, 2, 9)] == [-1, 0, 1, 1]


def test_guaranteed_demand_goes_before_borrowers_of_higher_priority_and_weight() -> None:
    site = Site()
    site.node(6, count=2)
    a, b, z = site.team(3), site.team(weight=50_000), site.team(9)
    site.runs(a, 2)
    site.runs(z, 1, units=6)
    site.runs(z, 2, units=2)
    big = site.waits(a, gang=12, priority=1, minutes=9)
    loud = site.waits(b, gang=2, priority=1, minutes=5)
    own = site.waits(a, gang=2, minutes=1)

    decided = site.decide()

    assert decided.started() == [own]
    assert decided.code(big).value == "NO_FREE_CAPACITY"
    assert decided.code(loud).value == "NO_FREE_CAPACITY"


def test_borrowed_units_are_spread_by_what_each_would_have_with_the_candidate() -> None:
    site = Site()
    site.node(12)
    z, a, b = site.team(12), site.team(), site.team()
    site.runs(z, 1, units=6)
    wide = site.waits(a, gang=9, minutes=5)
    mine = [site.waits(a) for _ in range(6)]
    theirs = [site.waits(b) for _ in range(6)]

    decided = site.decide()

    assert [decided.tasks(job) for job in mine].count(1) == 3
    assert [decided.tasks(job) for job in theirs].count(1) == 3
    assert decided.tasks(wide) == 0


def test_a_team_of_twice_the_weight_borrows_twice_as_much() -> None:
    site = Site()
    site.node(9)
    site.team(9)
    a, b = site.team(weight=2000), site.team()
    mine, theirs = site.waits(a, tasks=9), site.waits(b, tasks=9)

    decided = site.decide()

    assert (decided.tasks(mine), decided.tasks(theirs)) == (6, 3)


def test_values_of_flavors_count_in_the_share() -> None:
    site = Site()
    site.flavor("t4")
    site.flavor("h100", value=4000)
    site.node(8, flavor=1)
    site.node(2, flavor=2)
    site.team(quotas=(Quota(flavor=1, guaranteed=8), Quota(flavor=2, guaranteed=2)))
    a, b = site.team(quotas=()), site.team(quotas=())
    site.runs(a, 2, flavor=2)
    mine, theirs = site.waits(a, tasks=8), site.waits(b, tasks=8)

    decided = site.decide()

    assert (decided.tasks(mine), decided.tasks(theirs)) == (2, 6)


def test_the_user_with_less_in_use_goes_first_unless_the_queue_is_fifo() -> None:
    for order, expected in ((QueueOrder.FAIR_USERS, "vera"), (QueueOrder.FIFO, "ute")):
        site = Site()
        site.node(3)
        a = site.team(3, order=order)
        site.runs(a, 1, units=2, user=1)
        jobs = {"ute": site.waits(a, user=1, minutes=2), "vera": site.waits(a, user=2, minutes=1)}

        assert site.decide().started() == [jobs[expected]]


def test_priority_goes_before_users_and_time() -> None:
    site = Site()
    site.node(1)
    a = site.team(1)
    site.waits(a, user=1, minutes=50)
    high = site.waits(a, user=2, priority=1)

    assert site.decide().started() == [high]


def test_tasks_of_one_job_become_one_admission() -> None:
    site = Site()
    site.node(4, count=3)
    a = site.team(10)
    job = site.waits(a, tasks=12)

    decided = site.decide()

    (admission,) = decided.outcome.admissions
    assert (admission.tasks, admission.borrowed) == (12, True)
    assert decided.nodes(job) == {1: 4, 2: 4, 3: 4}


def test_a_job_inside_on_a_full_flavor_borrows_another_before_other_borrowers() -> None:
    site = Site()
    site.flavor("own")
    site.flavor("other")
    site.node(4, flavor=1)
    site.node(2, flavor=2)
    a, b, z = (
        site.team(quotas=(Quota(flavor=1, guaranteed=4),)),
        site.team(quotas=()),
        site.team(quotas=(Quota(flavor=2, guaranteed=2),)),
    )
    site.runs(b, 1, units=4)
    site.waits(b, gang=2, flavors=(2,), minutes=30)
    mine = site.waits(a, gang=2, flavors=(1, 2))

    decided = site.decide()

    assert decided.started() == [mine]
    assert decided.outcome.admissions[0].flavors == (2,)
    assert decided.outcome.admissions[0].borrowed
    assert z


def test_it_is_not_sent_to_a_flavor_that_a_more_urgent_job_of_its_team_could_take() -> None:
    site = Site()
    site.flavor("own")
    site.flavor("other")
    site.node(4, flavor=1)
    site.node(2, flavor=2)
    a = site.team(quotas=(Quota(flavor=1, guaranteed=4),))
    b = site.team(quotas=())
    site.team(quotas=(Quota(flavor=2, guaranteed=2),))
    site.runs(b, 1, units=4)
    mine = site.waits(a, gang=2, flavors=(1, 2))
    urgent = site.waits(a, gang=2, flavors=(2,), priority=1)

    decided = site.decide()

    # It gets its own units back instead.
    assert {row.job: row.flavors for row in decided.outcome.admissions} == {mine: (1,), urgent: (2,)}


def test_short_guarantees_on_an_overcommitted_flavor_are_met_evenly() -> None:
    site = Site()
    site.node(8, count=2)
    a, b = site.team(16), site.team(8)
    site.cordon(2)
    mine, theirs = site.waits(a, tasks=8), site.waits(b, tasks=8, minutes=5)

    decided = site.decide()

    assert (decided.tasks(mine), decided.tasks(theirs)) == (5, 3)


def test_the_ranking_names_units_ahead_and_leaves_permanent_ones_out() -> None:
    site = Site()
    site.node(8)
    a, b = site.team(4, borrow=0), site.team(4)
    never = site.waits(a, gang=5, minutes=9)
    second = site.waits(b, gang=3, minutes=1)
    first = site.waits(b, gang=2, minutes=5)
    third = site.waits(a, gang=4)

    rows = site.ranking()

    assert [(row.position, row.job, row.units_ahead) for row in rows] == [
        (1, first, 0),
        (2, third, 2),
        (3, second, 6),
    ]
    assert never not in [row.job for row in rows]
    assert [row.job for row in site.ranking(limit=1)] == [first]
    assert site.ranking(flavor=2) == ()


def test_a_job_ranks_among_those_of_the_first_gpu_type_on_which_it_could_ever_start() -> None:
    site = Site()
    small, large = site.flavor("small"), site.flavor("large")
    site.node(2, flavor=small)
    site.node(4, flavor=large)
    job = site.waits(site.team(), 4, gang=1, flavors=(small, large))

    assert [row.job for row in site.ranking(flavor=large)] == [job]
    assert site.ranking(flavor=small) == ()


def test_the_ranking_meets_short_guarantees_evenly() -> None:
    site = Site()
    site.node(8, count=2)
    a, b = site.team(16), site.team(8)
    site.cordon(2)
    mine, theirs = site.waits(a, tasks=8), site.waits(b, tasks=8, minutes=5)

    rows = site.ranking()

    # 1/16 is less than 1/8, 2/16 is not: then the older one.
    assert [(row.job, row.units_ahead) for row in rows] == [(mine, 0), (theirs, 1)]


def test_the_ranking_takes_users_in_turn_whatever_their_limits() -> None:
    site = Site()
    site.node(8)
    team = site.team(8, per_user_limit=2)
    first, third = (site.waits(team, gang=2, user=1, minutes=minutes) for minutes in (9, 8))
    second = site.waits(team, gang=2, user=2, minutes=1)

    assert [row.job for row in site.ranking()] == [first, second, third]


def test_the_ranking_takes_firm_jobs_inside_only_where_they_are_covered() -> None:
    site = Site()
    site.node(8)
    department = site.team()
    a, b = site.team(2, parent=department), site.team(4, parent=department)
    firm = site.waits(a, gang=4, minutes=9, preemptible=False)
    covered = site.waits(a, gang=2, minutes=5, preemptible=False, user=7)
    own = site.waits(b, gang=1)

    rows = [row.job for row in site.ranking()]

    # The department would be within its 6 with all of them, but a firm 4 is more than the team's 2.
    assert rows.index(covered) < rows.index(own)
    assert firm not in rows or rows.index(firm) > rows.index(own)


def test_tasks_that_a_claim_speaks_for_have_no_turn() -> None:
    site = Site()
    site.node(8)
    team = site.team(8)
    first = site.waits(team, tasks=3, minutes=9)
    second = site.waits(team, gang=2)
    placed = (Placed(group=0, node=1, tasks=1),)
    claim = Claim(id=1, job=first, job_class=1, team=team, user=team, flavors=(1,), placed=placed)

    rows = ranking(replace(site.world(), claims=(claim,)), site.heads())

    assert [(row.job, row.units_ahead) for row in rows] == [(first, 0), (second, 2)]


def test_a_line_in_which_jobs_were_passed_over_goes_on_where_it_was() -> None:
    site = Site()
    site.node(4)
    a = site.team()
    site.runs(a, 1, ends_by=NOW + 10 * MINUTE)
    big = site.waits(a, gang=4, minutes=60, limit=30)
    long = site.waits(a, tasks=3, minutes=9, limit=14)
    site.waits(a, minutes=8, limit=15)
    short = site.waits(a, minutes=7, limit=10)
    site.holds_on(big, 1, at=NOW + 10 * MINUTE, tasks=4)
    site.classes = [replace(row, ask=replace(row.ask, time_limit=15 * MINUTE)) for row in site.classes]
    board = Board(site.world())
    Planner(board, Record()).renew()
    job_class = site.classes[1]
    stream = Stream(board, site.heads(), board.case(job_class), site.queues[0], job_class, site.waiting[1])
    stream.advance(1)

    assert stream.pass_over()
    assert stream.head is not None
    assert (stream.head.id, stream.left) == (short, 1)
    assert not stream.pass_over()
    stream.go_back()

    assert stream.head is not None
    assert (stream.head.id, stream.left) == (long, 2)
