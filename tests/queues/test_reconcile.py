from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.kinds import JOB, JOB_SET
from clusters.port import Change, NodeSeen, PodSeen, WaveSeen
from queues import services
from queues.models import Job, Task, Wave
from queues.reconcile import awaits_list, follow
from queues.states import TASK_HOLDING, JobState
from queues.steps import evict
from queues.view import View
from tests.queues.cluster import FAILED, PENDING, RUNNING, SUCCEEDED, UNKNOWN, Cluster, object_of, pod_of
from tests.queues.lab import MINUTE, NOW, Lab


@pytest.fixture
def cluster(lab: Lab) -> Cluster:
    cluster = Cluster(lab)
    cluster.look()
    return cluster


def admitted(lab: Lab, *nodes: int, **spec: Any) -> tuple[Job, Wave]:  # noqa: ANN401  fields of a spec
    """Return a job that was just admitted to these nodes, its objects created."""
    job = lab.submit(**spec)
    wave = lab.start(job, *(lab.nodes[node] for node in nodes or (0,)), running=False)
    return job, wave


def state(job: Job) -> str:
    job.refresh_from_db()
    return job.state


def tasks(wave: Wave) -> list[str]:
    return list(wave.tasks.order_by("id").values_list("state", flat=True))


def events(job: Job) -> list[str]:
    return list(job.events.order_by("id").values_list("type", flat=True))


def test_the_first_running_pod_starts_wave_and_job(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, 0, 1, shape="gang", tasks=2)

    cluster.run(wave, RUNNING, PENDING)
    findings = cluster.look()

    wave.refresh_from_db()
    assert (state(job), wave.state, tasks(wave)) == ("running", "running", ["running", "pending"])
    assert (wave.started_at, wave.seen_at) == (NOW, cluster.now)
    assert "started" in events(job)
    assert findings.jobs == {job.id}


def test_a_start_limit_holds_until_the_last_task_of_a_gang_runs(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, 0, 1, shape="gang", tasks=2, time_limit="2h")

    cluster.run(wave, RUNNING, PENDING)
    cluster.look()
    starting = Wave.objects.get().deadline_at
    cluster.run(wave, RUNNING)
    cluster.look()

    assert starting == NOW + job.queue.start_limit
    assert Wave.objects.get().deadline_at == NOW + 120 * MINUTE


def test_a_gang_whose_tasks_all_succeeded_has_succeeded_and_its_objects_go(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, 0, 1, shape="gang", tasks=2)

    cluster.run(wave, SUCCEEDED)
    findings = cluster.look()

    wave.refresh_from_db()
    assert (state(job), wave.state, wave.outcome) == ("succeeded", "ended", "succeeded")
    assert (wave.wish, wave.wish_due_at is not None) == ("stop", True)
    assert events(job)[-2:] == ["started", "succeeded"]
    assert findings.freed


def test_feeding_the_same_list_again_changes_nothing(lab: Lab, cluster: Cluster) -> None:
    for phases in ((RUNNING,), (SUCCEEDED,), (FAILED,), (PENDING,), (RUNNING, FAILED), (UNKNOWN,)):
        _, wave = admitted(lab, 0, 1, shape="gang", tasks=2)
        cluster.run(wave, *phases)
    cluster.look()
    cluster.look()

    with CaptureQueriesContext(connection) as queries:
        cluster.look()

    writes = [q["sql"] for q in queries if q["sql"].split()[0] in {"UPDATE", "INSERT", "DELETE"}]
    assert writes == []


def test_an_old_running_event_after_the_end_changes_nothing(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab)
    cluster.run(wave, SUCCEEDED)
    cluster.look()

    cluster.run(wave, RUNNING)
    cluster.look()

    assert (state(job), tasks(wave)) == ("succeeded", ["succeeded"])
    assert events(job).count("succeeded") == 1


def test_unknown_is_never_failed(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab)
    cluster.run(wave, RUNNING)
    cluster.look()

    cluster.run(wave, UNKNOWN)
    cluster.look()

    assert (state(job), tasks(wave)) == ("running", ["running"])


def test_one_failed_task_ends_a_gangs_attempt_and_units_stay_until_pods_are_gone(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, 0, 1, shape="gang", tasks=2, retries=1)

    cluster.run(wave, RUNNING, FAILED)
    cluster.look()
    leaving = (state(job), job.next_state, tasks(wave))
    cluster.later(seconds=30)
    cluster.remove(wave)
    cluster.look()

    assert leaving == ("evicting", "queued", ["leaving", "failed"])
    assert (state(job), job.attempt, job.failures, job.ready) == ("queued", 2, 1, True)
    assert tasks(wave) == ["stopped", "failed"]
    assert job.wait_from == cluster.now


def test_a_gang_out_of_retries_fails_with_the_tasks_exit_code(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab)

    cluster.run(wave, FAILED, exit_code=42, end_reason="Error", message="boom")
    cluster.look()

    task = Task.objects.get()
    assert state(job) == "failed"
    assert job.reason_code == "TASK_FAILED"
    assert job.reason_text == "Task 0 failed with exit code 42 (Error)"
    assert (task.exit_code, task.reason, task.message) == (42, "Error", "boom")


def test_a_gang_names_the_task_that_failed_and_not_those_that_it_took_along(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, 0, 1, shape="gang", tasks=2)

    cluster.run(wave, FAILED, exit_code=143, end_reason="Error")
    culprit = max(cluster.pods.values(), key=lambda pod: pod.index or 0)
    cluster.pods[culprit.uid] = replace(culprit, exit_code=7)
    cluster.look()

    assert state(job) == "failed"
    assert job.reason_text == "Task 1 failed with exit code 7 (Error)"


def test_a_failed_task_of_an_independent_job_waits_again_while_others_run(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, shape="independent", tasks=3, retries=1)

    cluster.run(wave, RUNNING, FAILED, RUNNING)
    cluster.look()

    assert (state(job), job.waiting_tasks, job.ready, job.not_waiting_since) == ("running", 1, True, None)
    assert job.wait_from == cluster.now
    assert tasks(wave) == ["running", "failed", "running"]


def test_an_independent_job_goes_on_when_a_task_is_out_of_retries_and_fails_at_the_end(
    lab: Lab, cluster: Cluster
) -> None:
    job, wave = admitted(lab, shape="independent", tasks=3)

    cluster.run(wave, RUNNING, FAILED, SUCCEEDED)
    cluster.look()
    meanwhile = (state(job), job.waiting_tasks)
    cluster.run(wave, SUCCEEDED, FAILED, SUCCEEDED)
    cluster.look()

    assert meanwhile == ("running", 0)
    assert (state(job), job.reason_text) == ("failed", "1 of 3 tasks failed")


def test_an_independent_job_whose_last_wave_ends_with_tasks_left_is_queued(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, shape="independent", tasks=2, retries=2)

    cluster.run(wave, SUCCEEDED, FAILED)
    cluster.look()

    assert (state(job), job.waiting_tasks, job.ready) == ("queued", 1, True)


def test_a_bound_pod_moves_its_witness(lab: Lab, cluster: Cluster) -> None:
    _, wave = admitted(lab, 0)

    cluster.run(wave, RUNNING, node="h3")
    cluster.look()

    task = Task.objects.get()
    assert (task.node.name, task.bound) == ("h3", True)


def test_gated_pods_are_pinned_to_their_witness(lab: Lab, cluster: Cluster) -> None:
    _, wave = admitted(lab, 0, 2, shape="gang", tasks=2)

    cluster.run(wave, PENDING, gated=True, node=None)
    findings = cluster.look()

    assert [(pin.node, pin.task, pin.namespace) for pin in findings.pins] == [
        ("h0", 0, "team-nlp"),
        ("h2", 1, "team-nlp"),
    ]


def test_gated_pods_of_a_leaving_wave_are_not_pinned(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, 0, 2, shape="gang", tasks=2)
    services.cancel(uid=job.uid, by=lab.ann, now=cluster.now)

    cluster.run(wave, PENDING, gated=True, node=None)

    assert cluster.look().pins == []


def test_a_deleted_pod_sends_the_job_back_to_its_old_place_without_a_retry(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, 0, 1, shape="gang", tasks=2)
    cluster.run(wave, RUNNING)
    cluster.look()

    del cluster.pods[next(iter(cluster.pods))]
    cluster.later(minutes=10)
    cluster.look()
    leaving = (state(job), job.reason_code)
    cluster.remove(wave)
    cluster.look()

    assert leaving == ("evicting", "DELETED_OUTSIDE")
    assert (state(job), job.failures, job.attempt) == ("queued", 0, 2)
    assert job.wait_from == job.submitted_at + (cluster.now - NOW)


def test_objects_deleted_outside_before_any_pod_send_the_job_back(lab: Lab, cluster: Cluster) -> None:
    job, _ = admitted(lab)

    cluster.look()

    assert state(job) == "queued"
    assert Task.objects.get().reason == "DELETED_OUTSIDE"


def written(lab: Lab) -> Job:
    """Return an admitted job whose JobSet somebody wrote."""
    job, _ = admitted(lab)
    Job.objects.update(kind=JOB_SET.key)
    return job


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(("told_before_its_end", "end"), [(False, "succeeded"), (True, "queued")])
def test_a_written_job_that_is_taken_back_behind_the_end_of_its_last_pod_has_succeeded(
    lab: Lab, cluster: Cluster, end: str, *, told_before_its_end: bool, at_once: bool
) -> None:
    job, wave = admitted(lab)
    Job.objects.update(kind=JOB.key)
    cluster.run(wave, RUNNING)
    thing = object_of(wave, kind=JOB.key, completions=1)
    cluster.objects[str(wave.uid)] = thing
    cluster.look()
    view = cluster.view()
    running = pod_of(wave.tasks.get())
    over = replace(running, phase=SUCCEEDED, ended_at=cluster.now)
    going: dict[str, Any] = {"leaving": True, "leaving_since": cluster.now}

    evict(job.id, JobState.RUNNING, JobState.QUEUED, now=cluster.now, event="evicted", summary="for a test")
    told = [over, replace(over, **going)]
    if told_before_its_end:
        told = [replace(running, **going), replace(over, **going)]
    changes = [Change(seen=seen, deleted=False, position={}) for seen in told]
    changes += [Change(seen=seen, deleted=True, position={}) for seen in (thing, told[-1])]
    for batch in [changes] if at_once else [[change] for change in changes]:
        for change in batch:
            view.take(change)
        follow(lab.cluster.id, view, now=cluster.now)
        view.settle()

    assert state(job) == end
    assert not Task.objects.filter(state__in=TASK_HOLDING).exists()


@pytest.mark.parametrize("unseen", [True, False])
def test_an_object_is_missing_only_where_the_list_could_have_shown_it(
    lab: Lab, cluster: Cluster, *, unseen: bool
) -> None:
    job = written(lab)
    cluster.unseen = frozenset({JOB_SET.key}) if unseen else frozenset()

    cluster.look()

    assert state(job) == ("admitted" if unseen else "queued")


def test_an_object_that_was_told_to_go_has_gone_where_its_kind_is_not_listed(lab: Lab, cluster: Cluster) -> None:
    job = written(lab)
    services.cancel(uid=job.uid, by=lab.ann, now=cluster.now)
    Wave.objects.update(wish_due_at=None, stopped_at=cluster.now)
    cluster.later(seconds=2)
    cluster.unseen = frozenset({JOB_SET.key})

    cluster.look()

    assert state(job) == "cancelled"


@pytest.mark.parametrize("unseen", [True, False])
def test_a_job_that_waits_is_let_go_only_where_the_list_could_have_shown_its_object(
    lab: Lab, cluster: Cluster, *, unseen: bool
) -> None:
    job = lab.submit()
    Job.objects.update(kind=JOB_SET.key, object_uid="some-uid", object_cluster=lab.cluster)
    cluster.unseen = frozenset({JOB_SET.key}) if unseen else frozenset()

    cluster.look()

    assert state(job) == ("queued" if unseen else "cancelled")


def test_a_list_older_than_the_launch_says_nothing_about_it(lab: Lab, cluster: Cluster) -> None:
    job, _ = admitted(lab)
    Wave.objects.update(launched_at=cluster.now)

    cluster.look()

    assert state(job) == "admitted"


def test_a_wave_that_was_not_launched_yet_is_not_missed(lab: Lab, cluster: Cluster) -> None:
    job, _ = admitted(lab)
    Wave.objects.update(launched_at=None)

    cluster.look()

    assert state(job) == "admitted"


def test_an_evicted_job_that_never_had_pods_ends_with_the_first_list_after_the_stop(lab: Lab, cluster: Cluster) -> None:
    job, _ = admitted(lab)
    services.cancel(uid=job.uid, by=lab.ann, now=cluster.now)

    cluster.look()
    not_told = state(job)
    Wave.objects.update(wish_due_at=None, stopped_at=cluster.now)
    cluster.look()
    too_old, wanted = state(job), awaits_list(lab.cluster.id, cluster.view())
    cluster.later(seconds=2)
    cluster.look()

    assert (not_told, too_old, wanted) == ("evicting", "evicting", True)
    assert state(job) == "cancelled"


def interrupted_again_and_again(lab: Lab, cluster: Cluster, *, times: int, minutes: int = 1, **spec: Any) -> Job:  # noqa: ANN401  fields of a spec
    """Return a job whose pods are deleted after so many minutes, so many times in a row."""
    job = lab.submit(**spec)
    for _ in range(times):
        wave = lab.start(job, now=cluster.now)
        cluster.run(wave, RUNNING)
        cluster.look()
        cluster.later(minutes=minutes)
        cluster.pods = {}
        cluster.objects = {}
        cluster.look()
        cluster.later(seconds=10)
        state(job)
    return job


@pytest.mark.parametrize("shape", ["gang", "independent"])
@pytest.mark.parametrize(("times", "pause"), [(3, None), (4, 60), (5, 120), (6, 240)])
def test_what_is_interrupted_again_and_again_pauses_longer_each_time(
    lab: Lab, cluster: Cluster, shape: str, times: int, pause: int | None
) -> None:
    job = interrupted_again_and_again(lab, cluster, times=times, shape=shape)

    until = None if pause is None else cluster.now + timedelta(seconds=pause - 10)
    assert (job.state, job.interruptions, job.failures, job.start_failures) == ("queued", times, 0, 0)
    assert (job.backoff_until, job.ready) == (until, pause is None)
    if pause:
        assert job.reason_code == "DELETED_OUTSIDE"


def test_a_job_that_ran_for_long_between_its_interruptions_never_pauses(lab: Lab, cluster: Cluster) -> None:
    job = interrupted_again_and_again(lab, cluster, times=6, minutes=10, shape="gang")

    assert (job.interruptions, job.backoff_until, job.ready) == (6, None, True)


def test_waves_that_one_lost_node_took_are_one_interruption_in_a_row(lab: Lab, cluster: Cluster) -> None:
    job = lab.submit(shape="independent", tasks=1)
    waves = [lab.start(job, lab.nodes[1]) for _ in range(5)]
    for wave in waves:
        cluster.run(wave, RUNNING)
    cluster.look()

    del cluster.nodes["h1"]
    cluster.look()

    assert state(job) == "queued"
    assert (job.backoff_until, job.ready) == (None, True)


def test_a_node_that_has_gone_loses_its_tasks_without_a_retry(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, 0, 1, shape="gang", tasks=2)
    cluster.run(wave, RUNNING)
    cluster.look()

    del cluster.nodes["h1"]
    cluster.look()
    leaving = (state(job), job.reason_code, job.reason_text, tasks(wave))
    cluster.remove(wave)
    cluster.look()

    assert leaving == ("evicting", "NODE_LOST", "Node h1 was lost", ["leaving", "stopped"])
    assert (state(job), job.failures) == ("queued", 0)


def test_a_silent_node_loses_its_tasks_after_five_minutes(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, 0)
    cluster.run(wave, RUNNING)
    cluster.look()

    cluster.nodes["h0"] = cluster.nodes["h0"].__class__(
        **{name: getattr(cluster.nodes["h0"], name) for name in cluster.nodes["h0"].__slots__} | {"ready": False}
    )
    cluster.look()
    cluster.later(minutes=4, seconds=59)
    cluster.look()
    before = state(job)
    cluster.later(seconds=1)
    cluster.look()

    assert before == "running"
    assert (state(job), Task.objects.get().reason) == ("queued", "NODE_LOST")


@pytest.mark.parametrize(
    ("end_reason", "reason"),
    [("DeletionByTaintManager", "NODE_LOST"), ("EvictionByEvictionAPI", "DELETED_OUTSIDE")],
)
def test_a_pod_that_kubernetes_ended_is_no_failure_of_the_job(
    lab: Lab, cluster: Cluster, end_reason: str, reason: str
) -> None:
    job, wave = admitted(lab)

    cluster.run(wave, FAILED, exit_code=143, end_reason=end_reason)
    cluster.look()

    assert (state(job), job.failures, Task.objects.get().reason) == ("queued", 0, reason)


@pytest.mark.parametrize("shape", ["gang", "independent"])
def test_a_job_ended_by_kubernetes_own_deadline_has_run_out_of_time(lab: Lab, cluster: Cluster, shape: str) -> None:
    job, wave = admitted(lab, shape=shape, retries=1, time_limit="1h")
    cluster.run(wave, RUNNING)
    cluster.look()

    cluster.later(minutes=80)
    cluster.run(wave, FAILED, exit_code=143, end_reason="Error", leaving=True, ended_at=cluster.now)
    cluster.look()

    assert (state(job), job.reason_code) == ("failed", "TIMED_OUT")
    assert job.reason_text == "Ran longer than its time limit of 1:00:00"


def test_a_pod_that_its_node_does_not_take_is_a_start_that_failed(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, shape="gang")

    cluster.run(wave, FAILED, end_reason="OutOfcpu", message="Node didn't have enough resource: cpu", exit_code=None)
    cluster.look()

    assert (state(job), job.start_failures, job.failures) == ("queued", 1, 0)
    assert (job.ready, job.backoff_until, job.reason_code) == (False, cluster.now + MINUTE, "START_FAILED")


@pytest.mark.parametrize(
    ("waiting", "code"),
    [("ErrImagePull", "IMAGE_PULL"), ("ImagePullBackOff", "IMAGE_PULL"), ("Unschedulable", "UNSCHEDULABLE")],
)
def test_an_admitted_job_says_why_its_pod_does_not_start(lab: Lab, cluster: Cluster, waiting: str, code: str) -> None:
    job, wave = admitted(lab)

    cluster.run(wave, PENDING, waiting_reason=waiting, message="no such image")
    cluster.look()
    shown = (state(job), job.reason_code, job.reason_text)
    cluster.run(wave, RUNNING)
    cluster.look()

    assert shown == ("admitted", code, "no such image")
    assert (state(job), job.reason_code) == ("running", "")


def test_pods_refused_by_a_resource_quota_send_the_job_into_a_back_off(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, shape="gang")

    cluster.objects["w"] = object_of(wave, refusal='pods "x" is forbidden: exceeded quota: fence')
    cluster.look()

    assert (state(job), job.next_state, job.reason_code) == ("evicting", "queued", "K8S_QUOTA")
    assert job.backoff_until == cluster.now + MINUTE


def test_a_gang_of_which_one_pod_runs_and_another_is_refused_by_a_quota_leaves_whole(
    lab: Lab, cluster: Cluster
) -> None:
    job, wave = admitted(lab, 0, 1, shape="gang", tasks=2)
    cluster.run(wave, RUNNING)
    missing = max(cluster.pods.values(), key=lambda pod: pod.index or 0)
    del cluster.pods[missing.uid]
    cluster.look()
    begun = state(job)

    cluster.objects[str(wave.uid)] = object_of(wave, refusal="exceeded quota: theirs")
    cluster.look()

    assert begun == "running"
    assert (state(job), job.next_state, job.reason_code) == ("evicting", "queued", "K8S_QUOTA")
    assert tasks(wave) == ["leaving", "leaving"]


def test_a_wave_of_an_independent_job_that_is_refused_leaves_alone(lab: Lab, cluster: Cluster) -> None:
    job, first = admitted(lab, 0, shape="independent", tasks=2)
    cluster.run(first, RUNNING)
    cluster.look()
    Task.objects.filter(index=1).delete()
    second = lab.start(job, lab.nodes[1], running=False)
    Task.objects.filter(wave=second, index=0).delete()
    Job.objects.update(state="running")

    cluster.objects["w"] = object_of(second, refusal="exceeded quota: fence")
    cluster.look()

    assert (state(job), Wave.objects.get(id=second.id).state, tasks(first)) == ("running", "evicting", ["running"])
    assert (job.ready, job.backoff_until) == (False, cluster.now + MINUTE)


def test_pods_of_ended_waves_that_are_still_there_are_stopped_again(lab: Lab, cluster: Cluster) -> None:
    _, wave = admitted(lab)
    cluster.run(wave, SUCCEEDED)
    cluster.look()
    Wave.objects.update(wish_due_at=None, stopped_at=cluster.now)

    cluster.look()
    at_once = Wave.objects.get().wish_due_at
    cluster.later(minutes=1)
    cluster.look()

    assert at_once is None
    assert Wave.objects.get().wish_due_at == cluster.now


def test_objects_that_belong_to_no_wave_are_reported(lab: Lab, cluster: Cluster) -> None:
    _, wave = admitted(lab)
    cluster.run(wave, RUNNING)
    Wave.objects.all().delete()

    strays = cluster.look().strays

    assert [(ref.wave, ref.namespace) for ref in strays] == [(str(wave.uid), "team-nlp")]


def test_a_held_goal_is_kept_until_the_pods_are_gone(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, 0, 1, shape="gang", tasks=2, retries=3)
    cluster.run(wave, RUNNING, FAILED)
    cluster.look()

    services.hold(uid=job.uid, by=lab.ann, now=cluster.now)
    cluster.remove(wave)
    cluster.look()

    assert (state(job), job.waiting_tasks, job.ready) == ("held", 1, False)


def test_running_time_adds_up_over_attempts(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, retries=1, time_limit="1h")
    cluster.run(wave, RUNNING)
    cluster.look()
    cluster.later(minutes=20)
    cluster.run(wave, FAILED)
    cluster.look()

    assert state(job) == "queued"
    assert job.ran_for == timedelta(minutes=20)


def test_a_change_moves_only_what_it_touches(lab: Lab, cluster: Cluster) -> None:
    touched, wave = admitted(lab, 0)
    untouched, other = admitted(lab, 1)
    cluster.run(wave, PENDING)
    cluster.run(other, PENDING)
    cluster.look()
    view = cluster.view()
    view.take(Change(seen=pod_of(wave.tasks.get(), RUNNING)))

    findings = follow(lab.cluster.id, view, now=cluster.now)

    assert findings.jobs == {touched.id}
    assert (state(touched), state(untouched)) == ("running", "admitted")


def test_a_change_in_which_nothing_differs_that_counts_touches_nothing(lab: Lab, cluster: Cluster) -> None:
    _, wave = admitted(lab)
    cluster.run(wave, RUNNING)
    cluster.look()
    view = cluster.view()
    again: list[NodeSeen | PodSeen | WaveSeen] = [*cluster.nodes.values(), *cluster.pods.values()]
    again += cluster.objects.values()
    for seen in again:
        view.take(Change(seen=seen, position={"pods": "7"}))
    nothing = view.touched

    view.take(Change(seen=replace(next(iter(cluster.nodes.values())), cordoned=True)))

    assert len(again) > 2
    assert (nothing, view.touched, view.position) == (False, True, {"pods": "7"})


def test_the_end_of_a_pod_that_is_deleted_in_the_same_moment_is_recorded(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab)
    cluster.run(wave, RUNNING)
    cluster.look()
    view = cluster.view()
    view.take(Change(seen=pod_of(wave.tasks.get(), SUCCEEDED), deleted=True))

    follow(lab.cluster.id, view, now=cluster.now)
    view.settle()

    assert state(job) == JobState.SUCCEEDED
    assert list(view.pods_of(str(wave.uid))) == []


def test_a_gang_that_succeeded_while_it_was_asked_to_leave_has_succeeded(lab: Lab, cluster: Cluster) -> None:
    job, wave = admitted(lab, 0, 1, shape="gang", tasks=2)
    cluster.run(wave, RUNNING)
    cluster.look()
    evict(job.id, JobState.RUNNING, JobState.QUEUED, now=cluster.now, event="evicted", summary="Makes room")
    cluster.run(wave, SUCCEEDED)
    cluster.look()

    assert state(job) == "succeeded"


def stopped(lab: Lab, cluster: Cluster) -> tuple[Wave, View]:
    """Return a wave that was told to go while its pod ran, and a list that shows its pod alone, on its way out."""
    job, wave = admitted(lab)
    cluster.run(wave, RUNNING)
    cluster.look()
    services.cancel(uid=job.uid, by=lab.ann, now=cluster.now)
    Wave.objects.update(wish_due_at=None, stopped_at=cluster.now)
    cluster.later(minutes=1)
    cluster.objects.clear()
    cluster.pods = {uid: replace(pod, leaving=True) for uid, pod in cluster.pods.items()}
    return wave, cluster.view()


def wish(wave: Wave) -> tuple[str, bool]:
    wave.refresh_from_db()
    return wave.wish, wave.wish_due_at is not None


@pytest.mark.parametrize("over", [False, True], ids=["evicting", "ended"])
def test_an_object_that_is_made_anew_behind_its_stop_is_told_to_go_at_once(
    lab: Lab, cluster: Cluster, *, over: bool
) -> None:
    wave, view = stopped(lab, cluster)
    if over:
        view.take(Change(seen=next(iter(cluster.pods.values())), deleted=True))
        follow(lab.cluster.id, view, now=cluster.now)
        view.settle()
    before = wish(wave)
    view.take(Change(seen=object_of(wave, uid="anew")))

    findings = follow(lab.cluster.id, view, now=cluster.now)

    assert wave.state == ("ended" if over else "evicting")
    assert (before, wish(wave), wave.stopped_at) == (("stop", False), ("stop", True), None)
    assert findings.wishes


def test_a_list_that_shows_an_object_behind_its_stop_has_it_told_to_go(lab: Lab, cluster: Cluster) -> None:
    wave, _ = stopped(lab, cluster)

    cluster.look()
    without = wish(wave)
    cluster.objects["anew"] = object_of(wave, uid="anew", leaving=True)
    cluster.look()
    leaving = wish(wave)
    cluster.objects["anew"] = object_of(wave, uid="anew")
    cluster.look()

    assert (without, leaving, wish(wave)) == (("stop", False), ("stop", False), ("stop", True))
