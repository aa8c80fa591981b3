from pathlib import Path

import pytest
from django.conf import settings
from django.core.checks import run_checks
from pytest_django import Settings

from config import checks
from queues.management.commands import watch_clusters


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


def test_a_kubeconfig_that_leads_nowhere_is_named_with_its_cluster(settings: Settings, tmp_path: Path) -> None:
    texts = {
        "good": "current-context: a\ncontexts: [{name: a}]",
        "bad": "a: [",
        "text": "hello",
        "nowhere": "contexts: [{name: a}]",
        "other": "current-context: b\ncontexts: [{name: a}]",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    names = [*texts, "gone"]
    settings.TIDEGATE_CLUSTERS = ",".join([*(f"{name}={tmp_path / name}" for name in names), str(tmp_path)])

    found = [each.msg.replace(f"{tmp_path}/", "") for each in checks.kubeconfigs()]

    assert found == [
        "The kubeconfig bad of cluster bad is not YAML.",
        "The kubeconfig text of cluster text is no kubeconfig: it has no list of contexts.",
        "The kubeconfig nowhere of cluster nowhere has no current-context.",
        "The kubeconfig other of cluster other has no context 'b', which its current-context names.",
        "The kubeconfig gone of cluster gone does not exist.",
        f"The kubeconfig {tmp_path} of cluster default is a folder.",
    ]


def test_two_clusters_of_one_name_are_refused(settings: Settings) -> None:
    settings.TIDEGATE_CLUSTERS = "a=/x,b=/y,a=/z"

    assert [each.msg for each in checks.cluster_names()] == ["TIDEGATE_CLUSTERS names the cluster a 2 times."]


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


def test_a_watcher_begins_with_our_own_checks(settings: Settings, tmp_path: Path) -> None:
    settings.TIDEGATE_CLUSTERS = f"bad={tmp_path / 'nothing'},bad={tmp_path / 'nothing'}"

    found = run_checks(tags=watch_clusters.Command.requires_system_checks)

    # Django runs checks in no order.
    assert sorted(str(each.id) for each in found) == ["tidegate.E003", "tidegate.E004"]
