"""From waiting rows to Kubernetes Jobs: how many a second, and how long one job takes through real processes."""

import time
from collections.abc import Iterator

from django.utils import timezone

from queues import cycle, release
from queues.benchmarks.house import CLUSTER, House, house, multiply, rank, submit
from queues.benchmarks.results import Result, Setting
from queues.models import Job, JobEvent, Wave

WAITING = 20_000
RELEASED = 4_000
TEAMS = tuple(f"team-{number}" for number in range(10))
UNITS_A_NODE = 100
SINGLE, PAUSE_SECONDS = 100, 0.1
PATIENCE_SECONDS = 120.0


def admit(setting: Setting) -> Iterator[Result]:
    """Admit 20,000 waiting jobs, tell the emulator of 4,000, then submit 100 one by one to running processes."""
    waiting = max(len(TEAMS), WAITING // setting.part)
    with house(nodes=-(-2 * waiting // UNITS_A_NODE), units=UNITS_A_NODE, teams=TEAMS) as found:
        jobs = submit(found, [(f"job-{team}", team) for team in TEAMS])
        multiply(jobs, waiting - len(jobs))
        yield from _admitted(waiting)
        yield from _released(found, min(waiting, max(1, RELEASED // setting.part)))
        yield from _single(found, max(2, SINGLE // setting.part))


def _admitted(waiting: int) -> Iterator[Result]:
    since, turns = time.perf_counter(), 0
    while Wave.objects.count() < waiting and turns < waiting:
        cycle.turn(timezone.now())
        turns += 1
    seconds = time.perf_counter() - since
    peer = "Kueue 42/s in its CI"
    yield Result(name="admit/persisted", value=waiting / seconds, unit="jobs/s", peer=peer, target=">= 1,000/s")
    yield Result(name="admit/cycles", value=turns, unit="")


def _released(found: House, count: int) -> Iterator[Result]:
    # The rest stays in the outbox for later: what is measured is a rate.
    later = Wave.objects.order_by("id").values_list("id", flat=True)[count:]
    Wave.objects.filter(id__in=list(later)).update(wish_due_at=None)
    since = time.perf_counter()
    told = 0
    while told < count:
        told += release.release_due(timezone.now, clusters={CLUSTER: found.cluster})
    seconds = time.perf_counter() - since
    requests = sum(found.cluster.api.requests.values()) / count
    yield Result(name="admit/released", value=told / seconds, unit="jobs/s", target=">= 250/s")
    yield Result(name="admit/requests", value=requests, unit="API requests of ours a job")


def _single(found: House, count: int) -> Iterator[Result]:
    """Submit one at a time to a worker, a watcher and a beat, as people would."""
    found.ensemble.start("worker", "beat", "watcher")
    _launched(submit(found, [("first", TEAMS[0])]))
    jobs: list[Job] = []
    for number in range(count):
        jobs += submit(found, [(f"single-{number}", TEAMS[number % len(TEAMS)])])
        time.sleep(PAUSE_SECONDS)
    seconds = _launched(jobs)
    for share, label in ((0.5, "p50"), (0.99, "p99")):
        target = "<= 2 s" if label == "p99" else "-"
        yield Result(name=f"admit/submit-to-launched/{label}", value=rank(seconds, share), unit="s", target=target)


def _launched(jobs: list[Job]) -> list[float]:
    """Wait until all are launched; return how long each took."""
    end = time.monotonic() + PATIENCE_SECONDS
    rows = JobEvent.objects.filter(job__in=jobs, type="launched").order_by("id")
    while len(at := dict(rows.values_list("job_id", "at"))) < len(jobs):
        if time.monotonic() > end:
            raise TimeoutError(f"{len(jobs) - len(at)} jobs were not launched")
        time.sleep(0.1)
    return [(at[job.id] - job.submitted_at).total_seconds() for job in jobs]
