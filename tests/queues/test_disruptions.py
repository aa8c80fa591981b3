"""What people wrote and Kubernetes took pods from (a drain, a taint, a full node): queued again, or failed."""

from dataclasses import replace

import pytest

from clusters.kinds import JOB, JOB_SET, MPI_JOB, PYTORCH_JOB, RAY_JOB
from queues.models import Job, Task, Wave
from tests.queues.cluster import FAILED, RUNNING, Cluster, object_of, pod_of
from tests.queues.lab import Lab

EVICTED, GAVE_UP = "EvictionByEvictionAPI", "Eviction API: evicting"
ENDS = {
    JOB.key: "BackoffLimitExceeded: Job has reached the specified backoff limit",
    JOB_SET.key: "FailedJobs: jobset failed due to one or more job failures (first failed job: a-0)",
    PYTORCH_JOB.key: "PyTorchJobFailed: PyTorchJob is failed because 1 Worker replica(s) failed",
    RAY_JOB.key: "",
}


@pytest.fixture
def cluster(lab: Lab) -> Cluster:
    return Cluster(lab)


def written(lab: Lab, cluster: Cluster, kind: str, *, adopted: bool = False) -> Wave:
    """Let an object of two tasks run, which somebody wrote or made."""
    job = lab.submit(shape="gang", tasks=2)
    lab.start(job)
    changes = {"object_uid": "uid", "object_cluster": lab.cluster} if adopted else {}
    Job.objects.update(kind=kind, retries=0, **changes)
    wave = Wave.objects.get()
    cluster.run(wave, RUNNING)
    cluster.objects[str(wave.uid)] = object_of(wave, kind=kind, adopted=adopted)
    cluster.look()
    return wave


def show(cluster: Cluster, wave: Wave, number: int, **changes: object) -> None:
    """Show one pod of a wave otherwise."""
    pod = pod_of(list(wave.tasks.select_related("node", "wave").order_by("id"))[number], **changes)  # type: ignore[arg-type]
    cluster.pods[pod.uid] = pod


def take(cluster: Cluster, wave: Wave, number: int = 0) -> None:
    """Let a pod be evicted: it is told to go, and then it is gone."""
    show(cluster, wave, number, leaving=True, end_reason=EVICTED, message=GAVE_UP)
    cluster.look()
    task = wave.tasks.order_by("id")[number]
    cluster.pods = {uid: pod for uid, pod in cluster.pods.items() if uid != task.pod_uid}
    cluster.look()


def fail(cluster: Cluster, wave: Wave, kind: str, message: str, *, adopted: bool = False) -> None:
    """Let the object fail and take its other pods along."""
    cluster.pods = {uid: pod for uid, pod in cluster.pods.items() if pod.phase is FAILED}
    cluster.objects[str(wave.uid)] = object_of(wave, kind=kind, adopted=adopted, failed=True, message=message)
    cluster.look()


@pytest.mark.parametrize("kind", ENDS)
def test_an_object_that_fails_for_a_pod_that_was_evicted_queues_again_and_says_why(
    lab: Lab, cluster: Cluster, kind: str
) -> None:
    wave = written(lab, cluster, kind)

    take(cluster, wave)
    before = Job.objects.get().state
    fail(cluster, wave, kind, ENDS[kind])

    job = Job.objects.get()
    (said,) = job.events.filter(type="interrupted")
    assert (before, job.next_state or job.state, job.failures) == ("running", "queued", 0)
    assert said.summary == GAVE_UP
    assert set(Task.objects.values_list("state", "reason")) == {("stopped", "DELETED_OUTSIDE")}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (JOB.key, "DeadlineExceeded: Job was active longer than specified deadline"),
        (JOB.key, "PodFailurePolicy: Pod matching FailJob rule"),
        (JOB_SET.key, "FailJobSetFailurePolicyAction: jobset failed due to its failure policy"),
    ],
)
def test_an_object_that_fails_because_it_says_so_itself_has_failed_although_a_pod_was_evicted(
    lab: Lab, cluster: Cluster, kind: str, message: str
) -> None:
    wave = written(lab, cluster, kind)

    take(cluster, wave)
    fail(cluster, wave, kind, message)

    assert Job.objects.get().next_state == "failed" or Job.objects.get().state == "failed"


@pytest.mark.parametrize("kind", ENDS)
def test_an_object_of_which_a_pod_failed_by_itself_has_failed_although_another_was_evicted(
    lab: Lab, cluster: Cluster, kind: str
) -> None:
    wave = written(lab, cluster, kind)

    take(cluster, wave)
    show(cluster, wave, 1, phase=FAILED)
    fail(cluster, wave, kind, ENDS[kind])

    assert Job.objects.get().state == "failed"


def test_a_pod_that_was_made_anew_behind_an_eviction_is_no_reason_to_queue_again(lab: Lab, cluster: Cluster) -> None:
    wave = written(lab, cluster, JOB_SET.key)

    take(cluster, wave)
    noted = Task.objects.order_by("id")[0].reason
    show(cluster, wave, 0, uid="another")
    cluster.look()
    fail(cluster, wave, JOB_SET.key, ENDS[JOB_SET.key])

    assert noted == "DELETED_OUTSIDE"
    assert Job.objects.get().state == "failed"


def test_an_object_that_people_made_and_that_fails_for_an_eviction_has_failed_and_says_so(
    lab: Lab, cluster: Cluster
) -> None:
    wave = written(lab, cluster, JOB.key, adopted=True)

    take(cluster, wave)
    fail(cluster, wave, JOB.key, ENDS[JOB.key], adopted=True)

    assert Job.objects.get().state == "failed"
    assert Task.objects.order_by("id")[0].message == f"{ENDS[JOB.key]}; {GAVE_UP}"


def test_a_pod_that_the_kubelet_evicted_and_that_stays_is_no_failure_of_its_own(lab: Lab, cluster: Cluster) -> None:
    wave = written(lab, cluster, JOB_SET.key)

    show(cluster, wave, 0, phase=FAILED, end_reason="Evicted", message="The node was low on memory")
    fail(cluster, wave, JOB_SET.key, ENDS[JOB_SET.key])

    job = Job.objects.get()
    assert (job.next_state or job.state, job.failures) == ("queued", 0)
    assert job.events.get(type="interrupted").summary == "The node was low on memory"


def test_an_object_whose_launcher_failed_by_itself_has_failed_and_is_not_run_again_and_again(
    lab: Lab, cluster: Cluster
) -> None:
    wave = written(lab, cluster, MPI_JOB.key)
    said = "MPIJobFailed: MPIJob is failed because 1 Launcher replica(s) failed"
    # It counts no units and so is no task.
    task = wave.tasks.select_related("node", "wave").order_by("id")[0]
    launcher = replace(pod_of(task, FAILED), name="launcher", uid="launcher", group=1001, counted={})
    cluster.pods[launcher.uid] = launcher
    cluster.look()

    before = Job.objects.get().state
    fail(cluster, wave, MPI_JOB.key, said)

    job = Job.objects.get()
    assert (before, job.next_state or job.state) == ("running", "failed")
    assert set(wave.tasks.values_list("reason", "message")) == {
        ("MPIJobFailed", f"{said}; launcher failed with exit code 1")
    }
    assert not job.events.filter(type="interrupted").exists()
