"""JobSets that people wrote or made themselves, run by the real JobSet controller."""

from typing import Any

import pytest
from django.utils import timezone

from queues import services, steps
from queues.models import Job, Task
from queues.states import JobState
from tests.loop.adopting import Hands, job_of
from tests.loop.stage import Stage, events, finish_pod, state, units_in_use
from tests.queues import manifests
from tests.queues.manifests import steer

# Whoever comes first waits for the definitions to be installed.
pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("operators"), pytest.mark.timeout(600)]

API = "/apis/jobset.x-k8s.io/v1alpha2"


def submit(real: Stage, manifest: dict[str, Any]) -> Job:
    return services.submit(spec=manifest, by=real.lab.ann, now=timezone.now()).job


def running(job: Job) -> int:
    return Task.objects.filter(wave__job=job, state="running").count()


def pods_of(real: Stage) -> dict[str, str | None]:
    """Return the pods that count, by name, with their nodes."""
    return {pod.name: pod.node for pod in real.pods() if pod.counted and not pod.leaving}


def succeeded(hands: Hands) -> dict[str, int]:
    """Return how many Jobs of each part of the JobSet have succeeded, as it says."""
    counts = hands.get("made").get("status", {}).get("replicatedJobsStatus") or ()
    return {part["name"]: part.get("succeeded", 0) for part in counts}


def test_a_job_set_is_a_gang_of_its_parts_and_ends_when_it_says_so(real: Stage) -> None:
    parts = {"driver": (1, 1, 0), "workers": (2, 1, 8), "eval": (1, 2, 4)}
    job = submit(real, manifests.job_set(parts=parts, notes=steer(forever="1")))

    real.until(lambda: running(job) == 4, seconds=120)
    groups = list(job.groups.order_by("index").values_list("name", "tasks", "units"))
    witnesses = dict(Task.objects.filter(wave__job=job).values_list("pod", "node__name"))
    bound = pods_of(real)
    in_use = units_in_use()
    real.finish(job)
    ended = real.until_ended(job, seconds=120)
    real.until(lambda: not real.objects() and not real.pods(), seconds=120)

    assert groups == [("workers", 2, 8), ("eval", 2, 4)]
    assert witnesses == bound
    assert in_use == 24
    assert ended is JobState.SUCCEEDED
    assert units_in_use() == 0
    assert events(job) == ["submitted", "admitted", "launched", "started", "succeeded"]


def test_a_job_set_of_a_priority_below_zero_runs_too(real: Stage) -> None:
    low = {"labels": {"kueue.x-k8s.io/priority-class": "low"}}
    job = submit(real, manifests.job_set(parts={"workers": (1, 1, 8)}, notes=steer(forever="1"), meta=low))

    real.until(lambda: running(job) == 1, seconds=120)
    real.finish(job)
    ended = real.until_ended(job, seconds=120)

    assert (job.priority, ended) == (-1, JobState.SUCCEEDED)


def test_a_job_set_that_restarts_itself_stays_on_its_nodes_and_fails_at_last(real: Stage) -> None:
    manifest = manifests.job_set(
        parts={"workers": (1, 2, 8)}, notes=steer(run_for="500ms", exit_code=3), failurePolicy={"maxRestarts": 1}
    )
    job = submit(real, manifest)

    ended = real.until_ended(job, seconds=120)
    real.until(lambda: not real.pods(), seconds=120)

    assert ended is JobState.FAILED
    assert job.waves.count() == 1
    assert units_in_use() == 0


def hold(real: Stage, path: str, *, on: bool) -> None:
    """Keep a pod from going, or let it go; others' finalizers stay as they are."""
    key = "finalizers" if on else "$deleteFromPrimitiveList/finalizers"
    body = {"metadata": {key: ["tidegate.test/stays"]}}
    real.cluster.api.ask("patch", path, body=body, media="application/strategic-merge-patch+json")


def test_a_job_set_that_fails_because_a_pod_was_evicted_queues_again_whole(real: Stage) -> None:
    job = submit(real, manifests.job_set(parts={"workers": (2, 1, 8)}, notes=steer(forever="1")))
    real.until(lambda: running(job) == 2, seconds=120)
    submitted, pod = job.submitted_at, real.pods()[0]

    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}}
    # However slow the looks are, one finds the pod, which a watch would have shown.
    hold(real, path, on=True)
    real.cluster.api.ask("create", f"{path}/eviction", body=body)
    real.look()
    hold(real, path, on=False)
    real.until(lambda: state(job) is JobState.RUNNING and job.attempt == 2 and running(job) == 2, seconds=120)

    assert [each.summary for each in job.events.filter(type="interrupted")] == ["Eviction API: evicting"]
    assert (job.failures, job.submitted_at, units_in_use()) == (0, submitted, 16)


def test_a_cancelled_job_set_leaves_nothing(real: Stage) -> None:
    job = submit(real, manifests.job_set(parts={"workers": (2, 1, 8)}, notes=steer(forever="1")))
    real.until(lambda: running(job) == 2, seconds=120)

    services.cancel(uid=job.uid, by=real.lab.ann, now=timezone.now())
    ended = real.until_ended(job, seconds=120)
    real.until(lambda: not real.objects() and not real.pods(), seconds=120)

    assert ended is JobState.CANCELLED
    assert units_in_use() == 0


def test_what_the_webhook_refuses_fails_with_its_words(real: Stage) -> None:
    job = submit(real, manifests.job_set(parts={"w" * 60: (1, 1, 1)}))

    ended = real.until_ended(job, seconds=120)

    assert ended is JobState.FAILED
    assert job.reason_code == "K8S_REJECTED"
    assert "admission webhook" in job.reason_text


def test_a_job_set_whose_pods_a_quota_of_others_refuses_leaves_whole_and_names_it(real: Stage) -> None:
    hands = Hands(real, "/api/v1", "resourcequotas")
    hard = {"requests.nvidia.com/gpu": "8"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "theirs"}, "spec": {"hard": hard}}
    real.cluster.api.ask("create", hands.collection, body=quota)
    real.until(lambda: bool(hands.get("theirs").get("status", {}).get("hard")), seconds=120)

    job = submit(real, manifests.job_set(parts={"workers": (2, 1, 8)}, notes=steer(forever="1")))
    real.until(lambda: "start_failed" in events(job) and state(job) is JobState.QUEUED, seconds=120)
    real.until(lambda: not real.objects() and not real.pods(), seconds=120)
    job.refresh_from_db()

    assert (job.failures, job.start_failures, units_in_use()) == (0, 0, 0)
    assert "exceeded quota: theirs" in str(list(job.events.filter(type="start_failed").values()))
    hands.delete("theirs")


def test_a_job_set_made_with_kubectl_is_adopted_evicted_and_run_again(real: Stage) -> None:
    hands = Hands(real, API, "jobsets")
    hands.make(manifests.job_set("made", parts={"workers": (2, 1, 8)}, notes=steer(forever="1")))
    real.look()
    job = job_of("made")
    real.until(lambda: running(job) == 2, seconds=120)

    steps.evict(job.id, JobState.RUNNING, JobState.QUEUED, now=timezone.now(), event="evicted", summary="for a test")
    real.release()
    suspended = hands.get("made")["spec"]["suspend"]
    real.until(lambda: state(job) is JobState.RUNNING and job.attempt == 2 and running(job) == 2, seconds=120)
    witnesses = dict(Task.objects.filter(wave__job=job, state="running").values_list("pod", "node__name"))
    bound = pods_of(real)
    services.cancel(uid=job.uid, by=real.lab.lea, now=timezone.now())
    ended = real.until_ended(job, seconds=120)

    assert suspended is True
    assert witnesses == bound
    assert ended is JobState.CANCELLED
    assert units_in_use() == 0
    hands.delete("made")


def test_a_job_set_made_with_kubectl_that_runs_again_goes_on_where_it_was(real: Stage) -> None:
    hands = Hands(real, API, "jobsets")
    hands.make(manifests.job_set("made", parts={"first": (1, 1, 8), "last": (1, 1, 8)}, notes=steer(forever="1")))
    real.look()
    job = job_of("made")
    real.until(lambda: running(job) == 2, seconds=120)
    finish_pod(real.cluster, next(pod for pod in real.pods() if "first" in pod.name))
    real.until(lambda: succeeded(hands).get("first") == 1, seconds=120)

    steps.evict(job.id, JobState.RUNNING, JobState.QUEUED, now=timezone.now(), event="evicted", summary="for a test")
    real.until(lambda: state(job) is JobState.RUNNING and job.attempt == 2, seconds=120)
    real.until(lambda: Task.objects.filter(wave__job=job, wave__attempt=2, state="running").count() == 2, seconds=120)
    there = [pod.name for pod in real.pods() if pod.phase == "Running"]
    real.finish(job)
    ended = real.until_ended(job, seconds=120)

    assert len(there) == 1
    assert "last" in there[0]
    assert (ended, units_in_use()) == (JobState.SUCCEEDED, 0)
    hands.delete("made")
