"""Jobs that people wrote as Kubernetes Jobs, walked from submission to their end on the emulator."""

from typing import Any

import pytest
from django.utils import timezone

from queues import services
from queues.models import Job, Task, Wave
from queues.states import JobState
from tenants import services as tenants
from tenants.errors import Invalid
from tests.loop.stage import Stage, events, state, units_in_use
from tests.queues import manifests
from tests.queues.manifests import steer


def submit(stage: Stage, manifest: dict[str, Any]) -> Job:
    return services.submit(spec=manifest, by=stage.lab.ann, now=timezone.now()).job


def live_job(stage: Stage, name: str) -> dict[str, Any]:
    return stage.cluster.api.ask("get", f"/apis/batch/v1/namespaces/team-nlp/jobs/{name}")


def test_a_written_job_is_a_gang_that_runs_to_its_end_on_its_witnesses(stage: Stage) -> None:
    job = submit(stage, manifests.job(pods=4, units=8, notes=steer(forever="1")))

    stage.until(lambda: Task.objects.filter(wave__job=job, state="running").count() == 4)
    witnesses = dict(Task.objects.filter(wave__job=job).values_list("pod", "node__name"))
    bound = {pod.name: pod.node for pod in stage.pods()}
    in_use = units_in_use()
    stage.finish(job)
    ended = stage.until_ended(job)

    assert witnesses == bound
    assert len(set(bound.values())) == 4
    assert in_use == 32
    assert ended is JobState.SUCCEEDED
    assert units_in_use() == 0
    assert events(job) == ["submitted", "admitted", "launched", "started", "succeeded"]
    stage.until(lambda: not stage.objects() and not stage.pods())


def test_a_written_job_without_indices_gets_a_task_for_each_pod(stage: Stage) -> None:
    manifest = manifests.job(pods=3, units=4, notes=steer(forever="1"), completionMode="NonIndexed")

    job = submit(stage, manifest)
    stage.until(lambda: Task.objects.filter(wave__job=job, state="running").count() == 3)

    tasks = Task.objects.filter(wave__job=job)
    assert dict(tasks.values_list("pod", "node__name")) == {pod.name: pod.node for pod in stage.pods()}
    assert tasks.values("pod_uid").distinct().count() == 3


def test_more_completions_than_pods_run_one_after_another_in_the_same_places(stage: Stage) -> None:
    job = submit(stage, manifests.job(pods=2, units=8, notes=steer(run_for="100ms"), completions=5))

    ended = stage.until_ended(job)

    assert ended is JobState.SUCCEEDED
    assert Task.objects.filter(wave__job=job).count() == 2
    assert units_in_use() == 0


def test_a_pod_that_its_own_job_replaces_goes_to_the_node_of_its_task(stage: Stage) -> None:
    job = submit(stage, manifests.job(pods=2, units=8, notes=steer(forever="1"), backoffLimit=3))
    stage.until(lambda: Task.objects.filter(wave__job=job, state="running").count() == 2)
    first = {pod.name: pod.node for pod in stage.pods()}

    victim = min(first)
    stage.cluster.api.ask("delete", f"/api/v1/namespaces/team-nlp/pods/{victim}")
    stage.until(
        lambda: (
            len(now := {pod.name: pod.node for pod in stage.pods()}) == 2 and victim not in now and all(now.values())
        )
    )
    stage.look()

    assert state(job) is JobState.RUNNING
    assert set(first.values()) == {pod.node for pod in stage.pods()}
    assert Wave.objects.filter(job=job).count() == 1
    assert units_in_use() == 16


def test_a_written_job_that_fails_tells_which_task_and_how(stage: Stage) -> None:
    job = submit(stage, manifests.job(pods=2, units=1, notes=steer(exit_code=3)))

    ended = stage.until_ended(job)

    assert ended is JobState.FAILED
    assert job.reason_code == "TASK_FAILED"
    assert "exit code 3" in job.reason_text
    assert units_in_use() == 0


def test_a_written_job_that_runs_too_long_for_itself_fails_for_that(stage: Stage) -> None:
    job = submit(stage, manifests.job(pods=2, notes=steer(forever="1")))
    stage.until(lambda: state(job) is JobState.RUNNING)
    name = stage.objects()[0].name

    live = live_job(stage, name)
    live["spec"]["activeDeadlineSeconds"] = 1
    stage.cluster.api.ask("replace", f"/apis/batch/v1/namespaces/team-nlp/jobs/{name}", body=live)
    ended = stage.until_ended(job)

    assert ended is JobState.FAILED
    assert "DeadlineExceeded" in job.reason_text
    assert units_in_use() == 0


def test_a_cancelled_written_job_is_deleted_with_its_pods(stage: Stage) -> None:
    job = submit(stage, manifests.job(pods=2, units=8, notes=steer(forever="1")))
    stage.until(lambda: state(job) is JobState.RUNNING)

    services.cancel(uid=job.uid, by=stage.lab.ann, now=timezone.now())
    ended = stage.until_ended(job)

    assert ended is JobState.CANCELLED
    assert not stage.pods()
    assert not stage.objects()
    assert units_in_use() == 0


def test_a_written_job_deleted_by_somebody_queues_again(stage: Stage) -> None:
    job = submit(stage, manifests.job(pods=2, units=8, notes=steer(forever="1")))
    stage.until(lambda: state(job) is JobState.RUNNING)
    name = stage.objects()[0].name

    stage.cluster.api.ask(
        "delete", f"/apis/batch/v1/namespaces/team-nlp/jobs/{name}", query={"propagationPolicy": "Background"}
    )
    stage.until(lambda: state(job) is JobState.RUNNING and job.attempt == 2)

    assert "interrupted" in events(job)
    assert units_in_use() == 16


def test_a_written_job_of_which_somebody_deletes_a_pod_before_it_runs_queues_again(stage: Stage) -> None:
    job = submit(stage, manifests.job(pods=2, units=8, notes=steer(never_start="ErrImagePull")))
    stage.until(lambda: not Task.objects.filter(wave__job=job, pod="").exists() and job.waves.exists())

    pod = stage.pods()[0].name
    stage.cluster.api.ask("delete", f"/api/v1/namespaces/team-nlp/pods/{pod}", query={"gracePeriodSeconds": "0"})
    stage.until(lambda: job.waves.filter(outcome="DELETED_OUTSIDE").exists())

    assert events(job)[:4] == ["submitted", "admitted", "launched", "interrupted"]
    assert state(job) not in {JobState.FAILED, JobState.RUNNING}


def test_what_they_wrote_is_kept_and_what_runs_carries_our_fields(stage: Stage) -> None:
    kueue = {"kueue.x-k8s.io/queue-name": "default", "kueue.x-k8s.io/priority-class": "high", "project": "llama"}
    manifest = manifests.job(meta={"labels": kueue}, notes=steer(forever="1"), ttlSecondsAfterFinished=1, suspend=True)

    job = submit(stage, manifest)
    stage.until(lambda: state(job) is JobState.RUNNING)
    live = live_job(stage, stage.objects()[0].name)

    assert job.spec["spec"]["manifest"] == manifest
    assert (job.name, job.priority_class.name, job.labels) == ("kube", "high", {"project": "llama"})
    assert live["metadata"]["labels"]["project"] == "llama"
    assert "kueue.x-k8s.io/queue-name" not in live["metadata"]["labels"]
    assert live["spec"]["suspend"] is False
    assert "ttlSecondsAfterFinished" not in live["spec"]
    assert live["spec"]["template"]["spec"]["priorityClassName"] == "tidegate-high-1"
    assert live["spec"]["template"]["metadata"]["labels"]["tidegate.io/job"] == str(job.uid)


def test_a_priority_below_zero_is_mirrored_as_zero_for_controllers_that_make_a_label_of_it(stage: Stage) -> None:
    manifest = manifests.job(notes=steer(forever="1"), meta={"labels": {"kueue.x-k8s.io/priority-class": "low"}})

    job = submit(stage, manifest)
    stage.until(lambda: bool(stage.objects()))
    name = live_job(stage, stage.objects()[0].name)["spec"]["template"]["spec"]["priorityClassName"]
    mirrored = stage.cluster.api.ask("get", f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")

    assert (job.priority, name, mirrored["value"]) == (-1, "tidegate-low-0", 0)


def test_what_an_admin_allowed_the_team_may_be_written(stage: Stage) -> None:
    manifest = manifests.job(notes=steer(forever="1"))
    manifest["spec"]["template"]["spec"]["hostNetwork"] = True
    with pytest.raises(Invalid, match="host_namespaces"):
        submit(stage, manifest)

    changes: tenants.TeamChanges = {"pod_allowances": ["host_namespaces"]}
    tenants.update_team(by=stage.lab.root, now=timezone.now(), team="nlp", changes=changes)
    job = submit(stage, manifest)

    stage.until(lambda: state(job) is JobState.RUNNING)
