"""Adopted Jobs where Kubernetes, as before 1.36, lets no template change in a Job that has once started."""

from collections.abc import Iterator

import pytest
from django.utils import timezone

from queues import services, steps
from queues.models import Task
from queues.states import JobState
from tests.kubernetes import build
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.session import RealCluster, real_cluster
from tests.kubernetes.test_written import running
from tests.loop.adopting import Hands, job_of
from tests.loop.stage import Stage, state, units_in_use
from tests.queues import manifests
from tests.queues.manifests import steer

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster_under_test(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    if real_cluster(pytestconfig).plane is None:
        pytest.skip("the features of a cluster that is not ours are as they are")
    older = ("MutableSchedulingDirectivesForSuspendedJobs", "MutablePodResourcesForSuspendedJobs")
    with ControlPlane(build.CONTROL_PLANE.binary, tmp_path_factory.mktemp("older"), without=older) as plane:
        yield RealCluster(kubeconfig=plane.kubeconfig, plane=plane)


def test_a_job_made_with_kubectl_runs_again_elsewhere_after_it_was_recalled(real: Stage) -> None:
    hands = Hands(real)
    hands.make(manifests.job("made", pods=2, units=8, notes=steer(forever="1")))
    real.look()
    job = job_of("made")
    real.until(lambda: running(job) == 2, seconds=120)

    steps.evict(job.id, JobState.RUNNING, JobState.QUEUED, now=timezone.now(), event="evicted", summary="for a test")
    real.until(lambda: state(job) is JobState.RUNNING and job.attempt == 2 and running(job) == 2, seconds=120)
    witnesses = dict(Task.objects.filter(wave__job=job, state="running").values_list("pod", "node__name"))
    bound = {pod.name: pod.node for pod in real.pods() if not pod.leaving}
    services.cancel(uid=job.uid, by=real.lab.lea, now=timezone.now())
    ended = real.until_ended(job, seconds=120)

    assert witnesses == bound
    assert ended is JobState.CANCELLED
    assert units_in_use() == 0
