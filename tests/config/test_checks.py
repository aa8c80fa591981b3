from pathlib import Path

import pytest
from django.conf import settings
from pytest_django import Settings

from config import checks


@pytest.fixture
def outside_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_VERSION", raising=False)


@pytest.mark.usefixtures("outside_tests")
@pytest.mark.parametrize(
    ("key", "debug", "faults"),
    [("insecure-" + "x" * 50, False, 1), ("CHANGE-ME", False, 1), ("insecure-x", True, 0), ("r4nd0m" * 8, False, 0)],
)
def test_a_weak_secret_key_is_refused_where_people_sign_in(
    settings: Settings, key: str, *, debug: bool, faults: int
) -> None:
    settings.SECRET_KEY, settings.DEBUG = key, debug

    assert len(checks.secret_key()) == faults


@pytest.mark.parametrize(
    ("url", "faults"), [("postgresql://x@h/d", 0), ("postgres://x@h/d", 0), ("sqlite:///x.db", 1), ("mysql://h/d", 1)]
)
def test_only_postgresql_will_do(settings: Settings, url: str, faults: int) -> None:
    settings.DATABASE_URL = url

    assert [each.id for each in checks.database_url()] == ["tidegate.E002"] * faults


def test_a_kubeconfig_that_cannot_be_read_is_named(settings: Settings, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("kind: Config")
    settings.TIDEGATE_CLUSTERS = f"a={there},b={tmp_path / 'gone'},{tmp_path}"

    found = checks.kubeconfigs()

    assert [each.msg for each in found] == [
        f"The kubeconfig {tmp_path / 'gone'} does not exist.",
        f"The kubeconfig {tmp_path} is a folder.",
    ]


def test_no_cluster_is_no_fault(settings: Settings) -> None:
    settings.TIDEGATE_CLUSTERS = ""

    assert checks.kubeconfigs() == []


def test_what_takes_long_never_waits_in_the_loops_line_and_somebody_works_it_off() -> None:
    beat, routes = settings.CELERY_BEAT_SCHEDULE, settings.CELERY_TASK_ROUTES
    tasks = [str(row["task"]) for row in beat.values()]
    lines = {task: routes[task]["queue"] if task in routes else "admission" for task in tasks}
    programs = (Path(settings.BASE_DIR) / "platform/stack/programs.py").read_text()

    assert lines == {
        "queues.admit": "admission",
        "queues.release": "release",
        "queues.forecast": "background",
        "queues.clean_up": "background",
    }
    assert '"--queues", "background"' in programs
