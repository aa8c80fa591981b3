"""Fixtures of the tests that need a real control plane."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from clusters.kube import connect
from tests.clusters.contract.ground import OWN_LABEL, Ground, Site
from tests.kubernetes import installed
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.session import RealCluster, real_cluster
from tests.loop.stage import Stage
from tests.queues.lab import Lab


@pytest.fixture(scope="session")
def cluster_under_test(pytestconfig: pytest.Config) -> RealCluster:
    return real_cluster(pytestconfig)


@pytest.fixture
def plane(cluster_under_test: RealCluster) -> Iterator[ControlPlane]:
    plane = cluster_under_test.plane
    if plane is None:
        pytest.skip("this cluster is not ours to break")
    yield plane
    if not plane.runs("kube-apiserver"):
        plane.start_api_server()


@pytest.fixture(scope="session")
def operators(cluster_under_test: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    plane = cluster_under_test.plane
    if plane is None:
        pytest.skip("nothing is installed into a cluster that is not ours")
    cluster = connect("real", kubeconfig=plane.kubeconfig)
    with installed.operators(plane, cluster, tmp_path_factory.mktemp("operators")):
        yield
    cluster.close()


@pytest.fixture
def real(
    transactional_db: None,  # noqa: ARG001  asks for the database
    settings: Settings,
    cluster_under_test: RealCluster,
) -> Iterator[Stage]:
    settings.TIDEGATE_TEST_ANNOTATIONS = True
    settings.TIDEGATE_KEEP_SECONDS = 0
    cluster = connect("real", kubeconfig=cluster_under_test.kubeconfig)
    ground = Ground(Site(cluster=cluster, kubeconfig=cluster_under_test.kubeconfig, forget=None))
    settings.TIDEGATE_NAMESPACE_PREFIX = f"team-{ground.key}-"
    for _ in range(4):
        ground.node(labels={"gpu": "h100"})
    stage = Stage(Lab(), cluster, **{OWN_LABEL: ground.key})
    stage.look()
    yield stage
    for node in ground.nodes:
        ground.send("delete", f"/api/v1/nodes/{node}")
    cluster.close()
