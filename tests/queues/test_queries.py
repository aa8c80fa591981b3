"""What people read of jobs: lists, details, reasons, history."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext

from queues import cycle, queries, services
from queues.models import Job, Queue, Task, Verdict
from queues.queries import JobFilter
from queues.queries.rows.jobs import JobPage
from queues.states import JobState, TaskState
from tenants.errors import NotFound, Unreadable
from tenants.permissions import Actor
from tests.queues import manifests as written_objects
from tests.queues.lab import MINUTE, NOW, Lab
from tests.queues.test_services import statements


def names(page: JobPage) -> list[str]:
    return [row.name for row in page.rows]


def listed(by: Actor, wanted: str = "") -> list[str]:
    return names(queries.jobs(by, JobFilter.read(QueryDict(wanted)), now=NOW))


def test_a_list_shows_the_jobs_of_one_s_teams_newest_first(lab: Lab) -> None:
    lab.submit(name="one")
    lab.submit(lab.art, name="two")
    lab.submit(lab.carl, name="hidden", team="cv")

    assert listed(lab.ann) == ["two", "one"]
    assert listed(lab.vic) == ["two", "one"]
    assert listed(lab.carl) == ["hidden"]
    assert listed(lab.auditor) == ["hidden", "two", "one"]


def test_a_row_tells_the_job_in_short(lab: Lab) -> None:
    job = lab.submit(
        shape="gang", tasks=2, gpus={"count": 8, "type": ["h100", "l40s"]}, metadata={"labels": {"a": "b"}}
    )

    (row,) = queries.jobs(lab.ann, JobFilter(), now=NOW).rows

    assert (row.uid, row.team, row.queue, row.owner, row.mine) == (job.uid, "nlp", "default", "ann", True)
    assert (row.tasks, row.tasks_waiting, row.units, row.flavors) == (2, 2, 16, ("h100", "l40s"))
    assert (row.state, row.attempt, row.priority, row.labels) == ("queued", 1, "normal", {"a": "b"})
    assert row.shape_text == "2 x 8 h100/l40s, all together"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("", ["cv-a", "other", "held", "big"]),
        ("state=held", ["held"]),
        ("state=queued,held", ["cv-a", "other", "held", "big"]),
        ("state=active", ["cv-a", "other", "held", "big"]),
        ("state=ended", []),
        ("team=cv", ["cv-a"]),
        ("team=cv&team=nlp&owner=art", ["other"]),
        ("owner=me", []),
        ("owner=ann", ["held", "big"]),
        ("label=kind:sft", ["big"]),
        ("label=kind:sft&label=x:y", []),
        ("gpu_type=l40s", ["other"]),
        ("gpu_type=l40s,h100", ["cv-a", "other", "held", "big"]),
        ("q=OTH", ["other"]),
        ("q=h%20e", ["other", "held"]),
        ("queue=night", ["held"]),
        ("queue=cv/default", ["cv-a"]),
        ("external_id=run-1", ["big"]),
        ("created_at__gte=2026-11-29T12:01:00Z", ["cv-a", "other"]),
        ("created_at__gte=2026-11-29T13:01:00%2B01:00", ["cv-a", "other"]),
        ("created_at__lt=2026-11-29T12:01:00Z", ["held", "big"]),
    ],
)
def test_filters(lab: Lab, wanted: str, found: list[str]) -> None:
    Queue.objects.create(team=lab.nlp, name="night", created_at=NOW)
    lab.submit(name="big", metadata={"labels": {"kind": "sft"}, "external_id": "run-1"})
    held = lab.submit(name="held", metadata={"queue": "night"})
    services.hold(uid=held.uid, by=lab.ann, now=NOW)
    lab.submit(lab.art, name="other", gpus="l40s:1", now=NOW + 2 * MINUTE)
    lab.submit(lab.carl, name="cv-a", team="cv", now=NOW + 2 * MINUTE)

    assert listed(lab.root, wanted) == found
    assert JobFilter.read(QueryDict(wanted)) == JobFilter.read(
        QueryDict(
            "&".join(f"{key}={value.replace('+', '%2B')}" for key, value in JobFilter.read(QueryDict(wanted)).params())
        )
    )


@pytest.mark.parametrize(
    "wanted", ["state=waiting", "label=kind", "created_at__gte=yesterday", "created_at__lt=2026-13-01T00:00:00Z"]
)
def test_a_filter_that_cannot_be_read_is_refused_with_what_is_allowed(wanted: str) -> None:
    with pytest.raises(Unreadable) as caught:
        JobFilter.read(QueryDict(wanted))

    assert caught.value.fields[0].given


def test_pages_neither_repeat_nor_lose_rows(lab: Lab) -> None:
    for number in range(5):
        lab.submit(name=f"n{number}")

    first = queries.jobs(lab.ann, JobFilter(), now=NOW, limit=2, count=True)
    lab.submit(name="late")
    second = queries.jobs(lab.ann, JobFilter(), now=NOW, limit=2, before=first.older)
    third = queries.jobs(lab.ann, JobFilter(), now=NOW, limit=2, before=second.older)
    back = queries.jobs(lab.ann, JobFilter(), now=NOW, limit=2, after=third.newer)

    assert [names(page) for page in (first, second, third, back)] == [["n4", "n3"], ["n2", "n1"], ["n0"], ["n2", "n1"]]
    assert (first.newer, first.count, third.older) == (None, 5, None)


def test_a_list_takes_few_statements_however_long_it_is(lab: Lab) -> None:
    for number in range(3):
        lab.submit(name=f"n{number}")
        lab.submit(lab.art, name=f"o{number}", gpus="h100:9")
    cycle.turn(NOW)
    in_its_way = {"job": Job.objects.get(name="n0").id, "needs": 1, "flavor": "h100"}
    for number in range(2, 5):
        waits = lab.submit(name=f"behind{number}", gpus=f"h100:{number}")
        Verdict.objects.create(job_class=waits.job_class, code="WAITS_VICTIMS", numbers=in_its_way, since=NOW, at=NOW)

    with CaptureQueriesContext(connection) as captured:
        page = queries.jobs(lab.ann, JobFilter(), now=NOW)

    assert [row.reason.blockers[0].text for row in page.rows[:3] if row.reason] == ["nlp: n0"] * 3
    assert len(page.rows) == 9
    assert statements(captured) <= 8


def test_one_job_in_full(lab: Lab) -> None:
    job = lab.submit(tasks=3, gpus="h100:2", time_limit="2h", retries=1)
    lab.start(job)

    detail = queries.job(lab.ann, job.uid, now=NOW)

    assert (detail.row.uid, detail.groups[0].tasks, detail.groups[0].image) == (job.uid, 3, "reg.example/train:1")
    assert (detail.time_limit, detail.ends_by, detail.position) == (timedelta(hours=2), NOW + timedelta(hours=2), None)
    assert detail.tasks_by_state == {"running": 3}
    assert detail.spec["kind"] == "Job"


def test_tasks_that_wait_are_counted_beside_those_that_run(lab: Lab) -> None:
    job = lab.submit(tasks=3)
    lab.start(job)
    Task.objects.filter(wave__job=job, index=2).delete()
    Job.objects.filter(id=job.id).update(waiting_tasks=1)

    assert queries.job(lab.ann, job.uid, now=NOW).tasks_by_state == {"running": 2, "waiting": 1}


def test_tasks_that_wait_again_are_not_counted_where_their_last_run_ended(lab: Lab) -> None:
    job = lab.submit(tasks=4)
    wave = lab.start(job)
    tasks = Task.objects.filter(wave=wave)
    tasks.filter(index=0).update(state=TaskState.SUCCEEDED, ended_at=NOW)
    tasks.filter(index__in=[1, 2]).update(state=TaskState.STOPPED, ended_at=NOW)
    tasks.filter(index=3).update(state=TaskState.FAILED, ended_at=NOW)
    Job.objects.filter(id=job.id).update(waiting_tasks=2, attempt=2)

    assert queries.job(lab.ann, job.uid, now=NOW).tasks_by_state == {"succeeded": 1, "failed": 1, "waiting": 2}


def test_all_tasks_of_a_gang_that_queues_again_wait(lab: Lab) -> None:
    job = lab.submit(shape="gang", tasks=3)
    wave = lab.start(job)
    Task.objects.filter(wave=wave).update(state=TaskState.STOPPED, ended_at=NOW)
    Job.objects.filter(id=job.id).update(state=JobState.QUEUED, waiting_tasks=1, attempt=2)

    assert queries.job(lab.ann, job.uid, now=NOW).tasks_by_state == {"waiting": 3}


def test_a_job_of_others_is_not_found(lab: Lab) -> None:
    job = lab.submit()

    for read in (queries.job, queries.explain):
        with pytest.raises(NotFound):
            read(lab.carl, job.uid, now=NOW)
    for look in (queries.events, queries.attempts, queries.manifest):
        with pytest.raises(NotFound):
            look(lab.carl, job.uid)
    with pytest.raises(NotFound):
        queries.job(lab.ann, uuid4(), now=NOW)


def may(by: Actor, job: Job) -> set[str]:
    return set(queries.job(by, job.uid, now=NOW).may)


def test_what_one_may_do_follows_role_and_state(lab: Lab) -> None:
    job = lab.submit()

    assert may(lab.ann, job) == {"cancel", "hold", "labels", "priority", "rerun"}
    assert may(lab.lea, job) == {"cancel", "hold", "labels", "priority", "rerun"}
    assert may(lab.art, job) == {"rerun"}
    assert may(lab.vic, job) == set()
    services.hold(uid=job.uid, by=lab.ann, now=NOW)
    assert may(lab.ann, job) == {"cancel", "labels", "priority", "release", "rerun"}
    services.release(uid=job.uid, by=lab.ann, now=NOW)
    lab.start(job)
    assert may(lab.ann, job) == {"cancel", "labels", "rerun"}
    services.cancel(uid=job.uid, by=lab.ann, now=NOW)
    assert may(lab.ann, job) == {"labels", "rerun"}


def reason(by: Actor, job: Job) -> tuple[str, bool, str]:
    found = queries.job(by, job.uid, now=NOW).row.reason
    assert found is not None
    return found.code, found.permanent, found.summary


def test_before_the_first_cycle_the_reason_says_so(lab: Lab) -> None:
    assert reason(lab.ann, lab.submit()) == ("NOT_DECIDED", False, "Submitted; the next cycle decides.")


def test_a_waiting_job_has_its_class_s_reason_with_numbers(lab: Lab) -> None:
    first = lab.submit(shape="gang", tasks=3, gpus="h100:8")
    lab.start(first, *lab.nodes[:3])
    job = lab.submit(shape="gang", tasks=2, gpus="h100:8")
    cycle.turn(NOW)

    assert reason(lab.ann, job) == ("NO_FREE_CAPACITY", False, "Needs 16 h100; 8 are free.")


def test_a_job_that_can_never_start_says_why(lab: Lab) -> None:
    job = lab.submit(gpus="h100:9")
    cycle.turn(NOW)

    code, permanent, summary = reason(lab.ann, job)

    assert (code, permanent) == ("EXCEEDS_NODE", True)
    assert summary == "Can never start: a task needs 9 h100 on one node and the largest has 8."


def test_a_held_job_says_so_while_it_could_start(lab: Lab) -> None:
    lab.submit(gpus="h100:8", tasks=9)
    job = lab.submit(gpus="h100:8", tasks=2)
    cycle.turn(NOW)
    services.hold(uid=job.uid, by=lab.ann, now=NOW)
    cycle.turn(NOW)

    assert reason(lab.ann, job) == ("HELD", False, "Held until somebody releases it.")


@pytest.mark.parametrize("away", [{"state": JobState.HELD}, {"backoff_until": NOW + timedelta(hours=1)}])
def test_a_job_that_is_held_or_backs_off_and_can_never_start_says_that(lab: Lab, away: dict[str, object]) -> None:
    job = lab.submit(gpus="h100:9")
    Job.objects.filter(id=job.id).update(ready=False, not_waiting_since=NOW, **away)
    cycle.turn(NOW)

    assert reason(lab.ann, job)[:2] == ("EXCEEDS_NODE", True)


def test_a_paused_queue_is_the_reason(lab: Lab) -> None:
    Queue.objects.filter(team=lab.nlp).update(paused_at=NOW)
    job = lab.submit()
    cycle.turn(NOW)

    assert reason(lab.ann, job) == ("QUEUE_PAUSED", False, "Queue default is paused.")


def test_a_back_off_says_until_when_and_why(lab: Lab) -> None:
    job = lab.submit()
    Job.objects.filter(id=job.id).update(
        ready=False, backoff_until=NOW + MINUTE, not_waiting_since=NOW, reason_code="IMAGE_PULL", start_failures=1
    )

    assert reason(lab.ann, job)[2] == "Pauses until 12:01:00 UTC. Its image cannot be pulled."


def test_a_user_s_own_limit_is_told_before_the_class_s_reason(lab: Lab) -> None:
    Queue.objects.filter(team=lab.nlp).update(per_user_limit=8)
    lab.start(lab.submit(gpus="h100:8"))
    job = lab.submit(gpus="h100:2")
    cycle.turn(NOW)

    assert reason(lab.ann, job)[::2] == ("USER_LIMIT", "Needs 2 GPUs; its owner uses 8 of the 8 allowed.")


def test_a_started_job_shows_what_kubernetes_says(lab: Lab) -> None:
    job = lab.submit()
    lab.start(job, running=False)
    Job.objects.filter(id=job.id).update(reason_code="IMAGE_PULL", reason_text="ErrImagePull: not found")

    assert reason(lab.ann, job)[::2] == ("IMAGE_PULL", "ErrImagePull: not found")


def test_the_name_of_a_team_that_one_may_not_see_is_not_told(lab: Lab) -> None:
    for number in range(2):
        lab.start(lab.submit(lab.carl, team="cv", gpus="h100:8"), lab.nodes[number])
    lab.nlp.quotas.update(guaranteed=0)
    lab.cv.quotas.update(guaranteed=32)
    job = lab.submit(shape="gang", tasks=2, gpus="h100:8", now=NOW + MINUTE)
    lab.submit(lab.carl, team="cv", gpus="h100:8")
    cycle.turn(NOW + MINUTE)

    ours = queries.job(lab.ann, job.uid, now=NOW).row.reason
    theirs = queries.job(lab.root, job.uid, now=NOW).row.reason

    assert ours is not None
    assert "cv" not in str(ours)
    assert theirs is not None


def test_counts_by_state(lab: Lab) -> None:
    lab.submit()
    services.hold(uid=lab.submit().uid, by=lab.ann, now=NOW)
    lab.submit(lab.carl, team="cv")

    assert queries.count_jobs(lab.ann, JobFilter()) == {"held": 1, "queued": 1}
    assert queries.count_jobs(lab.root, JobFilter(), group_by="team") == {"cv": 1, "nlp": 2}
    with pytest.raises(Unreadable):
        queries.count_jobs(lab.ann, JobFilter(), group_by="secret")


def test_events_of_a_job_and_of_all_jobs_that_one_may_see(lab: Lab) -> None:
    job = lab.submit(name="mine")
    services.hold(uid=job.uid, by=lab.lea, now=NOW + MINUTE)
    lab.submit(lab.carl, team="cv")

    mine = queries.events(lab.ann, job.uid)

    assert [(row.type, row.actor, row.at) for row in mine] == [("submitted", "ann", NOW), ("held", "lea", NOW + MINUTE)]
    assert [row.type for row in queries.events(lab.ann, newest_first=True)] == ["held", "submitted"]
    assert [row.type for row in queries.events(lab.ann, job.uid, after=mine[0].id)] == ["held"]
    assert len(queries.events(lab.root)) == 3


def test_attempts_show_waves_and_tasks_newest_first(lab: Lab) -> None:
    job = lab.submit(tasks=3, gpus="h100:2")
    wave = lab.start(job, lab.nodes[0])
    Task.objects.filter(wave=wave, index=1).update(
        state=TaskState.FAILED, ended_at=NOW, exit_code=137, reason="OOMKilled", pod="p-1"
    )

    (attempt,) = queries.attempts(lab.ann, job.uid)
    (short,) = queries.attempts(lab.ann, job.uid, tasks=2)

    (shown,) = attempt.waves
    assert (attempt.number, shown.number, shown.units, shown.flavors) == (1, 1, 6, ("h100",))
    assert [(task.index, task.node, task.state, task.exit_code) for task in shown.tasks] == [
        (0, "h0", "running", None),
        (1, "h0", "failed", 137),
        (2, "h0", "running", None),
    ]
    assert (len(short.waves[0].tasks), short.waves[0].tasks_left_out) == (2, 1)


@pytest.mark.parametrize("started", [False, True])
def test_the_manifest_is_what_kubernetes_gets(lab: Lab, *, started: bool) -> None:
    job = lab.submit(shape="gang", tasks=2, gpus="h100:8")
    if started:
        lab.start(job)

    work, service = queries.manifest(lab.ann, job.uid).objects

    container = work["spec"]["template"]["spec"]["containers"][0]
    assert (work["kind"], work["spec"]["completions"], service["kind"]) == ("Job", 2, "Service")
    assert container["image"] == "reg.example/train:1"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize("started", [False, True])
def test_the_manifest_of_a_written_job_is_what_was_written_with_our_fields(lab: Lab, *, started: bool) -> None:
    written = written_objects.job_set(parts={"a": (1, 2, 8)})
    job = services.submit(spec=written, by=lab.ann, now=NOW).job
    if started:
        lab.start(job, lab.nodes[0], lab.nodes[1])

    found = queries.manifest(lab.ann, job.uid)

    (sent,) = found.objects
    (part,) = sent["spec"]["replicatedJobs"]
    pod = part["template"]["spec"]["template"]["spec"]
    assert (sent["kind"], sent["spec"]["suspend"], part["name"]) == ("JobSet", False, "a")
    assert pod["schedulingGates"] == [{"name": "tidegate.io/placement"}]
    assert pod["priorityClassName"] == "tidegate-normal-0"
    assert "/spec/suspend" in found.changed
    assert "/spec/replicatedJobs/0/template/spec/template/spec/schedulingGates" in found.changed
    assert not any("/containers" in pointer for pointer in found.changed)


def test_the_manifest_of_an_adopted_job_is_its_object_as_it_is_let_run(lab: Lab) -> None:
    job = services.submit(spec=written_objects.job("made", suspend=True), by=lab.ann, now=NOW).job
    Job.objects.filter(id=job.id).update(object_uid="there", object_cluster=lab.cluster.id)

    (sent,) = queries.manifest(lab.ann, job.uid).objects

    assert (sent["metadata"]["name"], sent["spec"]["suspend"]) == ("made", False)
    assert "priorityClassName" not in sent["spec"]["template"]["spec"]


Read = Callable[[Actor], object]


def test_reading_one_job_takes_a_fixed_number_of_statements(lab: Lab) -> None:
    small, large = lab.submit(tasks=2), lab.submit(tasks=200)
    for job in (small, large):
        lab.start(job)

    counts = []
    for job in (small, large):
        with CaptureQueriesContext(connection) as captured:
            queries.job(lab.ann, job.uid, now=NOW)
            queries.attempts(lab.ann, job.uid)
        counts.append(statements(captured))

    assert counts[0] == counts[1]


def test_an_ended_job_needs_no_reason(lab: Lab) -> None:
    job = lab.submit()
    services.cancel(uid=job.uid, by=lab.ann, now=NOW)

    detail = queries.job(lab.ann, job.uid, now=NOW)

    assert (detail.row.reason, detail.row.state) == (None, JobState.CANCELLED)


def test_a_job_that_was_recalled_often_pauses_before_it_borrows_wherever_it_stands_in_line(lab: Lab) -> None:
    lab.start(lab.submit(shape="gang", tasks=3, gpus="h100:8"), *lab.nodes[:3])
    jobs = [lab.submit(shape="gang", tasks=2, gpus="h100:8", name=name) for name in ("first", "second")]
    cycle.turn(NOW)
    said = reason(lab.ann, jobs[1])[0]
    Job.objects.filter(id=jobs[1].id).update(evictions=20)

    told = [reason(lab.ann, job)[0] for job in jobs]

    assert told == [said, "BACKING_OFF"]


def test_a_job_that_has_held_for_too_long_names_the_endless_jobs_in_its_way(lab: Lab) -> None:
    blocks = lab.submit(gpus="h100:8", name="endless")
    lab.start(blocks)
    job = lab.submit(gpus="h100:16")
    cycle.turn(NOW)
    numbers = {"needs": 16, "flavor": "h100", "free": 8, "endless": 1, "endless_jobs": str(blocks.id)}
    Verdict.objects.update(numbers=numbers, code="NO_FREE_CAPACITY")

    found = queries.job(lab.ann, job.uid, now=NOW).row.reason

    assert found is not None
    assert "1 job without a time limit stands in its way" in found.summary
    assert [row.text for row in found.blockers] == ["nlp: endless"]
    assert "endless_jobs" not in found.details
