"""Faults of pods, nodes and objects: what was lost queues again whole, and its units come back exactly once."""

from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from clusters.names import object_name
from queues import cycle, nodes, services, steps
from queues.models import Job, Node, Wave
from queues.states import JobState
from tests.clusters.contract.ground import GPU
from tests.loop.stage import state, tried
from tests.queues import manifests
from tests.recovery.scene import MERGE, Scene

EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction"}
SILENT = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}


def evict(scene: Scene, path: str) -> None:
    """Evict a pod as `kubectl drain` does."""
    name = path.rsplit("/", 1)[1]
    scene.ground.send("create", f"{path}/eviction", body={**EVICTION, "metadata": {"name": name}})


def lose(scene: Scene, node: str) -> None:
    """Let a node's kubelet die, and Kubernetes notice at once what would take it a minute."""
    scene.patch_node(node, {"metadata": {"labels": {"tidegate.test/kubelet": "down"}}})
    scene.patch_node(f"{node}/status", {"status": {"conditions": [SILENT]}})


def revive(scene: Scene, node: str) -> None:
    scene.patch_node(node, {"metadata": {"labels": {"tidegate.test/kubelet": None}}})


def again(scene: Scene, job: Job) -> None:
    """End a job's back-off now."""
    Job.objects.filter(id=job.id).update(backoff_until=timezone.now())
    scene.turn()


def no_time_to_start(job: Job) -> None:
    """Let the start limit of a job's queue be over already: for every job of that queue."""
    job.queue.start_limit = timedelta()
    job.queue.save()
    Wave.objects.filter(job=job, deadline_at__isnull=False).update(deadline_at=timezone.now())


def test_a_gang_whose_objects_are_deleted_by_somebody_queues_again_at_its_old_place(scene: Scene) -> None:
    job = scene.runs(shape="gang", tasks=2, gpus="h100:8", retries=1)
    submitted = job.submitted_at

    scene.ground.send("delete", scene.object_path(job), query={"propagationPolicy": "Background"})
    scene.until(lambda: scene.attempt(job) == 2)
    scene.balance()

    assert scene.events(job, "interrupted") == ["Its pod was deleted by somebody else"]
    assert (job.failures, job.submitted_at) == (0, submitted)
    assert [wave.outcome for wave in Wave.objects.order_by("number")] == ["DELETED_OUTSIDE", ""]
    assert scene.books() == (16, 16, 16)


def test_a_pod_evicted_by_others_takes_its_gang_back_into_the_queue_without_a_retry(scene: Scene) -> None:
    job = scene.runs(shape="gang", tasks=2, gpus="h100:8", retries=1)

    evict(scene, scene.pod_paths()[0])
    scene.until(lambda: scene.attempt(job) == 2)
    scene.balance()

    assert scene.events(job, "interrupted") == ["Eviction API: evicting"]
    assert (job.failures, Wave.objects.get(number=1).outcome) == (0, "DELETED_OUTSIDE")
    assert scene.books() == (16, 16, 16)


def test_a_pod_of_a_written_job_evicted_by_others_takes_it_back_into_the_queue_although_the_job_itself_gives_up(
    scene: Scene,
) -> None:
    manifest = manifests.job(pods=2, units=8, notes=manifests.steer(forever="1"), backoffLimit=0)
    job = services.submit(spec=manifest, by=scene.lab.ann, now=timezone.now()).job
    scene.until(lambda: scene.running(job) == 2)

    evict(scene, scene.pod_paths()[0])
    scene.until(lambda: scene.attempt(job) == 2)
    scene.balance()

    assert len(scene.events(job, "interrupted")) == 1
    assert (job.failures, Wave.objects.get(number=1).outcome) == (0, "DELETED_OUTSIDE")
    assert scene.books() == (16, 16, 16)


def test_a_taint_that_evicts_moves_a_gang_to_other_nodes(scene: Scene) -> None:
    job = scene.runs(shape="gang", tasks=2, gpus="h100:8", retries=1)
    node = scene.node_of(job)

    scene.patch_node(node, {"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}})
    scene.until(lambda: scene.attempt(job) == 2)
    scene.balance()

    assert Wave.objects.get(number=1).outcome == "NODE_LOST"
    assert len(scene.events(job, "interrupted")) == 1
    assert job.failures == 0
    assert node not in scene.places(job)
    assert scene.books() == (16, 16, 16)


def test_a_lost_node_gives_its_gang_back_whole_and_its_zombie_pods_do_no_harm_when_it_returns(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "LOST_AFTER", timedelta(seconds=1))
    job = scene.runs(shape="gang", tasks=2, gpus="h100:8", retries=1)
    submitted, node = job.submitted_at, scene.node_of(job)

    lose(scene, node)
    scene.until(lambda: scene.attempt(job) == 2)
    scene.until(lambda: Node.objects.get(name=node).outside_units == 8)
    zombies = [pod for pod in scene.mine() if pod.node == node]
    revive(scene, node)
    scene.until(lambda: not [pod for pod in scene.mine() if pod.node == node])
    scene.balance()

    assert (job.failures, job.submitted_at, len(zombies)) == (0, submitted, 1)
    assert scene.events(job, "interrupted") == [f"Node {node} was lost"]
    assert Wave.objects.get(number=1).outcome == "NODE_LOST"
    assert node not in scene.places(job)
    assert scene.books() == (16, 16, 16)
    scene.until(lambda: Node.objects.get(name=node).outside_units == 0)


def test_an_image_that_cannot_be_pulled_is_named_backs_off_behind_others_and_fails_in_the_end(scene: Scene) -> None:
    job = scene.submit(shape="gang", tasks=3, gpus="h100:8", never_start="ErrImagePull")
    scene.until(lambda: state(job) is JobState.ADMITTED and scene.reason(job).get("code") == "IMAGE_PULL")

    no_time_to_start(job)
    scene.until(partial(tried, job, 1))
    backing_off = scene.reason(job)
    Job.objects.filter(id=job.id).update(backoff_until=timezone.now() + timedelta(hours=1))
    job.queue.start_limit = timedelta(minutes=10)
    job.queue.save()
    other = scene.runs(name="other", shape="gang", tasks=3, gpus="h100:8")
    services.cancel(uid=other.uid, by=scene.lab.ann, now=timezone.now())
    scene.ends(other)
    no_time_to_start(job)
    for waves in (2, 3):
        again(scene, job)
        scene.until(partial(tried, job, waves))

    assert (backing_off["code"], backing_off["details"]["cause"]) == ("BACKING_OFF", "START_FAILED")
    assert backing_off["details"]["failures"] == 1
    assert scene.reason(job)["code"] == "START_FAILED"
    assert (state(job), Wave.objects.filter(job=job).count()) == (JobState.FAILED, 3)
    scene.all_free()


def test_a_pod_that_the_scheduler_cannot_place_says_so_and_runs_when_it_can(scene: Scene) -> None:
    job = scene.submit(gpus="h100:8", forever="1")
    cycle.run_cycle(timezone.now)
    node = scene.places(job)[0]
    scene.patch_node(node, {"spec": {"unschedulable": True}})

    scene.until(lambda: scene.reason(job).get("code") == "UNSCHEDULABLE")
    said, was = scene.reason(job)["summary"], state(job)
    scene.patch_node(node, {"spec": {"unschedulable": None}})
    scene.until(lambda: scene.running(job) == 1)

    assert was is JobState.ADMITTED
    assert "nodes are available" in said
    assert Wave.objects.filter(job=job).count() == 1
    assert scene.reason(job) == {}


def test_a_time_limit_ends_a_job_and_gives_its_units_back(scene: Scene) -> None:
    job = scene.submit(shape="gang", tasks=2, gpus="h100:8", forever="1", retries=3)
    Job.objects.filter(id=job.id).update(time_limit=timedelta(seconds=1))

    ended = scene.ends(job)

    assert (ended, scene.reason(job)["code"], job.attempt) == (JobState.FAILED, "TIMED_OUT", 1)
    scene.all_free()


def test_a_finalizer_that_blocks_deletion_does_not_keep_units(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "GOING_SLACK", timedelta(seconds=1))
    job = scene.runs(gpus="h100:8", grace="1s")
    path = scene.object_path(job)
    kept = scene.ground.send("get", path)["metadata"].get("finalizers") or []
    body = {"metadata": {"finalizers": [*kept, "example.com/archive"]}}
    scene.ground.send("patch", path, body=body, media="application/merge-patch+json")

    services.cancel(uid=job.uid, by=scene.lab.ann, now=timezone.now())
    ended = scene.ends(job)
    scene.until(lambda: scene.books() == (0, 0, 0))
    left = scene.ground.send("get", path)["metadata"]
    scene.ground.send("patch", path, body={"metadata": {"finalizers": None}}, media="application/merge-patch+json")

    assert (ended, "deletionTimestamp" in left) == (JobState.CANCELLED, True)
    scene.all_free()


def test_a_finalizer_on_a_pod_that_never_had_a_node_does_not_keep_units(scene: Scene) -> None:
    job = scene.submit(gpus="h100:8", forever="1")
    cycle.run_cycle(timezone.now)
    scene.patch_node(scene.places(job)[0], {"spec": {"unschedulable": True}})
    scene.until(lambda: scene.reason(job).get("code") == "UNSCHEDULABLE")
    (path,) = scene.pod_paths()
    kept = scene.ground.send("get", path)["metadata"].get("finalizers") or []
    body = {"metadata": {"finalizers": [*kept, "example.com/archive"]}}
    scene.ground.send("patch", path, body=body, media=MERGE)

    services.cancel(uid=job.uid, by=scene.lab.ann, now=timezone.now())
    ended = scene.ends(job)
    left = scene.ground.send("get", path)["metadata"]
    scene.ground.send("patch", path, body={"metadata": {"finalizers": None}}, media=MERGE)

    assert (ended, "deletionTimestamp" in left) == (JobState.CANCELLED, True)
    scene.all_free()


def test_a_node_deleted_while_a_gang_starts_sends_it_elsewhere_at_once(scene: Scene) -> None:
    job = scene.submit(shape="gang", tasks=2, gpus="h100:8", forever="1")
    cycle.run_cycle(timezone.now)
    gone = scene.places(job)[0]

    scene.ground.send("delete", f"/api/v1/nodes/{gone}")
    scene.until(lambda: scene.attempt(job) == 2)
    scene.balance()

    assert gone not in scene.places(job)
    assert scene.events(job, "interrupted") == [f"Node {gone} was lost"]
    assert (job.failures, job.start_failures, Wave.objects.get(job=job, number=1).outcome) == (0, 0, "NODE_LOST")
    assert scene.books() == (16, 16, 16)


def test_objects_with_our_label_that_no_row_knows_are_deleted(scene: Scene) -> None:
    away = scene.ground.cluster
    away.ensure_team(scene.namespace, team="nlp", ceiling=None)
    stray = scene.ground.launch(
        scene.ground.group(scene.names[0], steer={"forever": "1"}), namespace=scene.namespace, gang=False
    )
    away.launch(stray)

    scene.until(lambda: not [seen for seen in away.inventory().waves if seen.wave == stray.wave])
    scene.until(lambda: not [pod for pod in away.inventory().pods if pod.wave == stray.wave])
    scene.until(lambda: not sum(Node.objects.values_list("outside_units", flat=True)))


def test_a_foreign_object_of_a_jobs_name_is_left_alone_and_the_job_backs_off(scene: Scene) -> None:
    scene.ground.cluster.ensure_team(scene.namespace, team="nlp", ceiling=None)
    job = scene.submit(shape="gang", tasks=2, gpus="h100:8", forever="1")
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    name = object_name(str(job.uid), 1, 0)
    foreign = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }
    uid = scene.ground.send("create", scene.path("jobs"), body=foreign)["metadata"]["uid"]

    scene.until(lambda: scene.events(job, "start_failed") and state(job) is JobState.QUEUED)
    cause, books = scene.reason(job)["details"]["cause"], scene.books()
    again(scene, job)
    scene.until(lambda: scene.running(job) == 2)

    assert (cause, books) == ("NAME_CONFLICT", (0, 0, 0))
    assert scene.ground.send("get", scene.path("jobs", name))["metadata"]["uid"] == uid
    assert (job.failures, job.start_failures) == (0, 0)


def test_a_gang_that_a_quota_of_others_refuses_half_its_pods_leaves_whole_and_waits(scene: Scene) -> None:
    scene.ground.cluster.ensure_team(scene.namespace, team="nlp", ceiling=None)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "theirs"},
        "spec": {"hard": {f"requests.{GPU}": "8"}},
    }
    scene.ground.send("create", scene.path("resourcequotas"), body=quota)
    there = scene.path("resourcequotas", "theirs")
    scene.until(lambda: scene.ground.send("get", there).get("status", {}).get("hard"))
    job = scene.submit(shape="gang", tasks=2, gpus="h100:8", forever="1")

    scene.until(lambda: scene.events(job, "start_failed") and state(job) is JobState.QUEUED)
    reason, books = scene.reason(job), scene.books()
    other = scene.runs(name="other", gpus="h100:8")
    services.cancel(uid=other.uid, by=scene.lab.ann, now=timezone.now())
    scene.ends(other)
    scene.ground.send("delete", there)
    again(scene, job)
    scene.until(lambda: scene.running(job) == 2)
    scene.balance()

    assert (reason["details"]["cause"], books) == ("K8S_QUOTA", (0, 0, 0))
    assert "exceeded quota: theirs" in reason["summary"]
    assert (job.failures, job.start_failures) == (0, 0)
    assert scene.books() == (16, 16, 16)


def test_a_task_whose_pod_does_not_start_leaves_while_the_others_of_its_job_run(scene: Scene) -> None:
    job = scene.submit(shape="independent", tasks=2, gpus="h100:8", forever="1")
    cycle.run_cycle(timezone.now)
    scene.patch_node(scene.places(job)[0], {"spec": {"unschedulable": True}})
    scene.until(lambda: scene.running(job) == 1 and job.waves.get().tasks.exclude(pod="").count() == 2)

    no_time_to_start(job)
    scene.until(lambda: job.waves.get().tasks.filter(state="stopped").exists())
    scene.balance()

    job.refresh_from_db()
    assert (job.state, job.waiting_tasks, job.reason_code, job.start_failures) == ("running", 1, "START_FAILED", 1)
    assert (scene.running(job), scene.books()) == (1, (8, 8, 8))
