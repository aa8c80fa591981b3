"""Lenders take their units back on the emulator: victims leave, claimants start on what they free."""

from datetime import timedelta

from django.utils import timezone
from pytest_django import Settings

from queues import cycle, queries, services, snapshot
from queues.admission.decide import decide
from queues.apply import apply
from queues.models import Claim, Decision, Eviction, Hold, Job, Node, Task, Verdict, Wave
from queues.states import JobState
from tenants.models import Quota
from tests.loop.stage import Stage, events, state, units_in_use


def lend(stage: Stage, **spec: object) -> Job:
    """Let cv, which owns 8 of the 32, run on all of them."""
    job = stage.lab.submit(stage.lab.carl, now=timezone.now(), **{"team": "cv", "annotations": FOREVER, **spec})
    tasks = Task.objects.filter(wave__job=job)
    stage.until(lambda: tasks.exists() and not tasks.exclude(state="running").exists())
    return job


FOREVER = {"tidegate.test/forever": "1"}


def test_a_lender_takes_its_units_back_and_the_borrower_queues_again(stage: Stage) -> None:
    borrower = lend(stage, name="borrower", shape="gang", tasks=4, gpus="h100:8", grace="1s")
    claimant = stage.submit(name="owner", shape="gang", tasks=2, gpus="h100:8", forever="1")

    cycle.run_cycle(timezone.now)
    leaving = (state(borrower), borrower.evictions, state(claimant), Claim.objects.get().units)
    stage.until(lambda: state(claimant) is JobState.RUNNING)

    assert leaving == (JobState.EVICTING, 1, JobState.QUEUED, 16)
    assert (state(borrower), borrower.attempt) == (JobState.QUEUED, 2)
    assert units_in_use() == 16
    assert not Claim.objects.exists()
    eviction = Eviction.objects.get()
    assert (eviction.claimant, eviction.rule, eviction.units, eviction.tasks) == (claimant, "guarantee", 32, 4)
    assert eviction.grace == timedelta(seconds=1)


def test_both_sides_are_told_of_an_eviction(stage: Stage) -> None:
    borrower = lend(stage, name="borrower", shape="gang", tasks=4, gpus="h100:8")
    claimant = stage.submit(name="owner", shape="gang", tasks=2, gpus="h100:8", forever="1")

    cycle.run_cycle(timezone.now)

    both = stage.lab.root
    evicted = next(row for row in queries.events(both, borrower.uid) if row.type == "evicted")
    reclaims = next(row for row in queries.events(both, claimant.uid) if row.type == "reclaims")
    assert evicted.summary.startswith("Reclaimed for owner of nlp: its guarantee was lent and is taken back. 32 GPUs")
    assert evicted.details["claimant"] == str(claimant.uid)
    assert evicted.details["rule"] == "guarantee"
    assert reclaims.summary == "Reclaims 32 GPUs from 1 job: borrower of cv"
    assert Decision.objects.latest("id").details["evicted"] == 1


def test_single_tasks_of_an_independent_job_go_and_the_rest_runs_on(stage: Stage) -> None:
    borrower = lend(stage, name="borrower", shape="independent", tasks=32, gpus="h100:1")
    claimant = stage.submit(name="owner", shape="gang", tasks=1, gpus="h100:4", forever="1")

    stage.until(lambda: state(claimant) is JobState.RUNNING)

    states = dict.fromkeys(["running", "stopped"], 0)
    for task in Task.objects.filter(wave__job=borrower):
        states[task.state] += 1
    assert states == {"running": 28, "stopped": 4}
    assert (state(borrower), borrower.waiting_tasks, borrower.evictions) == (JobState.RUNNING, 4, 4)
    assert Wave.objects.filter(job=borrower).count() == 1
    assert units_in_use() == 32


def test_a_claim_survives_a_restart_of_the_loop_and_evicts_nobody_twice(stage: Stage) -> None:
    lend(stage, name="borrower", shape="gang", tasks=4, gpus="h100:8")
    claimant = stage.submit(name="owner", shape="gang", tasks=2, gpus="h100:8", forever="1")
    cycle.run_cycle(timezone.now)

    for _ in range(3):
        cycle.run_cycle(timezone.now)
    kept = list(Claim.objects.values_list("job", "units"))
    stage.until(lambda: state(claimant) is JobState.RUNNING)

    assert kept == [(claimant.id, 16)]
    assert Eviction.objects.count() == 1


def test_nobody_is_evicted_for_a_job_that_was_cancelled_meanwhile(stage: Stage) -> None:
    borrower = lend(stage, name="borrower", shape="gang", tasks=4, gpus="h100:8")
    claimant = stage.submit(name="owner", shape="gang", tasks=2, gpus="h100:8")

    now = timezone.now()
    with snapshot.load(now) as seen:
        outcome = decide(seen.world, seen.heads)
    services.cancel(uid=claimant.uid, by=stage.lab.ann, now=now)
    apply(outcome, seen.world, now=now, digest="d")

    assert outcome.evictions
    assert state(borrower) is JobState.RUNNING
    assert not Eviction.objects.exists()
    assert not Claim.objects.exists()


def test_young_work_stays_until_its_minimum_run_time_has_passed(stage: Stage) -> None:
    stage.lab.cv.queues.update(min_runtime=timedelta(hours=1))
    borrower = lend(stage, name="borrower", shape="gang", tasks=4, gpus="h100:8")
    claimant = stage.submit(name="owner", shape="gang", tasks=2, gpus="h100:8", forever="1")

    cycle.run_cycle(timezone.now)
    young = (state(borrower), claimant.verdicts.get().code)
    stage.lab.cv.queues.update(min_runtime=timedelta())
    cycle.run_cycle(timezone.now)

    assert young == (JobState.RUNNING, "WAITS_MIN_RUNTIME")
    assert state(borrower) is JobState.EVICTING


def test_victims_hold_their_units_for_their_grace(stage: Stage) -> None:
    stubborn = FOREVER | {"tidegate.test/ignore-term": "1"}
    lend(stage, name="borrower", shape="gang", tasks=4, gpus="h100:8", grace="60s", annotations=stubborn)
    claimant = stage.submit(name="owner", shape="gang", tasks=2, gpus="h100:8", forever="1")

    stage.turn()
    stage.turn()
    meanwhile = (state(claimant), units_in_use())
    over = timezone.now()
    for pod in stage.pods():
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        stage.cluster.api.ask("delete", path, query={"gracePeriodSeconds": "0"})
    stage.until(lambda: state(claimant) is JobState.RUNNING)

    assert meanwhile == (JobState.QUEUED, 32)
    assert Wave.objects.get(job=claimant).admitted_at >= over


def test_a_quota_cut_below_use_lets_others_take_the_excess(stage: Stage) -> None:
    Quota.objects.update(guaranteed=0)
    Quota.objects.filter(team=stage.lab.cv).update(guaranteed=32)
    held = lend(stage, name="held", shape="independent", tasks=4, gpus="h100:8")
    claimant = stage.lab.submit(
        stage.lab.root, now=timezone.now(), team="bio", name="bio", gpus="h100:8", annotations=FOREVER
    )
    cycle.run_cycle(timezone.now)
    before = (state(claimant), Eviction.objects.count())

    Quota.objects.filter(team=stage.lab.cv).update(guaranteed=24)
    Quota.objects.filter(team=stage.lab.bio).update(guaranteed=8)
    stage.until(lambda: state(claimant) is JobState.RUNNING)

    assert before == (JobState.QUEUED, 0)
    assert (Eviction.objects.get().wave.job, Eviction.objects.get().units) == (held, 8)
    assert Task.objects.filter(wave__job=held, state="running").count() == 3


def test_a_planned_start_survives_a_restart_of_the_loop(stage: Stage) -> None:
    stage.lab.nlp.queues.update(hold_after=timedelta())
    Quota.objects.update(guaranteed=0)
    runs = lend(stage, name="runs", shape="gang", tasks=3, gpus="h100:8", time_limit="1h")
    waits = stage.submit(name="waits", shape="gang", tasks=4, gpus="h100:8", time_limit="1h")

    cycle.run_cycle(timezone.now)
    first = Hold.objects.get(job=waits)
    cycle.run_cycle(timezone.now)
    again = Hold.objects.get(job=waits)

    started = Wave.objects.get(job=runs).started_at
    assert first.starts_at is not None
    assert started is not None
    assert abs(first.starts_at - started - timedelta(hours=1) - runs.grace) < timedelta(milliseconds=2)
    assert (again.starts_at, again.since, again.units) == (first.starts_at, first.since, 32)
    assert waits.verdicts.get().code == "HOLDS"


def test_a_worker_killed_between_eviction_and_release_leaves_nothing_undone(stage: Stage) -> None:
    borrower = lend(stage, name="borrower", shape="gang", tasks=4, gpus="h100:8")
    claimant = stage.submit(name="owner", shape="gang", tasks=4, gpus="h100:4", forever="1")
    cycle.run_cycle(timezone.now)
    Wave.objects.filter(job=borrower).update(wish_due_at=timezone.now() + timedelta(milliseconds=300))

    stage.until(lambda: state(claimant) is JobState.RUNNING)

    assert "evicted" in events(borrower)
    assert state(borrower) is JobState.QUEUED


def test_a_gang_that_requires_a_rack_lies_in_one(stage: Stage, settings: Settings) -> None:
    settings.TIDEGATE_LEVELS = {"rack": "rack"}
    racks = {node.name: f"r{place // 2}" for place, node in enumerate(stage.lab.nodes[:4])}
    for name, rack in racks.items():
        Node.objects.filter(name=name).update(labels={"rack": rack})
    wide = stage.lab.submit(name="wide", shape="gang", tasks=3, gpus="h100:8", topology={"required": "rack"})
    fits = stage.lab.submit(name="fits", shape="gang", tasks=2, gpus="h100:8", topology={"required": "rack"})

    cycle.run_cycle(timezone.now)

    assert state(fits) is JobState.ADMITTED
    assert {racks[node] for node in Task.objects.filter(wave__job=fits).values_list("node__name", flat=True)} == {"r0"}
    assert state(wide) is JobState.QUEUED
    assert Verdict.objects.get(job_class=wide.job_class).code == "EXCEEDS_MAX"
