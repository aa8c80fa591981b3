"""What people read of the order, teams, nodes and decisions."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from queues import cycle, queries, services
from queues.models import ClusterState, Decision, Job, Node, Verdict
from queues.queries.rows.shares import TeamBar
from tenants.errors import Invalid, NotAllowed, NotFound, Unreadable
from tenants.models import Quota
from tenants.permissions import Actor
from tests.queues.lab import MINUTE, NOW, Lab
from tests.queues.test_services import statements


def bar(by: Actor, team: str, flavor: str = "h100") -> TeamBar:
    (found,) = queries.team_bars(by, now=NOW, team=team, flavor=flavor)
    return found


def fill(lab: Lab, nodes: int) -> Job:
    """Let cv run 8 units on each of the first nodes."""
    job = lab.submit(lab.carl, name="filler", team="cv", tasks=nodes, gpus="h100:8")
    lab.start(job, *lab.nodes[:nodes])
    return job


def test_the_order_shows_ranks_units_ahead_and_what_starts_next(lab: Lab) -> None:
    fill(lab, 3)
    lab.submit(name="first", shape="gang", tasks=1, gpus="h100:8")
    lab.submit(name="second", gpus="h100:8", now=NOW + MINUTE)

    order = queries.queue_order(lab.ann, "h100", now=NOW + MINUTE)

    rows = [(row.rank, row.job and row.job.name, row.units, row.units_ahead, row.starts_next) for row in order.rows]
    assert rows == [(1, "first", 8, 0, True), (2, "second", 8, 8, False)]
    assert (order.free, order.waiting_jobs, order.waiting_units) == (8, 2, 16)


@pytest.mark.parametrize(("code", "starts"), [("", True), ("NO_FREE_CAPACITY", True), ("USER_LIMIT", False)])
def test_a_job_starts_next_where_a_task_fits_and_its_last_verdict_names_nothing_else(
    lab: Lab,
    code: str,
    starts: bool,  # noqa: FBT001
) -> None:
    fill(lab, 3)
    job = lab.submit(tasks=20)
    if code:
        Verdict.objects.create(job_class=job.job_class, code=code, since=NOW, at=NOW)

    (row,) = queries.queue_order(lab.ann, "h100", now=NOW).rows

    assert (row.units, row.starts_next) == (20, starts)


def test_jobs_of_others_are_counted_in_the_order_and_not_named(lab: Lab) -> None:
    fill(lab, 4)
    lab.submit(lab.carl, name="theirs", team="cv", gpus="h100:8")
    lab.submit(name="ours", gpus="h100:4", now=NOW + MINUTE)
    Quota.objects.filter(team=lab.nlp).update(guaranteed=0)

    mine = queries.queue_order(lab.ann, "h100", now=NOW + MINUTE)
    all_teams = queries.queue_order(lab.root, "h100", now=NOW + MINUTE)
    only_mine = queries.queue_order(lab.ann, "h100", now=NOW + MINUTE, team="nlp")

    assert {row.units: row.job for row in mine.rows}[8] is None
    assert {row.job.name for row in all_teams.rows if row.job} == {"ours", "theirs"}
    assert [row.job.name for row in only_mine.rows if row.job] == ["ours"]
    assert only_mine.rows[0].rank == next(row.rank for row in mine.rows if row.job)


def test_jobs_that_can_never_start_stand_apart_and_take_no_rank(lab: Lab) -> None:
    lab.submit(name="never", gpus="h100:9")
    cycle.turn(NOW)
    fill(lab, 4)
    lab.submit(name="waits", gpus="h100:8")

    order = queries.queue_order(lab.ann, "h100", now=NOW)

    assert [row.job.name for row in order.rows if row.job] == ["waits"]
    assert [(row.rank, row.job.name) for row in order.permanent if row.job] == [(None, "never")]
    assert order.waiting_jobs == 1
    assert queries.queue_order(lab.carl, "h100", now=NOW).permanent == ()


def test_an_unknown_gpu_type_names_those_that_there_are(lab: Lab) -> None:
    with pytest.raises(Invalid) as caught:
        queries.queue_order(lab.ann, "h10", now=NOW)

    assert caught.value.fields[0].allowed == ("h100", "l40s")


def test_a_position_leaves_out_what_runs_and_what_can_never_start(lab: Lab) -> None:
    lab.submit(name="never", gpus="h100:9")
    cycle.turn(NOW)
    fill(lab, 4)
    low = lab.submit(name="a", gpus="h100:8", priority="low")
    high = lab.submit(name="c", gpus="h100:8", priority="high", now=NOW + MINUTE)

    places = [queries.job(lab.ann, job.uid, now=NOW + MINUTE).position for job in (high, low)]

    assert [(place.rank, place.units_ahead) for place in places if place] == [(1, 0), (2, 8)]


def test_an_explanation_tells_needs_room_and_what_would_help(lab: Lab) -> None:
    filler = fill(lab, 3)
    # Firm work that its guarantee covers gives way to nobody, even where more is promised than there is.
    Job.objects.filter(id=filler.id).update(preemptible=False)
    Quota.objects.filter(team=lab.cv).update(guaranteed=24)
    job = lab.submit(shape="gang", tasks=2, gpus="h100:8")
    cycle.turn(NOW)

    found = queries.explain(lab.ann, job.uid, now=NOW)

    assert (found.flavor, found.needs, found.team_guaranteed, found.team_used) == ("h100", 16, 16, 0)
    assert (found.team_left, found.free_now, found.largest_free_block) == (16, 8, 8)
    assert found.reason is not None
    assert found.reason.code == "NO_FREE_CAPACITY"
    assert found.rule == "A job starts when all that it needs at once is free."
    assert [action.text for action in found.helps] == [
        "With 8 h100 instead of 16 there would be room now.",
        "Allow l40s as well: 16 are free.",
    ]
    assert filler.name not in str(found)


def test_an_explanation_tells_until_when_a_job_starts(lab: Lab) -> None:
    lab.start(lab.submit(name="full", shape="gang", tasks=4, gpus="h100:8", time_limit="2h", grace="0s"))
    Job.objects.update(preemptible=False)
    Quota.objects.filter(team=lab.nlp).update(guaranteed=32)
    Quota.objects.exclude(team=lab.nlp).update(guaranteed=0)
    first = lab.submit(gpus="h100:8", time_limit="3h", grace="0s")
    second = lab.submit(gpus="h100:8", time_limit="1h", grace="0s", now=NOW + MINUTE)
    cycle.turn(NOW + 40 * MINUTE)

    found = queries.explain(lab.ann, second.uid, now=NOW + 40 * MINUTE).bound
    before = queries.explain(lab.ann, first.uid, now=NOW + 40 * MINUTE).bound

    # What runs ends 80 min from now. The first job may start 10 min late (start_limit), run 3 h: D of the second.
    assert before is not None
    assert found is not None
    assert (before.standing, before.before, before.longest) == ("guaranteed", 0, 80 * MINUTE)
    assert (before.planned_at, before.latest) == (NOW + 120 * MINUTE, NOW + 120 * MINUTE)
    assert (found.before, found.longest, found.holds_from) == (1, 190 * MINUTE, NOW + 40 * MINUTE)
    assert found.latest == NOW + (40 + 2 * 190) * MINUTE
    assert found.planned_at == NOW + 120 * MINUTE
    assert (
        found.summary == "Starts at the latest when 1 holds before it and nothing on h100 runs longer than its limit."
    )


def test_a_borrower_is_told_that_its_planned_start_may_move(lab: Lab) -> None:
    lab.start(lab.submit(name="full", shape="gang", tasks=4, gpus="h100:8", time_limit="2h"))
    Quota.objects.update(guaranteed=0)
    job = lab.submit(gpus="h100:8", time_limit="3h")
    cycle.turn(NOW + 40 * MINUTE)

    found = queries.explain(lab.ann, job.uid, now=NOW + 40 * MINUTE).bound

    assert found is not None
    assert (found.standing, found.cause, found.latest) == ("borrower", "borrower", None)


def test_an_explanation_names_those_ahead_whom_one_may_see(lab: Lab) -> None:
    fill(lab, 4)
    ahead = lab.submit(lab.art, name="ahead", gpus="h100:2")
    lab.submit(lab.carl, name="secret", team="cv", gpus="h100:3")
    job = lab.submit(gpus="h100:8", priority="low", now=NOW + MINUTE)
    Quota.objects.filter(team=lab.nlp).update(guaranteed=0)

    blockers = {row.units: row for row in queries.explain(lab.ann, job.uid, now=NOW + MINUTE).ahead}

    assert (blockers[2].job, blockers[2].text) == (ahead.uid, "nlp: ahead, 2 h100")
    if 3 in blockers:
        assert (blockers[3].job, blockers[3].text) == (None, "another team, 3 h100")


def test_a_bar_splits_use_into_guarantee_and_borrowed(lab: Lab) -> None:
    fill(lab, 3)
    lab.submit(name="waits", gpus="h100:8", shape="gang", tasks=3)

    cv, nlp = bar(lab.root, "cv"), bar(lab.root, "nlp")

    assert (cv.guaranteed, cv.used, cv.inside, cv.borrowed, cv.lent, cv.waiting) == (8, 24, 8, 16, 0, 0)
    assert (nlp.guaranteed, nlp.used, nlp.inside, nlp.borrowed, nlp.waiting, nlp.starved) == (16, 0, 0, 0, 24, True)
    assert cv.text == "24/8 · +16 borrowed"
    assert nlp.lent > 0


def test_what_is_borrowed_is_lent_by_somebody(lab: Lab) -> None:
    fill(lab, 4)

    bars = [row for row in queries.team_bars(lab.root, now=NOW, flavor="h100") if not row.department]

    assert sum(row.borrowed for row in bars) == 24
    assert sum(row.lent for row in bars) == 24


def test_a_department_s_bar_sums_what_is_below(lab: Lab) -> None:
    fill(lab, 1)

    department = bar(lab.root, "ai")

    assert (department.department, department.guaranteed, department.used, department.borrowed) == (True, 24, 8, 0)


def test_what_a_team_keeps_back_counts_in_the_guarantee_of_its_department(lab: Lab) -> None:
    Quota.objects.filter(team=lab.nlp).update(lend_limit=0)

    assert bar(lab.root, "ai").guaranteed == 24


def test_the_most_starved_team_comes_first(lab: Lab) -> None:
    lab.submit(name="waits", gpus="h100:8", shape="gang", tasks=2)

    assert queries.team_bars(lab.root, now=NOW)[0].team == "nlp"


def test_one_sees_the_bars_of_one_s_own_teams_only(lab: Lab) -> None:
    assert {row.team for row in queries.team_bars(lab.ann, now=NOW)} == {"nlp"}
    assert all(row.mine for row in queries.team_bars(lab.ann, now=NOW))
    assert {row.team for row in queries.team_bars(lab.auditor, now=NOW)} == {"ai", "nlp", "cv", "life", "bio"}


def test_the_numbers_of_a_gpu_type_add_up(lab: Lab) -> None:
    fill(lab, 2)
    Node.objects.filter(name="h1").update(cordoned=True)
    Node.objects.filter(name="h2").update(outside_units=3)
    Node.objects.filter(name="h3").update(ready=False)
    lab.submit(gpus="h100:8", tasks=2)
    lab.submit(name="never", gpus="h100:9")

    h100 = queries.overview(lab.ann, now=NOW).flavors[0]

    assert (h100.installed, h100.in_use, h100.free, h100.not_usable, h100.outside) == (32, 16, 5, 8, 3)
    assert h100.installed == h100.in_use + h100.free + h100.not_usable + h100.outside
    assert (h100.waiting_units, h100.waiting_jobs) == (25, 2)
    assert h100.guaranteed == 32


def test_jobs_that_can_never_start_do_not_count_as_waiting(lab: Lab) -> None:
    lab.submit(name="never", gpus="h100:9")
    cycle.turn(NOW)

    h100 = queries.overview(lab.ann, now=NOW).flavors[0]

    assert (h100.waiting_units, h100.waiting_jobs) == (0, 0)


def test_what_needs_attention(lab: Lab) -> None:
    never = lab.submit(name="never", gpus="h100:9")
    hidden = lab.submit(lab.carl, name="hidden", team="cv", gpus="h100:9")
    cycle.turn(NOW)
    Node.objects.filter(name="h1").update(cordoned=True)
    ClusterState.objects.update(unreachable_since=NOW, error="connection refused")
    slow = lab.submit(name="slow")
    lab.start(slow, running=False)

    found = queries.overview(lab.ann, now=NOW + 10 * MINUTE).attention

    assert [(row.kind, row.job) for row in found] == [
        ("cluster", None),
        ("node", None),
        ("never", never.uid),
        ("start", slow.uid),
    ]
    assert found[0].text == "Cluster default does not answer. connection refused"
    assert hidden.name not in str(found)


def test_the_overview_shows_last_changes_and_how_fresh_it_is(lab: Lab) -> None:
    lab.submit()
    cycle.turn(NOW)

    found = queries.overview(lab.ann, now=NOW)

    assert found.freshness.last_cycle_at == NOW
    assert found.freshness.clusters[0].heard_at == NOW
    assert [row.type for row in found.changes][-1] == "submitted"


def test_the_overview_takes_a_fixed_number_of_statements(lab: Lab) -> None:
    counts = []
    for jobs in (1, 6):
        for _ in range(jobs):
            lab.start(lab.submit(gpus="l40s:1"))
            lab.submit(gpus="h100:1", tasks=7)
        with CaptureQueriesContext(connection) as captured:
            queries.overview(lab.ann, now=NOW)
        counts.append(statements(captured))

    assert counts[0] == counts[1]


def test_nodes_tell_what_is_used_and_why_one_is_not_usable(lab: Lab) -> None:
    fill(lab, 1)
    Node.objects.filter(name="h1").update(cordoned=True)
    Node.objects.filter(name="h2").update(ready=False)
    Node.objects.filter(name="h3").update(tainted=True, taints=[{"key": "sick", "value": "", "effect": "NoSchedule"}])

    rows = {row.name: row for row in queries.nodes(lab.ann, flavor="h100")}

    assert list(rows) == ["h0", "h1", "h2", "h3"]
    assert [(row.used, row.free, row.state) for row in rows.values()] == [
        (8, 0, "ready"),
        (0, 0, "cordoned"),
        (0, 0, "not ready"),
        (0, 0, "tainted"),
    ]
    assert rows["h3"].why == "It has a taint that its GPU type does not tolerate: sick:NoSchedule."
    assert rows["h0"].place == ("r0",)
    assert [row.name for row in queries.nodes(lab.ann, state="cordoned")] == ["h1"]
    assert [row.name for row in queries.nodes(lab.ann, text="L")] == ["l0", "l1"]
    with pytest.raises(Unreadable):
        queries.nodes(lab.ann, state="broken")


def test_a_node_shows_its_tasks_and_hides_whose_they_are_from_other_teams(lab: Lab) -> None:
    job = fill(lab, 1)

    theirs = queries.node(lab.carl, "h0")
    ours = queries.node(lab.ann, "h0")

    assert [(cell.job, cell.team, cell.units, cell.mine) for cell in theirs.row.cells] == [(job.uid, "cv", 8, True)]
    assert [(cell.job, cell.team, cell.job_name, cell.units) for cell in ours.row.cells] == [(None, "", "", 8)]
    assert (ours.cpu_milli, ours.cpu_used) == (96_000, 32_000)
    with pytest.raises(NotFound):
        queries.node(lab.ann, "h99")


def test_the_map_shows_every_machine_in_a_fixed_number_of_statements(lab: Lab) -> None:
    fill(lab, 4)

    with CaptureQueriesContext(connection) as captured:
        rows = queries.allocation(lab.carl)

    assert [row.name for row in rows] == ["h0", "h2", "h1", "h3", "l0", "l1"]
    assert sum(cell.units for row in rows for cell in row.cells) == 32
    assert statements(captured) <= 4


def test_decisions_are_for_those_who_look_after_the_whole(lab: Lab) -> None:
    lab.submit()
    cycle.turn(NOW)
    cycle.turn(NOW + MINUTE)

    rows = queries.decisions(lab.auditor)

    assert [row.at for row in rows] == [NOW + MINUTE, NOW]
    assert [row.admissions for row in queries.decisions(lab.root, busy=True)] == [1]
    assert rows[0].milliseconds == pytest.approx(sum(rows[0].durations.values()))
    with pytest.raises(NotAllowed):
        queries.decisions(lab.lea)


def test_a_decision_names_what_it_admitted(lab: Lab) -> None:
    job = lab.submit(gpus="h100:2")
    cycle.turn(NOW)
    cycle_number = Decision.objects.get().id

    found = queries.decision(lab.root, cycle_number)

    assert [(row.job, row.team, row.units, row.borrowed) for row in found.admitted] == [(job.uid, "nlp", 2, False)]
    with pytest.raises(NotFound):
        queries.decision(lab.root, 10**6)


def test_queues_and_priorities(lab: Lab) -> None:
    services.hold(uid=lab.submit().uid, by=lab.ann, now=NOW)
    lab.start(lab.submit())

    (row,) = queries.queues(lab.ann)
    lead = queries.queue(lab.lea, "nlp", "default")

    assert (row.team, row.name, row.waiting_jobs, row.running_jobs, row.may_edit) == ("nlp", "default", 1, 1, False)
    assert lead.may_edit
    assert [row.name for row in queries.priority_classes()] == ["high", "normal", "low"]
    with pytest.raises(NotFound):
        queries.queue(lab.ann, "cv", "default")
