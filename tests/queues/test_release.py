from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from itertools import count
from threading import Event, Lock
from typing import Any

import pytest

from clusters.port import Launch, NameTaken, QuotaRefused, Refused, Unreachable, WaveRef
from queues import release, services, underway
from queues.launches import ceilings, launches_of
from queues.models import Job, Task, Wave
from queues.namespaces import namespace_of
from queues.release import LONGEST_PAUSE, MOST_FAULTS, Fences, release_due
from queues.steps import evict
from queues.underway import LEASE, Answer, Telling
from tests.queues.lab import MINUTE, NOW, Lab


class Heard:
    """A cluster that remembers what it is told, and answers as it is asked to."""

    def __init__(self) -> None:
        self.launched: list[Launch] = []
        self.stopped: list[tuple[WaveRef, int | None]] = []
        self.teams: list[tuple[str, Mapping[str, int] | None]] = []
        self.error: Exception | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        self._lock = Lock()

    def ensure_team(self, namespace: str, *, team: str, ceiling: Mapping[str, int] | None) -> None:
        assert team
        self.teams.append((namespace, ceiling))

    def launch(self, launch: Launch) -> None:
        with self._lock:
            self.launched.append(launch)
        self._answer()

    def stop(self, ref: WaveRef, *, grace_seconds: int | None = None) -> None:
        self.stopped.append((ref, grace_seconds))
        self._answer()

    def _answer(self) -> None:
        self.meanwhile()
        if self.error is not None:
            raise self.error


class Desk:
    """The outbox with a cluster and a clock."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.cluster, self.fences, self.now = lab, Heard(), Fences(), NOW

    def admitted(self, **spec: Any) -> Wave:  # noqa: ANN401  fields of a spec
        wave = self.lab.start(self.lab.submit(**spec), running=False)
        Wave.objects.filter(id=wave.id).update(launched_at=None, wish="launch", wish_due_at=NOW)
        wave.refresh_from_db()
        return wave

    def release(self) -> int:
        return release_due(lambda: self.now, clusters={"default": self.cluster}, fences=self.fences)  # type: ignore[dict-item]


@pytest.fixture
def desk(lab: Lab) -> Desk:
    return Desk(lab)


def test_a_due_wave_is_launched_once(desk: Desk) -> None:
    wave = desk.admitted()

    told, again = desk.release(), desk.release()

    wave.refresh_from_db()
    assert (told, again) == (1, 0)
    assert [launch.wave for launch in desk.cluster.launched] == [str(wave.uid)]
    assert (wave.launched_at, wave.wish_due_at) == (NOW, None)
    assert list(wave.job.events.values_list("type", flat=True).order_by("id"))[-1] == "launched"


def test_a_wave_is_not_told_before_it_is_due(desk: Desk) -> None:
    wave = desk.admitted()
    Wave.objects.update(wish_due_at=NOW + MINUTE)

    assert desk.release() == 0
    assert wave.launched_at is None


def test_a_launch_has_what_the_job_asked_for(desk: Desk) -> None:
    desk.lab.h100.tolerations = [{"key": "gpu", "operator": "Exists"}]
    desk.lab.h100.node_labels = {"gpu": "h100"}
    desk.lab.h100.save()
    run = {"image": "reg.example/sft:1", "command": ["python"], "args": ["x.py"], "env": {"A": "b"}}
    wave = desk.admitted(name="sft", shape="gang", tasks=2, gpus="h100:4", run=run, grace="45s", time_limit="1h")

    desk.release()

    (launch,) = desk.cluster.launched
    (group,) = launch.groups
    assert (launch.job, launch.job_name, launch.number, launch.attempt) == (str(wave.job.uid), "sft", 1, 1)
    assert (launch.team, launch.queue, launch.namespace, launch.gang) == ("nlp", "default", "team-nlp", True)
    assert (launch.grace_seconds, launch.task_count, launch.priority_class) == (45, 2, "normal")
    assert launch.fence_seconds == 3600 + 600 + 45 + 900
    assert (group.image, group.command, group.args, group.env) == (
        "reg.example/sft:1",
        ("python",),
        ("x.py",),
        (("A", "b"),),
    )
    assert (group.resource, group.units, group.node_labels) == ("nvidia.com/gpu", 4, (("gpu", "h100"),))
    assert [(task.index, task.task, task.node) for task in group.tasks] == [(0, 0, "h0"), (1, 1, "h1")]
    assert group.tolerations[0].operator == "Exists"


def test_launches_cost_a_fixed_number_of_queries(
    desk: Desk, django_assert_max_num_queries: Callable[[int], object]
) -> None:
    for _ in range(5):
        desk.admitted()
    waves = release.take(NOW, NOW + LEASE)

    with django_assert_max_num_queries(3):  # type: ignore[attr-defined]
        launches_of(waves)


def test_a_teams_namespace_and_fence_are_made_sure_of_once(desk: Desk) -> None:
    desk.lab.nlp.quotas.update(borrow_limit=4)
    desk.admitted()
    desk.admitted()

    desk.release()
    desk.admitted()
    desk.release()

    assert desk.cluster.teams == [("team-nlp", {"nvidia.com/gpu": 20 + 16})]


def test_a_fence_is_told_again_when_it_moves(desk: Desk) -> None:
    desk.admitted()
    desk.release()
    desk.lab.nlp.quotas.update(borrow_limit=0)
    desk.admitted()

    desk.release()

    assert [ceiling for _, ceiling in desk.cluster.teams] == [{"nvidia.com/gpu": 48}, {"nvidia.com/gpu": 32}]


def test_a_resource_that_every_pod_asks_for_is_not_fenced(lab: Lab) -> None:
    lab.l40s.resource = "cpu"
    lab.l40s.save()

    assert ceilings([lab.nlp.id]) == {lab.nlp.id: {"nvidia.com/gpu": 32}}


def test_names_of_teams_become_namespaces() -> None:
    assert namespace_of("nlp") == "team-nlp"
    assert len(namespace_of("x" * 63)) <= 63


def test_a_cluster_that_does_not_answer_is_asked_later_and_nothing_fails(desk: Desk) -> None:
    wave = desk.admitted()
    desk.cluster.error = Unreachable("connection refused")

    pauses = []
    for _ in range(8):
        desk.release()
        wave.refresh_from_db()
        due = wave.wish_due_at or NOW
        pauses.append((due - desk.now).total_seconds())
        desk.now = due

    job = Job.objects.get()
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert (job.state, job.reason_code, job.reason_text) == ("admitted", "CLUSTER_UNREACHABLE", "connection refused")
    assert (wave.wish_tries, wave.wish_error, wave.launched_at) == (8, "connection refused", None)


def test_a_server_that_names_a_pause_gets_it(desk: Desk) -> None:
    wave = desk.admitted()
    desk.cluster.error = Unreachable("429", retry_after=17)

    desk.release()

    wave.refresh_from_db()
    assert wave.wish_due_at == NOW + timedelta(seconds=17)


def test_a_wave_of_a_cluster_that_is_not_configured_waits(desk: Desk) -> None:
    wave = desk.admitted()

    release_due(lambda: NOW, clusters={}, fences=desk.fences)

    wave.refresh_from_db()
    assert "no cluster is configured as 'default'" in wave.wish_error
    assert wave.job.state == "admitted"


@pytest.mark.parametrize("fault", [TypeError("'int' object is not iterable"), KeyError("spec")])
def test_a_fault_of_ours_does_not_keep_units_for_ever(desk: Desk, fault: Exception) -> None:
    wave = desk.admitted(shape="gang")
    desk.cluster.error = fault

    for _ in range(MOST_FAULTS):
        desk.release()
        desk.now += LONGEST_PAUSE

    wave.job.refresh_from_db()
    assert (wave.job.state, wave.job.next_state, wave.job.start_failures) == ("evicting", "queued", 1)
    assert wave.job.reason_code == "START_FAILED"
    assert type(fault).__name__ in wave.job.reason_text
    assert {ref.wave for ref, _ in desk.cluster.stopped} <= {str(wave.uid)}


def test_an_object_refused_as_invalid_fails_the_job_with_the_servers_text(desk: Desk) -> None:
    wave = desk.admitted()
    desk.cluster.error = Refused("spec.template: Invalid value: 'x'")

    desk.release()

    wave.job.refresh_from_db()
    assert (wave.job.state, wave.job.next_state) == ("evicting", "failed")
    assert (wave.job.reason_code, wave.job.reason_text) == ("K8S_REJECTED", "spec.template: Invalid value: 'x'")
    assert [ref.wave for ref, _ in desk.cluster.stopped] == [str(wave.uid)]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (QuotaRefused("exceeded quota"), "K8S_QUOTA"),
        (NameTaken("tg-1 exists and is not of this wave", leaving=False), "NAME_CONFLICT"),
    ],
)
def test_a_refusal_that_may_pass_sends_a_gang_into_a_back_off(desk: Desk, error: Exception, code: str) -> None:
    wave = desk.admitted(shape="gang")
    desk.cluster.error = error

    desk.release()

    wave.job.refresh_from_db()
    assert (wave.job.state, wave.job.next_state, wave.job.reason_code) == ("evicting", "queued", code)
    assert wave.job.backoff_until == NOW + MINUTE
    assert wave.job.start_failures == 0


def test_a_name_that_is_just_leaving_is_tried_again_soon(desk: Desk) -> None:
    wave = desk.admitted()
    desk.cluster.error = NameTaken("being deleted", leaving=True)

    desk.release()

    wave.refresh_from_db()
    assert (wave.wish_due_at, wave.job.state) == (NOW + timedelta(seconds=2), "admitted")


def test_a_fault_of_ours_in_one_wave_does_not_stop_the_others(desk: Desk) -> None:
    bad, good = desk.admitted(), desk.admitted()

    def fail_the_bad_one() -> None:
        desk.cluster.error = ValueError("boom") if desk.cluster.launched[-1].wave == str(bad.uid) else None

    desk.cluster.meanwhile = fail_the_bad_one
    release.THREADS, threads = 1, release.THREADS
    desk.release()
    release.THREADS = threads

    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.wish_error, bad.launched_at) == ("boom", None)
    assert good.launched_at == NOW


def test_a_wave_stopped_by_another_worker_after_the_lease_of_its_launch_is_stopped_again(desk: Desk) -> None:
    wave = desk.admitted(shape="gang")
    waves = release.take(NOW, NOW + LEASE)
    services.cancel(uid=wave.job.uid, by=desk.lab.ann, now=NOW)
    desk.now = NOW + LEASE
    desk.release()
    release.write([Answer(waves[0])], lease=NOW + LEASE, now=NOW)

    wave.refresh_from_db()
    assert len(desk.cluster.stopped) == 1
    assert (wave.launched_at, wave.wish, wave.wish_due_at, wave.stopped_at) == (None, "stop", NOW, None)


def test_no_stop_is_told_while_a_launch_is_under_way_in_this_worker_or_another(desk: Desk) -> None:
    wave = desk.admitted(shape="gang")
    waves = release.take(NOW, NOW + LEASE)
    services.cancel(uid=wave.job.uid, by=desk.lab.ann, now=NOW)

    early = desk.release()
    due = release.write([Answer(waves[0])], lease=NOW + LEASE, now=NOW)
    late = desk.release()

    wave.refresh_from_db()
    assert (early, due, late) == (0, True, 1)
    assert (wave.wish, wave.wish_due_at, wave.launching_until, wave.stopped_at) == ("stop", None, None, NOW)


def test_a_launch_that_failed_is_under_way_no_more(desk: Desk) -> None:
    wave = desk.admitted(shape="gang")
    waves = release.take(NOW, NOW + LEASE)
    services.cancel(uid=wave.job.uid, by=desk.lab.ann, now=NOW)

    release.write([Answer(waves[0], Unreachable("no answer"))], lease=NOW + LEASE, now=NOW)

    assert desk.release() == 1
    assert [ref.wave for ref, _ in desk.cluster.stopped] == [str(wave.uid)]


def test_a_stop_is_told_when_the_worker_that_launched_has_died(desk: Desk) -> None:
    wave = desk.admitted(shape="gang")
    release.take(NOW, NOW + LEASE)
    services.cancel(uid=wave.job.uid, by=desk.lab.ann, now=NOW)

    before = desk.release()
    desk.now = NOW + LEASE
    after = desk.release()

    assert (before, after) == (0, 1)


def test_a_wave_that_ends_before_its_launch_is_answered_keeps_its_logs_for_their_time(desk: Desk) -> None:
    wave = desk.admitted(shape="gang")
    waves = release.take(NOW, NOW + LEASE)
    Wave.objects.filter(id=wave.id).update(
        state="ended", ended_at=NOW, deadline_at=None, wish="stop", wish_due_at=NOW + MINUTE
    )

    release.write([Answer(waves[0])], lease=NOW + LEASE, now=NOW)

    wave.refresh_from_db()
    assert (wave.wish_due_at, wave.launching_until) == (NOW + MINUTE, None)


def test_what_is_told_for_long_stays_with_the_worker_that_tells_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(underway, "LEASE", timedelta(seconds=0.3))
    wave = desk.admitted(shape="gang")
    answered, renew, ticks = Event(), underway.renew, count()
    taken: list[list[Wave]] = []
    held: list[object] = []

    def clock() -> datetime:
        return NOW + next(ticks) * timedelta(seconds=0.05)

    def renew_and_let_another_worker_look(telling: Telling, lease: datetime) -> None:
        renew(telling, lease)
        if not taken:
            services.cancel(uid=wave.job.uid, by=desk.lab.ann, now=NOW)
        taken.append(release.take(clock(), clock() + LEASE))
        if len(taken) == 5:
            answered.set()

    monkeypatch.setattr(underway, "renew", renew_and_let_another_worker_look)
    desk.cluster.meanwhile = lambda: held.append(desk.cluster.stopped or answered.wait(60))
    release_due(clock, clusters={"default": desk.cluster}, fences=desk.fences)  # type: ignore[dict-item]

    assert len(taken) >= 5
    assert not any(taken)
    assert False not in held
    assert (len(desk.cluster.launched), len(desk.cluster.stopped)) == (1, 1)


def test_a_worker_that_stood_still_until_its_lease_was_over_tells_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    wave = desk.admitted()
    take = release.take

    def take_and_stand_still(now: datetime, lease: datetime) -> list[Wave]:
        desk.now = lease
        return take(now, lease)

    monkeypatch.setattr(release, "take", take_and_stand_still)
    desk.release()

    wave.refresh_from_db()
    assert desk.cluster.launched == []
    assert "stood still" in wave.wish_error


def test_a_stop_is_written_down_and_told_once(desk: Desk) -> None:
    wave = desk.admitted()
    desk.release()
    services.cancel(uid=wave.job.uid, by=desk.lab.ann, now=NOW)

    desk.release()
    desk.release()

    wave.refresh_from_db()
    assert (wave.stopped_at, wave.wish_due_at) == (NOW, None)
    assert [(ref.wave, ref.namespace, grace) for ref, grace in desk.cluster.stopped] == [
        (str(wave.uid), "team-nlp", None)
    ]


def test_a_wave_that_has_outstayed_its_grace_is_told_firmly(desk: Desk) -> None:
    wave = desk.admitted(shape="gang")
    evict(wave.job_id, "admitted", "cancelled", now=NOW, event="x", summary="x")  # type: ignore[arg-type]
    Wave.objects.update(deadline_at=None)

    desk.release()

    assert [grace for _, grace in desk.cluster.stopped] == [1]


def test_what_another_worker_has_leased_is_left_alone_until_the_lease_is_over(desk: Desk) -> None:
    wave = desk.admitted()
    release.take(NOW, NOW + LEASE)

    before = desk.release()
    desk.now = NOW + LEASE
    after = desk.release()

    wave.refresh_from_db()
    assert (before, after) == (0, 1)
    assert wave.launched_at == NOW + LEASE


def test_a_worker_that_comes_too_late_writes_nothing_over_the_others(desk: Desk) -> None:
    wave = desk.admitted()
    mine = release.take(NOW, NOW + LEASE)
    desk.now = NOW + LEASE
    desk.release()

    release.write([Answer(mine[0], Unreachable("late"))], lease=NOW + LEASE, now=NOW + 2 * LEASE)

    wave.refresh_from_db()
    assert (wave.launched_at, wave.wish_due_at, wave.wish_error) == (NOW + LEASE, None, "")


def test_more_than_a_batch_is_told_in_one_run(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "BATCH", 2)
    for _ in range(5):
        desk.admitted()

    assert desk.release() == 5
    assert not Wave.objects.filter(launched_at=None).exists()
    assert Task.objects.count() == 5


def test_the_next_batch_is_told_while_one_is_being_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "BATCH", 1)
    waves = [desk.admitted(), desk.admitted(), desk.admitted()]
    both, heard = Event(), []

    def answer_when_another_is_told() -> None:
        if len(desk.cluster.launched) == 1:
            heard.append(both.wait(60))
        both.set()

    desk.cluster.meanwhile = answer_when_another_is_told

    told = desk.release()

    assert told == 3
    assert False not in heard
    assert set(Wave.objects.filter(id__in=[wave.id for wave in waves]).values_list("launched_at", "wish_due_at")) == {
        (NOW, None)
    }
