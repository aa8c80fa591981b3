"""Elastic jobs walked on the emulator: they start with their minimum, grow last, shrink first, and end as a whole."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from queues import cycle, services
from queues.launches import launches_of
from queues.models import Claim, Eviction, Job, Task, Wave
from queues.states import JobState
from tenants.models import Installation, Quota
from tests.loop.stage import Stage, events, state, units_in_use

FOREVER = {"tidegate.test/forever": "1"}


def running(job: Job) -> int:
    """Return how many tasks of a job run now."""
    return Task.objects.filter(wave__job=job, state="running").count()


def elastic(stage: Stage, *, least: int = 1, most: int = 4, **changes: Any) -> Job:  # noqa: ANN401  fields of a spec
    """Submit an elastic job of whole nodes."""
    return stage.submit(shape="elastic", tasks={"min": least, "max": most}, gpus="h100:8", **changes)


def grown(stage: Stage, **changes: Any) -> Job:  # noqa: ANN401  fields of a spec
    """Return an elastic job that has grown over all four nodes, two of which are its team's."""
    job = elastic(stage, name="grows", forever="1", **changes)
    stage.until(lambda: running(job) == 4)
    return job


def claim(stage: Stage) -> Job:
    """Submit a job of one node that is inside another team's guarantee."""
    spec: dict[str, Any] = {"team": "cv", "name": "owner", "gpus": "h100:8", "annotations": FOREVER}
    return stage.lab.submit(stage.lab.carl, now=timezone.now(), **spec)


def test_an_elastic_job_starts_with_its_minimum_and_grows_into_what_is_free(stage: Stage) -> None:
    job = elastic(stage, least=2, most=3, forever="1")

    cycle.run_cycle(timezone.now)
    first = Task.objects.filter(wave__job=job).count()
    stage.until(lambda: running(job) == 3)
    for _ in range(3):
        stage.turn()

    assert first == 2
    assert [(wave.number, wave.surplus, wave.tasks.count()) for wave in Wave.objects.order_by("number")] == [
        (1, False, 2),
        (2, True, 1),
    ]
    assert list(Task.objects.order_by("id").values_list("index", flat=True)) == [0, 1, 2]
    assert events(job) == ["submitted", "admitted", "launched", "started", "grew"]
    assert job.events.get(type="grew").summary.startswith("Grew by 1 task to 3 of at most 3, on 1 node")
    assert units_in_use() == 24
    assert {pod.node for pod in stage.pods()} == {task.node.name for task in Task.objects.select_related("node")}


def test_surplus_goes_back_to_a_guarantee_and_the_job_runs_on(stage: Stage) -> None:
    job = grown(stage)
    owner = claim(stage)

    stage.until(lambda: state(owner) is JobState.RUNNING)
    for _ in range(3):
        stage.turn()

    assert (state(job), job.attempt, job.evictions, running(job)) == (JobState.RUNNING, 1, 0, 3)
    shrank = job.events.get(type="shrank")
    assert shrank.summary == "Gives 1 surplus task (8 GPUs) back for another job; runs on with 3, minimum 1"
    assert (shrank.details["claimant"], shrank.details["units"]) == (str(owner.uid), 8)
    assert owner.events.get(type="reclaims").summary == "Reclaims 8 GPUs from 1 job"
    assert "evicted" not in events(job)
    assert (Eviction.objects.get().surplus, Eviction.objects.get().lost_unit_seconds) == (True, 0)
    assert units_in_use() == 32


def test_a_job_ends_with_its_minimum_and_leaves_nothing_behind(stage: Stage) -> None:
    job = elastic(stage, least=2, run_for="1s")

    ended = stage.until_ended(job)
    stage.until(lambda: not stage.objects() and not stage.pods())

    assert ended is JobState.SUCCEEDED
    assert (job.reason_code, job.failures, job.evictions, job.attempt) == ("", 0, 0, 1)
    assert Task.objects.filter(wave__job=job, wave__base=None, state="succeeded").count() == 2
    assert units_in_use() == 0


def test_a_worker_killed_while_a_job_grows_leaves_nothing_undone_and_doubles_nothing(stage: Stage) -> None:
    job = elastic(stage, forever="1")
    stage.until(lambda: running(job) == 1)
    cycle.run_cycle(timezone.now)
    surplus = Wave.objects.filter(job=job, base__isnull=False)
    (launch,) = launches_of(
        list(surplus.select_related("base", "job__team", "job__queue", "job__priority_class"))
    ).values()
    # Told the cluster and died before it was written down: the lease has to run out first.
    stage.cluster.ensure_team(launch.namespace, team="nlp", ceiling=None)
    stage.cluster.launch(launch)
    surplus.update(wish_due_at=timezone.now() + timedelta(milliseconds=300))
    for _ in range(3):
        cycle.run_cycle(timezone.now)

    stage.until(lambda: running(job) == 4)
    stage.until(lambda: not surplus.filter(wish_due_at__isnull=False).exists())

    assert (surplus.count(), len(stage.objects()), len(stage.pods())) == (1, 2, 4)
    assert sorted(Task.objects.filter(wave__job=job).values_list("index", flat=True)) == [0, 1, 2, 3]
    assert events(job).count("grew") == 1


def test_a_worker_killed_while_a_job_shrinks_leaves_nothing_undone_and_doubles_nothing(stage: Stage) -> None:
    job = grown(stage)
    owner = claim(stage)
    cycle.run_cycle(timezone.now)
    Eviction.objects.update(due_at=timezone.now() + timedelta(milliseconds=300))
    for _ in range(3):
        cycle.run_cycle(timezone.now)
    kept = (Claim.objects.count(), Task.objects.filter(wave__job=job, state="leaving").count())

    stage.until(lambda: state(owner) is JobState.RUNNING)

    assert kept == (1, 1)
    assert Eviction.objects.count() == 1
    assert (state(job), running(job), job.evictions) == (JobState.RUNNING, 3, 0)
    assert events(job).count("shrank") == 1


def test_surplus_holds_its_units_for_its_grace_and_the_claimant_waits_for_them(stage: Stage) -> None:
    grown(stage, grace="1s", ignore_term="1")
    owner = claim(stage)
    seen: list[tuple[bool, bool]] = []

    def started() -> bool:
        leaving = Task.objects.filter(state="leaving").exists()
        seen.append((leaving, Wave.objects.filter(job=owner).exists()))
        assert units_in_use() <= 32
        return state(owner) is JobState.RUNNING

    stage.until(started)

    assert (True, True) not in seen
    assert units_in_use() == 32


def test_what_was_given_back_is_grown_into_again_when_it_is_free_and_the_pause_is_over(stage: Stage) -> None:
    Installation.objects.create(id=1, aging_every=timedelta(hours=1), elastic_pause=timedelta(0))
    job = grown(stage)
    owner = claim(stage)
    stage.until(lambda: state(owner) is JobState.RUNNING)

    services.cancel(uid=owner.uid, by=stage.lab.carl, now=timezone.now())
    stage.until(lambda: running(job) == 4)

    assert events(job)[-3:] == ["grew", "shrank", "grew"]
    assert sorted(Task.objects.filter(wave__job=job, state="running").values_list("index", flat=True)) == [0, 1, 2, 3]


def test_a_minimum_that_was_borrowed_goes_whole_and_starts_again_with_its_minimum(stage: Stage) -> None:
    Quota.objects.filter(team=stage.lab.nlp).update(guaranteed=0)
    Quota.objects.filter(team=stage.lab.cv).update(guaranteed=24)
    job = elastic(stage, least=2, forever="1")
    stage.until(lambda: running(job) == 4)
    owner = stage.lab.submit(
        stage.lab.carl,
        now=timezone.now(),
        team="cv",
        name="owner",
        shape="gang",
        tasks=3,
        gpus="h100:8",
        annotations=FOREVER,
    )
    stage.until(lambda: state(owner) is JobState.RUNNING)
    evicted = (state(job), job.evictions)

    services.cancel(uid=owner.uid, by=stage.lab.carl, now=timezone.now())
    stage.until(lambda: running(job) == 4)

    assert evicted == (JobState.QUEUED, 1)
    assert (job.attempt, Wave.objects.filter(job=job, attempt=2, base=None).get().tasks.count()) == (2, 2)
    assert not Task.objects.filter(wave__job=job, wave__attempt=1, state__in=["pending", "running", "leaving"]).exists()
