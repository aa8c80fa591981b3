"""Logs larger than anybody reads, from the kubelet of a real control plane through the API to who asked."""

from collections.abc import Iterator

import pytest

from queues import fleet
from queues.api import logs
from queues.models import Task
from tests.kubernetes.controlplane import ControlPlane
from tests.loop.stage import Stage
from tests.queues.api.test_logs import browser, get

pytestmark = pytest.mark.kubernetes

LINES = 200_000
TEXT = "x" * 1023


@pytest.fixture
def large(plane: ControlPlane) -> Iterator[int]:
    """Let every pod have written 200 MB by now; return how much exactly."""
    before, mark = plane.pod_log.read_text(), "2026-01-01T00:00:00.0Z stdout F"
    with plane.pod_log.open("w") as file:
        for _ in range(LINES // 1000):
            file.write(f"{mark} {TEXT}\n" * 1000)
        file.writelines(f"{mark} the end {number}\n" for number in range(3))
    yield LINES * (len(TEXT) + 1)
    plane.pod_log.write_text(before)


def test_of_a_log_of_200_mb_the_tail_is_told_and_all_of_it_is_cut_with_a_word(
    real: Stage, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "clusters", lambda: {real.lab.cluster.name: real.cluster})
    job = real.submit(forever="1")
    real.until(lambda: Task.objects.filter(wave__job=job, state="running").exists(), seconds=120)

    tail = get(browser(real.lab), job, "?tail=2")
    status, whole = get(browser(real.lab), job, "?tail=all")

    assert tail == (200, "[tidegate] Older lines are cut.\nthe end 1\nthe end 2\n")
    assert (status, large) == (200, 204_800_000)
    assert logs.MOST_BYTES < len(whole) < logs.MOST_BYTES * 5 // 4
    assert whole.startswith(f"{TEXT}\n{TEXT}\n")
    assert whole.endswith(f"{TEXT}\n[tidegate] Cut here: ask again for what follows.\n")
