"""One emulator a module with four GPU nodes, and a namespace of its own for each test."""

import itertools
from collections.abc import Iterator

import pytest

from clusters.emulator import Emulator, NodeGroup
from tests.clusters.emulator_kit import ENTRY, GPU, Talk

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
