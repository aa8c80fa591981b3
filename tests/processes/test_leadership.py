"""Two watchers as real processes: one follows a cluster, and the other does within seconds when the first is gone."""

import os
import signal
import subprocess
import time

import pytest

from queues import lease
from queues.models import ClusterState, Job
from tests.loop.stage import finish
from tests.processes.town import Town

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]


def leader() -> str:
    """Return the process number of the watcher that follows the cluster."""
    holder = ClusterState.objects.values_list("leader", flat=True).get(name="default")
    return holder.split("/")[1] if holder else ""


def ended(job: Job) -> bool:
    return Job.objects.get(id=job.id).state == "succeeded"


def both(town: Town) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
    """Start two watchers; return the one that follows and the one that stands by, warm."""
    first = town.watcher()
    town.until(lambda: leader() == str(first.pid))
    second = town.watcher()
    log = town.folder / f"process-{len(town.running) - 1}.log"
    town.until(lambda: b"following default" in log.read_bytes())
    return first, second


def test_a_watcher_that_is_killed_is_followed_by_the_one_that_stands_by_within_seconds(town: Town) -> None:
    town.worker(beat=True)
    first, second = both(town)
    job = town.submit(forever="1")
    town.until(lambda: Job.objects.get(id=job.id).state == "running")

    town.kill(first)
    begun = time.monotonic()
    town.until(lambda: leader() == str(second.pid))
    took = time.monotonic() - begun
    finish(town.cluster, job)
    town.until(lambda: ended(job))

    # The rest of the lease, and a second until the next one asks; the other seconds are for a slow machine.
    assert took < lease.LASTS_SECONDS + 60


def test_a_watcher_that_freezes_loses_the_lease_and_stands_by_when_it_wakes(town: Town) -> None:
    town.worker(beat=True)
    first, second = both(town)

    os.kill(first.pid, signal.SIGSTOP)
    town.until(lambda: leader() == str(second.pid))
    job = town.submit()
    town.until(lambda: ended(job))
    os.kill(first.pid, signal.SIGCONT)
    after = town.submit()
    town.until(lambda: ended(after))

    assert leader() == str(second.pid)
    assert first.poll() is None
    assert job.waves.count() == after.waves.count() == 1


def test_a_watcher_that_is_told_to_end_gives_the_lease_up(town: Town) -> None:
    first, second = both(town)

    first.terminate()
    first.wait(90)
    held = leader()
    town.until(lambda: leader() == str(second.pid))

    assert held in {"", str(second.pid)}
    assert first.returncode == 0
