import time
from collections.abc import Callable
from functools import partial
from threading import Barrier, Event, Thread
from types import SimpleNamespace

import pytest
from django.db import connection, connections

from queues import cycle, hints
from queues.admission.decide import Outcome
from queues.admission.world import Heads, World
from queues.cycle import run_cycle
from queues.models import Decision, Job, Verdict, Wave
from tenants.models import Installation
from tests.queues.lab import MINUTE, NOW, Lab, member

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def town(transactional_db: None) -> Lab:  # noqa: ARG001  asks for the database
    return Lab()


def apart(work: Callable[[], object]) -> Thread:
    """Run something in a thread with a connection of its own."""

    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = Thread(target=run)
    thread.start()
    return thread


def bump_often() -> None:
    for _ in range(50):
        hints.bump()


def submit_and_bump(town: Lab) -> None:
    town.submit()
    hints.bump()


def nothing(world: World, heads: Heads) -> Outcome:
    assert world is not None
    assert heads is not None
    return Outcome()


def test_a_turn_admits_what_fits_and_says_why_the_rest_waits(town: Lab) -> None:
    fits = town.submit(shape="gang", tasks=4, gpus="h100:8")
    waits = town.submit(town.carl, team="cv", shape="gang", tasks=1, gpus="h100:8")

    turns = run_cycle(lambda: NOW)

    fits.refresh_from_db()
    waits.refresh_from_db()
    assert turns == 1
    assert {fits.state, waits.state} == {"admitted", "queued"}
    assert Verdict.objects.filter(job_class=(waits if waits.state == "queued" else fits).job_class).exists()


def test_a_decision_tells_input_counts_and_durations(town: Lab) -> None:
    town.submit()

    run_cycle(lambda: NOW)

    decision = Decision.objects.get()
    assert (decision.at, decision.admissions, decision.tasks, decision.units) == (NOW, 1, 1, 1)
    assert set(decision.durations) == {"timers", "load", "decide", "apply"}
    assert len(decision.digest) == 64


@pytest.mark.usefixtures("town")
def test_while_another_worker_holds_the_lock_nothing_is_decided() -> None:
    inside, leave = Event(), Event()

    def slow(world: World, heads: Heads) -> Outcome:
        inside.set()
        leave.wait(60)
        return nothing(world, heads)

    other = apart(lambda: run_cycle(lambda: NOW, decide=slow))
    inside.wait(60)
    mine = run_cycle(lambda: NOW, decide=nothing)
    leave.set()
    other.join()

    assert mine == 0
    assert Decision.objects.count() == 1


def test_a_wake_up_during_a_cycle_makes_its_worker_go_again(town: Lab) -> None:
    calls: list[int] = []

    def woken(world: World, heads: Heads) -> Outcome:
        calls.append(len(world.classes))
        if len(calls) == 1:
            apart(lambda: submit_and_bump(town)).join()
        return nothing(world, heads)

    turns = run_cycle(lambda: NOW, decide=woken)

    assert turns == 2
    assert calls == [0, 1]


@pytest.mark.usefixtures("town")
def test_a_wake_up_while_the_loop_rests_is_answered_by_who_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    others: list[int] = []

    def woken_elsewhere() -> None:
        hints.bump()
        others.append(run_cycle(lambda: NOW, decide=nothing))

    def rest(_: float) -> None:
        if not others:
            apart(woken_elsewhere).join()

    monkeypatch.setattr(
        cycle, "time", SimpleNamespace(monotonic=time.monotonic, perf_counter=time.perf_counter, sleep=rest)
    )

    turns = run_cycle(lambda: NOW, decide=nothing)

    assert (turns, others) == (2, [0])


@pytest.mark.usefixtures("town")
def test_many_wake_ups_become_one_more_cycle() -> None:
    calls: list[int] = []

    def woken(world: World, heads: Heads) -> Outcome:
        if not calls:
            apart(bump_often).join()
        calls.append(1)
        return nothing(world, heads)

    assert run_cycle(lambda: NOW, decide=woken) == 2


@pytest.mark.usefixtures("town")
def test_endless_wake_ups_do_not_keep_a_worker_for_ever() -> None:
    def woken(world: World, heads: Heads) -> Outcome:
        apart(hints.bump).join()
        return nothing(world, heads)

    assert run_cycle(lambda: NOW, decide=woken) == cycle.MOST_TURNS


@pytest.mark.usefixtures("town")
def test_the_lock_is_given_back_when_a_cycle_fails() -> None:
    def broken(_: World, __: Heads) -> Outcome:
        raise ValueError("a fault in the rules")

    with pytest.raises(ValueError, match="a fault in the rules"):
        run_cycle(lambda: NOW, decide=broken)
    thread_turns: list[int] = []
    apart(lambda: thread_turns.append(run_cycle(lambda: NOW, decide=nothing))).join()

    assert thread_turns == [1]
    assert Job.objects.count() == 0


@pytest.mark.usefixtures("town")
def test_the_lock_goes_with_a_killed_connection() -> None:
    pids: list[int] = []
    failed: list[Exception] = []

    def killed(world: World, heads: Heads) -> Outcome:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pids.append(cursor.fetchone()[0])
        return nothing(world, heads)

    def victim() -> None:
        def decide(world: World, heads: Heads) -> Outcome:
            outcome = killed(world, heads)
            apart(lambda: kill(pids[0])).join()
            return outcome

        try:
            run_cycle(lambda: NOW, decide=decide)
        except Exception as error:  # noqa: BLE001  whatever a dead connection raises
            failed.append(error)

    apart(victim).join()
    turns = run_cycle(lambda: NOW, decide=nothing)

    assert failed
    assert turns == 1
    assert Decision.objects.count() == 1


def kill(pid: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])


def test_many_workers_at_once_admit_each_job_once(town: Lab) -> None:
    jobs = [town.submit() for _ in range(20)]
    start = Barrier(4)

    def work() -> None:
        start.wait()
        run_cycle(lambda: NOW)

    threads = [apart(work) for _ in range(4)]
    for thread in threads:
        thread.join()

    assert [job.waves.count() for job in jobs] == [1] * 20


def test_who_keeps_gpus_idle_for_too_long_gives_way_in_the_end(town: Lab) -> None:
    Installation.objects.update_or_create(id=1, defaults={"aging_every": 60 * MINUTE, "hold_idle_limit": 8 * 3600})
    for by, team, nodes in ((town.ann, "nlp", 1), (town.carl, "cv", 1), (member("bo", town.bio), "bio", 1)):
        endless = town.submit(by, team=team, shape="gang", tasks=nodes, gpus="h100:8")
        town.start(endless, town.nodes[Wave.objects.count()])
    Job.objects.update(time_limit=None)
    gang = town.submit(shape="gang", tasks=2, gpus="h100:8")
    run_cycle(lambda: NOW + 31 * MINUTE)
    small = town.submit(town.art, shape="gang", tasks=1, gpus="h100:8", now=NOW + 32 * MINUTE)
    states = []

    for minute in (33, 60, 90, 93):
        run_cycle(partial(NOW.__add__, minute * MINUTE))
        states.append(Job.objects.get(id=small.id).state)

    assert states == ["queued", "queued", "queued", "admitted"]
    assert Job.objects.get(id=gang.id).state == "queued"
