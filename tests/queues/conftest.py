"""The laboratory as a fixture."""

import pytest

from queues.api import jobs, lines
from queues.views import new, teams
from tests.queues.lab import Lab


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no plan or preview be cut short because the machine stands still for a while."""
    for module, limit in (
        (jobs, "PLAN_SECONDS"),
        (new, "PLAN_SECONDS"),
        (lines, "PREVIEW_SECONDS"),
        (teams, "PREVIEW_SECONDS"),
    ):
        monkeypatch.setattr(module, limit, 60.0)


@pytest.fixture
def lab(db: None) -> Lab:  # noqa: ARG001  asks for the database
    return Lab()
