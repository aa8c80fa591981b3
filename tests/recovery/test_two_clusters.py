"""Two clusters at once: gangs stay in one, and what one of them suffers does not touch the other."""

import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from clusters.emulator import Emulator
from clusters.kube import connect
from clusters.port import PodPhase
from queues import queries, watcher
from queues.models import Node, Wave
from queues.states import JobState
from queues.watcher import retire_others
from tests.clusters.contract.ground import Site
from tests.clusters.faulty import failure
from tests.loop.stage import finish, state
from tests.recovery.sides import EAST, NODES, WEST, Town, of, opened, tasks


@pytest.fixture(scope="session")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    kubeconfig = tmp_path_factory.mktemp("second") / "kubeconfig"
    with Emulator(patience=0.2) as emulator:
        cluster = connect("second", kubeconfig=emulator.kubeconfig(kubeconfig))
        yield Site(cluster=cluster, kubeconfig=kubeconfig, forget=emulator.compact)
        cluster.close()


@pytest.fixture(params=["second", pytest.param("kubernetes", marks=pytest.mark.kubernetes)])
def town(
    request: pytest.FixtureRequest,
    transactional_db: None,  # noqa: ARG001  asks for the database
    quick: None,  # noqa: ARG001  shortens waits
    emulated: Site,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Town]:
    monkeypatch.setattr(watcher, "AWAY_AFTER", timedelta(seconds=1))
    key = uuid.uuid4().hex[:8]
    settings.TIDEGATE_NAMESPACE_PREFIX = f"team-{key}-"
    with opened((emulated, request.getfixturevalue(request.param)), key, tmp_path) as town:
        yield town


def test_each_gang_is_in_one_cluster_and_none_spans_both(town: Town) -> None:
    first = town.submit(name="first", shape="gang", tasks=2, gpus="h100:8", forever="1")
    town.runs(first)
    second = town.submit(name="second", shape="gang", tasks=2, gpus="h100:8", forever="1")
    town.runs(second)
    third = town.submit(name="third", shape="gang", tasks=3, gpus="h100:8", forever="1")
    town.turn()

    assert len({(wave, node) for wave, node, _ in tasks(first)}) == 1
    assert {row[:2] for row in tasks(first) + tasks(second)} == {(EAST, EAST), (WEST, WEST)}
    assert state(third) is JobState.QUEUED
    assert town.reason(third) == "EXCEEDS_MAX"


def test_separate_tasks_use_both_clusters_each_wave_in_its_own(town: Town) -> None:
    job = town.submit(shape="independent", tasks=4, gpus="h100:8", forever="1")

    town.runs(job)
    town.until(lambda: len(tasks(job, "running")) == 4)

    assert sorted(row[:2] for row in tasks(job)) == [(EAST, EAST)] * 2 + [(WEST, WEST)] * 2
    assert Wave.objects.filter(job=job).count() == 2


def test_one_cluster_falls_silent_while_the_other_works_on(town: Town) -> None:
    long = [town.submit(name=f"gang-{n}", shape="gang", tasks=2, gpus="h100:6", forever="1") for n in range(2)]
    for job in long:
        town.runs(job)
    # Exactly what the gangs leave: four units in each cluster.
    both = town.submit(name="both", shape="independent", tasks=8, gpus="h100:1", forever="1")
    town.until(lambda: len(tasks(both, "running")) == 8)
    there = next(job for job in long if tasks(job)[0][0] == WEST)
    here = next(job for job in long if job != there)

    town.west.proxy.put(failure(503, "the API server is being moved"))
    town.until(lambda: town.west.row.away)
    told = town.west.asked("POST")
    late = [town.submit(name=f"late-{n}", gpus="h100:1", forever="1") for n in range(6)]
    for side in (town.east, town.west):
        finish(side.ground.cluster, both)
    town.until(lambda: sum(state(job) is JobState.RUNNING for job in late) >= 1)
    town.until(lambda: all(pod.phase is PodPhase.SUCCEEDED for pod in of(town.west, both)))

    assert {row[:2] for job in late for row in tasks(job)} == {(EAST, EAST)}
    assert town.west.asked("POST") == told
    assert (state(there), town.reason(there)) == (JobState.RUNNING, "CLUSTER_UNREACHABLE")
    assert (state(here), town.reason(here)) == (JobState.RUNNING, "")
    assert not [row for row in tasks(both, "failed", "stopped") if row[0] == WEST]
    unknown = Node.objects.filter(cluster=town.west.row, gone_at=None)
    assert {queries.node(town.lab.root, row.name, cluster=WEST).row.state for row in unknown} == {"unknown"}

    town.west.proxy.heal()

    town.until(lambda: state(both) is JobState.SUCCEEDED)
    for job in late:
        town.runs(job)
    assert not town.west.row.away
    assert town.reason(there) == ""


def test_a_cluster_that_is_configured_no_more_is_not_counted_on(town: Town) -> None:
    town.west.stop.set()
    town.west.thread.join(90)

    retire_others([EAST], now=timezone.now())

    town.lab.h100.refresh_from_db()
    assert (town.lab.h100.installed, town.lab.h100.usable) == (8 * NODES, 8 * NODES)
    assert [row.name for row in queries.freshness().clusters] == [EAST]
    jobs = [town.submit(shape="gang", tasks=2, gpus="h100:8", forever="1") for _ in range(2)]
    town.until(lambda: any(state(job) is JobState.RUNNING for job in jobs))
    assert {row[:2] for job in jobs for row in tasks(job)} == {(EAST, EAST)}
