"""The outbox of single tasks that leave: what a cluster is told, and when again."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from typing import cast

from clusters.port import Cluster, Unreachable
from queues.models import Eviction, Task, Wave
from queues.removals import remove_due
from queues.underway import Run
from tests.queues.lab import MINUTE, NOW, Lab

SECOND = timedelta(seconds=1)


class Fake:
    """A cluster that notes which pods it is told to delete, or does not answer."""

    def __init__(self, *, away: bool = False) -> None:
        self.away = away
        self.told: list[tuple[str, Mapping[str, str], int | None]] = []

    def stop_pods(self, namespace: str, pods: Mapping[str, str], *, grace_seconds: int | None = None) -> None:
        if self.away:
            raise Unreachable("no answer")
        self.told.append((namespace, pods, grace_seconds))


def leaving(lab: Lab, *pods: str) -> Eviction:
    """Let the first tasks of a wave of four leave, whose pods are called so."""
    wave = lab.start(lab.submit(shape="independent", tasks=4, grace="30s"), lab.nodes[0])
    row = Eviction.objects.create(
        wave=wave,
        claimant=lab.submit(),
        claim=1,
        rule="guarantee",
        tasks=len(pods),
        units=len(pods),
        lost_unit_seconds=0,
        grace=timedelta(seconds=30),
        at=NOW,
        due_at=NOW,
    )
    for task, pod in zip(wave.tasks.order_by("id"), pods, strict=False):
        Task.objects.filter(id=task.id).update(
            state="leaving", eviction=row, pod=pod, pod_uid=f"uid-{pod}" if pod else ""
        )
    return row


def remove(fake: Fake, now: datetime = NOW) -> int:
    with ThreadPoolExecutor(4) as threads:
        run = Run(lambda: now, threads)
        return remove_due(lambda: now, clusters={"default": cast("Cluster", fake)}, each=run.each)


def due(row: Eviction) -> datetime | None:
    return Eviction.objects.get(id=row.id).due_at


def test_the_pods_of_leaving_tasks_are_told_to_go_and_told_firmly_when_they_outstay_their_grace(lab: Lab) -> None:
    fake = Fake()
    row = leaving(lab, "one", "two")

    remove(fake)
    again = due(row)
    remove(fake, NOW + 30 * SECOND)
    remove(fake, NOW + 90 * SECOND)

    both = {"one": "uid-one", "two": "uid-two"}
    assert fake.told == [("team-nlp", both, None), ("team-nlp", both, 1)]
    assert again == NOW + 90 * SECOND


def test_a_pod_that_is_not_known_yet_is_told_when_it_is(lab: Lab) -> None:
    fake = Fake()
    row = leaving(lab, "one", "")

    remove(fake)

    assert fake.told == [("team-nlp", {"one": "uid-one"}, None)]
    assert due(row) == NOW + 2 * SECOND


def test_a_wave_goes_whole_where_a_pod_that_has_to_leave_never_comes(lab: Lab) -> None:
    row = leaving(lab, "one", "")

    remove(Fake(), NOW + 90 * SECOND)

    wave = Wave.objects.get(id=row.wave_id)
    assert (wave.state, wave.wish, due(row)) == ("evicting", "stop", None)
    assert set(wave.tasks.values_list("state", flat=True)) == {"leaving"}


def test_nothing_is_due_any_more_when_the_tasks_have_gone(lab: Lab) -> None:
    fake = Fake()
    row = leaving(lab, "one")
    Task.objects.filter(eviction=row).update(state="stopped", ended_at=NOW)

    remove(fake)

    assert (fake.told, due(row)) == ([], None)


def test_a_wave_that_is_stopped_whole_tells_by_itself(lab: Lab) -> None:
    fake = Fake()
    row = leaving(lab, "one")
    Wave.objects.update(state="evicting")

    remove(fake)

    assert (fake.told, due(row)) == ([], None)


def test_a_cluster_that_does_not_answer_is_told_later(lab: Lab) -> None:
    row = leaving(lab, "one")

    remove(Fake(away=True))
    first = due(row)
    remove(Fake(away=True), NOW + MINUTE)

    assert first == NOW + SECOND
    assert due(row) == NOW + MINUTE + 2 * SECOND


def test_what_a_killed_worker_had_leased_is_told_by_another(lab: Lab) -> None:
    fake = Fake()
    row = leaving(lab, "one")
    Eviction.objects.filter(id=row.id).update(due_at=NOW + 10 * SECOND)

    early, late = remove(fake), remove(fake, NOW + 10 * SECOND)

    assert (early, late, len(fake.told)) == (0, 1, 1)


def test_several_are_told_at_once(lab: Lab) -> None:
    rows = [leaving(lab, "one"), leaving(lab, "two", "three")]
    fake, both = Fake(), Barrier(2, timeout=60)
    tell = fake.stop_pods

    def tell_together(namespace: str, pods: Mapping[str, str], *, grace_seconds: int | None = None) -> None:
        both.wait()
        tell(namespace, pods, grace_seconds=grace_seconds)

    fake.stop_pods = tell_together  # type: ignore[method-assign]
    told = remove(fake)

    assert told == 2
    assert sorted(sorted(pods) for _, pods, _ in fake.told) == [["one"], ["three", "two"]]
    assert [due(row) for row in rows] == [NOW + 90 * SECOND] * 2
