"""The laboratory as a fixture."""

import pytest

from tests.queues.lab import Lab


@pytest.fixture
def lab(db: None) -> Lab:  # noqa: ARG001  asks for the database
    return Lab()
