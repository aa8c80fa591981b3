"""Everything is killed while much waits and runs: how soon the right decision comes, and that nothing is doubled."""

import time
from collections import Counter
from collections.abc import Callable, Iterator

from django.utils import timezone

from queues import cycle, release, services
from queues.benchmarks.house import CLUSTER, House, house, multiply, submit
from queues.benchmarks.results import Result, Setting
from queues.models import Job, Task, Wave

WAITING, RUNNING = 100_000, 20_000
TEAMS = tuple(f"team-{number}" for number in range(10))
UNITS_A_NODE = 20
PROCESSES = ("worker", "beat", "watcher")
PATIENCE_SECONDS = 600.0


def restart(setting: Setting) -> Iterator[Result]:
    """Kill worker, beat and watcher with 100,000 waiting and 20,000 running jobs, and start them again."""
    # Exactly as many as there are units, equally many of each team: nothing else can start.
    running = max(1, RUNNING // setting.part // UNITS_A_NODE) * UNITS_A_NODE
    with house(nodes=running // UNITS_A_NODE, units=UNITS_A_NODE, teams=TEAMS) as found:
        _run(found, running)
        jobs = submit(found, [(f"next-{team}", team) for team in TEAMS])
        multiply(jobs, max(1, WAITING // setting.part) - len(jobs))
        found.ensemble.start(*PROCESSES)
        _until(lambda: not Wave.objects.filter(launched_at=None).exists())
        for name in PROCESSES:
            found.ensemble.kill(name)
        # While nobody looks, one job is given up: its place belongs to the head of its team's line.
        gone = Job.objects.filter(state__in=["admitted", "running"], team__name=TEAMS[3]).order_by("id")[0]
        services.cancel(uid=gone.uid, by=found.by, now=timezone.now())
        waves = Wave.objects.count()
        since = time.perf_counter()
        found.ensemble.start(*PROCESSES)
        _until(lambda: Wave.objects.count() > waves)
        seconds = time.perf_counter() - since
        right = Wave.objects.order_by("-id").values_list("job__name", flat=True)[0] == f"next-{TEAMS[3]}"
        _until(lambda: not Wave.objects.filter(launched_at=None).exists())
        created = Counter(seen.wave for seen in found.cluster.inventory().waves)
        doubled = sum(count > 1 for count in created.values())
        doubled += Task.objects.filter(state__in=["pending", "running", "leaving"]).count() > running
        yield Result(
            name="restart/first-decision", value=seconds, unit="s", peer="Armada up to 15 min", target="<= 10 s"
        )
        yield Result(name="restart/right", value=float(right), unit="(1: the right job)", target="1")
        yield Result(name="restart/double-launches", value=doubled, unit="", target="0")
        yield Result(name="restart/running", value=running, unit="jobs ran")


def _run(found: House, running: int) -> None:
    """Fill the cluster: rows, decisions, Kubernetes Jobs."""
    jobs = submit(found, [(f"run-{team}", team) for team in TEAMS], run_for="10h")
    multiply(jobs, running - len(jobs))
    while Wave.objects.count() < running:
        cycle.turn(timezone.now())
    while Wave.objects.filter(launched_at=None).exists():
        release.release_due(timezone.now, clusters={CLUSTER: found.cluster})
    found.look()


def _until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not done():
        if time.monotonic() > end:
            raise TimeoutError("it takes too long")
        time.sleep(0.02)
