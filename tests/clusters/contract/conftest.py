"""The clusters under contract and a piece of ground on each for every test."""

from collections.abc import Iterator

import pytest

from clusters.emulator import Emulator
from clusters.kube import connect
from tests.clusters.contract.ground import Ground, Site
from tests.kubernetes.session import real_cluster


@pytest.fixture(scope="session")
def emulator_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("emulator")
    with Emulator(token="emulator-token") as emulator:  # noqa: S106 - for this test run alone
        kubeconfig = emulator.kubeconfig(folder / "kubeconfig")
        cluster = connect("emulator", kubeconfig=kubeconfig)
        yield Site(cluster=cluster, kubeconfig=kubeconfig, forget=emulator.compact)
        cluster.close()


@pytest.fixture(scope="session")
def kubernetes_site(pytestconfig: pytest.Config) -> Iterator[Site]:
    real = real_cluster(pytestconfig)
    cluster = connect("real", kubeconfig=real.kubeconfig)
    forget = real.plane.restart_api_server if real.plane else None
    yield Site(cluster=cluster, kubeconfig=real.kubeconfig, forget=forget)
    cluster.close()


@pytest.fixture(params=["emulator", pytest.param("kubernetes", marks=pytest.mark.kubernetes)])
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    site: Site = request.getfixturevalue(f"{request.param}_site")
    ground = Ground(site)
    ground.open()
    yield ground
    ground.leave()
