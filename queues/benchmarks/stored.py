"""How long a whole turn of the loop takes on PostgreSQL: load, decide, apply; one event before each turn."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from django.db import connection, connections

from queues import cycle
from queues.benchmarks import home
from queues.benchmarks.deciding import SHAPES
from queues.benchmarks.results import Result, Setting
from queues.benchmarks.stage import rank
from queues.benchmarks.storedworld import StoredWorld, build
from queues.models import Decision, Job, Task, Wave
from queues.states import HOLDING
from stack.ensemble import Ensemble

START = datetime(2030, 1, 1, tzinfo=UTC)
SIZES = ((10_000, 1_000), (100_000, 1_000), (1_000_000, 1_000), (100_000, 10_000))
TARGETS = {(10_000, 1_000): "p99 <= 25 ms", (100_000, 10_000): "p99 <= 150 ms"}
TURNS = 20
MOST_FILLING = 20
ROUNDS, TRANSACTIONS = 3, 200
# Tables that grow with what waits: no turn may read them from end to end.
GROWING = frozenset({"queues_job", "queues_jobevent", "queues_taskgroup"})
Sizes = Sequence[tuple[int, int]]


def decide_stored(setting: Setting) -> Iterator[Result]:
    """Turn the loop on PostgreSQL with 10k to 1M waiting jobs of the same shapes, one event before each turn."""
    with scratch():
        yield from calibrate()
        yield from turns(setting, SIZES if setting.part == 1 else SIZES[:1])


@contextmanager
def scratch() -> Iterator[None]:
    """Work in a PostgreSQL of its own."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-", ignore_cleanup_errors=True) as folder:
        ensemble = Ensemble(Path(folder), clusters="")
        try:
            ensemble.prepare()
            home.settle(ensemble)
            yield
        finally:
            connections.close_all()
            ensemble.close()


def calibrate() -> Iterator[Result]:
    """Yield how many transactions of one small update a connection commits in a second, median of three."""
    yield Result(name="postgres", value=median(_transactions() for _ in range(ROUNDS)), unit="updates committed/s")


def _transactions() -> float:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bench_calibration (id int PRIMARY KEY, value bigint)")
        cursor.execute("INSERT INTO bench_calibration VALUES (1, 0)")
        since = time.perf_counter()
        for _ in range(TRANSACTIONS):
            cursor.execute("UPDATE bench_calibration SET value = value + 1 WHERE id = 1")
        took = time.perf_counter() - since
        cursor.execute("DROP TABLE bench_calibration")
    return TRANSACTIONS / took


def turns(setting: Setting, sizes: Sizes) -> Iterator[Result]:
    """Measure each size; one with the nodes of the one before goes on from there with more waiting jobs."""
    world: StoredWorld | None = None
    before = 0
    for waiting, nodes in ((waiting // setting.part, nodes // setting.part) for waiting, nodes in sizes):
        label = f"decide-stored/{waiting}/{nodes}"
        random = Random(setting.seed)  # noqa: S311  a repeatable world, no secret
        if world is None or nodes != before:
            _empty()
            world, before = build(nodes, random=random, at=START, shapes=max(1, SHAPES // setting.part)), nodes
            world.add_jobs(waiting + 8 * nodes, START)
            yield from _fill(label)
        else:
            missing = waiting - Job.objects.filter(ready=True).count()
            world.add_jobs(max(0, missing), START + timedelta(hours=1))
        yield from _measure(label, random, TARGETS.get((waiting, nodes), "-"))


def _empty() -> None:
    with connection.cursor() as cursor:
        tables = ", ".join(
            table for table in connection.introspection.table_names() if table.startswith(("queues_", "tenants_"))
        )
        cursor.execute(f"TRUNCATE {tables} CASCADE")


def _fill(label: str) -> Iterator[Result]:
    """Turn until nothing more starts."""
    since = time.perf_counter()
    started = _turn(START + timedelta(seconds=1))
    yield Result(
        name=f"{label}/first",
        value=1000 * (time.perf_counter() - since),
        unit="ms wall, first turn",
        target="<= 1,500 ms cold",
    )
    yield Result(name=f"{label}/first/started", value=started, unit="jobs")
    for number in range(2, MOST_FILLING):
        if not _turn(START + timedelta(seconds=number)):
            break


def _turn(now: datetime) -> int:
    return len(cycle.turn(now).admissions)


def _measure(label: str, random: Random, target: str) -> Iterator[Result]:
    laps: dict[str, list[float]] = {"turn": []}
    running = list(Wave.objects.filter(state__in=sorted(HOLDING)).order_by("id").values_list("id", flat=True))
    last = Decision.objects.latest("at").at
    Task.objects.filter(state="pending").update(state="running", started_at=last)
    Wave.objects.filter(state="admitted").update(state="running", started_at=last, wish_due_at=None, deadline_at=None)
    Job.objects.filter(state="admitted").update(state="running", state_since=last, started_at=last)
    for number in range(1, TURNS + 1):
        now = last + timedelta(seconds=number)
        if running:
            _end(running.pop(random.randrange(len(running))), now)
        since = time.perf_counter()
        done = cycle.turn(now)
        laps["turn"].append(1000 * (time.perf_counter() - since))
        for stage, took in Decision.objects.get(id=done.decision.id).durations.items():
            laps.setdefault(stage, []).append(took)
    for stage, times in laps.items():
        for part, key in ((0.5, "p50"), (0.99, "p99")):
            yield Result(
                name=f"{label}/{stage}/{key}",
                value=rank(sorted(times), part),
                unit="ms wall",
                target=target if (stage, key) == ("turn", "p99") else "-",
            )
    watched = Watched()
    with connection.execute_wrapper(watched):
        cycle.turn(last + timedelta(seconds=TURNS + 1))
    yield Result(name=f"{label}/statements", value=watched.statements, unit="statements a turn")
    yield Result(
        name=f"{label}/scans", value=len(watched.scans), unit="statements that read a growing table whole", target="0"
    )


class Watched:
    """Asks PostgreSQL how it will run each statement of a turn; ``scans`` are those that read a growing table whole."""

    def __init__(self) -> None:
        """Nothing is seen yet."""
        self.statements = 0
        self.scans: list[str] = []

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:  # noqa: ANN401, FBT001  Django's signature
        """Explain, then go on."""
        self.statements += 1
        if sql.lstrip().split(maxsplit=1)[0].upper() in {"SELECT", "WITH", "UPDATE", "DELETE"}:
            with connection.connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
                plan = cursor.fetchone()[0][0]["Plan"]
            if any(node["Node Type"] == "Seq Scan" and node["Relation Name"] in GROWING for node in _nodes(plan)):
                self.scans.append(sql)
        return execute(sql, params, many, context)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


def _end(wave: int, now: datetime) -> None:
    """Let a wave end as reconcile would write it."""
    Task.objects.filter(wave=wave).update(state="succeeded", ended_at=now)
    Wave.objects.filter(id=wave).update(state="ended", ended_at=now, deadline_at=None, wish_due_at=None)
    Job.objects.filter(waves=wave).update(
        state="succeeded", ended_at=now, waiting_tasks=0, ready=False, not_waiting_since=now
    )
