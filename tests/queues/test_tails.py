"""The last lines of failed tasks: what is asked for, what is kept, and how long a wave's objects wait for them."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from django.db import transaction

from clusters.port import Cluster, Log, NotThere, Unreachable
from queues import cleanup, release, tails
from queues.models import KeptLog, Task, Wave
from queues.models.wave import Wish
from tests.queues.lab import NOW, Lab

SECOND = timedelta(seconds=1)


class Said:
    """A log that says this, in chunks."""

    def __init__(self, *said: bytes) -> None:
        self.said = said
        self.was_shut = False

    def chunks(self) -> Iterator[bytes]:
        yield from self.said

    def shut(self) -> None:
        self.was_shut = True


class Fake:
    """A cluster whose pods say this, or that fails so."""

    def __init__(self, answer: Said | Exception) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    def logs(self, namespace: str, pod: str, **how: Any) -> Log:  # noqa: ANN401  the port's options
        self.asked.append({"namespace": namespace, "pod": pod, **how})
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def stop(self, *_: object, **__: object) -> None:
        """Do as told."""


def failed(lab: Lab, tasks: int = 1) -> list[Task]:
    """Let a wave's tasks fail, and ask for their tails."""
    wave = lab.start(lab.submit(shape="independent", tasks=tasks, gpus="l40s:1"), lab.nodes[4])
    Task.objects.filter(wave=wave).update(state="failed", ended_at=NOW, exit_code=1, container="main")
    for task in wave.tasks.all():
        Task.objects.filter(id=task.id).update(pod=f"pod-{task.index}")
    rows = list(Task.objects.filter(wave=wave).select_related("wave").order_by("id"))
    with transaction.atomic():
        tails.want(rows, now=NOW)
    return rows


def keep(fake: Fake, now: datetime = NOW) -> int:
    each: tails.Each = lambda read, rows: [read(row) for row in rows]  # noqa: E731
    return tails.keep_due(lambda: now, clusters={"default": cast("Cluster", fake)}, each=each)


def kept(task: Task) -> KeptLog:
    return KeptLog.objects.get(task=task)


def test_the_last_lines_of_a_failed_task_are_kept_once(lab: Lab) -> None:
    (task,) = failed(lab)
    fake = Fake(Said(b"one\ntw", b"o\n"))

    assert (keep(fake), keep(fake)) == (1, 0)

    row = kept(task)
    assert (row.text, row.cut, row.kept_at, row.error) == ("one\ntwo\n", False, NOW, "")
    assert [(ask["namespace"], ask["pod"], ask["container"], ask["tail"]) for ask in fake.asked] == [
        ("team-nlp", "pod-0", "main", tails.KEEP_LINES)
    ]


def test_only_the_end_is_kept_and_from_the_start_of_a_line(lab: Lab) -> None:
    (task,) = failed(lab)
    line = b"x" * 99 + b"\n"

    keep(Fake(Said(*[line] * 1000)))

    text = kept(task).text
    assert tails.KEEP_BYTES - 100 <= len(text) <= tails.KEEP_BYTES
    assert set(text.splitlines()) == {"x" * 99}
    assert kept(task).cut


def test_lines_without_end_are_not_read_for_ever(lab: Lab) -> None:
    (task,) = failed(lab)
    said = Said(*[b"x" * 2**19] * 100)

    keep(Fake(said))

    assert said.was_shut
    assert len(kept(task).text) == tails.KEEP_BYTES


def test_what_postgresql_cannot_keep_is_replaced(lab: Lab) -> None:
    (task,) = failed(lab)

    keep(Fake(Said(b"a\0b\xff\n")))

    assert kept(task).text == "a\ufffdb\ufffd\n"


def test_of_a_wave_only_some_logs_are_kept(lab: Lab) -> None:
    rows = failed(lab, tasks=9)

    assert KeptLog.objects.count() == tails.MOST_A_WAVE
    assert kept(rows[0]).due_at == NOW


def test_a_task_that_had_no_pod_has_no_log(lab: Lab) -> None:
    wave = lab.start(lab.submit())
    Task.objects.filter(wave=wave).update(state="failed", ended_at=NOW)

    tails.want(wave.tasks.select_related("wave"), now=NOW)

    assert not KeptLog.objects.exists()


def test_a_pod_that_is_gone_says_why_nothing_was_kept(lab: Lab) -> None:
    (task,) = failed(lab)

    keep(Fake(NotThere('pods "pod-0" not found')))

    row = kept(task)
    assert (row.text, row.error, row.due_at) == ("", 'pods "pod-0" not found', None)


def test_a_cluster_that_does_not_answer_is_asked_again_for_some_minutes(lab: Lab) -> None:
    (task,) = failed(lab)
    away = Fake(Unreachable("no answer"))

    keep(away)
    assert kept(task).due_at == NOW + SECOND
    keep(away, NOW + SECOND)
    assert kept(task).due_at == NOW + 3 * SECOND
    keep(away, NOW + tails.GIVE_UP + SECOND)

    row = kept(task)
    assert (row.due_at, row.kept_at, row.error) == (None, NOW + tails.GIVE_UP + SECOND, "no answer")


@pytest.mark.parametrize(
    ("later", "taken"), [(timedelta(0), False), (tails.WAVE_WAITS - SECOND, False), (tails.WAVE_WAITS, True)]
)
def test_a_wave_that_has_to_go_waits_for_its_tails_but_not_for_long(lab: Lab, later: timedelta, taken: bool) -> None:  # noqa: FBT001
    (task,) = failed(lab)
    Wave.objects.filter(id=task.wave_id).update(wish=Wish.STOP, wish_due_at=NOW)

    assert bool(release.take(NOW + later, NOW + later + SECOND)) is taken


def test_once_the_tail_is_kept_the_wave_goes_in_the_same_run(lab: Lab) -> None:
    (task,) = failed(lab)
    Wave.objects.filter(id=task.wave_id).update(wish=Wish.STOP, wish_due_at=NOW)

    release.release_due(_clock(), clusters={"default": cast("Cluster", Fake(Said(b"bye\n")))})

    assert kept(task).text == "bye\n"
    assert Wave.objects.get(id=task.wave_id).stopped_at is not None


def test_kept_logs_go_after_their_time(lab: Lab) -> None:
    (task,) = failed(lab)
    keep(Fake(Said(b"bye\n")))

    assert cleanup.clean_up(NOW + cleanup.KEEP_LOGS) == 0
    assert cleanup.clean_up(NOW + cleanup.KEEP_LOGS + SECOND) == 1
    assert not KeptLog.objects.filter(task=task).exists()


def _clock() -> Callable[[], datetime]:
    """Return a clock that goes on by a millisecond a look."""
    moments: Sequence[datetime] = [NOW + n * timedelta(milliseconds=1) for n in range(1000)]
    return iter(moments).__next__
