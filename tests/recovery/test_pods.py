"""Faults of pods, nodes and objects: what was lost queues again whole, and its units come back exactly once."""

from queues.models import Wave
from queues.states import JobState
from tests.loop.stage import state
from tests.recovery.scene import Scene

EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction"}


def evict(scene: Scene, path: str) -> None:
    """Evict a pod as `kubectl drain` does."""
    name = path.rsplit("/", 1)[1]
    scene.ground.send("create", f"{path}/eviction", body={**EVICTION, "metadata": {"name": name}})


def test_a_gang_whose_objects_are_deleted_by_somebody_queues_again_at_its_old_place(scene: Scene) -> None:
    job = scene.runs(shape="gang", tasks=2, gpus="h100:8", retries=1)
    submitted = job.submitted_at

    scene.ground.send("delete", scene.object_path(job), query={"propagationPolicy": "Background"})
    scene.until(lambda: scene.events(job, "interrupted"))
    scene.until(lambda: state(job) is JobState.RUNNING and job.attempt == 2)
    scene.balance()

    assert scene.events(job, "interrupted") == ["Its pod was deleted by somebody else"]
    assert (job.failures, job.submitted_at) == (0, submitted)
    assert [wave.outcome for wave in Wave.objects.order_by("number")] == ["DELETED_OUTSIDE", ""]
    assert scene.books() == (16, 16, 16)


def test_a_pod_evicted_by_others_takes_its_gang_back_into_the_queue_without_a_retry(scene: Scene) -> None:
    job = scene.runs(shape="gang", tasks=2, gpus="h100:8", retries=1)

    evict(scene, scene.pod_paths()[0])
    scene.until(lambda: state(job) is JobState.RUNNING and job.attempt == 2)
    scene.balance()

    assert scene.events(job, "interrupted") == ["Eviction API: evicting"]
    assert (job.failures, Wave.objects.get(number=1).outcome) == (0, "DELETED_OUTSIDE")
    assert scene.books() == (16, 16, 16)
