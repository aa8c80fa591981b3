"""The stage as a fixture: real PostgreSQL, an emulated cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from clusters.emulator import Emulator
from clusters.kube import connect
from tests.loop.stage import Stage, machines
from tests.queues.lab import Lab


@pytest.fixture
def stage(transactional_db: None, settings: Settings, tmp_path: Path) -> Iterator[Stage]:  # noqa: ARG001  asks for the database
    settings.TIDEGATE_TEST_ANNOTATIONS = True
    settings.TIDEGATE_KEEP_SECONDS = 0
    with Emulator(nodes=machines()) as emulator:
        cluster = connect("default", kubeconfig=emulator.kubeconfig(tmp_path / "kubeconfig"))
        stage = Stage(Lab(), cluster)
        stage.look()
        yield stage
        cluster.close()
