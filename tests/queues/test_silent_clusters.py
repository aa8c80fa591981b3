"""What a cluster that does not answer means for the loop, its outboxes and pages."""

from datetime import timedelta

import pytest

from queues import queries, release, removals, snapshot, tails, untold
from queues.admission.world import NodeState
from queues.models import ClusterState, Eviction, KeptLog, Task, Wave
from queues.models.wave import Wish
from queues.nodes import count_flavors
from tests.queues.lab import NOW, Lab, node
from tests.queues.test_views_pages import browser

SECOND = timedelta(seconds=1)
LATER = NOW + timedelta(minutes=1)


def silent(lab: Lab, *, away: bool = True) -> ClusterState:
    """Add a cluster that does not answer, with a node like those of the other."""
    west = ClusterState.objects.create(name="west", unreachable_since=NOW, away=away)
    node(west, "w0", lab.h100)
    return west


def test_its_nodes_are_lost_for_the_rules_once_it_is_away(lab: Lab) -> None:
    west = silent(lab, away=False)

    def state() -> NodeState:
        with snapshot.load(NOW) as seen:
            return next(row.state for row in seen.world.nodes if row.name == "w0")

    assert state() is NodeState.READY
    ClusterState.objects.filter(id=west.id).update(away=True)
    assert state() is NodeState.LOST


def test_its_units_are_installed_but_not_usable_and_those_of_a_retired_one_neither(lab: Lab) -> None:
    west = silent(lab)

    count_flavors()
    lab.h100.refresh_from_db()
    assert (lab.h100.installed, lab.h100.usable) == (40, 32)

    ClusterState.objects.filter(id=west.id).update(retired_at=NOW)
    count_flavors()
    lab.h100.refresh_from_db()
    assert (lab.h100.installed, lab.h100.usable) == (32, 32)


def test_nothing_is_told_to_it_and_the_others_are_told(lab: Lab) -> None:
    west = silent(lab, away=False)
    waves = [lab.start(lab.submit(shape="independent", gpus="h100:1"), lab.nodes[0]) for _ in range(2)]
    Wave.objects.filter(id=waves[0].id).update(cluster=west)
    for wave in waves:
        task = wave.tasks.get()
        Task.objects.filter(id=task.id).update(pod="pod")
        KeptLog.objects.create(task=task, due_at=NOW, until=NOW)
        Eviction.objects.create(
            wave=wave,
            claimant=wave.job,
            claim=1,
            rule="guarantee",
            tasks=1,
            units=1,
            lost_unit_seconds=0,
            grace=SECOND,
            at=NOW,
            due_at=NOW,
        )
    Wave.objects.update(wish=Wish.STOP, wish_due_at=NOW)

    assert [wave.id for wave in release.take(NOW, NOW + SECOND)] == [waves[1].id]
    assert [row.task.wave_id for row in tails.take(NOW, NOW + SECOND)] == [waves[1].id]
    assert [row.wave_id for row in removals.take(NOW, NOW + SECOND)] == [waves[1].id]


def test_a_job_there_is_unknown_and_not_failed(lab: Lab) -> None:
    west = silent(lab, away=False)
    job, other = lab.submit(), lab.submit()
    wave = lab.start(job)
    lab.start(other)
    Wave.objects.filter(id=wave.id).update(cluster=west)

    reason = queries.job(lab.ann, job.uid, now=NOW).row.reason

    assert reason is not None
    assert (reason.code, reason.since, reason.details) == ("CLUSTER_UNREACHABLE", NOW, {"cluster": "west"})
    assert queries.job(lab.ann, other.uid, now=NOW).row.reason is None


def test_its_nodes_are_shown_as_unknown(lab: Lab) -> None:
    silent(lab)

    row = queries.node(lab.ann, "w0").row

    assert (row.state, row.usable, row.free) == ("unknown", False, 0)
    assert [found.name for found in queries.nodes(lab.ann, state="unknown")] == ["w0"]
    assert "w0" not in [found.name for found in queries.nodes(lab.ann, state="ready")]


def test_why_a_cluster_does_not_answer_is_told_to_those_who_run_it(lab: Lab) -> None:
    ClusterState.objects.update(unreachable_since=NOW, error="kubeconfig /a: there is no such file")

    pages = [browser(by).get("/nodes").content.decode() for by in (lab.root, lab.ann)]
    told = [row.error for by in (lab.root, lab.ann) for row in queries.clusters(by)]

    assert told == ["kubeconfig /a: there is no such file", ""]
    assert ["there is no such file" in page for page in pages] == [True, False]
    assert all("1 cluster" in page for page in pages)


def untold_to(west: ClusterState, wave: Wave, **changes: object) -> Wave:
    """Make of a wave one that was admitted to a cluster, and told it or not."""
    started = {"launched_at": None, "seen_at": None, "wish_due_at": NOW, **changes}
    Wave.objects.filter(id=wave.id).update(cluster=west, **started)
    return wave


def test_what_a_cluster_that_is_away_was_not_told_of_queues_again_at_its_old_place_and_at_no_cost(lab: Lab) -> None:
    west = silent(lab, away=False)
    gang = lab.submit(shape="gang", tasks=2)
    wave = untold_to(west, lab.start(gang, running=False))

    early = untold.take_back(now=LATER)
    ClusterState.objects.filter(id=west.id).update(away=True)
    moved, once_more = untold.take_back(now=LATER), untold.take_back(now=LATER)

    gang.refresh_from_db()
    wave.refresh_from_db()
    assert (early, moved, once_more) == (set(), {gang.id}, set())
    assert (gang.state, gang.attempt, gang.waiting_tasks, gang.ready) == ("queued", 2, 1, True)
    assert (gang.failures, gang.start_failures, gang.interruptions, gang.backoff_until) == (0, 0, 0, None)
    assert (wave.state, wave.outcome, wave.wish_due_at) == ("ended", "CLUSTER_UNREACHABLE", None)
    assert set(wave.tasks.values_list("state", "reason")) == {("stopped", "CLUSTER_UNREACHABLE")}
    assert gang.events.get(type="interrupted").summary == "Cluster west is away and was not told of it"


def test_of_an_independent_job_only_what_was_not_told_waits_again_while_the_rest_stays_unknown(lab: Lab) -> None:
    west = silent(lab)
    job = lab.submit(shape="independent", tasks=2, gpus="h100:1")
    untold_to(west, lab.start(job, running=False))
    told = untold_to(west, lab.start(job), launched_at=NOW, wish_due_at=None)

    untold.take_back(now=LATER)

    job.refresh_from_db()
    assert (job.state, job.waiting_tasks) == ("running", 2)
    assert set(told.tasks.values_list("state", flat=True)) == {"running"}


def test_surplus_that_was_not_told_goes_and_its_job_runs_on(lab: Lab) -> None:
    west = silent(lab)
    job = lab.submit(shape="elastic", tasks={"min": 1, "max": 3}, gpus="h100:1")
    base = lab.start(job)
    surplus = untold_to(west, lab.grow(base, lab.nodes[1], running=False))

    untold.take_back(now=LATER)

    job.refresh_from_db()
    surplus.refresh_from_db()
    assert (job.state, job.waiting_tasks, surplus.state) == ("running", 0, "ended")
    assert job.events.filter(type="shrank").exists()


@pytest.mark.parametrize("tried", [{"wish_tries": 1}, {"launching_until": NOW}, {"launched_at": NOW}, {"seen_at": NOW}])
def test_what_may_have_reached_a_cluster_that_is_away_stays_until_it_answers(
    lab: Lab, tried: dict[str, object]
) -> None:
    job = lab.submit()
    wave = untold_to(silent(lab), lab.start(job, running=False), **tried)

    assert untold.take_back(now=LATER) == set()

    job.refresh_from_db()
    wave.refresh_from_db()
    assert (job.state, wave.state) == ("admitted", "admitted")
