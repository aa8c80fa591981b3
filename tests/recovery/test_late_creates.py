"""A create that is still on its way, or comes once more, when its wave is told to go: nothing of it stays."""

import json
from threading import Event, Thread

from django.db import connections
from django.utils import timezone
from pytest_django import Settings

from queues import cycle, services
from queues.models import Job, Wave
from queues.states import JobState
from tests.clusters.faulty import Handler, Request
from tests.kubernetes.proxy import forward
from tests.loop.stage import state
from tests.recovery.scene import Scene

LIMIT = 60.0


class Held:
    """Holds the first create of a Job back before it reaches the server, until it is let go."""

    def __init__(self, scene: Scene) -> None:
        self.came, self.may_go = Event(), Event()
        scene.proxy.put(self._answer, verb="POST", kind="jobs", times=1)

    def _answer(self, handler: Handler) -> None:
        self.came.set()
        self.may_go.wait(LIMIT)
        forward(handler)


def asked(scene: Scene, method: str) -> list[Request]:
    """Return the requests about Jobs that were made with a method."""
    return [each for each in scene.proxy.requests if each.method == method and "jobs" in each.path.split("/")]


def worker(scene: Scene) -> Thread:
    """Start another worker that tells the cluster what is due."""

    def work() -> None:
        scene.release()
        connections.close_all()

    thread = Thread(target=work, name="worker")
    thread.start()
    return thread


def test_a_stop_waits_for_a_create_that_is_still_on_its_way(scene: Scene) -> None:
    held = Held(scene)
    job = scene.submit(gpus="h100:8", forever="1")
    cycle.run_cycle(timezone.now)
    other = worker(scene)
    assert held.came.wait(LIMIT)
    services.cancel(uid=job.uid, by=scene.lab.ann, now=timezone.now())

    scene.release()
    early = asked(scene, "DELETE")
    held.may_go.set()
    other.join(LIMIT)
    scene.until(lambda: state(job) is JobState.CANCELLED)
    scene.all_free()

    assert early == []
    assert len(asked(scene, "POST")) == 1
    assert Wave.objects.filter(launching_until=None, wish_due_at=None).count() == 1


def test_a_create_that_comes_once_more_behind_the_end_is_swept_by_the_watch(scene: Scene, settings: Settings) -> None:
    job = scene.runs(gpus="h100:8")
    settings.TIDEGATE_RELIST_SECONDS = 600
    lists = scene.follower.lists
    scene.until(lambda: scene.follower.lists > lists)
    services.cancel(uid=job.uid, by=scene.lab.ann, now=timezone.now())
    scene.until(lambda: state(job) is JobState.CANCELLED)
    scene.all_free()
    (create,) = asked(scene, "POST")

    scene.ground.send("create", create.path, body=json.loads(create.body))
    assert scene.objects()
    scene.all_free()
    scene.until(lambda: not scene.pods())

    assert (Job.objects.count(), Wave.objects.count()) == (1, 1)
    assert state(job) is JobState.CANCELLED
