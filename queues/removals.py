"""The outbox of single tasks that leave a wave whose other tasks stay: clusters are told which pods go.

As with waves, rows are leased before the network is used. A pod that is not known yet is told to go when it is; where
it never comes, its wave goes whole.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from clusters.port import Cluster, ClusterError
from queues.models import Eviction, Job, Task
from queues.namespaces import namespace_of
from queues.progress import Trouble
from queues.states import TaskState, WaveState
from queues.steps import GOING_SLACK, stop_waves

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=10)
SOON = timedelta(seconds=2)
LATER = timedelta(seconds=60)
BATCH = 64
FIRM_GRACE_SECONDS = 1

Each = Callable[[Callable[[Eviction], Exception | None], Sequence[Eviction]], Sequence[Exception | None]]


def remove_due(clock: Callable[[], datetime], *, clusters: Mapping[str, Cluster], each: Each) -> int:
    """Tell the clusters which pods have to go, ``each`` doing several at once; return how many evictions were told."""
    lease = clock() + LEASE
    rows = take(clock(), lease)
    pods = _pods(rows)

    def tell(row: Eviction) -> Exception | None:
        return _tell(row, pods[row.id], clusters, clock())

    told = [row for row in rows if pods[row.id] and row.wave.state not in {WaveState.EVICTING, WaveState.ENDED}]
    errors = dict(zip((row.id for row in told), each(tell, told), strict=True))
    for row in rows:
        after = _after(row, pods[row.id], errors[row.id], clock()) if row.id in errors else None
        standing = Eviction.objects.filter(id=row.id, due_at=lease)
        standing.update(due_at=after, tries=F("tries") + int(errors.get(row.id) is not None))
    return len(rows)


def take(now: datetime, lease: datetime) -> list[Eviction]:
    """Lease the evictions that are due at clusters that answer."""
    reachable = Eviction.objects.filter(due_at__lte=now, wave__cluster__unreachable_since=None)
    due = reachable.order_by("due_at", "id")
    if not due.exists():
        return []
    with transaction.atomic():
        ids = list(due.select_for_update(of=("self",), skip_locked=True).values_list("id", flat=True)[:BATCH])
        Eviction.objects.filter(id__in=ids).update(due_at=lease)
    rows = Eviction.objects.filter(id__in=ids).select_related("wave__cluster", "wave__job__team").order_by("id")
    return list(rows)


def _pods(rows: Sequence[Eviction]) -> dict[int, list[tuple[str, str]]]:
    """Return names and UIDs of the pods that still have to go, by eviction; no name: it is not known yet."""
    found: dict[int, list[tuple[str, str]]] = {row.id: [] for row in rows}
    waves = {row.id: row.wave_id for row in rows}
    leaving = Task.objects.filter(eviction__in=found, state=TaskState.LEAVING).order_by("pod", "id")
    for eviction, wave, pod, uid in leaving.values_list("eviction", "wave", "pod", "pod_uid"):
        if wave == waves[eviction]:
            found[eviction].append((pod, uid))
    return found


def _tell(
    row: Eviction, pods: Sequence[tuple[str, str]], clusters: Mapping[str, Cluster], now: datetime
) -> Exception | None:
    """Tell one; return why its cluster could not be told. Only the network is used."""
    wave = row.wave
    known = {pod: uid for pod, uid in pods if pod}
    grace = FIRM_GRACE_SECONDS if _late(row) <= now else None
    try:
        cluster = clusters[wave.cluster.name]
        cluster.stop_pods(namespace_of(wave.job.team.name), known, grace_seconds=grace)
    except (ClusterError, KeyError) as error:
        log.warning("cluster %s: pods of wave %s could not be told to go: %s", wave.cluster.name, wave.uid, error)
        return error
    return None


def _after(row: Eviction, pods: Sequence[tuple[str, str]], error: Exception | None, now: datetime) -> datetime | None:
    """Return when one that was told is due again."""
    if error is not None:
        return now + min(timedelta(seconds=2 ** min(row.tries, 6)), LATER)
    late = _late(row)
    if all(pod for pod, _ in pods):
        return max(late, now + LATER)
    if late <= now:
        _stop_whole(row, now)
        return None
    return now + SOON


def _late(row: Eviction) -> datetime:
    return row.at + row.grace + GOING_SLACK


def _stop_whole(row: Eviction, now: datetime) -> None:
    """Let the whole wave go of which a pod that has to leave was never seen: only so it is sure that none comes."""
    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(id=row.wave.job_id)
        text = "A pod that had to leave was never made"
        reason = Trouble.SHRUNK if row.surplus else Trouble.EVICTED
        stop_waves(row.wave.job_id, now=now, wave_id=row.wave_id, reason=reason, message=text)
