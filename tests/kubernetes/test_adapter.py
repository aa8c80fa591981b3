"""What only a real control plane can show of the adapter."""

from collections.abc import Iterator

import pytest

from clusters.kube import KubeCluster, connect
from clusters.port import Unreachable
from tests.clusters.waiting import until
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.session import RealCluster

pytestmark = pytest.mark.kubernetes


@pytest.fixture
def cluster(cluster_under_test: RealCluster) -> Iterator[KubeCluster]:
    cluster = connect("real", kubeconfig=cluster_under_test.kubeconfig)
    yield cluster
    cluster.close()


def add_node(cluster: KubeCluster, name: str) -> None:
    """Add a node that no kubelet cares for."""
    metadata = {"name": name, "labels": {"tidegate.test/kubelet": "down"}}
    cluster.api.ask("create", "/api/v1/nodes", body={"apiVersion": "v1", "kind": "Node", "metadata": metadata})


def _version(cluster: KubeCluster) -> str:
    """Return the server's version; nothing while a server that has just come back asks for a pause."""
    try:
        return cluster.check()
    except Unreachable:
        return ""


def test_an_api_server_that_dies_and_returns_is_found_again(plane: ControlPlane, cluster: KubeCluster) -> None:
    assert cluster.check().startswith("v1.")
    plane.kill("kube-apiserver")

    with pytest.raises(Unreachable):
        cluster.check()

    plane.start_api_server()

    assert until(lambda: _version(cluster)).startswith("v1.")


def test_a_watch_notices_that_the_api_server_has_died(plane: ControlPlane, cluster: KubeCluster) -> None:
    watch = cluster.watch(cluster.inventory().position, seconds=120)
    add_node(cluster, "watched")
    assert getattr(next(watch).seen, "name", "") == "watched"

    plane.kill("kube-apiserver")

    with pytest.raises(Unreachable):
        list(watch)
    plane.start_api_server()
    until(lambda: _version(cluster))
    cluster.api.ask("delete", "/api/v1/nodes/watched")


def test_a_user_without_rights_learns_nothing_but_the_servers_words(plane: ControlPlane) -> None:
    nobody = connect("real", kubeconfig=plane.kubeconfig_of("nobody"))

    with pytest.raises(Unreachable, match="cannot list resource"):
        nobody.inventory()

    nobody.close()


def test_a_token_that_nobody_knows_is_unreachable_not_refused(
    plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wrong = tmp_path_factory.mktemp("wrong") / "kubeconfig"
    wrong.write_text(plane.kubeconfig.read_text().replace('"token": "', '"token": "x'))
    stranger = connect("real", kubeconfig=wrong)

    with pytest.raises(Unreachable, match="Unauthorized"):
        stranger.check()

    stranger.close()


def test_a_node_without_a_kubelet_is_not_ready(plane: ControlPlane, cluster: KubeCluster) -> None:
    assert plane.runs("kwok")

    add_node(cluster, "dead")

    seen = until(lambda: [node for node in cluster.inventory().nodes if node.name == "dead"])[0]
    assert not seen.ready
    cluster.api.ask("delete", "/api/v1/nodes/dead")
