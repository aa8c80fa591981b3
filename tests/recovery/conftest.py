"""A scene on the emulator and one on the real control plane, for faults that both can play; or on the real one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from clusters import verbs
from clusters.emulator import Emulator
from clusters.kube import KubeApi, connect
from queues import cycle, watcher
from tests.clusters.contract.ground import Site
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.proxy import Proxy
from tests.kubernetes.session import real_cluster
from tests.recovery.scene import Scene


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    kubeconfig = tmp_path_factory.mktemp("emulated") / "kubeconfig"
    with Emulator(token="of-this-run", patience=0.2) as emulator:  # noqa: S106 - for this test run alone
        cluster = connect("emulator", kubeconfig=emulator.kubeconfig(kubeconfig))
        yield Site(cluster=cluster, kubeconfig=kubeconfig, forget=emulator.compact)
        cluster.close()


@pytest.fixture(scope="session")
def kubernetes(pytestconfig: pytest.Config) -> Iterator[Site]:
    real = real_cluster(pytestconfig)
    cluster = connect("real", kubeconfig=real.kubeconfig)
    forget = real.plane.restart_api_server if real.plane else None
    yield Site(cluster=cluster, kubeconfig=real.kubeconfig, forget=forget)
    cluster.close()


@pytest.fixture
def plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """The session's own control plane, to be broken; it runs again afterwards."""
    plane = real_cluster(pytestconfig).plane
    if plane is None:
        pytest.skip("this cluster is not ours to break")
    yield plane
    if not plane.runs("kube-apiserver"):
        plane.start_api_server()


@pytest.fixture
def quick(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter waits where a test would only sit them out; the promises are the same."""
    settings.TIDEGATE_TEST_ANNOTATIONS = True
    settings.TIDEGATE_KEEP_SECONDS = 0
    settings.TIDEGATE_RELIST_SECONDS = 3
    monkeypatch.setattr(cycle, "LONGEST_BREATH_SECONDS", 0.0)
    monkeypatch.setattr(watcher, "LONGEST_PAUSE", 0.5)
    monkeypatch.setattr(watcher, "LEAST_BETWEEN_LISTS", 0.3)


def _scene(site: Site, settings: Settings, folder: Path) -> Iterator[Scene]:
    with Proxy(site.kubeconfig) as proxy:
        scene = Scene(site, proxy, folder)
        settings.TIDEGATE_NAMESPACE_PREFIX = f"team-{scene.ground.key}-"
        try:
            scene.open()
            yield scene
        finally:
            scene.close()


@pytest.fixture(params=["emulated", pytest.param("kubernetes", marks=pytest.mark.kubernetes)])
def scene(
    request: pytest.FixtureRequest,
    transactional_db: None,  # noqa: ARG001  asks for the database
    quick: None,  # noqa: ARG001  shortens waits
    settings: Settings,
    tmp_path: Path,
) -> Iterator[Scene]:
    yield from _scene(request.getfixturevalue(request.param), settings, tmp_path)


@pytest.fixture
def real(
    kubernetes: Site,
    transactional_db: None,  # noqa: ARG001  asks for the database
    quick: None,  # noqa: ARG001  shortens waits
    settings: Settings,
    tmp_path: Path,
) -> Iterator[Scene]:
    yield from _scene(kubernetes, settings, tmp_path)


@pytest.fixture
def impatient(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A scene in which no answer is waited for longer than two seconds."""
    assert isinstance(scene.cluster.api, KubeApi)
    scene.cluster.api.read_seconds = 2.0
    monkeypatch.setattr(verbs, "OPEN_SECONDS", 2.0)
    monkeypatch.setattr(verbs, "WATCH_SLACK_SECONDS", 0.5)
    monkeypatch.setattr(watcher, "STREAM_SECONDS", 2.0)
    return scene
