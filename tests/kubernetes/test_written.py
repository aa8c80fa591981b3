"""Jobs that people wrote or made themselves, on a real control plane."""

from typing import Any

import pytest
from django.utils import timezone

from queues import managed, services, steps
from queues.models import Job, Task
from queues.states import JobState
from tests.clusters.waiting import until
from tests.loop.adopting import Hands, job_of
from tests.loop.stage import Stage, events, state, units_in_use
from tests.queues import manifests
from tests.queues.manifests import steer

pytestmark = pytest.mark.kubernetes


def submit(real: Stage, manifest: dict[str, Any]) -> Job:
    return services.submit(spec=manifest, by=real.lab.ann, now=timezone.now()).job


def running(job: Job) -> int:
    return Task.objects.filter(wave__job=job, state="running").count()


def test_a_written_job_runs_to_its_end_on_its_witnesses(real: Stage) -> None:
    job = submit(real, manifests.job(pods=4, units=8, notes=steer(forever="1")))

    real.until(lambda: running(job) == 4, seconds=120)
    witnesses = dict(Task.objects.filter(wave__job=job).values_list("pod", "node__name"))
    bound = {pod.name: pod.node for pod in real.pods()}
    real.finish(job)
    ended = real.until_ended(job, seconds=120)
    real.until(lambda: not real.objects() and not real.pods(), seconds=120)

    assert witnesses == bound
    assert len(set(bound.values())) == 4
    assert ended is JobState.SUCCEEDED
    assert units_in_use() == 0
    assert events(job) == ["submitted", "admitted", "launched", "started", "succeeded"]


def test_a_written_job_that_fails_tells_how_and_leaves_nothing(real: Stage) -> None:
    job = submit(real, manifests.job(pods=2, units=8, notes=steer(exit_code=3)))

    ended = real.until_ended(job, seconds=120)
    real.until(lambda: not real.objects() and not real.pods(), seconds=120)

    assert ended is JobState.FAILED
    assert "exit code 3" in job.reason_text
    assert units_in_use() == 0


def test_a_job_made_with_kubectl_is_let_run_to_its_end_and_stays(real: Stage) -> None:
    hands = Hands(real)
    hands.make(manifests.job("made", pods=2, units=8, notes=steer(run_for="1s")))
    real.look()
    job = job_of("made")
    queued = (state(job), job.user.username)

    ended = real.until_ended(job, seconds=120)
    real.until(lambda: "tidegate.io/wave" not in hands.get("made")["metadata"]["labels"], seconds=120)

    assert queued == (JobState.QUEUED, "system:kubectl")
    assert ended is JobState.SUCCEEDED
    assert hands.get("made")["spec"]["suspend"] is False
    assert units_in_use() == 0
    hands.delete("made")


def test_a_job_made_with_kubectl_is_suspended_when_evicted_and_runs_again(real: Stage) -> None:
    hands = Hands(real)
    hands.make(manifests.job("made", pods=2, units=8, notes=steer(forever="1")))
    real.look()
    job = job_of("made")
    real.until(lambda: running(job) == 2, seconds=120)

    steps.evict(job.id, JobState.RUNNING, JobState.QUEUED, now=timezone.now(), event="evicted", summary="for a test")
    real.release()
    suspended = hands.get("made")["spec"]["suspend"]
    real.until(lambda: state(job) is JobState.RUNNING and job.attempt == 2 and running(job) == 2, seconds=120)
    witnesses = dict(Task.objects.filter(wave__job=job, state="running").values_list("pod", "node__name"))
    bound = {pod.name: pod.node for pod in real.pods() if not pod.leaving}
    services.cancel(uid=job.uid, by=real.lab.lea, now=timezone.now())
    ended = real.until_ended(job, seconds=120)

    assert suspended is True
    assert witnesses == bound
    assert ended is JobState.CANCELLED
    assert hands.get("made")["spec"]["suspend"] is True
    assert units_in_use() == 0
    hands.delete("made")


def test_a_job_made_with_kubectl_that_somebody_suspends_queues_again_at_its_old_place(real: Stage) -> None:
    hands = Hands(real)
    hands.make(manifests.job("made", pods=2, units=8, notes=steer(forever="1")))
    real.look()
    job = job_of("made")
    real.until(lambda: running(job) == 2, seconds=120)

    hands.suspend("made", wanted=True)
    until(lambda: bool(real.look()) and state(job) is not JobState.RUNNING, seconds=120)
    real.until(lambda: state(job) is JobState.RUNNING and job.attempt == 2 and running(job) == 2, seconds=120)
    in_use, suspended = units_in_use(), hands.get("made")["spec"]["suspend"]
    interrupted = [each.summary for each in job.events.filter(type="interrupted")]
    hands.delete("made")
    real.until_ended(job, seconds=120)

    assert interrupted == [managed.SUSPENDED]
    assert (in_use, suspended, units_in_use()) == (16, False, 0)


def test_a_job_made_with_kubectl_and_deleted_is_cancelled(real: Stage) -> None:
    hands = Hands(real)
    hands.make(manifests.job("waits", units=9))
    hands.make(manifests.job("runs", pods=2, units=8, notes=steer(forever="1")))
    real.look()
    waits, runs = job_of("waits"), job_of("runs")
    real.until(lambda: running(runs) == 2, seconds=120)

    hands.delete("waits")
    hands.delete("runs")
    ends = [real.until_ended(job, seconds=120) for job in (waits, runs)]

    assert ends == [JobState.CANCELLED, JobState.CANCELLED]
    assert units_in_use() == 0


def test_a_job_made_with_kubectl_that_may_not_be_queued_says_why(real: Stage) -> None:
    hands = Hands(real)
    manifest = manifests.job("made")
    manifest["spec"]["template"]["spec"]["hostPID"] = True
    hands.make(manifest)

    real.look()
    real.look()

    told = hands.get("made")["metadata"]["annotations"]["tidegate.io/refused"]
    assert told.startswith("/spec/template/spec/hostPID: ")
    assert hands.events() == [told]
    hands.delete("made")
