"""The outbox: clusters are told what is due about waves, and what they answer is written down.

Rows are leased, the lease is committed, then the network is used, then each answer is written under the lease as
guard. A worker that dies in between is followed by another when the lease is over: every verb may be repeated. A wave
is not told to go while its launch is under way, else the launch might make anew what the stop has deleted.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Case, F, Q, Value, When

from clusters.port import Cluster, ClusterError, Launch, NameTaken, QuotaRefused, Refused, Unreachable
from queues import endings, hints, removals, tails, underway
from queues.launches import ceilings, launches_of, ref_of
from queues.models import Job, JobEvent, Wave
from queues.models.wave import Wish
from queues.progress import Trouble
from queues.states import WaveState
from queues.underway import Answer, Run, Telling

log = logging.getLogger(__name__)

Clock = Callable[[], datetime]

BATCH = 64
THREADS = 8
# A run ends in time for the broker; the next hint or beat goes on.
LONGEST_RUN = timedelta(seconds=30)
SOON = timedelta(seconds=2)
LONGEST_PAUSE = timedelta(seconds=60)
MOST_FAULTS = 4
"""After so many tries a fault of ours counts as a failed start."""
# Asked of pods that have outstayed their own grace.
FIRM_GRACE_SECONDS = 1


class Fences:
    """What this process last told clusters about the teams' namespaces."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._told: dict[tuple[str, str], Mapping[str, int]] = {}

    def ensure(self, cluster: Cluster, name: str, launch: Launch, ceiling: Mapping[str, int]) -> None:
        """Make sure of a launch's namespace and fence where this process has not."""
        key = (name, launch.namespace)
        if self._told.get(key) != ceiling:
            cluster.ensure_team(launch.namespace, team=launch.team, ceiling=ceiling)
            self._told[key] = ceiling

    def forget(self, name: str, namespace: str) -> None:
        """Look again at a namespace in which something went wrong."""
        self._told.pop((name, namespace), None)


FENCES = Fences()


def release_due(clock: Clock, *, clusters: Mapping[str, Cluster], fences: Fences = FENCES) -> int:
    """Tell the clusters all that is due; return how many waves were told.

    While a batch is told, the next one is taken. What becomes due meanwhile comes with a hint of its own: only what the
    answers themselves bring is looked for again.
    """
    told, end, more = 0, clock() + LONGEST_RUN, True
    telling: Telling | None = None
    with ThreadPoolExecutor(THREADS, thread_name_prefix="release") as threads:
        run = Run(clock, threads)
        while more or telling is not None:
            before, telling = telling, None
            more = more and clock() < end
            if more:
                kept = tails.keep_due(clock, clusters=clusters, each=run.each)
                telling = _tell(run, clusters, fences)
                told += len(telling.waves) if telling else 0
                more = bool(telling and len(telling.waves) == BATCH) or kept == tails.BATCH
            if before is not None:
                more |= write(run.end(before), lease=before.lease, now=clock())
        more = True
        while more:
            removed = removals.remove_due(clock, clusters=clusters, each=run.each)
            told, more = told + removed, removed == removals.BATCH and clock() < end
    return told


def take(now: datetime, lease: datetime) -> list[Wave]:
    """Lease what is due, oldest first, passing over what other workers have and stops whose launch is under way."""
    # A cluster that does not answer would keep every thread waiting, and the other clusters with them.
    reachable = Wave.objects.filter(wish_due_at__lte=now, cluster__unreachable_since=None)
    due = reachable.exclude(launching_until__gt=now).order_by("wish_due_at", "id")
    due = due.exclude(Q(tails.awaited(now), wish=Wish.STOP))
    launching = Case(When(wish=Wish.LAUNCH, then=Value(lease)))
    with transaction.atomic():
        ids = list(due.select_for_update(of=("self",), skip_locked=True).values_list("id", flat=True)[:BATCH])
        Wave.objects.filter(id__in=ids).update(wish_due_at=lease, launching_until=launching)
        rows = Wave.objects.filter(id__in=ids).order_by("id")
        return list(rows.select_related("cluster", "base", "job__team", "job__queue", "job__priority_class"))


def write(answers: Sequence[Answer], *, lease: datetime, now: datetime) -> bool:
    """Write down what clusters answered, where the lease still stands; return whether that may have made wishes due."""
    done = [answer.wave for answer in answers if answer.error is None]
    late = _write_launched([wave for wave in done if wave.wish == Wish.LAUNCH], lease, now)
    stopped = [wave.id for wave in done if wave.wish == Wish.STOP]
    told = Wave.objects.filter(id__in=stopped, wish=Wish.STOP, wish_due_at=lease)
    told.update(wish_due_at=None, stopped_at=now, wish_error="")
    for answer in answers:
        if answer.error is not None:
            _write_error(answer.wave, answer.error, lease, now)
    return late or len(done) < len(answers)


def _tell(run: Run, clusters: Mapping[str, Cluster], fences: Fences) -> Telling | None:
    """Take what is due and begin to tell all of it at once; only the network is used in threads."""
    lease = run.clock() + underway.LEASE
    waves = take(run.clock(), lease)
    if not waves:
        return None
    telling = run.begin(waves, lease)
    starting = [wave for wave in waves if wave.wish == Wish.LAUNCH]
    launches = launches_of(starting)
    limits = ceilings({wave.job.team_id for wave in starting})
    first: dict[tuple[str, str], Wave] = {}
    for wave in starting:
        first.setdefault((wave.cluster.name, launches[wave.id].namespace), wave)

    def known(name: str) -> Cluster:
        if name not in clusters:
            raise Unreachable(f"no cluster is configured as '{name}'")
        return clusters[name]

    def ensure(wave: Wave) -> Exception | None:
        launch, name = launches[wave.id], wave.cluster.name
        return _outcome(lambda: fences.ensure(known(name), name, launch, limits[wave.job.team_id]))

    def tell(wave: Wave) -> Answer:
        name = wave.cluster.name
        if run.clock() >= telling.lease:
            return Answer(wave, Unreachable("not told: this worker stood still until its lease was over"))
        if wave.wish == Wish.STOP:
            grace = FIRM_GRACE_SECONDS if wave.state == WaveState.EVICTING and wave.deadline_at is None else None
            return Answer(wave, _outcome(lambda: known(name).stop(ref_of(wave), grace_seconds=grace)))
        launch = launches[wave.id]
        error = broken.get((name, launch.namespace)) or _outcome(lambda: known(name).launch(launch))
        if error is not None:
            fences.forget(name, launch.namespace)
        return Answer(wave, error)

    broken = dict(zip(first, run.each(ensure, first.values()), strict=True))
    run.tell(telling, tell)
    return telling


def _outcome(verb: Callable[[], None]) -> Exception | None:
    try:
        verb()
    except ClusterError as error:
        return error
    except Exception as error:  # a fault of ours in one wave must not stop the others
        log.exception("telling a cluster failed")
        return error
    return None


def _write_launched(waves: Sequence[Wave], lease: datetime, now: datetime) -> bool:
    """Note what was launched; return whether some of it was told to stop meanwhile."""
    if not waves:
        return False
    ids = [wave.id for wave in waves]
    with transaction.atomic():
        # Jobs before waves, as reconcile locks them; else the events' foreign keys lock them last, at commit.
        jobs = Job.objects.filter(id__in={wave.job_id for wave in waves}).order_by("id").select_for_update(no_key=True)
        list(jobs.values_list("id", flat=True))
        told = Wave.objects.filter(id__in=ids).order_by("id").select_for_update(no_key=True)
        rows = list(told.values("id", "wish", "wish_due_at", "launching_until"))
        standing = {row["id"] for row in rows if row["wish"] == Wish.LAUNCH and row["wish_due_at"] == lease}
        Wave.objects.filter(id__in=ids, launching_until=lease).update(launching_until=None)
        Wave.objects.filter(id__in=standing).update(wish_due_at=None, launched_at=now, wish_error="")
        JobEvent.objects.bulk_create(
            JobEvent(
                job_id=wave.job_id,
                at=now,
                type="launched",
                summary=f"Sent to cluster {wave.cluster.name}",
                details={"wave": wave.number},
            )
            for wave in waves
            if wave.id in standing and not wave.surplus
        )
        stopping = [row for row in rows if row["wish"] == Wish.STOP]
        # Of a lease that was over a stop may have been told: what was created behind it has to go too.
        late = [row["id"] for row in stopping if row["launching_until"] != lease]
        Wave.objects.filter(id__in=late).update(wish_due_at=now, stopped_at=None)
    return bool(stopping)


def _write_error(wave: Wave, error: Exception, lease: datetime, now: datetime) -> None:
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).select_related("queue").get(id=wave.job_id)
        Wave.objects.filter(id=wave.id, launching_until=lease).update(launching_until=None)
        standing = Wave.objects.filter(id=wave.id, wish=wave.wish, wish_due_at=lease)
        if not standing.exists():
            return
        if wave.wish == Wish.LAUNCH and wave.state == WaveState.ADMITTED and _refused(wave, job, error, now):
            return
        pause = _pause(wave, error)
        standing.update(wish_due_at=now + pause, wish_tries=F("wish_tries") + 1, wish_error=str(error))
        if wave.wish == Wish.LAUNCH and isinstance(error, Unreachable) and not wave.surplus:
            told = Job.objects.filter(id=job.id, backoff_until__isnull=True)
            told.update(reason_code=Trouble.CLUSTER_UNREACHABLE, reason_text=str(error))
    hints.tell_pages("jobs", f"job:{job.uid}")


def _refused(wave: Wave, job: Job, error: Exception, now: datetime) -> bool:
    """Act on an answer that trying again cannot change; False where it can."""
    match error:
        case Refused():
            endings.reject(wave, job, code=Trouble.K8S_REJECTED, text=str(error), now=now)
        case QuotaRefused():
            endings.fail_start(wave, job, code=Trouble.K8S_QUOTA, text=str(error), now=now, counts=False)
        case NameTaken(leaving=False):
            endings.fail_start(wave, job, code=Trouble.NAME_CONFLICT, text=str(error), now=now, counts=False)
        case Exception() if not isinstance(error, ClusterError) and wave.wish_tries + 1 >= MOST_FAULTS:
            # A fault of ours does not go away by trying; the job must not hold its units meanwhile.
            text = f"Tidegate could not write what Kubernetes needs ({type(error).__name__}: {error})"
            endings.fail_start(wave, job, code=Trouble.START_FAILED, text=text, now=now, counts=True)
        case _:
            return False
    return True


def _pause(wave: Wave, error: Exception) -> timedelta:
    if isinstance(error, NameTaken):
        return SOON
    if isinstance(error, Unreachable) and error.retry_after is not None:
        return min(timedelta(seconds=error.retry_after), LONGEST_PAUSE)
    return min(timedelta(seconds=2 ** min(wave.wish_tries, 6)), LONGEST_PAUSE)
