"""Jobs that people make suspended with kubectl, adopted, let run, suspended again and let go, on the emulator."""

from datetime import timedelta

import pytest
from django.utils import timezone

from queues import cycle, managed, services, steps
from queues.models import Job, Node, Task, Wave
from queues.states import JobState
from tests.clusters.waiting import until
from tests.loop.adopting import Hands, job_of
from tests.loop.stage import Stage, events, finish_pod, state, units_in_use
from tests.queues import manifests
from tests.queues.manifests import steer


@pytest.fixture
def hands(stage: Stage) -> Hands:
    return Hands(stage)


def fail(stage: Stage) -> None:
    """Let the one pod that is there fail by itself."""
    (pod,) = stage.pods()
    body = {"status": {"phase": "Failed"}}
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
    stage.cluster.api.ask("patch", path, body=body, media="application/strategic-merge-patch+json")


def test_a_suspended_job_with_a_queue_is_queued_and_let_run_when_admitted(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("made", pods=2, units=8, notes=steer(forever="1")))

    stage.look()
    job = job_of("made")
    queued = (job.team.name, job.queue.name, job.user.username, state(job), job.units)
    stage.until(lambda: Task.objects.filter(wave__job=job, state="running").count() == 2)
    running = (hands.get("made")["spec"]["suspend"], units_in_use())
    witnesses = dict(Task.objects.filter(wave__job=job).values_list("pod", "node__name"))
    bound = {pod.name: pod.node for pod in stage.pods()}
    stage.finish(job)
    ended = stage.until_ended(job)

    assert queued == ("nlp", "default", "system:kubectl", JobState.QUEUED, 16)
    assert running == (False, 16)
    assert witnesses == bound
    assert ended is JobState.SUCCEEDED
    assert events(job) == ["submitted", "admitted", "launched", "started", "succeeded"]


def test_a_job_that_has_ended_stays_and_is_adopted_only_once(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("made", notes=steer(run_for="100ms")))
    stage.look()
    job = job_of("made")

    stage.until_ended(job)
    stage.until(lambda: "tidegate.io/wave" not in hands.get("made")["metadata"]["labels"])
    stage.turn()
    Wave.objects.update(stopped_at=timezone.now() - timedelta(hours=1))
    stage.look()

    # Its pods stay with it, and nobody is told once more to take it back.
    assert not Wave.objects.exclude(wish_due_at=None).exists()
    live = hands.get("made")
    assert stage.pods()
    assert live["spec"]["suspend"] is False
    assert any(condition["type"] == "Complete" for condition in live["status"]["conditions"])
    assert Job.objects.count() == 1


def test_an_evicted_job_is_suspended_and_later_runs_elsewhere(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("made", pods=2, units=8, notes=steer(forever="1")))
    stage.look()
    job = job_of("made")
    stage.until(lambda: Task.objects.filter(wave__job=job, state="running").count() == 2)
    first = set(Task.objects.filter(wave__job=job).values_list("node__name", flat=True))

    for name in first:
        stage.cluster.api.ask(
            "patch",
            f"/api/v1/nodes/{name}",
            body={"spec": {"unschedulable": True}},
            media="application/merge-patch+json",
        )
    steps.evict(job.id, JobState.RUNNING, JobState.QUEUED, now=timezone.now(), event="evicted", summary="for a test")
    stage.release()
    suspended = hands.get("made")["spec"]["suspend"]
    stage.until(lambda: state(job) is JobState.RUNNING and job.attempt == 2)
    stage.until(lambda: Task.objects.filter(wave__job=job, state="running").count() == 2)
    second = {pod.node for pod in stage.pods()}

    assert suspended is True
    assert not first & second
    assert units_in_use() == 16


def test_a_job_whose_object_fails_while_it_is_taken_back_has_failed(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("made", notes=steer(forever="1")))
    stage.look()
    job = job_of("made")
    stage.until(lambda: state(job) is JobState.RUNNING)

    steps.evict(job.id, JobState.RUNNING, JobState.QUEUED, now=timezone.now(), event="evicted", summary="for a test")
    fail(stage)
    until(lambda: any(each["type"] == "Failed" for each in hands.get("made").get("status", {}).get("conditions", ())))
    ended = stage.until_ended(job)

    assert ended is JobState.FAILED
    assert job.reason_text == "Its object failed by itself while it was taken back, and cannot run again"
    assert events(job)[-2:] == ["queued", "failed"]
    assert units_in_use() == 0


def complete(hands: Hands) -> bool:
    conditions = hands.get("made").get("status", {}).get("conditions", ())
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)


def counts(hands: Hands, succeeded: int) -> bool:
    return bool(hands.get("made")["status"].get("succeeded", 0) == succeeded)


def running(job: Job) -> int:
    """Return how many tasks of the job's attempt run."""
    job.refresh_from_db()
    return Task.objects.filter(wave__job=job, wave__attempt=job.attempt, state="running").count()


def take_back(job: Job, to: JobState = JobState.QUEUED) -> None:
    steps.evict(job.id, JobState.RUNNING, to, now=timezone.now(), event="evicted", summary="for a test")


def test_a_job_of_several_completions_that_is_taken_back_between_two_pods_runs_the_others_later(
    stage: Stage, hands: Hands
) -> None:
    hands.make(manifests.job("made", completions=3, completionMode="NonIndexed", notes=steer(forever="1")))
    stage.look()
    job = job_of("made")
    stage.until(lambda: running(job) == 1)

    stage.finish(job)
    until(lambda: counts(hands, 1))
    take_back(job)
    stage.until(lambda: state(job) is JobState.RUNNING and job.attempt == 2)
    for _ in "second", "third":
        stage.until(lambda: any(pod.phase == "Running" for pod in stage.pods()))
        stage.finish(job)
    ended = stage.until_ended(job)

    assert ended is JobState.SUCCEEDED
    assert (complete(hands), counts(hands, 3), units_in_use()) == (True, True, 0)


def test_a_job_whose_object_completes_while_it_is_taken_back_has_succeeded(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("made", notes=steer(forever="1")))
    stage.look()
    job = job_of("made")
    stage.until(lambda: state(job) is JobState.RUNNING)

    take_back(job)
    stage.finish(job)
    until(lambda: complete(hands))
    ended = stage.until_ended(job)

    assert ended is JobState.SUCCEEDED
    assert events(job)[-2:] == ["evicted", "succeeded"]
    assert "tidegate.io/wave" not in hands.get("made")["metadata"]["labels"]
    assert (job.attempt, units_in_use()) == (1, 0)


@pytest.mark.parametrize("where", [JobState.QUEUED, JobState.HELD])
@pytest.mark.parametrize(("word", "end"), [("Complete", JobState.SUCCEEDED), ("Failed", JobState.FAILED)])
def test_a_job_that_was_taken_back_ends_as_its_object_says_behind_that(
    stage: Stage, hands: Hands, where: JobState, word: str, end: JobState
) -> None:
    hands.make(manifests.job("made", notes=steer(forever="1")))
    stage.look()
    job = job_of("made")
    stage.until(lambda: state(job) is JobState.RUNNING)
    take_back(job, where)
    stage.release()
    until(lambda: bool(stage.look()) and state(job) is where)

    body = {"status": {"conditions": [{"type": word, "status": "True"}]}}
    media = "application/strategic-merge-patch+json"
    stage.cluster.api.ask("patch", f"{hands.collection}/made/status", body=body, media=media)
    stage.look()

    assert state(job) is end
    assert events(job)[-2:] == [where, end]
    assert (bool(job.reason_text), job.waiting_tasks) == (end is JobState.FAILED, 0)


def test_of_a_job_that_runs_again_only_what_is_left_to_do_is_waited_for(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("made", pods=2, units=8, notes=steer(forever="1")))
    stage.look()
    job = job_of("made")
    stage.until(lambda: running(job) == 2)

    first = stage.pods()[0]
    finish_pod(stage.cluster, first)
    until(lambda: counts(hands, 1))
    take_back(job)
    stage.until(lambda: running(job) == 2 and job.attempt == 2)
    pods = [pod for pod in stage.pods() if pod.phase == "Running"]
    stage.finish(job)
    ended = stage.until_ended(job)

    assert [pod.index for pod in pods] == [1 - (first.index or 0)]
    assert ended is JobState.SUCCEEDED
    assert units_in_use() == 0


def test_a_job_deleted_while_it_waits_is_cancelled(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("made"))
    stage.look()
    job = job_of("made")

    hands.delete("made")
    stage.look()

    assert state(job) is JobState.CANCELLED
    assert events(job)[-1] == "cancelled"


def test_a_job_deleted_while_it_runs_is_cancelled_when_its_pods_are_gone(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("made", pods=2, units=8, notes=steer(forever="1")))
    stage.look()
    job = job_of("made")
    stage.until(lambda: state(job) is JobState.RUNNING)

    hands.delete("made")
    ended = stage.until_ended(job)

    assert ended is JobState.CANCELLED
    assert not stage.pods()
    assert units_in_use() == 0


def test_a_job_cancelled_in_the_queue_stays_suspended_and_one_that_runs_is_suspended(
    stage: Stage, hands: Hands
) -> None:
    hands.make(manifests.job("waits"))
    hands.make(manifests.job("runs", notes=steer(forever="1")))
    stage.look()
    waits, runs = job_of("waits"), job_of("runs")
    services.cancel(uid=waits.uid, by=stage.lab.lea, now=timezone.now())
    stage.until(lambda: state(runs) is JobState.RUNNING)

    services.cancel(uid=runs.uid, by=stage.lab.lea, now=timezone.now())
    ended = stage.until_ended(runs)
    stage.turn()

    assert ended is JobState.CANCELLED
    assert hands.get("waits")["spec"]["suspend"] is True
    assert hands.get("runs")["spec"]["suspend"] is True
    assert not stage.pods()
    assert Job.objects.count() == 2


def test_an_object_that_was_queued_once_says_so_when_it_gets_its_label_back(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("made"))
    stage.look()

    hands.label("made", None)
    stage.look()
    hands.label("made", "default")
    stage.look()
    stage.look()

    assert state(job_of("made")) is JobState.CANCELLED
    told = "Its job has been cancelled, and an object is queued once: delete it and create it anew to queue it again"
    assert hands.events() == [told]


def test_a_job_that_somebody_else_starts_is_let_go_and_counts_as_outside(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("made", units=8, notes=steer(forever="1")))
    stage.look()
    job = job_of("made")

    hands.suspend("made", wanted=False)
    stage.until(lambda: any(pod.phase == "Running" for pod in stage.cluster.inventory().pods))
    stage.look()

    assert state(job) is JobState.CANCELLED
    assert sum(Node.objects.values_list("outside_units", flat=True)) == 8


def test_a_job_that_somebody_suspends_while_it_runs_queues_again_and_holds_nothing_meanwhile(
    stage: Stage, hands: Hands
) -> None:
    hands.make(manifests.job("made", pods=2, units=8, notes=steer(forever="1")))
    stage.look()
    job = job_of("made")
    stage.until(lambda: running(job) == 2)

    hands.suspend("made", wanted=True)
    until(lambda: bool(stage.look()) and state(job) is not JobState.RUNNING)
    stage.until(lambda: running(job) == 2 and job.attempt == 2)

    assert [each.summary for each in job.events.filter(type="interrupted")] == [managed.SUSPENDED]
    assert hands.get("made")["spec"]["suspend"] is False
    assert units_in_use() == 16


def test_jobs_that_run_or_name_no_queue_or_live_elsewhere_are_left_alone(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("runs", suspend=False))
    hands.make(manifests.job("unlabelled"), project="llama")
    elsewhere = Hands(stage)
    elsewhere.namespace = "default"
    elsewhere.collection = "/apis/batch/v1/namespaces/default/jobs"
    elsewhere.make(manifests.job("elsewhere"))

    stage.look()

    assert not Job.objects.exists()


def test_a_job_that_may_not_be_queued_says_why_on_itself_and_in_an_event(stage: Stage, hands: Hands) -> None:
    manifest = manifests.job("made")
    manifest["spec"]["template"]["spec"]["hostNetwork"] = True
    hands.make(manifest)

    stage.look()
    told = hands.get("made")["metadata"]["annotations"]["tidegate.io/refused"]
    stage.look()

    assert not Job.objects.exists()
    assert told.startswith("/spec/template/spec/hostNetwork: ")
    assert hands.events() == [told]


def test_a_label_cannot_put_an_object_into_another_teams_queue(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("made"), **{"tidegate.io/queue": "default", "tidegate.io/team": "cv"})

    stage.look()

    assert job_of("made").team.name == "nlp"


def test_a_job_that_was_made_larger_while_it_waited_is_not_let_run(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("made", pods=1, completionMode="NonIndexed", completions=4))
    stage.look()
    job = job_of("made")

    live = hands.get("made")
    live["spec"]["parallelism"] = 4
    stage.cluster.api.ask("replace", f"{hands.collection}/made", body=live)
    ended = stage.until_ended(job)

    assert ended is JobState.FAILED
    assert "was changed while it waited" in job.reason_text
    assert hands.get("made")["spec"]["suspend"] is True


def test_an_adopted_job_runs_only_where_its_object_is(stage: Stage, hands: Hands) -> None:
    hands.make(manifests.job("made"))
    stage.look()
    home = stage.lab.cluster
    home.name = "another"
    home.save()

    cycle.run_cycle(timezone.now)

    assert state(job_of("made")) is JobState.QUEUED
