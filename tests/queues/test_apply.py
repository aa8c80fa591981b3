from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from queues import services, snapshot
from queues.admission.decide import Admission, Outcome, Verdict
from queues.admission.reasons import Code, Reason
from queues.admission.world import Placed, World
from queues.apply import Applied, apply
from queues.models import Decision, Job, Task, Wave
from queues.models import Verdict as StoredVerdict
from tests.queues.lab import MINUTE, NOW, Lab


def world() -> World:
    with snapshot.load(NOW) as seen:
        return seen.world


def admission(lab: Lab, job: Job, *nodes: int, tasks: int = 1) -> Admission:
    """Return the admission of a job's ``tasks`` tasks on each of these nodes (their places in the laboratory)."""
    return Admission(
        job=job.id,
        job_class=job.job_class_id,
        flavors=(lab.h100.id,),
        placed=tuple(Placed(group=0, node=lab.nodes[node].id, tasks=tasks) for node in nodes or (0,)),
        tasks=tasks * len(nodes or (0,)),
        borrowed=False,
    )


def verdict(job: Job, code: Code, **numbers: int) -> Verdict:
    return Verdict(
        job_class=job.job_class_id, user=None, reason=Reason(code=code, numbers=tuple(sorted(numbers.items())))
    )


def put(
    *admissions: Admission, verdicts: tuple[Verdict, ...] = (), seen: World | None = None, minute: int = 0
) -> Applied:
    outcome = Outcome(admissions=admissions, verdicts=verdicts)
    return apply(outcome, seen or world(), now=NOW + minute * MINUTE, digest="d")


def test_a_gang_becomes_one_wave_with_its_tasks_numbered_over_its_nodes(lab: Lab) -> None:
    job = lab.submit(shape="gang", tasks=4, gpus="h100:2")

    applied = put(admission(lab, job, 0, 2, tasks=2))

    job.refresh_from_db()
    wave = Wave.objects.get()
    tasks = list(Task.objects.order_by("id").values_list("index", "pod_index", "node__name", "units"))
    assert (job.state, job.waiting_tasks, job.ready, job.not_waiting_since) == ("admitted", 0, False, NOW)
    assert (wave.number, wave.attempt, wave.cycle, wave.cluster) == (1, 1, applied.decision.id, lab.cluster)
    assert tasks == [(0, 0, "h0", 2), (1, 1, "h0", 2), (2, 2, "h2", 2), (3, 3, "h2", 2)]


def test_the_outbox_asks_for_a_launch_at_once_and_the_start_limit_runs_from_admission(lab: Lab) -> None:
    job = lab.submit()
    job.queue.start_limit = timedelta(minutes=7)
    job.queue.save()

    put(admission(lab, job), minute=120)

    wave = Wave.objects.get()
    assert (wave.wish, wave.wish_due_at) == ("launch", NOW + 120 * MINUTE)
    assert wave.deadline_at == NOW + 127 * MINUTE


def test_some_tasks_of_an_independent_job_start_and_the_rest_waits_on(lab: Lab) -> None:
    job = lab.submit(shape="independent", tasks=5)

    put(admission(lab, job, 0, tasks=2))
    first = Job.objects.get()
    put(admission(lab, job, 1, tasks=3), minute=1)
    second = Job.objects.get()

    assert (first.state, first.waiting_tasks, first.ready, first.not_waiting_since) == ("admitted", 3, True, None)
    assert (second.waiting_tasks, second.ready, second.not_waiting_since) == (0, False, NOW + MINUTE)
    assert list(Wave.objects.order_by("id").values_list("number", flat=True)) == [1, 2]
    assert list(Task.objects.order_by("id").values_list("index", "pod_index")) == [
        (0, 0),
        (1, 1),
        (2, 0),
        (3, 1),
        (4, 2),
    ]


def test_two_admissions_of_one_job_in_one_decision_become_two_waves(lab: Lab) -> None:
    job = lab.submit(shape="independent", tasks=3)

    put(admission(lab, job, 0, tasks=2), replace(admission(lab, job, 4), flavors=(lab.l40s.id,)))

    waves = list(Wave.objects.order_by("id").values_list("number", "flavors"))
    assert waves == [(1, [lab.h100.id]), (2, [lab.l40s.id])]
    assert sorted(Task.objects.values_list("index", flat=True)) == [0, 1, 2]


def test_a_retried_task_keeps_its_index_and_finished_ones_are_passed_over(lab: Lab) -> None:
    job = lab.submit(shape="independent", tasks=4, retries=1)
    put(admission(lab, job, 0, tasks=4))
    states = {0: "succeeded", 1: "failed", 2: "stopped", 3: "running"}
    for task in Task.objects.all():
        task.state, task.ended_at = states[task.index], None if task.index == 3 else NOW
        task.save()
    Job.objects.update(state="running", waiting_tasks=2, ready=True, not_waiting_since=None)

    put(admission(lab, job, 0, tasks=2))

    assert sorted(Task.objects.filter(wave__number=2).values_list("index", flat=True)) == [1, 2]


def test_a_job_that_was_cancelled_meanwhile_loses_its_admission_and_others_keep_theirs(lab: Lab) -> None:
    gone, stays = lab.submit(), lab.submit()
    seen = world()
    services.cancel(uid=gone.uid, by=lab.ann, now=NOW)

    applied = put(admission(lab, gone), admission(lab, stays, 1), seen=seen)

    assert [a.job for a in applied.admissions] == [stays.id]
    assert Wave.objects.get().job == stays
    assert Job.objects.get(id=gone.id).state == "cancelled"
    assert (applied.decision.admissions, applied.decision.details) == (1, {"dropped": 1})


def test_applying_the_same_decision_twice_admits_once(lab: Lab) -> None:
    job = lab.submit()
    seen = world()

    put(admission(lab, job), seen=seen)
    again = put(admission(lab, job), seen=seen)

    assert again.admissions == ()
    assert Wave.objects.count() == 1


def test_an_admission_is_told_as_an_event_with_nodes_and_source(lab: Lab) -> None:
    job = lab.submit(shape="gang", tasks=2)

    applied = put(admission(lab, job, 0, 1))

    event = job.events.get(type="admitted")
    assert event.summary == "Admitted 2 tasks on 2 nodes, guaranteed"
    assert event.details == {
        "cycle": applied.decision.id, "wave": 1, "borrowed": False, "nodes": {"h0": 1, "h1": 1},
    }  # fmt: skip


def test_the_decision_counts_what_stood(lab: Lab) -> None:
    job = lab.submit(shape="gang", tasks=3, gpus="h100:4")

    put(admission(lab, job, 0, 1, 2), verdicts=(verdict(job, Code.BEHIND),))

    decision = Decision.objects.get()
    assert (decision.classes, decision.admissions, decision.tasks, decision.units) == (1, 1, 3, 12)


def test_a_verdict_keeps_its_since_while_its_code_stays(lab: Lab) -> None:
    job = lab.submit()

    put(verdicts=(verdict(job, Code.NO_FREE_CAPACITY, free=3),))
    put(verdicts=(verdict(job, Code.NO_FREE_CAPACITY, free=1),), minute=1)
    counted = StoredVerdict.objects.get()
    put(verdicts=(verdict(job, Code.FRAGMENTED),), minute=2)
    changed = StoredVerdict.objects.get()

    assert (counted.since, counted.at, counted.numbers) == (NOW, NOW + MINUTE, {"free": 1})
    assert (changed.since, changed.code) == (NOW + 2 * MINUTE, "FRAGMENTED")


def test_an_unchanged_verdict_is_not_written(lab: Lab) -> None:
    job = lab.submit()
    put(verdicts=(verdict(job, Code.BEHIND),))

    applied = put(verdicts=(verdict(job, Code.BEHIND),), minute=5)

    assert applied.verdicts == 0
    assert StoredVerdict.objects.get().at == NOW


def test_verdicts_that_nobody_says_any_more_go(lab: Lab) -> None:
    job = lab.submit()
    limited = Verdict(job_class=job.job_class_id, user=lab.ann.user.id, reason=Reason(code=Code.USER_LIMIT))
    put(verdicts=(verdict(job, Code.BEHIND), limited))

    put(verdicts=(verdict(job, Code.BEHIND),))

    assert list(StoredVerdict.objects.values_list("code", flat=True)) == ["BEHIND"]


@pytest.mark.parametrize("shape", ["gang", "independent"])
def test_statements_do_not_grow_with_the_admissions(lab: Lab, shape: str) -> None:
    def statements(count: int) -> int:
        jobs = [lab.submit(shape=shape, tasks=2) for _ in range(count)]
        seen = world()
        with CaptureQueriesContext(connection) as queries:
            put(*(admission(lab, job, 0, tasks=2) for job in jobs), seen=seen)
        return len(queries)

    assert statements(1) == statements(12)
