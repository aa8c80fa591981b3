"""The outbox of single tasks that leave a wave whose other tasks stay: clusters are told which pods go.

As with waves, rows are leased before the network is used. A pod that is not known yet is told to go when it is; where
it never comes, its wave goes whole.
"""

import logging
from collections.abc import Callable, Mapping
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


def remove_due(clock: Callable[[], datetime], *, clusters: Mapping[str, Cluster]) -> int:
    """Tell the clusters which pods have to go; return how many evictions were told."""
    lease = clock() + LEASE
    rows = take(clock(), lease)
    for row in rows:
        after, failed = _tell(row, clusters, clock())
        standing = Eviction.objects.filter(id=row.id, due_at=lease)
        standing.update(due_at=after, tries=F("tries") + int(failed))
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


def _tell(row: Eviction, clusters: Mapping[str, Cluster], now: datetime) -> tuple[datetime | None, bool]:
    """Tell one; return when it is due again, and whether the cluster could not be told."""
    wave = row.wave
    leaving = Task.objects.filter(wave=wave, eviction=row, state=TaskState.LEAVING).order_by("pod")
    pods = list(leaving.values_list("pod", "pod_uid"))
    if not pods or wave.state in {WaveState.EVICTING, WaveState.ENDED}:
        return None, False
    known = {pod: uid for pod, uid in pods if pod}
    late = row.at + row.grace + GOING_SLACK
    grace = FIRM_GRACE_SECONDS if late <= now else None
    try:
        cluster = clusters[wave.cluster.name]
        cluster.stop_pods(namespace_of(wave.job.team.name), known, grace_seconds=grace)
    except (ClusterError, KeyError) as error:
        log.warning("cluster %s: pods of wave %s could not be told to go: %s", wave.cluster.name, wave.uid, error)
        return now + min(timedelta(seconds=2 ** min(row.tries, 6)), LATER), True
    if len(known) < len(pods) and late <= now:
        _stop_whole(row, now)
        return None, False
    if len(known) < len(pods):
        return now + SOON, False
    return max(late, now + LATER), False


def _stop_whole(row: Eviction, now: datetime) -> None:
    """Let the whole wave go of which a pod that has to leave was never seen: only so it is sure that none comes."""
    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(id=row.wave.job_id)
        text = "A pod that had to leave was never made"
        reason = Trouble.SHRUNK if row.surplus else Trouble.EVICTED
        stop_waves(row.wave.job_id, now=now, wave_id=row.wave_id, reason=reason, message=text)
