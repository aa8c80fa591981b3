"""The stage as a fixture: real PostgreSQL, an emulated cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from clusters.emulator import Emulator
from tests.loop.stage import Stage, machines
from tests.queues.lab import Lab


@pytest.fixture
def stage(transactional_db: None, settings: Settings, tmp_path: Path) -> Iterator[Stage]:  # noqa: ARG001  asks for the database
    settings.TIDEGATE_TEST_ANNOTATIONS = True
    settings.TIDEGATE_KEEP_SECONDS = 0
    with Emulator(nodes=machines()) as emulator:
        stage = Stage(Lab(), emulator, tmp_path / "kubeconfig")
        stage.look()
        yield stage
        stage.cluster.close()
