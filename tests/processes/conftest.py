"""A town with as many nodes as a test asks for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.processes.town import Town
from tests.queues.lab import Lab


@pytest.fixture
def nodes() -> int:
    """Return how many nodes of 8 GPUs there are."""
    return 2


@pytest.fixture
def town(transactional_db: None, settings: Settings, tmp_path: Path, nodes: int) -> Iterator[Town]:  # noqa: ARG001
    settings.TIDEGATE_TEST_ANNOTATIONS = True
    town = Town(tmp_path, Lab(), nodes=nodes)
    yield town
    town.close()
