"""One emulator a module with four GPU nodes and a namespace for each test; and a server that misbehaves."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.emulator import Emulator, NodeGroup
from clusters.kube import KubeApi, connect
from clusters.verbs import KubeCluster
from tests.clusters.emulator_kit import ENTRY, GPU, Talk
from tests.clusters.faulty import Faulty

_NUMBERS = itertools.count(1)
NODES = (
    NodeGroup(
        name="big-{n}",
        count=2,
        labels={"pool": "big", "tidegate.io/rack": "r1"},
        allocatable={"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"},
    ),
    NodeGroup(
        name="small-{n}",
        count=2,
        labels={"pool": "small"},
        allocatable={"cpu": "32", "memory": "256Gi", "pods": "110", GPU: "4"},
    ),
)


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(nodes=NODES, token=ENTRY, patience=0.2, history=500) as running:
        yield running


@pytest.fixture
def talk(emulator: Emulator) -> Iterator[Talk]:
    talk = Talk(emulator, f"space-{next(_NUMBERS)}")
    talk.make("/api/v1/namespaces", {"metadata": {"name": talk.namespace}})
    yield talk
    talk.ask("DELETE", f"/api/v1/namespaces/{talk.namespace}")


@pytest.fixture
def server() -> Iterator[Faulty]:
    with Faulty() as server:
        yield server


@pytest.fixture
def cluster(server: Faulty, tmp_path: Path) -> Iterator[KubeCluster]:
    cluster = connect("test", kubeconfig=server.kubeconfig(tmp_path / "kubeconfig"))
    yield cluster
    cluster.close()


@pytest.fixture
def impatient(cluster: KubeCluster) -> KubeCluster:
    """Return a cluster of which no answer is waited for longer than a moment."""
    assert isinstance(cluster.api, KubeApi)
    cluster.api.read_seconds = 0.3
    return cluster
