"""What is kept between snapshots, against a process that has kept nothing: the same after whatever writes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

import pytest
from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test.utils import CaptureQueriesContext

from queues import changes, cycle, endings, promises, services, snapshot, steps
from queues.admission.world import Waiting, World
from queues.cleanup import clean_up
from queues.models import Change, ClusterState, Job, Node, Queue, Task, Wave
from queues.states import JobState, TaskState, WaveState
from queues.waiting import milliseconds
from tenants.errors import DomainError
from tenants.models import Flavor, Installation, Quota, Team
from tests.clusters.waiting import until
from tests.queues.crowd import copy
from tests.queues.lab import MINUTE, NOW, Lab, compact, node

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = 60 * MINUTE


class Sight(NamedTuple):
    """All that a decision can see."""

    world: World
    first: dict[int, tuple[Waiting, ...]]
    further: dict[int, list[Waiting]]
    digest: str


@pytest.fixture
def lab(transactional_db: None) -> Iterator[Lab]:  # noqa: ARG001  asks for the database
    snapshot.forget()
    yield Lab()
    snapshot.forget()


@pytest.fixture
def other(lab: Lab) -> Iterator[BaseDatabaseWrapper]:  # noqa: ARG001  after the tables are there
    """Another connection, for transactions that commit when the test wants it."""
    found = connection.copy()
    found.set_autocommit(False)
    yield found
    found.rollback()
    found.close()


def sight(now: datetime = NOW) -> Sight:
    with snapshot.load(now) as seen:
        world, heads = seen
        first = {row.id: heads.users(row.id) for row in world.classes}
        further = {pk: [row for head in few for row in heads.after(pk, head.user, head)] for pk, few in first.items()}
        return Sight(world, first, further, snapshot.digest(seen))


def cold(now: datetime = NOW) -> Sight:
    """Read everything, and keep what was kept before."""
    kept = snapshot._Memory.kept  # noqa: SLF001  the test stands in for another process
    snapshot.forget()
    found = sight(now)
    snapshot._Memory.kept = kept  # noqa: SLF001
    return found


class Walk:
    """Draws writes of every kind."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab, self.random, self.now = lab, Random(seed), NOW
        services.create_queue(team="nlp", name="second", by=lab.root, now=NOW)

    def step(self) -> str:
        """Make one write; one that is refused is none."""
        self.now += self.random.choice((MINUTE, 5 * MINUTE))
        write = self.random.choice(
            (
                *(2 * (self.submit, self.turn, self.begin, self.end)),
                *(self.batch, self.cancel, self.hold, self.release, self.rerun, self.priority, self.evict, self.gone),
                *(self.bulk, self.quota, self.node, self.node_leaves, self.cluster, self.queue, self.pause, self.idle),
                *(self.copies, self.delete, self.checkpoint, self.move_on),
            )
        )
        try:
            write()
        except DomainError:
            return f"{write.__name__} (refused)"
        return write.__name__

    def spec(self) -> dict[str, Any]:
        team = self.random.choice(("nlp", "nlp", "cv", "bio"))
        shape = self.random.choice(("independent", "gang", "elastic"))
        tasks: object = self.random.randint(1, 4)
        return compact(
            team=team,
            metadata={"queue": self.random.choice(("default", "second"))} if team == "nlp" else {},
            shape=shape,
            tasks={"min": 1, "max": 3} if shape == "elastic" else tasks,
            gpus=self.random.choice(("h100:1", "h100:4", "h100:8", "l40s:2")),
            time_limit=self.random.choice(("30m", "4h")),
            priority=self.random.choice(("low", "normal", "high")),
        )

    def by(self) -> Any:  # noqa: ANN401  an actor
        return self.lab.root

    def submit(self) -> None:
        services.submit(spec=self.spec(), by=self.by(), now=self.now)

    def batch(self) -> None:
        services.submit_batch(specs=[self.spec() for _ in range(4)], by=self.by(), now=self.now)

    def one(self, *states: JobState) -> Job | None:
        found = list(Job.objects.filter(state__in=states or list(JobState)).order_by("id"))
        return self.random.choice(found) if found else None

    def on(self, verb: Callable[..., object], *states: JobState, **more: object) -> None:
        job = self.one(*states)
        if job is not None:
            verb(uid=job.uid, by=self.by(), now=self.now, **more)

    def cancel(self) -> None:
        self.on(services.cancel, JobState.QUEUED, JobState.RUNNING, JobState.ADMITTED)

    def hold(self) -> None:
        self.on(services.hold, JobState.QUEUED, JobState.RUNNING)

    def release(self) -> None:
        self.on(services.release, JobState.HELD)

    def rerun(self) -> None:
        self.on(services.rerun)

    def priority(self) -> None:
        self.on(services.change_priority, priority=self.random.choice(("low", "normal", "high")))

    def bulk(self) -> None:
        jobs = list(Job.objects.filter(state=JobState.QUEUED).order_by("id")[:5])
        verb = self.random.choice((services.cancel_many, services.hold_many))
        verb(uids=[job.uid for job in jobs], by=self.by(), now=self.now)

    def turn(self) -> None:
        cycle.turn(self.now)

    def wave(self, *states: WaveState) -> Wave | None:
        found = list(Wave.objects.filter(state__in=states).select_related("job").order_by("id"))
        return self.random.choice(found) if found else None

    def begin(self) -> None:
        wave = self.wave(WaveState.ADMITTED)
        if wave is not None:
            Task.objects.filter(wave=wave, state=TaskState.PENDING).update(state="running", started_at=self.now)
            Wave.objects.filter(id=wave.id).update(state="running", started_at=self.now)
            Job.objects.filter(id=wave.job_id, state="admitted").update(state="running", state_since=self.now)

    def end(self) -> None:
        wave = self.wave(WaveState.RUNNING, WaveState.EVICTING)
        if wave is not None:
            with transaction.atomic():
                Task.objects.filter(wave=wave, ended_at=None).update(state="succeeded", ended_at=self.now)
                Wave.objects.filter(id=wave.id).update(state="ended", ended_at=self.now, deadline_at=None)
                endings.settle(wave.job_id, now=self.now)

    def move_on(self) -> None:
        """End one task of a wave."""
        found = list(Task.objects.filter(state=TaskState.RUNNING).order_by("id"))
        if found:
            task = self.random.choice(found)
            Task.objects.filter(id=task.id).update(state="failed", ended_at=self.now)

    def evict(self) -> None:
        job = self.one(JobState.RUNNING)
        if job is not None:
            told = {"now": self.now, "event": "evicted", "summary": "Evicted"}
            steps.evict(job.id, JobState.RUNNING, JobState.QUEUED, **told)  # type: ignore[arg-type]

    def gone(self) -> None:
        task = Task.objects.filter(state=TaskState.LEAVING).order_by("id").first()
        if task is not None:
            Task.objects.filter(id=task.id).update(state="stopped", ended_at=self.now)

    def checkpoint(self) -> None:
        Task.objects.filter(state=TaskState.RUNNING).update(saved_at=self.now)

    def quota(self) -> None:
        Quota.objects.filter(team=self.random.choice((self.lab.nlp, self.lab.cv))).update(
            guaranteed=self.random.randint(0, 16)
        )

    def node(self) -> None:
        what, value = self.random.choice((("cordoned", True), ("cordoned", False), ("ready", False), ("ready", True)))
        changed = {what: value, "outside_units": self.random.randint(0, 1)}
        Node.objects.filter(id=self.random.choice(self.lab.nodes).id).update(**changed)

    def node_leaves(self) -> None:
        Node.objects.filter(id=self.random.choice(self.lab.nodes).id).update(
            gone_at=self.random.choice((None, self.now))
        )

    def cluster(self) -> None:
        away = self.random.random() < 0.3
        ClusterState.objects.update(away=away, unreachable_since=self.now if away else None)

    def queue(self) -> None:
        queues = Queue.objects.filter(team__name="nlp")
        queues.update(
            min_runtime=self.random.choice((MINUTE, 0 * MINUTE)), start_limit=self.random.choice((1, 9)) * MINUTE
        )

    def pause(self) -> None:
        Team.objects.filter(name="cv").update(paused_at=self.random.choice((None, self.now)))

    def idle(self) -> None:
        """A turn much later: what waits long enough holds, keeps and idles."""
        self.now += HOUR
        cycle.turn(self.now)

    def copies(self) -> None:
        job = self.one(JobState.QUEUED)
        if job is not None:
            copy(job, self.random.choice((1, 40)))

    def delete(self) -> None:
        job = Job.objects.filter(ended_at__isnull=False, waves=None, recalls=None).order_by("id").first()
        if job is not None:
            job.delete()


@pytest.mark.parametrize("seed", range(4))
def test_a_warm_snapshot_is_a_cold_one_after_any_sequence_of_writes(lab: Lab, seed: int) -> None:
    walk = Walk(lab, seed)
    done = []

    for _ in range(50):
        done.append(walk.step())
        assert sight(walk.now) == cold(walk.now), done


@pytest.mark.parametrize("seed", range(3))
def test_a_mark_tells_in_which_classes_others_are_first_now(lab: Lab, seed: int) -> None:
    walk = Walk(lab, seed)
    mark: object = None
    before: dict[int, list[Waiting]] = {}

    for _ in range(30):
        walk.step()
        with snapshot.load(walk.now) as (world, heads):
            mark, changed = heads.changed(mark)
            now = {row.id: [replace(head, idle=0) for head in heads.users(row.id)] for row in world.classes}
        differ = {pk for pk in now.keys() | before.keys() if now.get(pk) != before.get(pk)}
        assert changed is None or differ <= set(changed)
        before = now


def test_a_mark_is_good_for_some_snapshots_and_names_what_came_since(lab: Lab) -> None:
    lab.submit()
    with snapshot.load(NOW) as seen:
        mark, changed = seen.heads.changed(None)
    later, fresh = mark, set()
    for gpus in ("h100:1", "h100:2", "h100:4"):
        fresh.add(lab.submit(gpus=gpus).job_class_id)
        with snapshot.load(NOW) as seen:
            later, changed = seen.heads.changed(mark)

    assert changed == frozenset(fresh)
    assert seen.heads.changed(later)[1] == frozenset()
    assert seen.heads.changed(object())[1] is None


@pytest.mark.parametrize(
    "change",
    [
        lambda lab: node(lab.cluster, "h9", lab.h100),
        lambda lab: Node.objects.filter(name="h1").update(labels={"rack": "r7"}),  # noqa: ARG005
        lambda lab: lab.bio.quotas.all().delete(),
        lambda lab: Installation.objects.update_or_create(id=1, defaults={"aging_every": MINUTE}),  # noqa: ARG005
        lambda lab: Flavor.objects.filter(id=lab.h100.id).update(value_milli=3000),
        lambda lab: ClusterState.objects.filter(id=lab.cluster.id).update(name="renamed"),
        lambda lab: Queue.objects.filter(team=lab.nlp).update(order="fifo"),
    ],
    ids=["new node", "labels", "no quotas", "aging", "value", "cluster", "order"],
)
def test_a_single_change_is_seen(lab: Lab, change: Callable[[Lab], object]) -> None:
    lab.start(lab.submit())
    lab.submit()
    before = sight()

    change(lab)

    assert sight() == cold()
    assert sight().world != before.world


@pytest.mark.parametrize("min_runtime", [0 * MINUTE, HOUR], ids=["recalled at once", "safe for an hour"])
def test_what_has_not_started_is_made_once_and_stays_the_same_object(lab: Lab, min_runtime: timedelta) -> None:
    Queue.objects.update(min_runtime=min_runtime)
    for gpus in ("h100:1", "h100:2"):
        lab.submit(gpus=gpus, shape="gang")
    cycle.turn(NOW)
    before = sight().world.attempts
    lab.submit(gpus="h100:4")

    after = sight(NOW + MINUTE).world.attempts

    assert len(before) == 2
    assert list(map(id, after)) == list(map(id, before))


def test_what_has_not_started_is_safe_for_as_long_as_a_least_run_time_is_asked_for(lab: Lab) -> None:
    lab.submit(shape="gang")
    cycle.turn(NOW)
    (bare,) = sight(NOW + MINUTE).world.attempts
    Queue.objects.update(min_runtime=HOUR)

    (safe,) = sight(NOW + 9 * HOUR).world.attempts

    assert bare.safe_until <= milliseconds(NOW + MINUTE)
    assert safe.safe_until > milliseconds(NOW + 10 * HOUR)


def run(other: BaseDatabaseWrapper, sql: str, *values: int) -> None:
    with other.cursor() as cursor:
        cursor.execute(sql, values)


def test_what_commits_late_is_seen_though_its_number_is_old(lab: Lab, other: BaseDatabaseWrapper) -> None:
    late, early = lab.submit(), lab.submit(lab.art, gpus="h100:4")
    run(other, "UPDATE queues_job SET wait_from = wait_from + interval '1 hour' WHERE id = %s", late.id)
    Job.objects.filter(id=early.id).update(evictions=1)

    before = sight()
    other.commit()
    after = sight()

    assert after == cold()
    assert after != before


def test_what_is_not_committed_is_not_seen_and_what_is_rolled_back_never(lab: Lab, other: BaseDatabaseWrapper) -> None:
    job = lab.submit()
    before = sight()

    run(other, "UPDATE queues_job SET ready = false, state = 'held', not_waiting_since = now() WHERE id = %s", job.id)
    meanwhile = sight()
    other.rollback()

    assert meanwhile == sight() == before == cold()


def test_a_savepoint_of_a_transaction_that_commits_late_is_seen(lab: Lab, other: BaseDatabaseWrapper) -> None:
    job = lab.submit()
    run(other, "SELECT pg_current_xact_id()")
    run(other, "SAVEPOINT inner_one")
    run(other, "UPDATE queues_job SET evictions = 2 WHERE id = %s", job.id)
    run(other, "RELEASE SAVEPOINT inner_one")
    Job.objects.filter(id=lab.submit().id).update(evictions=1)

    sight()
    other.commit()

    assert sight() == cold()


def test_what_a_callers_transaction_sees_is_not_kept(lab: Lab) -> None:
    lab.submit()
    before = sight()

    with transaction.atomic():
        lab.submit(gpus="h100:4")
        inside = sight()
        transaction.set_rollback(True)

    assert len(inside.first) == 2
    assert sight() == before


def test_emptied_tables_are_read_anew(lab: Lab) -> None:
    lab.submit()
    sight()

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE queues_job CASCADE")

    assert sight() == cold()


def test_nothing_is_believed_for_longer_than_notes_are_kept(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    job = lab.submit()
    sight()
    Job.objects.filter(id=job.id).update(evictions=3)
    Change.objects.all().delete()

    believed = sight()
    monkeypatch.setattr(changes, "LONGEST_SECONDS", -1.0)

    assert believed != cold()
    assert sight() == cold()


def read_rows(now: datetime = NOW) -> tuple[int, int]:
    """Return how many statements a snapshot needs, and how many waiting jobs it reads."""
    with CaptureQueriesContext(connection) as queries, snapshot.load(now) as (_, heads):
        pass
    return len(queries), heads.rows


def test_a_snapshot_reads_the_first_jobs_of_classes_that_changed_and_no_others(lab: Lab) -> None:
    for gpus in ("h100:1", "h100:2", "h100:4"):
        for by in (lab.ann, lab.art):
            lab.submit(by, gpus=gpus)
    started = lab.submit(lab.ann, gpus="h100:8")
    cold_rows = read_rows()[1]

    nothing = read_rows()[1]
    lab.submit(lab.ann, gpus="h100:2")
    submitted = read_rows()[1]
    wave = lab.start(started)
    begun = read_rows()[1]
    Task.objects.filter(wave=wave).update(saved_at=NOW)
    saved = read_rows()[1]

    assert (cold_rows, nothing, submitted, begun, saved) == (7, 0, 2, 0, 0)


def test_what_has_not_changed_is_the_same_object(lab: Lab) -> None:
    lab.start(lab.submit(), lab.nodes[0])
    lab.submit()
    other = lab.submit(gpus="h100:4")
    before = sight()

    Job.objects.filter(id=other.id).update(evictions=1)
    Node.objects.filter(id=lab.nodes[1].id).update(cordoned=True)
    after = sight()

    same = {pk for pk, heads in after.first.items() if heads is before.first[pk]}
    assert same == before.first.keys() - {other.job_class_id}
    assert after.world.classes is before.world.classes
    assert after.world.attempts[0] is before.world.attempts[0]
    nodes = zip(before.world.nodes, after.world.nodes, strict=True)
    assert [one is two for one, two in nodes].count(False) == 1


def test_a_warm_snapshot_reads_no_table_whole_however_much_waits_and_runs(lab: Lab) -> None:
    job = lab.submit()
    copy(job, 20_000)
    for number in range(30):
        lab.start(lab.submit(lab.carl, team="cv"), lab.nodes[number % 4])
    sight()
    lab.submit()
    lab.start(lab.submit(lab.carl, team="cv"))
    Node.objects.filter(id=lab.nodes[0].id).update(cordoned=True)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("SET enable_seqscan = off")

    with CaptureQueriesContext(connection) as queries:
        sight()
    growing = ("queues_job", "queues_task", "queues_wave", "queues_change")
    plans = {}
    for query in queries:
        if query["sql"].startswith(("SELECT", "WITH", "\nSELECT", "\nWITH")):
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN " + query["sql"])
                plans[query["sql"]] = "\n".join(row[0] for row in cursor.fetchall())
    with connection.cursor() as cursor:
        cursor.execute("RESET enable_seqscan")

    whole = [sql for sql, plan in plans.items() if any(f"Seq Scan on {table} " in plan for table in growing)]
    assert not whole


def test_whether_jobs_are_held_is_asked_of_an_index_even_after_many_were(lab: Lab) -> None:
    copy(lab.submit(), 2_000)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE queues_job SET state = 'held', ready = false, not_waiting_since = now()")
        cursor.execute("ANALYZE queues_job")
        cursor.execute("UPDATE queues_job SET state = 'queued', ready = true, not_waiting_since = NULL")

        cursor.execute("EXPLAIN " + promises.THERE, {"minute_ago": NOW})
        plan = "\n".join(row[0] for row in cursor.fetchall())

    assert "Seq Scan on queues_job" not in plan


def notes() -> set[tuple[str, int]]:
    found = set(Change.objects.values_list("kind", "of"))
    Change.objects.all().delete()
    return found


def test_the_database_notes_who_changed_whoever_writes(lab: Lab) -> None:
    notes()
    job = lab.submit()
    submitted = notes()
    wave = lab.start(job)
    started = notes()
    Task.objects.filter(wave=wave).update(saved_at=NOW)
    saved = notes()
    Node.objects.filter(id=lab.nodes[0].id).update(cordoned=True)
    node = notes()
    Task.objects.filter(wave=wave).delete()
    deleted = notes()

    assert submitted == {("class", job.job_class_id)}
    assert started == {("wave", wave.id), ("job", job.id), ("class", job.job_class_id)}
    assert saved == deleted == {("wave", wave.id)}
    assert node == {("node", lab.nodes[0].id)}


def test_a_job_that_moves_to_another_class_changes_both(lab: Lab) -> None:
    job, there = lab.submit(), lab.submit(gpus="h100:4")
    notes()

    Job.objects.filter(id=job.id).update(job_class=there.job_class_id)

    assert {of for kind, of in notes() if kind == "class"} == {job.job_class_id, there.job_class_id}


def test_notes_go_when_no_reader_can_need_them(lab: Lab, other: BaseDatabaseWrapper) -> None:
    job = lab.submit()
    noted = Change.objects.latest("xact").xact
    # The other databases of this server have transactions too, which may be older than what was noted here.
    until(lambda: changes.horizon() > noted)
    run(other, "UPDATE queues_job SET evictions = 2 WHERE id = %s", job.id)
    clean_up(NOW)
    lab.submit()
    other.commit()

    early, late = NOW + 59 * MINUTE, NOW + 61 * MINUTE
    clean_up(early)
    kept = set(Change.objects.values_list("kind", flat=True))
    clean_up(late)
    left = set(Change.objects.exclude(kind="mark").values_list("kind", flat=True))

    # What had ended when the first mark was made is gone; what was open then, or came later, is not.
    assert kept == {"class", "job", "node", "mark"}
    assert left == {"class", "job"}
    assert Change.objects.filter(kind="job", of=job.id).exists()


def test_a_digest_is_the_same_in_another_process(lab: Lab) -> None:
    lab.start(lab.submit())
    lab.submit(gpus="h100:4")
    sight()
    lab.submit(lab.carl, team="cv")

    assert sight().digest == cold().digest
