"""Units come back when pods have ended, each once, whatever a Job's status says; and what that costs in requests."""

from collections import Counter
from functools import partial

import pytest
from django.utils import timezone
from pytest_django import Settings

from queues import services
from queues.models import KeptLog
from queues.states import JobState
from tests.kubernetes.controlplane import ControlPlane
from tests.loop.stage import state
from tests.recovery.scene import Scene

JOBS = 6


def agreed(scene: Scene, units: int) -> bool:
    """Return whether numbers, rows and pods agree that so many units are in use."""
    return scene.books() == (units, units, units)


@pytest.mark.parametrize("shape", ["gang", "independent"])
def test_tasks_of_a_wave_that_has_to_go_give_their_units_back_one_by_one_as_their_pods_end(
    scene: Scene, shape: str
) -> None:
    job = scene.runs(shape=shape, tasks=3, gpus="h100:8", ignore_term="1", grace="1h")
    services.cancel(uid=job.uid, by=scene.lab.ann, now=timezone.now())
    scene.until(lambda: [pod.leaving for pod in scene.mine()] == [True] * 3)

    seen = [scene.books()]
    for left in (16, 8, 0):
        path = scene.path("pods", scene.mine()[0].name)
        scene.ground.send("delete", path, query={"gracePeriodSeconds": "0"})
        scene.until(partial(agreed, scene, left))
        seen.append(scene.books())
        assert state(job) is (JobState.EVICTING if left else JobState.CANCELLED)

    assert [used for used, _, _ in seen] == [24, 16, 8, 0]
    assert [text for text in scene.events(job, "cancelled") if text == "Cancelled"] == ["Cancelled"]
    scene.all_free()


def test_units_are_free_when_pods_have_ended_although_no_controller_has_written_that_into_the_jobs_status(
    real: Scene, plane: ControlPlane, settings: Settings
) -> None:
    settings.TIDEGATE_KEEP_SECONDS = 600
    job = real.runs(shape="gang", tasks=2, gpus="h100:8")

    def active() -> object:
        return real.ground.send("get", real.object_path(job))["status"].get("active", 0)

    real.until(lambda: active() == 2)
    with plane.frozen("kube-controller-manager"):
        real.finish(job)
        real.until(lambda: real.books() == (0, 0, 0))
        seen = state(job), active()

    assert seen == (JobState.SUCCEEDED, 2)


def test_a_job_of_one_task_costs_one_request_and_is_then_followed_by_the_watch(
    scene: Scene, settings: Settings
) -> None:
    settings.TIDEGATE_KEEP_SECONDS = 600
    first = scene.submit(gpus="h100:1", run_for="200ms")
    assert scene.ends(first) is JobState.SUCCEEDED
    before = len(scene.proxy.requests)

    jobs = [scene.submit(gpus="h100:1", run_for="200ms") for _ in range(JOBS)]
    scene.until(lambda: all(state(job) is JobState.SUCCEEDED for job in jobs))

    asked = scene.proxy.requests[before:]
    assert Counter(request.method for request in asked if request.method != "GET") == {"POST": JOBS}
    assert [request.path for request in asked if request.method == "GET" and "/namespaces/" in request.path] == []


def test_the_last_lines_of_a_task_that_failed_are_kept_with_its_exit_code_when_its_pod_is_gone(
    scene: Scene, settings: Settings
) -> None:
    settings.TIDEGATE_KEEP_SECONDS = 600
    job = scene.submit(gpus="h100:1", run_for="200ms", exit_code=137)
    assert scene.ends(job) is JobState.FAILED
    scene.until(lambda: KeptLog.objects.filter(kept_at__isnull=False).exists())

    for path in scene.pod_paths():
        scene.ground.send("delete", path, query={"gracePeriodSeconds": "0"})
    scene.until(lambda: not scene.pods())

    kept = KeptLog.objects.select_related("task").get()
    assert (kept.task.exit_code, kept.task.reason, kept.error) == (137, "Error", "")
    assert kept.text.splitlines()[-1] in {"end exit code 137", "step 2"}  # what the emulator and kwok write
    assert scene.reason(job)["summary"] == "Task 0 failed with exit code 137 (Error)"
