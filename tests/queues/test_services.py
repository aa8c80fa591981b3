"""What people do to jobs: submit, rerun, cancel, hold, release, priority, labels."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from queues import classes, services
from queues.models import Job, JobClass, JobEvent, PriorityClass, Queue, TaskGroup, Wave
from queues.queries.filters import JobFilter
from queues.services import IfExists
from queues.states import JobState, WaveState
from tenants.errors import Conflict, DomainError, Invalid, NotAllowed, NotFound
from tenants.models import AuditEntry, Membership, Role
from tenants.permissions import Actor, Scope
from tests.queues.lab import MINUTE, NOW, Lab, compact, team


def statements(captured: CaptureQueriesContext) -> int:
    """Count what was asked of the tables; a transaction's brackets are not counted."""
    brackets = ("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT")
    return sum(not query["sql"].startswith(brackets) for query in captured.captured_queries)


def events(job: Job) -> list[tuple[str, str]]:
    return list(JobEvent.objects.filter(job=job).order_by("id").values_list("type", "actor"))


def test_a_submitted_job_waits_with_its_groups_class_and_event(lab: Lab) -> None:
    job = lab.submit(shape="gang", tasks=2, gpus="h100:8", resources={"cpu": "500m", "memory": "100Mi"}, retries=1)

    job.refresh_from_db()
    group = TaskGroup.objects.get(job=job)
    ask = classes.ask_from_json(job.job_class.ask)
    assert (job.team, job.queue.name, job.user) == (lab.nlp, "default", lab.ann.user)
    assert (job.state, job.ready, job.waiting_tasks, job.units, job.attempt) == (JobState.QUEUED, True, 1, 16, 1)
    assert (job.submitted_at, job.wait_from, job.state_since) == (NOW, NOW, NOW)
    assert (job.time_limit, job.grace, job.retries) == (timedelta(hours=24), timedelta(seconds=30), 1)
    assert (group.tasks, group.units, group.cpu_milli, group.memory) == (2, 8, 500, 100 * 2**20)
    assert group.flavors == [lab.h100.id]
    assert (ask.groups[0].tasks, ask.groups[0].cpu, ask.groups[0].memory) == (2, 1000, 2**30)
    assert ask.time_limit == 32 * 3_600_000
    assert events(job) == [("submitted", "ann")]
    assert job.spec["spec"]["gpus"] == {"count": 8, "type": ["h100"]}


def test_every_task_of_an_independent_job_waits(lab: Lab) -> None:
    assert lab.submit(tasks=100).waiting_tasks == 100


def test_submitting_takes_few_statements(lab: Lab) -> None:
    lab.submit()

    with CaptureQueriesContext(connection) as captured:
        lab.submit(name="again")

    assert statements(captured) <= 8


def test_jobs_that_differ_in_tasks_only_share_a_class_if_independent(lab: Lab) -> None:
    one, many = lab.submit(tasks=1), lab.submit(tasks=50)
    gang, larger = lab.submit(tasks=2, shape="gang"), lab.submit(tasks=3, shape="gang")

    assert one.job_class_id == many.job_class_id
    assert gang.job_class_id != larger.job_class_id


def test_asks_that_differ_within_a_step_share_a_class(lab: Lab) -> None:
    jobs = [
        lab.submit(resources={"cpu": cpu, "memory": memory}, time_limit=limit)
        for cpu, memory, limit in (("3100m", "7500Mi", "31m"), ("4", "8Gi", "1h"))
    ]

    assert len({job.job_class_id for job in jobs}) == 1


@pytest.mark.parametrize(
    ("minutes", "grouped"), [(1, 15), (15, 15), (16, 30), (30, 30), (31, 60), (60, 60), (24 * 60, 32 * 60)]
)
def test_time_limits_are_grouped_by_a_quarter_of_an_hour_doubled(minutes: int, grouped: int) -> None:
    assert classes.grouped(timedelta(minutes=minutes)) == grouped * 60_000


def test_the_wished_grace_is_bounded_by_the_queue(lab: Lab) -> None:
    assert lab.submit(grace="10m").grace == timedelta(seconds=120)


def test_an_ask_above_what_the_team_could_ever_have_is_accepted_with_a_warning(lab: Lab) -> None:
    gang = services.submit(spec=compact(shape="gang", tasks=5, gpus="h100:8"), by=lab.ann, now=NOW)
    task = services.submit(spec=compact(gpus="h100:9"), by=lab.ann, now=NOW)
    fits = services.submit(spec=compact(shape="gang", tasks=4, gpus="h100:8"), by=lab.ann, now=NOW)

    assert [(notice.code, notice.detail) for notice in gang.warnings] == [
        ("EXCEEDS_MAX", "This job can never start: it needs 40 h100 at once; nlp can have at most 32.")
    ]
    assert [(notice.code, notice.detail) for notice in task.warnings] == [
        ("EXCEEDS_NODE", "This job can never start: a task needs 9 h100 on one node; the largest node has 8.")
    ]
    assert fits.warnings == ()


def test_a_borrow_limit_counts_in_the_warning(lab: Lab) -> None:
    lab.nlp.quotas.update(borrow_limit=0)

    done = services.submit(spec=compact(shape="gang", tasks=3, gpus="h100:8"), by=lab.ann, now=NOW)

    assert "nlp can have at most 16" in done.warnings[0].detail


def test_another_team_is_not_found_and_nothing_is_stored(lab: Lab) -> None:
    with pytest.raises(NotFound) as hidden:
        lab.submit(team="cv")
    with pytest.raises(NotFound) as unknown:
        lab.submit(team="xx")

    assert hidden.value.detail.replace("cv", "xx") == unknown.value.detail
    assert hidden.value.fields[0].allowed == ("nlp",)
    assert not Job.objects.exists()
    assert not JobClass.objects.exists()


def test_a_viewer_may_see_the_team_but_not_submit(lab: Lab) -> None:
    with pytest.raises(NotAllowed):
        lab.submit(lab.vic)


def test_a_department_takes_no_jobs_and_says_which_teams_do(lab: Lab) -> None:
    with pytest.raises(Invalid) as caught:
        lab.submit(lab.root, team="ai")

    assert caught.value.fields[0].allowed == ("cv", "nlp")


def test_a_team_that_becomes_a_department_meanwhile_takes_no_job(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from queues import submission  # noqa: PLC0415

    store = submission.store

    def slow(*args: Any, **named: Any) -> list[Job]:  # noqa: ANN401
        team("nlp-sub", parent=lab.nlp)
        return store(*args, **named)

    monkeypatch.setattr(submission, "store", slow)

    with pytest.raises(Conflict):
        lab.submit()
    assert not Job.objects.exists()


def test_a_person_of_two_teams_has_to_name_one(lab: Lab) -> None:
    Membership.objects.create(user=lab.ann.user, team=lab.cv, role=Role.MEMBER, created_at=NOW)

    with pytest.raises(Invalid) as caught:
        lab.submit(team=None)

    assert caught.value.fields[0].allowed == ("cv", "nlp")


def test_a_token_for_reading_does_not_submit(lab: Lab) -> None:
    with pytest.raises(NotAllowed):
        lab.submit(replace(lab.ann, scopes=frozenset({Scope.JOBS_READ})))


def test_an_external_id_is_taken_while_its_job_lives(lab: Lab) -> None:
    first = lab.submit(metadata={"external_id": "run-1"})

    with pytest.raises(Conflict) as caught:
        lab.submit(metadata={"external_id": "run-1"})

    assert caught.value.code == "external_id_taken"
    assert str(first.uid) in caught.value.detail


def test_attach_gives_back_the_live_job_and_says_when_it_has_ended(lab: Lab) -> None:
    first = lab.submit(metadata={"external_id": "run-1"})
    spec = compact(metadata={"external_id": "run-1"})

    live = services.submit(spec=spec, by=lab.ann, now=NOW, if_exists=IfExists.ATTACH)
    services.cancel(uid=first.uid, by=lab.ann, now=NOW)
    ended = services.submit(spec=spec, by=lab.ann, now=NOW, if_exists=IfExists.ATTACH)

    assert (live.job, live.created, live.terminal) == (first, False, False)
    assert (ended.job, ended.created, ended.terminal) == (first, False, True)


def test_an_external_id_may_come_again_after_the_end_unless_that_shall_fail(lab: Lab) -> None:
    first = lab.submit(metadata={"external_id": "run-1"})
    services.cancel(uid=first.uid, by=lab.ann, now=NOW)
    spec = compact(metadata={"external_id": "run-1"})

    with pytest.raises(Conflict):
        services.submit(spec=spec, by=lab.ann, now=NOW, if_exists=IfExists.FAIL)

    assert services.submit(spec=spec, by=lab.ann, now=NOW).created


def test_a_batch_keeps_order_and_one_bad_item_stops_nobody(lab: Lab) -> None:
    specs: list[object] = [
        compact(name="a"),
        compact(name="b", tasks=0),
        compact(name="c", team="cv"),
        "d",
        compact(name="e", metadata={"external_id": "x"}),
        compact(name="f", metadata={"external_id": "x"}),
    ]

    done = services.submit_batch(specs=specs, by=lab.ann, now=NOW)

    kinds = [type(row) if isinstance(row, DomainError) else row.job.name for row in done]
    assert kinds == ["a", Invalid, NotFound, Invalid, "e", Conflict]
    assert list(Job.objects.order_by("id").values_list("name", flat=True)) == ["a", "e"]


def test_a_batch_of_500_takes_no_more_statements_than_one(lab: Lab) -> None:
    lab.submit()

    with CaptureQueriesContext(connection) as captured:
        done = services.submit_batch(specs=[compact(name=f"n{n}") for n in range(500)], by=lab.ann, now=NOW)

    assert sum(not isinstance(row, DomainError) for row in done) == 500
    assert statements(captured) <= 9


def test_a_batch_has_at_most_500_jobs(lab: Lab) -> None:
    with pytest.raises(Invalid):
        services.submit_batch(specs=[compact()] * 501, by=lab.ann, now=NOW)


def test_an_empty_batch_does_nothing(lab: Lab) -> None:
    assert services.submit_batch(specs=[], by=lab.ann, now=NOW) == ()


@pytest.mark.parametrize("held", [False, True])
def test_cancelling_a_waiting_job_ends_it_at_once(lab: Lab, *, held: bool) -> None:
    job = lab.submit()
    if held:
        services.hold(uid=job.uid, by=lab.ann, now=NOW)

    job = services.cancel(uid=job.uid, by=lab.ann, now=NOW + MINUTE)

    assert (job.state, job.ended_at, job.ready, job.waiting_tasks) == (JobState.CANCELLED, NOW + MINUTE, False, 0)
    assert events(job)[-1] == ("cancelled", "ann")


@pytest.mark.parametrize("running", [False, True])
def test_cancelling_a_started_job_stops_its_waves_first(lab: Lab, *, running: bool) -> None:
    job = lab.submit(tasks=3)
    wave = lab.start(job, running=running)

    job = services.cancel(uid=job.uid, by=lab.ann, now=NOW + MINUTE)

    wave.refresh_from_db()
    assert (job.state, job.next_state) == (JobState.EVICTING, JobState.CANCELLED)
    assert (wave.state, wave.wish, wave.wish_due_at) == (WaveState.EVICTING, "stop", NOW + MINUTE)


def test_cancelling_an_evicted_job_changes_where_it_goes(lab: Lab) -> None:
    job = lab.submit()
    lab.start(job)
    Job.objects.filter(id=job.id).update(state=JobState.EVICTING, next_state=JobState.QUEUED)

    job = services.cancel(uid=job.uid, by=lab.ann, now=NOW)

    assert (job.state, job.next_state) == (JobState.EVICTING, JobState.CANCELLED)


def test_cancelling_again_changes_nothing(lab: Lab) -> None:
    job = lab.submit()
    services.cancel(uid=job.uid, by=lab.ann, now=NOW)

    services.cancel(uid=job.uid, by=lab.ann, now=NOW + MINUTE)

    assert [kind for kind, _ in events(job)] == ["submitted", "cancelled"]


def test_a_job_that_has_ended_by_itself_cannot_be_cancelled(lab: Lab) -> None:
    job = lab.submit()
    Job.objects.filter(id=job.id).update(
        state=JobState.SUCCEEDED, ended_at=NOW, waiting_tasks=0, ready=False, not_waiting_since=NOW
    )

    with pytest.raises(Conflict, match="already succeeded"):
        services.cancel(uid=job.uid, by=lab.ann, now=NOW)


def test_a_cancel_that_loses_the_race_with_an_admission_stops_what_was_admitted(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    from queues import steps  # noqa: PLC0415

    job = lab.submit()
    step = steps.step
    raced: list[Wave] = []

    def late(job_id: int, *args: Any, **named: Any) -> bool:  # noqa: ANN401
        if not raced:
            raced.append(lab.start(job))
        return step(job_id, *args, **named)

    monkeypatch.setattr(steps, "step", late)

    job = services.cancel(uid=job.uid, by=lab.ann, now=NOW)

    raced[0].refresh_from_db()
    assert (job.state, job.next_state) == (JobState.EVICTING, JobState.CANCELLED)
    assert raced[0].wish == "stop"


def test_held_time_does_not_count_as_waiting(lab: Lab) -> None:
    job = lab.submit()

    held = services.hold(uid=job.uid, by=lab.ann, now=NOW + 10 * MINUTE)
    released = services.release(uid=job.uid, by=lab.ann, now=NOW + 40 * MINUTE)

    assert (held.state, held.ready) == (JobState.HELD, False)
    assert (released.state, released.ready, released.wait_from) == (JobState.QUEUED, True, NOW + 30 * MINUTE)


def test_a_started_job_cannot_be_held_and_says_what_to_do(lab: Lab) -> None:
    job = lab.submit()
    lab.start(job)

    with pytest.raises(Conflict, match="is running: only a waiting job can be held") as caught:
        services.hold(uid=job.uid, by=lab.ann, now=NOW)

    assert caught.value.hints[0].action == "Cancel it, then run it again when it should start."


def test_holding_and_releasing_is_no_way_around_a_back_off(lab: Lab) -> None:
    job = lab.submit()
    later = NOW + 30 * MINUTE
    Job.objects.filter(id=job.id).update(ready=False, backoff_until=later, not_waiting_since=NOW)

    services.hold(uid=job.uid, by=lab.ann, now=NOW + MINUTE)
    job = services.release(uid=job.uid, by=lab.ann, now=NOW + 2 * MINUTE)

    assert (job.state, job.ready, job.backoff_until) == (JobState.QUEUED, False, later)


def test_releasing_a_job_that_was_never_held_is_refused_once_it_runs(lab: Lab) -> None:
    job = lab.submit()
    services.release(uid=job.uid, by=lab.ann, now=NOW)
    lab.start(job)

    with pytest.raises(Conflict, match="it is not held"):
        services.release(uid=job.uid, by=lab.ann, now=NOW)


Verb = Callable[..., object]


@pytest.mark.parametrize("verb", [services.cancel, services.hold, services.release])
def test_who_may_change_a_job(lab: Lab, verb: Verb) -> None:
    job = lab.submit()

    with pytest.raises(NotAllowed):
        verb(uid=job.uid, by=lab.art, now=NOW)
    with pytest.raises(NotAllowed):
        verb(uid=job.uid, by=lab.vic, now=NOW)
    with pytest.raises(NotAllowed):
        verb(uid=job.uid, by=lab.auditor, now=NOW)
    with pytest.raises(NotFound):
        verb(uid=job.uid, by=lab.carl, now=NOW)
    with pytest.raises(NotFound):
        verb(uid=uuid4(), by=lab.ann, now=NOW)
    verb(uid=job.uid, by=lab.lea, now=NOW)


def test_a_change_of_another_s_job_is_audited_and_one_s_own_is_not(lab: Lab) -> None:
    own, others = lab.submit(lab.lea), lab.submit()

    services.cancel(uid=own.uid, by=lab.lea, now=NOW)
    services.cancel(uid=others.uid, by=lab.lea, now=NOW)

    entry = AuditEntry.objects.get()
    assert (entry.actor_name, entry.action, entry.team) == ("lea", "job.cancel", lab.nlp)
    assert (entry.before, entry.after) == ({"state": "queued"}, {"state": "cancelled"})
    assert str(others.uid) in entry.target


def test_a_rerun_is_the_same_spec_for_whom_asks(lab: Lab) -> None:
    job = lab.submit(tasks=3, metadata={"external_id": "run-1", "labels": {"a": "b"}})

    again = services.rerun(uid=job.uid, by=lab.art, now=NOW + MINUTE).job

    assert (again.cloned_from_id, again.user, again.external_id) == (job.id, lab.art.user, None)
    assert again.spec["spec"] == job.spec["spec"]
    assert again.labels == {"a": "b"}
    with pytest.raises(NotFound):
        services.rerun(uid=job.uid, by=lab.carl, now=NOW)


def test_another_priority_keeps_the_waiting_time_and_moves_the_class(lab: Lab) -> None:
    job = lab.submit()

    raised = services.change_priority(uid=job.uid, priority="high", by=lab.ann, now=NOW + MINUTE)
    lowered = services.change_priority(uid=job.uid, priority="normal", by=lab.ann, now=NOW + 2 * MINUTE)

    assert (raised.priority, raised.job_class.priority, raised.wait_from) == (1, 1, NOW)
    assert raised.spec["spec"]["priority"] == "high"
    assert (lowered.priority, lowered.job_class_id, lowered.wait_from) == (0, job.job_class_id, NOW)
    assert AuditEntry.objects.filter(action="job.priority").count() == 2


def test_a_priority_above_the_queue_s_highest_is_not_allowed(lab: Lab) -> None:
    job = lab.submit()
    Queue.objects.filter(team=lab.nlp).update(max_priority=0)

    with pytest.raises(NotAllowed):
        services.change_priority(uid=job.uid, priority="high", by=lab.lea, now=NOW)


def test_a_started_job_keeps_its_priority(lab: Lab) -> None:
    job = lab.submit()
    lab.start(job)

    with pytest.raises(Conflict):
        services.change_priority(uid=job.uid, priority="high", by=lab.ann, now=NOW)


def test_a_firm_priority_class_makes_a_firm_class(lab: Lab) -> None:
    PriorityClass.objects.create(name="firm", value=1, preemptible=False)
    job = lab.submit()

    job = services.change_priority(uid=job.uid, priority="firm", by=lab.ann, now=NOW)

    assert not job.preemptible
    assert not classes.ask_from_json(job.job_class.ask).preemptible


def test_labels_change_nothing_else(lab: Lab) -> None:
    job = lab.submit()

    changed = services.change_labels(uid=job.uid, labels={"a": "b"}, by=lab.ann, now=NOW + MINUTE)

    assert (changed.labels, changed.wait_from, changed.job_class_id) == ({"a": "b"}, NOW, job.job_class_id)
    assert changed.spec["metadata"]["labels"] == {"a": "b"}
    with pytest.raises(Invalid):
        services.change_labels(uid=job.uid, labels={"a b": "c"}, by=lab.ann, now=NOW)


def test_many_are_cancelled_each_with_its_result(lab: Lab) -> None:
    mine, art_s = lab.submit(), lab.submit(lab.art)
    hidden = lab.submit(lab.carl, team="cv")

    done = services.cancel_many(uids=[mine.uid, art_s.uid, hidden.uid], by=lab.ann, now=NOW)

    assert [type(result.error) for result in done.results] == [type(None), NotAllowed, NotFound]
    assert Job.objects.get(id=mine.id).state == JobState.CANCELLED
    assert Job.objects.get(id=art_s.id).state == JobState.QUEUED


def test_a_dry_run_tells_and_does_not_do(lab: Lab) -> None:
    lab.submit()
    lab.submit(name="other")

    done = services.cancel_many(wanted=JobFilter(owner="me", text="oth"), by=lab.ann, now=NOW, dry_run=True)

    assert (done.matched, [result.name for result in done.results]) == (1, ["other"])
    assert Job.objects.filter(state=JobState.QUEUED).count() == 2


def test_many_that_wait_are_moved_in_few_statements_with_their_events(lab: Lab) -> None:
    specs = [compact(name=f"n{number}") for number in range(60)]
    services.submit_batch(specs=specs, by=lab.ann, now=NOW)
    running = lab.submit(lab.art, name="runs")
    lab.start(running)

    with CaptureQueriesContext(connection) as captured:
        held = services.hold_many(wanted=JobFilter(owner="ann"), by=lab.ann, now=NOW + MINUTE)
    done = services.cancel_many(wanted=JobFilter(), by=lab.lea, now=NOW + 2 * MINUTE)

    assert [result.error for result in (*held.results, *done.results)] == [None] * 121
    assert statements(captured) <= 12
    assert set(Job.objects.values_list("state", flat=True)) == {JobState.CANCELLED, JobState.EVICTING}
    assert JobEvent.objects.filter(type="held").count() == 60
    assert JobEvent.objects.filter(type="cancelled", actor="lea").count() == 61
    assert AuditEntry.objects.filter(action="job.cancel").count() == 61
    assert not Job.objects.filter(state=JobState.CANCELLED).exclude(waiting_tasks=0, ready=False).exists()


@pytest.mark.django_db(transaction=True)
def test_parallel_submissions_with_one_external_id_make_one_job() -> None:
    lab = Lab()
    results: list[object] = []
    gate = threading.Barrier(6)

    def run(by: Actor) -> None:
        try:
            gate.wait(timeout=60)
            spec = compact(metadata={"external_id": "once"})
            results.append(services.submit(spec=spec, by=by, now=NOW, if_exists=IfExists.ATTACH))
        except DomainError as error:
            results.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(lab.ann,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    done = [row for row in results if isinstance(row, services.Submitted)]
    assert len(done) == 6
    assert sum(row.created for row in done) == 1
    assert Job.objects.count() == 1
    assert JobClass.objects.count() == 1


def test_the_maximum_of_an_elastic_job_moves_while_it_waits_and_while_it_runs(lab: Lab) -> None:
    job = lab.submit(shape="elastic", tasks={"min": 2, "max": 6})
    before = job.job_class_id

    services.change(uid=job.uid, max_tasks=8, by=lab.ann, now=NOW)
    lab.start(job)
    services.change_max_tasks(uid=job.uid, max_tasks=4, by=lab.lea, now=NOW)

    job.refresh_from_db()
    assert (job.groups.get().most, job.spec["spec"]["tasks"]) == (4, {"min": 2, "max": 4})
    assert job.job_class_id != before
    assert job.job_class.ask["groups"][0]["most"] == 4
    assert list(job.events.filter(type="max_tasks").order_by("id").values_list("summary", flat=True)) == [
        "At most 6 → 8 tasks by ann",
        "At most 8 → 4 tasks by lea",
    ]
    assert AuditEntry.objects.filter(action="job.max_tasks").latest("id").after == {"max_tasks": 4}


@pytest.mark.parametrize(
    ("spec", "most", "code"),
    [
        ({"shape": "elastic", "tasks": {"min": 2, "max": 6}}, 1, "out_of_range"),
        ({"shape": "elastic", "tasks": {"min": 2, "max": 6}}, 10_001, "out_of_range"),
        ({"shape": "gang", "tasks": 2}, 4, "not_elastic"),
        ({"shape": "elastic", "groups": [{"name": "a", "tasks": {"max": 2}}, {"name": "b"}]}, 4, "not_elastic"),
    ],
)
def test_a_maximum_that_cannot_be_is_refused(lab: Lab, spec: dict[str, Any], most: int, code: str) -> None:
    job = lab.submit(**spec)

    with pytest.raises((Invalid, Conflict)) as caught:
        services.change_max_tasks(uid=job.uid, max_tasks=most, by=lab.ann, now=NOW)

    found = caught.value
    assert code in {found.code, *(each.code for each in found.fields)}
