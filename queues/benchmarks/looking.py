"""Pages and their API twins over a hundred thousand jobs: how long, how many statements, what is scanned."""

import json
import logging
import time
from collections.abc import Iterator

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from queues import cycle
from queues.benchmarks.house import FLAVOR, house, multiply, rank, submit
from queues.benchmarks.results import Result, Setting
from queues.models import Job
from tenants.models import User

JOBS, EVENTS_A_JOB, TEAMS = 100_000, 3, 50
# So many of them have ended; the rest waits or, as far as there is room, is admitted.
ENDED_SHARE = 0.8
# Of a hundredth or less it is only told that all runs.
ROUNDS, FEW_ROUNDS, SMALL = 20, 2, 100


def pages(setting: Setting) -> Iterator[Result]:
    """Read each page and its API twin 20 times over 100,000 jobs, 300,000 events and 50 teams."""
    teams = tuple(f"team-{number}" for number in range(TEAMS))
    jobs = max(TEAMS, JOBS // setting.part)
    with house(nodes=100, units=8, teams=teams) as found:
        first = submit(found, [(f"job-{team}", team) for team in teams])
        multiply(first, jobs - len(first))
        _age(jobs)
        cycle.turn(timezone.now())
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        logging.disable(logging.INFO)  # a line for each request would be read, not the values
        client = Client()
        client.force_login(User.objects.get(username="bench"))
        uid = Job.objects.filter(ended_at=None).order_by("-id").values_list("uid", flat=True)[0]
        for name, path in _addresses(str(uid), teams[0]):
            yield from _read(client, name, path, rounds=FEW_ROUNDS if setting.part >= SMALL else ROUNDS)


def _addresses(uid: str, team: str) -> Iterator[tuple[str, str]]:
    yield "overview", "/"
    yield "queue", f"/queue?flavor={FLAVOR}"
    yield "jobs", "/jobs"
    yield "jobs-filtered", "/jobs?state=queued,running&q=job"
    yield "job", f"/jobs/{uid}"
    yield "team", f"/teams/{team}"
    yield "nodes", "/nodes"
    yield "api-queue", f"/api/v1/queue?flavor={FLAVOR}"
    yield "api-jobs", "/api/v1/jobs?state=queued"
    yield "api-job", f"/api/v1/jobs/{uid}"
    yield "api-explain", f"/api/v1/jobs/{uid}/explain"
    yield "api-events", f"/api/v1/jobs/{uid}/events"
    yield "api-quotas", "/api/v1/quotas"


def _read(client: Client, name: str, path: str, *, rounds: int) -> Iterator[Result]:
    client.get(path)
    before = _scans()
    with CaptureQueriesContext(connection) as said:
        answer = client.get(path)
    # At once: the next request empties the log. That a transaction begins and ends asks nothing.
    statements = sum(not query["sql"].startswith(("BEGIN", "SET TRANSACTION", "COMMIT")) for query in said)
    scans = _scans() - before
    if answer.status_code != 200:  # noqa: PLR2004  OK
        raise RuntimeError(f"{path}: {answer.status_code} {json.dumps(answer.content.decode()[:300])}")
    times, spent = [], time.process_time()
    for _ in range(rounds):
        since = time.perf_counter()
        client.get(path)
        times.append(time.perf_counter() - since)
    spent = time.process_time() - spent
    yield Result(name=f"pages/{name}/cpu", value=1000 * spent / rounds, unit="ms of this process, mean", target="")
    yield Result(name=f"pages/{name}/p95", value=1000 * rank(times, 0.95), unit="ms", target="<= 150 ms")
    yield Result(name=f"pages/{name}/statements", value=statements, unit="", target="<= 12")
    yield Result(name=f"pages/{name}/scans", value=scans, unit="sequential scans of jobs or events", target="0")


def _scans() -> int:
    """Return how often jobs, or their events, were read from end to end so far."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname IN ('queues_job', 'queues_jobevent')"
        )
        return int(cursor.fetchone()[0])


def _age(jobs: int) -> None:
    """Let most jobs have ended, each with two further events."""
    ended = int(jobs * ENDED_SHARE)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE queues_job SET state = 'succeeded', ended_at = now(), waiting_tasks = 0, ready = false,"
            " started_at = submitted_at, ran_for = interval '1 hour' WHERE id IN"
            " (SELECT id FROM queues_job ORDER BY id LIMIT %s)",
            [ended],
        )
        cursor.execute(
            "INSERT INTO queues_jobevent (job_id, at, type, actor, summary, details) SELECT job.id, job.submitted_at,"
            " said.word, '', said.word, '{}' FROM queues_job job,"
            " unnest(ARRAY['started', 'succeeded']) AS said (word)"
        )
