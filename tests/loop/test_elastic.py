"""Elastic jobs walked on the emulator: they start with their minimum, grow last, shrink first, and end as a whole."""

from typing import Any

from django.utils import timezone

from queues import cycle
from queues.models import Eviction, Job, Task, Wave
from queues.states import JobState
from tests.loop.stage import Stage, events, state, units_in_use


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
    owner = stage.lab.submit(
        stage.lab.carl,
        now=timezone.now(),
        team="cv",
        name="owner",
        gpus="h100:8",
        annotations={"tidegate.test/forever": "1"},
    )

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
