from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from clusters.port import PodPhase, PodSeen, WaveSeen
from queues import managed
from queues.progress import TaskNow, with_pod, without_node, without_pod
from queues.states import TaskState
from tests.queues.lab import NOW

SECOND = timedelta(seconds=1)
WAITING = TaskNow(state=TaskState.PENDING, node_id=1)
RUNNING = TaskNow(state=TaskState.RUNNING, node_id=1, bound=True, pod="p", pod_uid="u", started_at=NOW)
LEAVING = replace(RUNNING, state=TaskState.LEAVING)
POD = PodSeen(
    namespace="n",
    name="p",
    uid="u",
    node="h0",
    phase=PodPhase.RUNNING,
    leaving=False,
    gated=False,
    cpu=0,
    memory=0,
    counted={},
    started_at=NOW + SECOND,
)


def seen(task: TaskNow, **changes: object) -> TaskNow:
    pod = replace(POD, **changes)  # type: ignore[arg-type]
    return with_pod(task, pod, node=7, admitted=NOW, now=NOW + 60 * SECOND)


def test_a_running_pod_starts_its_task_on_the_node_where_it_is_bound() -> None:
    task = seen(WAITING)

    assert (task.state, task.node_id, task.bound) == (TaskState.RUNNING, 7, True)
    assert (task.pod, task.pod_uid, task.started_at) == ("p", "u", NOW + SECOND)


def test_times_in_whole_seconds_do_not_lie_before_the_admission() -> None:
    begun = seen(WAITING, started_at=NOW - SECOND / 2)
    over = seen(begun, phase=PodPhase.SUCCEEDED, ended_at=NOW - SECOND / 2)

    assert begun.started_at == NOW
    assert over.ended_at == NOW


def test_a_start_that_is_known_stays() -> None:
    assert seen(RUNNING).started_at == NOW


@pytest.mark.parametrize("phase", [PodPhase.UNKNOWN, PodPhase.PENDING])
def test_a_running_task_stays_so_until_its_pod_has_ended(phase: PodPhase) -> None:
    assert seen(RUNNING, phase=phase).state is TaskState.RUNNING


def test_a_pod_that_succeeds_while_it_is_told_to_go_has_succeeded() -> None:
    assert seen(LEAVING, phase=PodPhase.SUCCEEDED).state is TaskState.SUCCEEDED


WENT_WELL = replace(POD, phase=PodPhase.SUCCEEDED, ended_at=NOW + 9 * SECOND)
OBJECT = WaveSeen(
    namespace="n", name="o", uid="o", wave="w", group=0, leaving=False, complete=False, failed=False, kind="k"
)


def managed_task(before: TaskNow, pod: PodSeen | None, seen: WaveSeen, *, gone: bool) -> TaskNow:
    thing = managed.Thing(seen=seen, gone=gone, failed_pods=False)
    return managed.see(before, pod, thing, node=7, admitted=NOW, now=NOW + 60 * SECOND)


@pytest.mark.parametrize("before", [RUNNING, LEAVING])
def test_a_pod_of_what_people_wrote_that_went_well_has_not_ended_its_task(before: TaskNow) -> None:
    assert managed_task(before, WENT_WELL, OBJECT, gone=True).state is TaskState.STOPPED
    assert managed_task(before, WENT_WELL, OBJECT, gone=False).state is before.state


@pytest.mark.parametrize("before", [WAITING, RUNNING, LEAVING])
@pytest.mark.parametrize("pod", [None, WENT_WELL])
@pytest.mark.parametrize("gone", [False, True])
def test_what_people_wrote_has_succeeded_once_it_says_so_although_it_was_told_to_go(
    before: TaskNow, pod: PodSeen | None, *, gone: bool
) -> None:
    assert managed_task(before, pod, replace(OBJECT, complete=True), gone=gone).state is TaskState.SUCCEEDED


JOB_OF_TWO = replace(OBJECT, completions=2)


@pytest.mark.parametrize(
    ("changes", "done"),
    [
        ({}, True),
        ({"phase": PodPhase.FAILED}, False),
        ({"uid": "u"}, False),
        ({"leaving": True, "leaving_since": NOW + 9 * SECOND}, False),
        ({"leaving": True, "leaving_since": NOW + 10 * SECOND}, True),
    ],
    ids=["two", "one-failed", "one-alone", "one-perhaps-because-it-was-told-to-go", "one-told-behind-its-end"],
)
def test_a_job_is_done_when_as_many_pods_as_it_asks_for_have_succeeded_before_they_were_told_to_go(
    changes: dict[str, Any], *, done: bool
) -> None:
    second = replace(WENT_WELL, **{"uid": "v", **changes})

    assert managed.all_done(JOB_OF_TWO, [WENT_WELL, second]) is done
    assert not managed.all_done(OBJECT, [WENT_WELL, second])


def test_two_pods_of_the_same_index_do_one_completion() -> None:
    first, second = replace(WENT_WELL, index=0), replace(WENT_WELL, uid="v", index=0)

    assert not managed.all_done(JOB_OF_TWO, [first, second])
    assert managed.all_done(JOB_OF_TWO, [first, replace(second, index=1)])


def test_a_place_for_which_what_people_wrote_wants_no_pod_any_more_is_not_waited_for() -> None:
    begun = replace(OBJECT, begun=True)

    assert managed_task(WAITING, None, begun, gone=False).state is TaskState.RUNNING
    assert managed_task(WAITING, None, OBJECT, gone=False).state is TaskState.PENDING
    assert managed_task(WAITING, replace(POD, phase=PodPhase.PENDING), begun, gone=False).state is TaskState.PENDING


def test_a_pod_that_fails_while_it_is_told_to_go_was_stopped() -> None:
    task = seen(LEAVING, phase=PodPhase.FAILED, exit_code=143, ended_at=NOW + 9 * SECOND)

    assert (task.state, task.exit_code, task.ended_at) == (TaskState.STOPPED, 143, NOW + 9 * SECOND)


def test_a_task_that_ran_out_of_time_has_failed_when_its_pod_is_gone() -> None:
    assert without_pod(replace(LEAVING, reason="TIMED_OUT"), now=NOW).state is TaskState.FAILED


def test_a_failed_pod_fails_its_task_with_code_reason_and_message() -> None:
    task = seen(RUNNING, phase=PodPhase.FAILED, exit_code=137, end_reason="OOMKilled", message="out of memory")

    assert (task.state, task.exit_code, task.reason, task.message) == (
        TaskState.FAILED,
        137,
        "OOMKilled",
        "out of memory",
    )


@pytest.mark.parametrize(
    ("end_reason", "reason"),
    [
        ("NodeLost", "NODE_LOST"),
        ("DeletionByTaintManager", "NODE_LOST"),
        ("Shutdown", "NODE_LOST"),
        ("EvictionByEvictionAPI", "DELETED_OUTSIDE"),
        ("PreemptionByScheduler", "DELETED_OUTSIDE"),
        ("OutOfcpu", "START_FAILED"),
    ],
)
def test_what_kubernetes_ended_is_stopped_and_not_failed(end_reason: str, reason: str) -> None:
    task = seen(RUNNING, phase=PodPhase.FAILED, exit_code=143, end_reason=end_reason)

    assert (task.state, task.reason) == (TaskState.STOPPED, reason)


def test_a_task_without_pod_or_node_is_stopped_with_the_reason() -> None:
    assert without_pod(RUNNING, now=NOW).reason == "DELETED_OUTSIDE"
    assert without_node(RUNNING, now=NOW, name="h0").message == "Node h0 was lost"
    assert without_node(LEAVING, now=NOW, name="h0").state is TaskState.STOPPED


def test_what_a_pending_pod_waits_for_is_told_and_forgotten_when_it_runs() -> None:
    stuck = seen(WAITING, phase=PodPhase.PENDING, waiting_reason="ErrImagePull", message="no such image")
    going = seen(stuck)

    assert (stuck.reason, stuck.message) == ("IMAGE_PULL", "no such image")
    assert (going.reason, going.message) == ("", "")


def test_ordinary_waiting_is_no_trouble() -> None:
    task = seen(WAITING, phase=PodPhase.PENDING, waiting_reason="ContainerCreating", message="soon")

    assert (task.reason, task.message) == ("", "")


@pytest.mark.parametrize(
    ("asked", "code"), [(30, "DELETED_OUTSIDE"), (60, "DELETED_OUTSIDE"), (62, "DELETED_OUTSIDE"), (63, "Error")]
)
def test_a_pod_that_fails_because_it_was_deleted_is_no_failure_of_the_job(asked: int, code: str) -> None:
    end = {"phase": PodPhase.FAILED, "ended_at": NOW + 60 * SECOND, "exit_code": 143, "end_reason": "Error"}

    task = seen(RUNNING, leaving=True, leaving_since=NOW + asked * SECOND, **end)

    assert task.reason == code
    assert task.state is (TaskState.FAILED if code == "Error" else TaskState.STOPPED)
