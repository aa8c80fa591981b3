"""What goes well goes together: the same rows as one by one, in a fixed number of statements."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from clusters.port import Change, PodPhase
from queues import smooth
from queues.models import Job, JobEvent, Task, Wave
from queues.nodes import observe
from queues.reconcile import follow
from queues.sight import Sight, look
from queues.states import JobState
from queues.steps import evict
from tests.queues.cluster import FAILED, PENDING, RUNNING, SUCCEEDED, Cluster, pod_of
from tests.queues.lab import Lab

JOB = (
    *("state", "state_since", "next_state", "started_at", "ended_at", "ran_for", "waiting_tasks", "ready", "attempt"),
    *("wait_from", "not_waiting_since", "backoff_until", "reason_code", "reason_text"),
)
WAVE = ("state", "seen_at", "started_at", "ended_at", "deadline_at", "outcome", "wish", "wish_due_at", "wish_tries")
TASK = ("state", "node_id", "bound", "started_at", "ended_at", "exit_code", "reason", "message")
EVENT = ("at", "type", "summary", "details")


@pytest.fixture
def cluster(lab: Lab) -> Cluster:
    cluster = Cluster(lab)
    cluster.look()
    return cluster


def admitted(lab: Lab, *nodes: int, **spec: Any) -> Wave:  # noqa: ANN401  fields of a spec
    return lab.start(lab.submit(**spec), *(lab.nodes[node] for node in nodes), running=False)


def rows() -> dict[str, list[tuple[Any, ...]]]:
    return {
        "jobs": list(Job.objects.order_by("id").values_list(*JOB)),
        "waves": list(Wave.objects.order_by("id").values_list(*WAVE)),
        "tasks": list(Task.objects.order_by("id").values_list(*TASK)),
        "events": list(JobEvent.objects.order_by("job_id", "id").values_list(*EVENT)),
    }


class Undone(Exception):
    """Ends a try of which nothing shall stay."""


@pytest.mark.parametrize(
    "phases",
    [
        [(PENDING,)],
        [(PENDING, RUNNING), (RUNNING,), (SUCCEEDED,)],
        [(SUCCEEDED,)],
        [(RUNNING,), (SUCCEEDED, RUNNING), (SUCCEEDED,)],
        [(RUNNING,), (SUCCEEDED, FAILED)],
    ],
)
@pytest.mark.parametrize("shape", ["gang", "independent"])
def test_what_goes_well_has_the_same_rows_together_as_one_by_one(
    lab: Lab, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, shape: str, phases: list[tuple[PodPhase, ...]]
) -> None:
    def play(*, together: bool) -> dict[str, list[tuple[Any, ...]]]:
        found: dict[str, list[tuple[Any, ...]]] = {}
        with monkeypatch.context() as patch, suppress(Undone), transaction.atomic():
            if not together:
                patch.setattr(smooth, "takes", lambda _: False)
            waves = [admitted(lab, 0, 1, shape=shape, tasks=2, time_limit="2h"), admitted(lab, 2, gpus="h100:2")]
            cluster.pods, cluster.objects = {}, {}
            for now in phases:
                for wave in waves:
                    cluster.run(wave, *now)
                cluster.look()
            found = rows()
            raise Undone
        return found

    together = play(together=True)
    alone = play(together=False)

    assert together == alone
    assert len(together["tasks"]) == 3


@pytest.mark.parametrize("told", [True, False], ids=["stopped", "stop not told yet"])
@pytest.mark.parametrize("gone", [(0, 1), (1,)], ids=["whole", "one pod of two"])
def test_gangs_that_leave_have_the_same_rows_together_as_one_by_one(
    lab: Lab, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, told: bool, gone: tuple[int, ...]
) -> None:
    goals: list[tuple[JobState, dict[str, Any]]] = [
        (JobState.CANCELLED, {}),
        (JobState.QUEUED, {"reason_code": "EVICTED", "reason_text": "Makes room for another job"}),
        (JobState.QUEUED, {"reason_code": "EVICTED", "reason_text": "Makes room for another job"}),
        (JobState.QUEUED, {"backoff_until": cluster.now + timedelta(hours=1), "reason_code": "K8S_QUOTA"}),
        (JobState.HELD, {}),
        (JobState.FAILED, {"reason_code": "TIMED_OUT", "reason_text": "Ran longer than its time limit"}),
    ]

    def play(*, together: bool) -> dict[str, list[tuple[Any, ...]]]:
        found: dict[str, list[tuple[Any, ...]]] = {}
        with monkeypatch.context() as patch, suppress(Undone), transaction.atomic():
            if not together:
                patch.setattr(smooth, "takes", lambda _: False)
            cluster.pods, cluster.objects = {}, {}
            for goal, changes in goals:
                wave = admitted(lab, 0, 1, shape="gang", tasks=2, gpus="h100:1")
                cluster.run(wave, RUNNING)
                cluster.look()
                evict(wave.job_id, JobState.RUNNING, goal, now=cluster.now, event="x", summary="x", **changes)
            if told:
                Wave.objects.update(wish_due_at=None, stopped_at=cluster.now)
            cluster.objects = {}
            cluster.pods = {uid: pod for uid, pod in cluster.pods.items() if pod.index not in gone}
            cluster.look()
            found = rows()
            raise Undone
        return found

    together, alone = play(together=True), play(together=False)

    assert together == alone
    left = ["cancelled", "queued", "queued", "queued", "held", "failed"]
    assert [row[0] for row in together["jobs"]] == (left if len(gone) == 2 else ["evicting"] * 6)
    assert {row[0] for row in together["waves"]} == {"ended" if len(gone) == 2 else "evicting"}


def test_gangs_that_leave_cost_the_same_number_of_statements_for_many_as_for_few(lab: Lab, cluster: Cluster) -> None:
    def statements(count: int) -> int:
        waves = [admitted(lab, 0, shape="gang", tasks=1) for _ in range(count)]
        for wave in waves:
            cluster.run(wave, RUNNING)
        cluster.look()
        for wave in waves:
            evict(wave.job_id, JobState.RUNNING, JobState.QUEUED, now=cluster.now, event="x", summary="x")
            cluster.remove(wave)
        with CaptureQueriesContext(connection) as said:
            cluster.look()
        return len(said)

    few, many = statements(2), statements(8)

    assert many == few
    assert Job.objects.filter(state="queued", attempt=2).count() == 10


def test_a_pass_costs_the_same_number_of_statements_for_many_as_for_few(lab: Lab, cluster: Cluster) -> None:
    def statements(count: int, phase: PodPhase) -> int:
        waves = list(Wave.objects.filter(ended_at=None).order_by("id")) or [admitted(lab, 0) for _ in range(count)]
        view = cluster.view()
        for wave in waves:
            view.take(Change(seen=pod_of(wave.tasks.get(), phase)))
        with CaptureQueriesContext(connection) as said:
            follow(lab.cluster.id, view, now=cluster.now)
        return len(said)

    few = [statements(2, phase) for phase in (PENDING, RUNNING, SUCCEEDED)]
    many = [statements(20, phase) for phase in (PENDING, RUNNING, SUCCEEDED)]

    assert many == few
    assert Job.objects.filter(state="succeeded").count() == 22


def test_a_job_that_was_told_to_go_meanwhile_is_not_moved_on(lab: Lab, cluster: Cluster) -> None:
    wave = admitted(lab, 0)
    cluster.run(wave, RUNNING)
    wave.job.refresh_from_db()
    view = cluster.view()
    places = observe(lab.cluster.id, view, now=cluster.now)

    def seen(wave: Wave, tasks: Sequence[Task]) -> Sight:
        return look(wave, tasks, view, places, now=cluster.now)

    Wave.objects.update(state="evicting")

    moved = smooth.move_all({wave.id: wave.job_id}, seen, now=cluster.now)

    assert [sight.wave.id for sight in moved.left] == [wave.id]
    assert (moved.jobs, Task.objects.get().state) == (set(), "pending")


def test_pods_of_ours_that_come_and_go_need_no_count_of_their_node(lab: Lab, cluster: Cluster) -> None:
    wave = admitted(lab, 0)
    cluster.run(wave, PENDING)
    cluster.look()
    view = cluster.view()
    asked = []
    for phase in (RUNNING, SUCCEEDED):
        view.take(Change(seen=pod_of(wave.tasks.get(), phase)))
        with CaptureQueriesContext(connection) as said:
            follow(lab.cluster.id, view, now=cluster.now)
        view.settle()
        asked += [
            row["sql"] for row in said.captured_queries if "queues_node" in row["sql"] and "outside" in row["sql"]
        ]

    assert asked == []


def test_a_pod_of_ours_whose_task_no_longer_holds_counts_as_anothers_until_it_is_gone(
    lab: Lab, cluster: Cluster
) -> None:
    wave = admitted(lab, 0)
    cluster.run(wave, SUCCEEDED)
    cluster.look()
    view = cluster.view()
    seen = []
    for change in (
        Change(seen=pod_of(wave.tasks.get(), RUNNING)),
        Change(seen=pod_of(wave.tasks.get(), RUNNING), deleted=True),
    ):
        view.take(change)
        follow(lab.cluster.id, view, now=cluster.now)
        view.settle()
        lab.nodes[0].refresh_from_db()
        seen.append(lab.nodes[0].outside_units)

    assert seen == [1, 0]
