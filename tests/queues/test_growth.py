"""Elastic jobs as rows: what the rules see of them, how they grow and shrink, and how they end."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from clusters.port import QuotaRefused, Refused
from queues import services, snapshot, timers
from queues.admission.outcome import Eviction, Growth, Outcome, Stalled
from queues.admission.reasons import Code
from queues.admission.world import Attempt, Placed, World
from queues.apply import Applied, apply
from queues.endings import settle
from queues.launches import launches_of
from queues.models import Eviction as StoredEviction
from queues.models import Job, Node, Task, Wave
from queues.waiting import milliseconds
from tenants.models import AuditEntry, Installation
from tests.queues.cluster import FAILED, PENDING, RUNNING, SUCCEEDED, Cluster, object_of, pod_of
from tests.queues.lab import MINUTE, NOW, Lab
from tests.queues.test_release import Desk

LATER = NOW + 60 * MINUTE


def elastic(lab: Lab, *, least: int = 1, most: int = 6, gpus: str = "h100:2", running: bool = True) -> Wave:
    """Return the wave of an elastic job's minimum, on the first nodes."""
    job = lab.submit(shape="elastic", tasks={"min": least, "max": most}, gpus=gpus)
    return lab.start(job, running=running)


def world(minute: int = 60) -> World:
    with snapshot.load(NOW + minute * MINUTE) as seen:
        return seen.world


def attempt(wave: Wave, minute: int = 60) -> Attempt:
    return next(row for row in world(minute).attempts if row.id == wave.id)


def put(seen: World | None = None, **decided: Any) -> Applied:  # noqa: ANN401  fields of Outcome
    return apply(Outcome(**decided), seen or world(), now=LATER, digest="d")


def on(node: Node, *, tasks: int = 1) -> Placed:
    return Placed(group=0, node=node.id, tasks=tasks)


def back(wave: Wave, claimant: Job, *nodes: Node, claim: int = 1) -> Eviction:
    """Return that surplus on these nodes goes for a claimant."""
    placed = tuple(on(node) for node in nodes)
    return Eviction(attempt=wave.id, placed=placed, claim=claim, job=claimant.id, surplus=True)


def states(job: Job) -> list[tuple[int, str]]:
    return list(Task.objects.filter(wave__job=job).order_by("index", "id").values_list("index", "state"))


def told(job: Job, kind: str) -> list[str]:
    return list(job.events.filter(type=kind).order_by("id").values_list("summary", flat=True))


# --- what the rules see


def test_minimum_and_surplus_are_one_attempt_with_the_bounds_that_were_asked_for(lab: Lab) -> None:
    base = elastic(lab, least=2)
    lab.grow(base, lab.nodes[2])
    lab.grow(base, lab.nodes[0], lab.nodes[2])

    (seen,) = world().attempts

    assert (seen.id, seen.groups[0].tasks, seen.groups[0].most) == (base.id, 2, 6)
    assert seen.placed == (on(lab.nodes[0]), on(lab.nodes[1]))
    assert seen.surplus == (on(lab.nodes[2]), on(lab.nodes[0]), on(lab.nodes[2]))
    assert seen.grows_from == 0


def test_surplus_that_leaves_is_an_attempt_of_its_own_and_its_job_does_not_grow(lab: Lab) -> None:
    base = elastic(lab)
    first, _ = lab.grow(base, lab.nodes[1]), lab.grow(base, lab.nodes[2])
    put(evictions=(back(base, lab.submit(), lab.nodes[1]),))
    Wave.objects.filter(id=base.id).update(grows_from=None)

    seen = {row.id: row for row in world().attempts}

    assert (seen[base.id].surplus, seen[base.id].grows_from) == ((on(lab.nodes[2]),), milliseconds(LATER) + 1)
    leaves = seen[-2 * first.id - 1]
    assert (leaves.leaving, leaves.claimed, leaves.placed, leaves.surplus) == (True, True, (on(lab.nodes[1]),), ())


def test_a_job_grows_neither_before_its_minimum_runs_nor_when_that_ends(lab: Lab) -> None:
    starts, ends = elastic(lab, least=2), elastic(lab, least=2)
    Task.objects.filter(wave=starts, index=1).update(state="pending", started_at=None)
    Task.objects.filter(wave=ends, index=1).update(state="succeeded", ended_at=NOW)

    assert attempt(starts).grows_from == attempt(ends).grows_from == milliseconds(LATER) + 1


def test_what_a_job_requires_as_a_whole_binds_the_surplus_of_each_group(lab: Lab) -> None:
    groups = [{"name": "a", "tasks": {"max": 3}}, {"name": "b", "topology": {"required": "node"}}]
    job = lab.submit(shape="elastic", gpus="h100:1", groups=groups, topology={"required": "node"})
    base = lab.start(job)

    first, second = attempt(base).groups

    assert (first.topology, second.topology) == (second.topology, second.topology)
    assert first.topology is not None


# --- growth


def test_growth_is_a_wave_beside_the_minimum_and_its_tasks_get_the_lowest_free_indices(lab: Lab) -> None:
    base = elastic(lab, least=2)
    lab.grow(base, lab.nodes[2])

    applied = put(growth=(Growth(attempt=base.id, placed=(on(lab.nodes[3]), on(lab.nodes[3]))),))

    wave = Wave.objects.latest("number")
    tasks = list(wave.tasks.order_by("id").values_list("index", "pod_index", "node__name", "units"))
    assert (wave.base, wave.number, wave.attempt, wave.state, wave.wish) == (base, 3, 1, "admitted", "launch")
    assert (wave.wish_due_at, wave.deadline_at) == (LATER, LATER + base.job.queue.start_limit)
    assert tasks == [(3, 0, "h3", 2), (4, 1, "h3", 2)]
    assert applied.moved == (base.job_id,)
    assert told(base.job, "grew") == [
        "Grew by 2 tasks to 5 of at most 6, on 1 node; whoever needs these GPUs gets them back"
    ]
    assert applied.decision.details["grown"] == 1


def test_an_index_that_has_ended_is_given_again(lab: Lab) -> None:
    base = elastic(lab)
    gone = lab.grow(base, lab.nodes[1])
    lab.grow(base, lab.nodes[2])
    Task.objects.filter(wave=gone).update(state="stopped", ended_at=NOW)

    put(growth=(Growth(attempt=base.id, placed=(on(lab.nodes[3]),)),))

    assert states(base.job) == [(0, "running"), (1, "stopped"), (1, "pending"), (2, "running")]


def test_a_job_that_was_cancelled_meanwhile_does_not_grow(lab: Lab) -> None:
    base = elastic(lab)
    seen = world()
    services.cancel(uid=base.job.uid, by=lab.ann, now=LATER)

    put(seen, growth=(Growth(attempt=base.id, placed=(on(lab.nodes[3]),)),))

    assert Wave.objects.count() == 1


def test_what_stops_a_job_from_growing_is_kept_until_it_grows(lab: Lab) -> None:
    base = elastic(lab)

    put(stalled=(Stalled(attempt=base.id, code=Code.NO_FREE_CAPACITY),))
    before = Wave.objects.get().stalled
    put()

    assert (before, Wave.objects.get().stalled) == ("NO_FREE_CAPACITY", "")


# --- shrinking


def test_the_newest_surplus_on_a_node_goes_and_is_no_eviction(lab: Lab) -> None:
    base = elastic(lab)
    old, new = lab.grow(base, lab.nodes[1], lab.nodes[1]), lab.grow(base, lab.nodes[1], lab.nodes[2])
    owner = lab.submit(lab.carl, team="cv", name="owner")
    Installation.objects.create(id=1, aging_every=timedelta(hours=1), elastic_pause=timedelta(minutes=7))

    applied = put(evictions=(back(base, owner, lab.nodes[1], lab.nodes[1]),))

    base.refresh_from_db()
    base.job.refresh_from_db()
    assert states(base.job) == [(0, "running"), (1, "running"), (2, "leaving"), (3, "leaving"), (4, "running")]
    assert (base.state, base.grows_from, base.job.state, base.job.evictions) == (
        "running",
        LATER + 7 * MINUTE,
        "running",
        0,
    )
    assert set(Task.objects.filter(state="leaving").values_list("reason", "message")) == {
        ("SHRUNK", "Surplus that goes back for another job")
    }
    rows = StoredEviction.objects.order_by("wave").values_list("wave", "surplus", "tasks", "due_at")
    assert list(rows) == [(old.id, True, 1, LATER), (new.id, True, 1, LATER)]
    assert told(base.job, "shrank") == [
        "Gives 2 surplus tasks (4 GPUs) back for another job; runs on with 3, minimum 1"
    ]
    assert applied.decision.details == {"dropped": 0, "shrunk": 1}
    assert not AuditEntry.objects.filter(action="job.evict").exists()


def test_a_surplus_wave_of_which_nothing_stays_is_stopped_whole(lab: Lab) -> None:
    base = elastic(lab)
    wave = lab.grow(base, lab.nodes[1], lab.nodes[2])
    one, two = lab.submit(), lab.submit()

    put(evictions=(back(base, one, lab.nodes[1]), back(base, two, lab.nodes[2], claim=2)))

    wave.refresh_from_db()
    assert (wave.state, wave.wish, wave.wish_due_at) == ("evicting", "stop", LATER)
    assert list(StoredEviction.objects.values_list("due_at", flat=True)) == [None, None]


def test_surplus_that_has_ended_meanwhile_need_not_go(lab: Lab) -> None:
    base = elastic(lab)
    wave = lab.grow(base, lab.nodes[1])
    seen = world()
    Task.objects.filter(wave=wave).update(state="succeeded", ended_at=NOW)

    put(seen, evictions=(back(base, lab.submit(), lab.nodes[1]),))

    assert not StoredEviction.objects.exists()
    assert told(base.job, "shrank") == []


def test_when_the_minimum_goes_all_surplus_goes_with_it(lab: Lab) -> None:
    base = elastic(lab)
    seen_wave = lab.grow(base, lab.nodes[1])
    seen = world()
    unseen = lab.grow(base, lab.nodes[2])
    owner = lab.submit(lab.carl, team="cv", name="owner")
    whole = replace(back(base, owner, lab.nodes[0]), surplus=False)

    put(seen, evictions=(back(base, owner, lab.nodes[1]), whole))

    base.job.refresh_from_db()
    waves = Wave.objects.filter(id__in=[base.id, seen_wave.id, unseen.id])
    assert set(waves.values_list("state", "wish")) == {("evicting", "stop")}
    assert (base.job.state, base.job.next_state, base.job.evictions) == ("evicting", "queued", 1)
    assert {state for _, state in states(base.job)} == {"leaving"}
    assert told(base.job, "shrank") == []
    assert told(base.job, "evicted")[0].startswith("Reclaimed for another job: its guarantee was lent")


# --- what the cluster shows


@pytest.fixture
def cluster(lab: Lab) -> Cluster:
    return Cluster(lab)


def test_a_job_is_running_when_its_minimum_runs_and_not_before(lab: Lab, cluster: Cluster) -> None:
    base = elastic(lab, running=False)
    surplus = lab.grow(base, lab.nodes[1], running=False)
    cluster.run(base, PENDING)
    cluster.run(surplus, RUNNING)
    cluster.look()
    base.job.refresh_from_db()
    early = base.job.state

    cluster.run(base, RUNNING)
    cluster.look()

    base.job.refresh_from_db()
    surplus.refresh_from_db()
    assert (early, base.job.state, surplus.state) == ("admitted", "running", "running")


def test_surplus_that_fails_leaves_the_job_running_and_growth_pauses(lab: Lab, cluster: Cluster) -> None:
    base = elastic(lab)
    surplus = lab.grow(base, lab.nodes[1], lab.nodes[2])
    cluster.run(base, RUNNING)
    cluster.run(surplus, FAILED, RUNNING)

    cluster.look()
    cluster.look()

    base.refresh_from_db()
    base.job.refresh_from_db()
    assert (base.job.state, base.job.failures, base.job.attempt) == ("running", 0, 1)
    assert base.grows_from == cluster.now + timedelta(minutes=10)
    assert told(base.job, "shrank") == ["1 surplus task ended: Task 1 failed with exit code 1; runs on without"]
    assert Wave.objects.get(id=surplus.id).state == "running"


def test_surplus_that_has_done_its_work_is_no_news(lab: Lab, cluster: Cluster) -> None:
    base = elastic(lab)
    surplus = lab.grow(base, lab.nodes[1])
    cluster.run(base, RUNNING)
    cluster.run(surplus, SUCCEEDED)

    cluster.look()

    base.refresh_from_db()
    assert (base.grows_from, told(base.job, "shrank")) == (cluster.now + timedelta(minutes=10), [])
    assert Wave.objects.get(id=surplus.id).outcome == "succeeded"


def test_a_lost_node_takes_only_surplus_along_where_no_task_of_the_minimum_was(lab: Lab, cluster: Cluster) -> None:
    base = elastic(lab)
    surplus = lab.grow(base, lab.nodes[1])
    cluster.run(base, RUNNING)
    cluster.run(surplus, RUNNING)
    cluster.look()

    cluster.nodes["h1"] = replace(cluster.nodes["h1"], ready=False)
    cluster.look()
    cluster.later(minutes=10)
    cluster.look()

    base.job.refresh_from_db()
    assert base.job.state == "running"
    assert told(base.job, "shrank") == ["1 surplus task ended: Node h1 was lost; runs on without"]


def test_a_failed_task_of_the_minimum_ends_the_attempt_with_its_surplus(lab: Lab, cluster: Cluster) -> None:
    base = elastic(lab)
    surplus = lab.grow(base, lab.nodes[1])
    cluster.run(base, FAILED)
    cluster.run(surplus, RUNNING)

    cluster.look()
    leaving = Job.objects.get(id=base.job_id)
    cluster.remove(surplus)
    cluster.later(minutes=1)
    Wave.objects.filter(id=surplus.id).update(stopped_at=cluster.now, wish_due_at=None)
    cluster.later(minutes=1)
    cluster.look()

    base.job.refresh_from_db()
    assert (leaving.state, leaving.next_state) == ("evicting", "failed")
    assert (base.job.state, base.job.reason_code) == ("failed", "TASK_FAILED")


def test_a_job_has_succeeded_with_its_minimum_and_its_surplus_is_stopped(lab: Lab, cluster: Cluster) -> None:
    base = elastic(lab, least=2)
    surplus = lab.grow(base, lab.nodes[2])
    cluster.run(surplus, RUNNING)
    cluster.run(base, SUCCEEDED, RUNNING)
    cluster.look()
    half = Job.objects.get(id=base.job_id).state
    cluster.run(base, SUCCEEDED)

    cluster.look()
    leaving = Job.objects.get(id=base.job_id)
    wish = Wave.objects.get(id=surplus.id).wish
    cluster.run(surplus, FAILED)
    cluster.look()
    settle(base.job_id, now=cluster.now)

    base.job.refresh_from_db()
    assert (half, leaving.state, leaving.next_state, wish) == ("running", "evicting", "succeeded", "stop")
    assert (base.job.state, base.job.reason_code, base.job.failures) == ("succeeded", "", 0)
    assert told(base.job, "succeeded") == ["Succeeded"]


def test_surplus_that_does_not_start_in_time_goes_alone(lab: Lab) -> None:
    base = elastic(lab)
    surplus = lab.grow(base, lab.nodes[1], now=NOW, running=False)
    Wave.objects.filter(id=surplus.id).update(deadline_at=NOW + base.job.queue.start_limit, seen_at=NOW)

    timers.fire(NOW + 120 * MINUTE)

    base.refresh_from_db()
    base.job.refresh_from_db()
    assert (base.job.state, base.job.start_failures, base.job.backoff_until) == ("running", 0, None)
    assert (Wave.objects.get(id=surplus.id).state, base.grows_from) == ("evicting", NOW + 130 * MINUTE)
    assert told(base.job, "shrank")[0].startswith("Surplus could not start: Did not start within")


def test_surplus_of_which_a_part_does_not_start_in_time_goes_whole_and_the_job_runs_on(lab: Lab) -> None:
    base = elastic(lab)
    surplus = lab.grow(base, lab.nodes[1], lab.nodes[2], now=NOW)
    late = surplus.tasks.order_by("id")[0]
    Task.objects.filter(id=late.id).update(state="pending", started_at=None)
    Wave.objects.filter(id=surplus.id).update(deadline_at=NOW + base.job.queue.start_limit, seen_at=NOW)

    timers.fire(NOW + 120 * MINUTE)

    base.job.refresh_from_db()
    assert (base.job.state, Wave.objects.get(id=surplus.id).state) == ("running", "evicting")
    assert told(base.job, "shrank")[0].startswith("Surplus could not start: Did not start within")


def test_surplus_of_which_a_quota_refuses_a_part_goes_whole_and_the_job_runs_on(lab: Lab, cluster: Cluster) -> None:
    base = elastic(lab)
    surplus = lab.grow(base, lab.nodes[1], lab.nodes[2], running=False)
    cluster.run(base, RUNNING)
    cluster.run(surplus, RUNNING)
    last = surplus.tasks.select_related("node", "wave").order_by("-id")[0]
    del cluster.pods[pod_of(last, RUNNING).uid]
    cluster.look()
    begun = Wave.objects.get(id=surplus.id).state
    cluster.objects[str(surplus.uid)] = object_of(surplus, refusal="exceeded quota: theirs")

    cluster.look()
    cluster.look()

    base.job.refresh_from_db()
    assert (begun, Wave.objects.get(id=surplus.id).state) == ("running", "evicting")
    assert (base.job.state, base.job.reason_code) == ("running", "")
    assert told(base.job, "shrank") == ["Surplus could not start: exceeded quota: theirs; runs on without"]


# --- what the cluster is told


@pytest.mark.parametrize("error", [Refused("no such class"), QuotaRefused("exceeded quota")])
def test_surplus_that_is_refused_leaves_the_job_running(lab: Lab, error: Exception) -> None:
    desk = Desk(lab)
    base = elastic(lab)
    surplus = lab.grow(base, lab.nodes[1], running=False)
    Wave.objects.filter(id=surplus.id).update(launched_at=None, wish="launch", wish_due_at=NOW)
    desk.cluster.error = error

    desk.release()

    base.job.refresh_from_db()
    assert (base.job.state, base.job.reason_code) == ("running", "")
    assert Wave.objects.get(id=surplus.id).state == "evicting"


def test_surplus_is_launched_as_tasks_that_end_alone_around_the_first_wave(lab: Lab) -> None:
    base = elastic(lab, least=2)
    surplus = lab.grow(base, lab.nodes[2], lab.nodes[3])
    waves = list(Wave.objects.select_related("base", "job__team", "job__queue", "job__priority_class"))

    launches = launches_of(waves)

    first, more = launches[base.id], launches[surplus.id]
    assert (first.gang, more.gang, first.task_count, more.task_count) == (True, False, 6, 6)
    assert first.elastic == more.elastic
    assert more.elastic is not None
    assert (more.elastic.least, more.elastic.most, more.elastic.first) == (2, 6, base.number)
    assert [(task.index, task.task) for task in more.groups[0].tasks] == [(0, 2), (1, 3)]
