"""Two real control planes at once, of which one is killed whole and comes back."""

import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from clusters.kube import connect
from queues import services, watcher
from queues.models import Task
from queues.states import JobState
from tests.clusters.contract.ground import Site
from tests.kubernetes import build
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.session import real_cluster
from tests.loop.stage import finish, state, units_in_use
from tests.recovery.sides import EAST, WEST, Town, of, opened, tasks

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
SECONDS = 120


@pytest.fixture
def west(pytestconfig: pytest.Config, tmp_path: Path) -> Iterator[ControlPlane]:
    if real_cluster(pytestconfig).plane is None:
        pytest.skip("a second control plane stands beside one that is ours")
    folder = tmp_path / "plane"
    folder.mkdir()
    with ControlPlane(build.CONTROL_PLANE.binary, folder) as plane:
        yield plane


@pytest.fixture
def town(
    kubernetes: Site,
    west: ControlPlane,
    transactional_db: None,  # noqa: ARG001  asks for the database
    quick: None,  # noqa: ARG001  shortens waits
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Town]:
    monkeypatch.setattr(watcher, "AWAY_AFTER", timedelta(seconds=1))
    key = uuid.uuid4().hex[:8]
    settings.TIDEGATE_NAMESPACE_PREFIX = f"team-{key}-"
    cluster = connect("west", kubeconfig=west.kubeconfig)
    second = Site(cluster=cluster, kubeconfig=west.kubeconfig, forget=None)
    with opened((kubernetes, second), key, tmp_path) as town:
        yield town
    cluster.close()


def test_one_of_two_control_planes_is_killed_and_returns_while_the_other_works(town: Town, west: ControlPlane) -> None:
    gangs = [town.submit(name=f"gang-{n}", shape="gang", tasks=2, gpus="h100:6", forever="1") for n in range(3)]
    town.until(lambda: sum(state(gang) is JobState.RUNNING for gang in gangs) == 2, seconds=SECONDS)
    town.until(lambda: not Task.objects.filter(state="pending").exists(), seconds=SECONDS)
    running = [gang for gang in gangs if state(gang) is JobState.RUNNING]
    there = next(gang for gang in running if tasks(gang)[0][0] == WEST)
    here = next(gang for gang in running if gang != there)
    waits = next(gang for gang in gangs if gang not in running)
    pods = {pod.uid for pod in of(town.west, there)}
    homes = [set(tasks(gang)) for gang in (here, there)]

    west.stop()
    town.until(lambda: town.west.row.away, seconds=SECONDS)
    unknown = state(there), town.reason(there), {row[2] for row in tasks(there)}
    services.cancel(uid=there.uid, by=town.lab.ann, now=timezone.now())
    finish(town.east.ground.cluster, here)
    town.until(lambda: state(here) is JobState.SUCCEEDED, seconds=SECONDS)
    town.until(lambda: state(waits) is JobState.RUNNING and not tasks(waits, "pending"), seconds=SECONDS)
    meanwhile = state(there), units_in_use()

    west.start()
    town.until(lambda: not town.west.row.away, seconds=SECONDS)
    found = {pod.uid for pod in of(town.west, there)}
    town.until(lambda: state(there) is JobState.CANCELLED, seconds=SECONDS)
    after = town.submit(name="after", shape="gang", tasks=2, gpus="h100:6", forever="1")
    town.until(lambda: state(after) is JobState.RUNNING and not tasks(after, "pending"), seconds=SECONDS)
    homes += [set(tasks(gang)) for gang in (waits, after)]
    finish(town.east.ground.cluster, waits)
    finish(town.west.ground.cluster, after)
    town.until(lambda: state(waits) is state(after) is JobState.SUCCEEDED, seconds=SECONDS)

    east_alone, west_alone = {(EAST, EAST, "running")}, {(WEST, WEST, "running")}
    assert homes == [east_alone, west_alone, east_alone, west_alone]
    assert unknown == (JobState.RUNNING, "CLUSTER_UNREACHABLE", {"running"})
    # Its pods may run on as long as nobody can see them: their GPUs are not free.
    assert meanwhile[0] is not JobState.CANCELLED
    assert meanwhile[1] == 24
    assert found <= pods
    assert [job.failures for job in (here, there, waits, after)] == [0, 0, 0, 0]
    assert units_in_use() == 0
