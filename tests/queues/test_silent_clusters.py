"""What a cluster that does not answer means for the loop, its outboxes and pages."""

from datetime import timedelta

from queues import queries, release, removals, snapshot, tails
from queues.admission.world import NodeState
from queues.models import ClusterState, Eviction, KeptLog, Task, Wave
from queues.models.wave import Wish
from queues.nodes import count_flavors
from tests.queues.lab import NOW, Lab, node
from tests.queues.test_views_pages import browser

SECOND = timedelta(seconds=1)


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
