"""The REST API under submissions: two web processes, four clients, tokens, validation, everything durable."""

import http.client
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from queues.benchmarks.house import House, house, rank, spec
from queues.benchmarks.results import Result, Setting
from queues.models import Job
from stack.ensemble import Ensemble

CLIENTS = 4
SINGLE, BATCHES, BATCH = 2_000, 80, 100
TEAMS = tuple(f"team-{number}" for number in range(10))


def api(setting: Setting) -> Iterator[Result]:
    """Submit 2,000 jobs one at a time, then 8,000 in batches of 100, by four clients."""
    with house(nodes=2, units=8, teams=TEAMS) as found:
        _serve(found.ensemble)
        _calls(found, CLIENTS, lambda number: ("/api/v1/jobs", spec(f"warm-{number}", TEAMS[0])))
        single = max(CLIENTS, SINGLE // setting.part)
        times, seconds = _calls(
            found, single, lambda number: ("/api/v1/jobs", spec(f"one-{number}", TEAMS[number % len(TEAMS)]))
        )
        yield Result(name="api/submit", value=single / seconds, unit="requests/s", target=">= 200/s")
        yield Result(name="api/submit/p50", value=1000 * rank(times, 0.5), unit="ms")
        yield Result(name="api/submit/p95", value=1000 * rank(times, 0.95), unit="ms", target="<= 60 ms")
        batches = max(CLIENTS, BATCHES // setting.part)
        _, seconds = _calls(found, batches, _batch)
        yield Result(name="api/batch", value=batches * BATCH / seconds, unit="jobs/s", target=">= 3,000/s")
        yield Result(name="api/jobs", value=Job.objects.count(), unit="jobs written")


def _serve(ensemble: Ensemble) -> None:
    """Start two web processes, and wait for each by itself: they answer on one socket."""
    ensemble.start("web")
    ensemble.wait_for_web()
    first = ensemble.running["web"]
    first.send_signal(signal.SIGSTOP)
    ensemble.start("web-2")
    ensemble.wait_for_web()
    first.send_signal(signal.SIGCONT)


def _batch(number: int) -> tuple[str, object]:
    jobs = [spec(f"many-{number}-{place}", TEAMS[place % len(TEAMS)]) for place in range(BATCH)]
    return "/api/v1/jobs:batch", {"jobs": jobs}


def _calls(found: House, count: int, body: Callable[[int], tuple[str, object]]) -> tuple[list[float], float]:
    """Make so many requests by all clients; return how long each took, and all together."""
    numbers = iter(range(count))
    times: list[float] = []
    errors: list[str] = []
    bodies = [(path, json.dumps(what).encode()) for path, what in (body(number) for number in range(count))]

    def client() -> None:
        parts = urlsplit(found.ensemble.address)
        link = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        headers = {"Authorization": f"Bearer {found.token}", "Content-Type": "application/json"}
        for number in numbers:
            path, data = bodies[number]
            since = time.perf_counter()
            link.request("POST", path, data, headers)
            answer = link.getresponse()
            said = answer.read()
            times.append(time.perf_counter() - since)
            if answer.status >= http.HTTPStatus.BAD_REQUEST:
                errors.append(f"{answer.status} {said[:300]!r}")
        link.close()

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    since = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise RuntimeError(errors[0])
    return times, time.perf_counter() - since
