"""A database that comes back without its last commits, while the cluster has gone on."""

from django.db import transaction
from django.utils import timezone

from clusters.port import PodPhase
from queues import cycle
from queues.models import Job, Task, Wave
from tests.recovery.scene import Scene


def test_an_admission_that_the_database_lost_leaves_an_orphan_that_goes_and_the_job_never_runs_twice_at_once(
    scene: Scene,
) -> None:
    job = scene.submit(gpus="h100:8", forever="1", ignore_term="1", grace="3s")
    before = Job.objects.filter(id=job.id).values().get()
    scene.until(lambda: scene.running(job) == 1)
    lost = Wave.objects.get(job=job).uid
    with transaction.atomic():
        Job.objects.select_for_update().get(id=job.id)
        Task.objects.filter(wave__job=job).delete()
        Wave.objects.filter(job=job).delete()
        job.events.exclude(type="submitted").delete()
        Job.objects.filter(id=job.id).update(**before)
    most = []

    def runs_again() -> bool:
        there = scene.ground.cluster.inventory().pods
        live = [pod for pod in there if pod.wave and pod.namespace == scene.namespace and pod.phase is PodPhase.RUNNING]
        most.append(len(live))
        # Nobody waits out a pause: at every moment the next try is due.
        Job.objects.filter(id=job.id, backoff_until__isnull=False).update(backoff_until=timezone.now())
        Wave.objects.filter(job=job, wish_due_at__isnull=False).update(wish_due_at=timezone.now())
        return scene.running(job) == 1

    cycle.run_cycle(timezone.now)
    scene.until(runs_again)
    scene.balance()

    assert max(most) == 1
    assert str(lost) not in {seen.wave for seen in scene.ground.cluster.inventory().waves}
    assert len(scene.objects()) == 1
    assert scene.books() == (8, 8, 8)
