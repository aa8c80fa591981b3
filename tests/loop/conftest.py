"""The stage as a fixture: real PostgreSQL, an emulated cluster."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pytest_django import Settings

from clusters.emulator import Emulator
from clusters.kube import connect
from queues import cycle, tails
from tests.loop.stage import Stage, machines
from tests.queues.lab import Lab


@pytest.fixture
def installed() -> bool:
    """Tell whether the emulator serves kinds that people install with their controllers."""
    return False


@pytest.fixture
def stage(
    transactional_db: None,  # noqa: ARG001  asks for the database
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    installed: bool,  # noqa: FBT001  a fixture
) -> Iterator[Stage]:
    settings.TIDEGATE_TEST_ANNOTATIONS = True
    settings.TIDEGATE_KEEP_SECONDS = 0
    monkeypatch.setattr(cycle, "LONGEST_BREATH_SECONDS", 0.0)
    # No log is given up because the machine stands still for a while.
    monkeypatch.setattr(tails, "WAVE_WAITS", timedelta(minutes=5))
    with Emulator(nodes=machines(), installed=installed) as emulator:
        cluster = connect("default", kubeconfig=emulator.kubeconfig(tmp_path / "kubeconfig"))
        stage = Stage(Lab(), cluster)
        stage.look()
        yield stage
        cluster.close()
