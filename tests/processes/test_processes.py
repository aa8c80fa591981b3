"""Real processes, killed at bad moments: nothing is lost and nothing is doubled."""

from collections import Counter
from datetime import timedelta
from threading import Event, Thread

import pytest
from django.db import connection, connections
from django.db.models import Sum

from queues import underway
from queues.models import Decision, Job, Task, Wave
from queues.states import TASK_HOLDING
from tests.clusters.faulty import Handler
from tests.kubernetes.proxy import Proxy, forward
from tests.loop.stage import finish
from tests.processes.relay import Relay
from tests.processes.town import Town

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]


class Meter:
    """Reads again and again how many units are in use."""

    def __init__(self) -> None:
        self.most = 0
        self._stop = Event()
        self._thread = Thread(target=self._read)

    def __enter__(self) -> "Meter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._stop.wait(0.05):
            held = Task.objects.filter(state__in=TASK_HOLDING).aggregate(units=Sum("units"))["units"]
            self.most = max(self.most, held or 0)
        connections.close_all()


def overlapping() -> int:
    """Return how many cycles began before the one before them had ended."""
    rows = list(Decision.objects.order_by("id").values_list("at", "durations"))
    # Each of a handful of laps is rounded to a tenth of a millisecond.
    ends = [at + timedelta(milliseconds=sum(laps.values()) - 1) for at, laps in rows]
    return sum(begin < end for end, (begin, _) in zip(ends, rows[1:], strict=False))


def kill_connections() -> int:
    """Cut every connection to the database but our own; return how many there were."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return len(cursor.fetchall())


def all_succeeded() -> bool:
    return not Job.objects.exclude(state="succeeded").exists()


def test_two_beats_and_three_workers_never_turn_at_once_and_admit_each_job_once(town: Town) -> None:
    jobs = [town.submit() for _ in range(40)]

    with Meter() as meter:
        for start in (town.watcher, town.worker, town.worker, town.worker, town.beat, town.beat):
            start()
        town.until(all_succeeded)

    assert [job.waves.count() for job in jobs] == [1] * 40
    assert len(town.objects()) == 40
    assert 0 < meter.most <= 16
    assert Decision.objects.count() >= 2
    assert overlapping() == 0


def test_ticks_that_piled_up_while_no_worker_ran_do_not_all_run(town: Town) -> None:
    beat = town.beat()
    town.until(lambda: town.messages("admission") >= 4)
    town.kill(beat)

    town.worker()
    town.until(lambda: town.messages("admission") == 0)
    piled_up = Decision.objects.count()
    town.beat()
    town.until(Decision.objects.exists)

    assert piled_up <= 1


@pytest.mark.parametrize("nodes", [25])
def test_a_worker_killed_between_creates_leaves_each_object_exactly_once(town: Town) -> None:
    town.watcher()
    town.until(lambda: town.lab.h100.nodes.filter(gone_at=None).count() == 25)
    jobs = [town.submit(forever="1") for _ in range(150)]
    worker = town.worker(beat=True)

    town.until(lambda: len(town.objects()) >= 10, pause=0.01)
    town.kill(worker)
    town.worker(beat=True)
    town.until(lambda: not Wave.objects.filter(launched_at=None).exists() and Wave.objects.count() == 150)

    found = Counter(seen.wave for seen in town.objects())
    assert found == {str(uid): 1 for uid in Wave.objects.values_list("uid", flat=True)}
    assert [job.events.filter(type="launched").count() for job in jobs] == [1] * 150


def test_the_loop_heals_after_redis_fell_silent_and_after_its_restart(town: Town) -> None:
    with Relay(town.valkey.port) as relay:
        town.watcher()
        town.env |= {"REDIS_URL": f"redis://127.0.0.1:{relay.port}/0", "TIDEGATE_BROKER_SECONDS": "4"}
        worker = town.worker(beat=True)
        town.submit()
        town.until(all_succeeded)

        def healed() -> bool:
            # Celery ends a worker that loses its broker while it connects; whoever runs it starts it again.
            nonlocal worker
            if worker.poll() is not None:
                worker = town.worker(beat=True)
            return all_succeeded()

        relay.darken()
        # By time-outs alone: nobody is told that the connections that are open lead nowhere any more.
        town.until(lambda: relay.waiting > 0)
        town.submit()
        relay.light()
        town.until(healed)

        town.valkey.stop()
        town.submit()
        port, data = town.valkey.port, town.valkey.data
        town.valkey = type(town.valkey)(data, port=port).start()
        took = town.until(healed)

    assert took < 60
    assert Wave.objects.count() == 3


def test_a_release_that_is_delivered_again_while_it_lasts_longer_than_its_lease_tells_nothing_twice(
    town: Town,
) -> None:
    came, may_go = Event(), Event()

    def held(handler: Handler) -> None:
        came.set()
        may_go.wait(120)
        forward(handler)

    with Proxy(town.folder / "kubeconfig") as proxy:
        town.watcher()
        town.until(lambda: town.lab.h100.nodes.filter(gone_at=None).count() == 2)
        proxy.put(held, verb="POST", kind="jobs")
        town.env["TIDEGATE_CLUSTERS"] = str(proxy.kubeconfig(town.folder / "held.kubeconfig"))
        job = town.submit(forever="1")
        for _ in range(2):
            town.worker()
        assert came.wait(120), town.words()

        lease = Wave.objects.get().wish_due_at
        assert lease is not None
        for later in (underway.LEASE / 10, underway.LEASE):
            town.until(lambda later=later: Wave.objects.filter(wish_due_at__gt=lease + later).exists())  # type: ignore[misc]
            # As a broker does whose visibility timeout is over: to whoever is free.
            for _ in range(3):
                town.send("queues.release")
            town.until(lambda: town.messages("release") == 0)
        may_go.set()
        town.until(lambda: Task.objects.filter(state="running").exists())
        creates = [each for each in proxy.requests if each.method == "POST" and "jobs" in each.path.split("/")]

    # A worker that the machine let stand still for a whole lease would rightly be followed by another one.
    assert len(creates) in {1, 2}
    assert len(town.objects()) == 1
    assert job.events.filter(type="launched").count() == 1


def test_what_happened_while_no_watcher_ran_is_seen_by_the_next(town: Town) -> None:
    town.worker(beat=True)
    watcher = town.watcher()
    job = town.submit(forever="1")
    town.until(lambda: Job.objects.get(id=job.id).state == "running")

    town.kill(watcher)
    finish(town.cluster, job)
    town.until(lambda: all(pod.phase == "Succeeded" for pod in town.cluster.inventory().pods))
    still = Job.objects.get(id=job.id).state
    town.watcher()
    town.until(all_succeeded)

    assert still == "running"


def test_killed_database_connections_are_opened_again(town: Town) -> None:
    town.watcher()
    town.worker(beat=True)
    town.submit()
    town.until(all_succeeded)

    killed = 0
    for _ in range(2):
        killed += kill_connections()
        town.submit()
        town.until(all_succeeded)

    assert killed >= 2
    assert Wave.objects.count() == 3


def test_restarting_everything_creates_nothing_new(town: Town) -> None:
    def start() -> None:
        town.watcher()
        town.worker(beat=True)

    start()
    town.submit()
    town.submit(shape="gang", tasks=2, gpus="h100:4")
    town.until(all_succeeded)
    before = sorted(seen.uid for seen in town.objects())

    for process in town.running:
        town.kill(process)
    decided = Decision.objects.count()
    start()
    town.until(lambda: Decision.objects.count() > decided)

    assert sorted(seen.uid for seen in town.objects()) == before
    assert town.states() == {"succeeded": 2}
    assert not Task.objects.filter(state__in=TASK_HOLDING).exists()
