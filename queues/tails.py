"""The last lines of tasks that failed, kept before their pods go: an outbox like that of waves.

Rows are leased before the network is used, and each answer is written under the lease as guard.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import Exists, F, OuterRef

from clusters.port import Cluster, ClusterError, Log, Refused, Unreachable
from queues.models import KeptLog, Task
from queues.namespaces import namespace_of
from queues.states import TaskState

KEEP_LINES = 200
KEEP_BYTES = 16 * 2**10
# More than that is not read of 200 lines, however long they are.
READ_BYTES = 2**20
MOST_A_WAVE = 5
MOST_A_JOB = 100
# A wave that has to go waits so long for its tails; tails are tried for longer, since pods may outlive that.
WAVE_WAITS = timedelta(seconds=6)
GIVE_UP = timedelta(minutes=5)
PATIENCE_SECONDS = 3.0
LEASE = timedelta(seconds=15)
BATCH = 16


class Tail(NamedTuple):
    """What a pod wrote last, or why that could not be read."""

    text: str = ""
    cut: bool = False
    error: ClusterError | None = None


Each = Callable[[Callable[[KeptLog], Tail], Sequence[KeptLog]], Sequence[Tail]]


def want(tasks: Iterable[Task], *, now: datetime) -> None:
    """Ask for the tails of tasks that have just failed, in the order given and up to the caps.

    Runs in the transaction that writes their end.
    """
    failed = [task for task in tasks if task.state == TaskState.FAILED and task.pod]
    if not failed:
        return
    wave = failed[0].wave
    kept = KeptLog.objects.filter(task__wave__job=wave.job_id)
    room = min(MOST_A_WAVE - kept.filter(task__wave=wave).count(), MOST_A_JOB - kept.count())
    KeptLog.objects.bulk_create(
        [KeptLog(task=task, due_at=now, until=now + WAVE_WAITS) for task in failed[: max(0, room)]],
        ignore_conflicts=True,
    )


def awaited(now: datetime) -> Exists:
    """Return the condition on a wave that its objects have to stay, for a tail that is still to be read."""
    return Exists(KeptLog.objects.filter(task__wave=OuterRef("pk"), due_at__isnull=False, until__gt=now))


def keep_due(clock: Callable[[], datetime], *, clusters: Mapping[str, Cluster], each: Each) -> int:
    """Read and keep the tails that are due, ``each`` as it does things at once; return how many were tried."""
    lease = clock() + LEASE
    rows = take(clock(), lease)
    found = each(lambda row: _read(row.task, clusters), rows)
    for row, tail in zip(rows, found, strict=True):
        _write(row, tail, lease=lease, now=clock())
    return len(rows)


def take(now: datetime, lease: datetime) -> list[KeptLog]:
    """Lease the tails that are due at clusters that answer."""
    reachable = KeptLog.objects.filter(due_at__lte=now, task__wave__cluster__unreachable_since=None)
    due = reachable.order_by("due_at", "task_id")
    if not due.exists():
        return []
    with transaction.atomic():
        ids = list(due.select_for_update(of=("self",), skip_locked=True).values_list("task_id", flat=True)[:BATCH])
        KeptLog.objects.filter(task__in=ids).update(due_at=lease)
    rows = KeptLog.objects.filter(task__in=ids).select_related("task__wave__cluster", "task__wave__job__team")
    return list(rows.defer("task__wave__job__spec").order_by("task_id"))


def _read(task: Task, clusters: Mapping[str, Cluster]) -> Tail:
    wave = task.wave
    cluster = clusters.get(wave.cluster.name)
    if cluster is None:
        return Tail(error=Unreachable(f"no cluster is configured as {wave.cluster.name}"))
    try:
        log = cluster.logs(
            namespace_of(wave.job.team.name),
            task.pod,
            container=task.container,
            tail=KEEP_LINES,
            patience=PATIENCE_SECONDS,
        )
        return last_of(log)
    except ClusterError as error:
        return Tail(error=error)


def last_of(log: Log) -> Tail:
    """Read a log and return its last bytes as text, from a line's start where there is one."""
    end, size = b"", 0
    for chunk in log.chunks():
        size += len(chunk)
        end = (end + chunk)[-KEEP_BYTES:]
        if size > READ_BYTES:
            log.shut()
            break
    cut = size > len(end)
    if cut and b"\n" in end[:-1]:
        end = end.split(b"\n", 1)[1]
    # PostgreSQL keeps no NUL.
    return Tail(text=end.decode("utf-8", "replace").replace("\0", "�"), cut=cut)


def _write(row: KeptLog, tail: Tail, *, lease: datetime, now: datetime) -> None:
    standing = KeptLog.objects.filter(task=row.task_id, due_at=lease)
    if tail.error is None:
        standing.update(due_at=None, kept_at=now, text=tail.text, cut=tail.cut, error="")
    elif isinstance(tail.error, Refused) or now > row.until - WAVE_WAITS + GIVE_UP:
        standing.update(due_at=None, kept_at=now, error=str(tail.error))
    else:
        pause = timedelta(seconds=2 ** min(row.tries, 5))
        standing.update(due_at=now + pause, tries=F("tries") + 1, error=str(tail.error))
