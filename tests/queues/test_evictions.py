"""Evictions as rows: which tasks go, what is counted, and that statements stay few."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from queues import promises, services, snapshot
from queues.admission.outcome import Eviction, Outcome
from queues.admission.world import Claim, Hold, Placed, Standing, World
from queues.apply import Applied, apply
from queues.attempts import YOUNG
from queues.models import Claim as StoredClaim
from queues.models import Eviction as StoredEviction
from queues.models import Hold as StoredHold
from queues.models import Idle, Job, Task, Wave
from queues.waiting import milliseconds, span
from tests.queues.lab import MINUTE, NOW, Lab


def world(minute: int = 0) -> World:
    with snapshot.load(NOW + minute * MINUTE) as seen:
        return seen.world


def put(outcome: Outcome, *, minute: int = 60) -> Applied:
    return apply(outcome, world(minute), now=NOW + minute * MINUTE, digest="d")


def leave(lab: Lab, wave: Wave, claimant: Job, *nodes: int, claim: int = 1, tasks: int = 1) -> Eviction:
    placed = tuple(Placed(group=0, node=lab.nodes[node].id, tasks=tasks) for node in nodes)
    return Eviction(attempt=wave.id, placed=placed, claim=claim, job=claimant.id)


def claim_of(lab: Lab, job: Job, number: int = 1) -> Claim:
    return Claim(
        id=number,
        job=job.id,
        job_class=job.job_class_id,
        team=job.team_id,
        user=job.user_id,
        flavors=(lab.h100.id,),
        placed=(Placed(group=0, node=lab.nodes[0].id, tasks=1),),
    )


def runs(lab: Lab, *nodes: int, **spec: object) -> Wave:
    job = lab.submit(lab.carl, team="cv", **spec)
    return lab.start(job, *(lab.nodes[node] for node in nodes))


def test_the_newest_tasks_on_a_node_go_and_each_claim_gets_its_own(lab: Lab) -> None:
    wave = runs(lab, 0, shape="independent", tasks=6, gpus="h100:1")
    one, two = lab.submit(gpus="h100:2"), lab.submit(gpus="h100:1")

    put(Outcome(evictions=(leave(lab, wave, one, 0, tasks=2), leave(lab, wave, two, 0, claim=2))))

    rows = Task.objects.filter(wave=wave).order_by("id")
    assert list(rows.values_list("state", "eviction__claim")) == [
        ("running", None),
        ("running", None),
        ("running", None),
        ("leaving", 2),
        ("leaving", 1),
        ("leaving", 1),
    ]
    assert Wave.objects.get(id=wave.id).state == "running"
    assert Job.objects.get(id=wave.job_id).evictions == 3


def test_a_wave_of_which_nothing_stays_is_stopped_whole(lab: Lab) -> None:
    wave = runs(lab, 0, shape="independent", tasks=2, gpus="h100:1", grace="30s")
    claimant = lab.submit(gpus="h100:2")

    put(Outcome(evictions=(leave(lab, wave, claimant, 0, tasks=2),)))

    wave.refresh_from_db()
    assert (wave.state, wave.wish, wave.wish_due_at) == ("evicting", "stop", NOW + 60 * MINUTE)
    assert wave.deadline_at == NOW + 60 * MINUTE + timedelta(seconds=90)
    assert StoredEviction.objects.get().due_at is None


def test_an_eviction_keeps_what_was_lost(lab: Lab) -> None:
    wave = runs(lab, 0, 1, shape="gang", tasks=2, gpus="h100:8")
    claimant = lab.submit(gpus="h100:8")

    put(Outcome(evictions=(leave(lab, wave, claimant, 0, 1),)), minute=90)

    row = StoredEviction.objects.get()
    assert (row.units, row.lost_unit_seconds, row.claimant) == (16, 16 * 5400, claimant)
    assert "24.0 GPU-hours are lost" in wave.job.events.get(type="evicted").summary
    assert wave.job.events.get(type="evicted").details["lost_unit_seconds"] == 86400


def test_a_gang_that_was_evicted_has_run_and_waits_at_its_old_place(lab: Lab) -> None:
    wave = runs(lab, 0, shape="gang", tasks=1, gpus="h100:8")
    claimant = lab.submit(gpus="h100:8")

    put(Outcome(evictions=(leave(lab, wave, claimant, 0),)), minute=30)

    job = Job.objects.get(id=wave.job_id)
    assert (job.state, job.next_state, job.evictions, job.ran_for) == ("evicting", "queued", 1, 30 * MINUTE)
    assert (job.wait_from, job.ready, job.reason_code) == (NOW, False, "EVICTED")


def test_what_ended_since_the_decision_is_not_evicted(lab: Lab) -> None:
    wave = runs(lab, 0, shape="gang", tasks=1, gpus="h100:8")
    claimant = lab.submit(gpus="h100:8")
    seen = world(1)
    Wave.objects.filter(id=wave.id).update(state="ended", ended_at=NOW)

    apply(Outcome(evictions=(leave(lab, wave, claimant, 0),)), seen, now=NOW + MINUTE, digest="d")

    assert not StoredEviction.objects.exists()
    assert Job.objects.get(id=wave.job_id).evictions == 0


def test_leaving_tasks_are_an_attempt_of_their_own_that_leaves_for_a_claim(lab: Lab) -> None:
    wave = runs(lab, 0, shape="independent", tasks=4, gpus="h100:1", grace="30s")
    claimant = lab.submit(gpus="h100:8")
    put(Outcome(evictions=(leave(lab, wave, claimant, 0),)))

    stays, leaves = sorted(world(60).attempts, key=lambda row: -row.id)

    assert (stays.id, stays.leaving, stays.placed[0].tasks) == (wave.id, False, 3)
    assert (leaves.leaving, leaves.claimed, leaves.placed[0].tasks) == (True, True, 1)
    assert leaves.ends_by == milliseconds(NOW + 60 * MINUTE + timedelta(seconds=90))


@pytest.mark.parametrize("shape", ["gang", "independent"])
def test_statements_do_not_grow_with_the_evictions(lab: Lab, shape: str) -> None:
    def statements(count: int) -> int:
        waves = [runs(lab, 0, shape=shape, tasks=2, gpus="h100:1") for _ in range(count)]
        claimants = [lab.submit() for _ in waves]
        seen = world(5)
        evictions = [leave(lab, wave, job, 0, claim=job.id) for wave, job in zip(waves, claimants, strict=True)]
        outcome = Outcome(evictions=tuple(evictions), claims=tuple(claim_of(lab, job, job.id) for job in claimants))
        with CaptureQueriesContext(connection) as queries:
            apply(outcome, seen, now=NOW + 5 * MINUTE, digest="d")
        return len(queries)

    first = statements(1)
    StoredClaim.objects.all().delete()

    assert statements(12) == first


def test_claims_and_holds_come_back_as_they_were_said(lab: Lab) -> None:
    job, other = lab.submit(gpus="h100:8", time_limit="2h", grace="30s"), lab.submit(gpus="h100:4", time_limit="1h")
    claim = replace(claim_of(lab, job), length=span(130 * MINUTE + timedelta(seconds=30)))  # 10 min to start
    hold = Hold(
        job=other.id,
        job_class=other.job_class_id,
        user=other.user_id,
        flavors=(lab.h100.id,),
        placed=(Placed(group=0, node=lab.nodes[1].id, tasks=1),),
        at=milliseconds(NOW + 90 * MINUTE),
        standing=Standing.BORROWER,
        moved="earlier",
    )

    put(Outcome(claims=(claim,), holds=(hold,)))
    found = world(61)

    assert found.claims == (claim,)
    (planned,) = found.holds
    assert (planned.job, planned.at, planned.placed) == (hold.job, hold.at, hold.placed)
    assert (planned.standing, planned.moved) == (Standing.BORROWER, "earlier")
    assert planned.limit == 60 * 60_000


def test_promises_that_nobody_says_any_more_go(lab: Lab) -> None:
    job = lab.submit(gpus="h100:8")
    put(Outcome(claims=(claim_of(lab, job),)))

    put(Outcome())

    assert not StoredClaim.objects.exists()
    assert not StoredHold.objects.exists()


def test_unchanged_promises_are_not_written_again(lab: Lab) -> None:
    outcome = Outcome(claims=(claim_of(lab, lab.submit(gpus="h100:8")),))
    put(outcome)

    with CaptureQueriesContext(connection) as queries:
        put(outcome, minute=61)

    assert not [query for query in queries if 'INSERT INTO "queues_claim"' in query["sql"]]
    assert StoredClaim.objects.get().decided_at == NOW + 60 * MINUTE


def test_what_is_kept_idle_adds_up_until_the_job_starts(lab: Lab) -> None:
    job = lab.submit(gpus="h100:8")
    put(Outcome(idle=((job.id, 4),)), minute=0)
    put(Outcome(idle=((job.id, 6),)), minute=10)
    put(Outcome(), minute=15)

    found = promises.idle(NOW + 20 * MINUTE)

    assert found == {job.id: (4 * 10 + 6 * 5) * 60_000}
    assert Idle.objects.get().units == 0


def test_nothing_is_left_of_what_a_job_kept_idle_when_it_ends_without_a_start(lab: Lab) -> None:
    job = lab.submit(gpus="h100:8")
    put(Outcome(idle=((job.id, 4),)), minute=0)
    services.cancel(uid=job.uid, by=lab.ann, now=NOW + 5 * MINUTE)

    put(Outcome(), minute=10)

    assert not Idle.objects.exists()


def test_a_promise_to_a_job_that_no_longer_waits_is_not_kept(lab: Lab) -> None:
    job = lab.submit(gpus="h100:8")
    Job.objects.filter(id=job.id).update(state="held", ready=False)

    put(Outcome(claims=(claim_of(lab, job),)))

    assert not StoredClaim.objects.exists()


def test_each_task_of_an_independent_job_is_as_young_as_it_is_itself(lab: Lab) -> None:
    lab.cv.queues.update(min_runtime=30 * MINUTE)
    wave = runs(lab, 0, shape="independent", tasks=4, gpus="h100:1")
    old, young, _, pending = wave.tasks.order_by("id")
    Task.objects.filter(id=young.id).update(started_at=NOW + 40 * MINUTE)
    Task.objects.filter(id=pending.id).update(started_at=None, state="pending")
    owner = lab.submit(gpus="h100:1")

    seen = {attempt.id: attempt for attempt in world(60).attempts}
    put(Outcome(evictions=(leave(lab, wave, owner, 0, tasks=1),)))

    fresh = seen[wave.id + YOUNG]
    assert (seen[wave.id].placed[0].tasks, seen[wave.id].safe_until) == (2, milliseconds(NOW))
    assert (fresh.placed[0].tasks, fresh.safe_until, fresh.number) == (2, milliseconds(NOW + 70 * MINUTE), wave.id)
    left = Task.objects.filter(wave=wave, state="leaving")
    assert [task.index for task in left] == [2]
    assert Wave.objects.get(id=wave.id).state == "running"
    assert old.index == 0


def test_a_wave_of_which_only_young_tasks_stay_is_not_stopped_whole(lab: Lab) -> None:
    lab.cv.queues.update(min_runtime=30 * MINUTE)
    wave = runs(lab, 0, shape="independent", tasks=2, gpus="h100:1")
    Task.objects.filter(wave=wave, index=0).update(started_at=NOW + 40 * MINUTE)

    put(Outcome(evictions=(leave(lab, wave, lab.submit(gpus="h100:1"), 0),)))

    assert list(wave.tasks.order_by("index").values_list("state", flat=True)) == ["running", "leaving"]
    assert Wave.objects.get(id=wave.id).state == "running"
