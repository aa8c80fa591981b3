"""What must be true of a soak that has become quiet: ledger, recount, cluster and jobs agree, nothing is left."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from django.db import connection
from django.db.models import Count, F, Q, Sum

from queues import snapshot
from queues.models import Claim, Eviction, Hold, Idle, Job, JobEvent, KeptLog, Node, Task, TaskGroup, Verdict, Wave
from queues.soak.drawing import Draw, Fate
from queues.soak.ground import Ground
from queues.states import HOLDING, TASK_HOLDING, JobState, TaskState
from tenants.models import Flavor

ENDS_ONCE = (JobState.SUCCEEDED, JobState.FAILED)
# How a job of each fate may end when nobody cancels it.
RIGHT_ENDS: Mapping[Fate, frozenset[str]] = {
    Fate.SUCCEEDS: frozenset({JobState.SUCCEEDED}),
    Fate.FAILS: frozenset({JobState.FAILED}),
    Fate.TIMED_OUT: frozenset({JobState.FAILED}),
    Fate.NEVER_STARTS: frozenset({JobState.FAILED}),
    Fate.ENDLESS: frozenset(),
    Fate.NEVER_FITS: frozenset(),
}


# How a job may also end whose object somebody deleted, or made fail: let go while it waits, refused when it was to run.
UNMADE = frozenset({JobState.CANCELLED, JobState.FAILED})


def jobs_wrong(
    draws: Mapping[str, Draw], cancelled: Collection[str], unmade: Collection[str] = frozenset()
) -> Iterator[str]:
    """Yield jobs that are not there, there twice, not ended, or ended otherwise than drawn."""
    rows = list(Job.objects.order_by("id").values_list("id", "name", "state", "reason_code"))
    for name, count in Counter(name for _, name, _, _ in rows).items():
        if count > 1 or name not in draws:
            yield f"job {name}: {count} times, {'drawn' if name in draws else 'drawn by nobody'}"
    yield from (f"job {name}: not there" for name in draws.keys() - {name for _, name, _, _ in rows})
    for _, name, state, reason in rows:
        right = RIGHT_ENDS[draws[name].fate] | ({JobState.CANCELLED} if name in cancelled else set())
        right |= UNMADE if name in unmade else set()
        if state not in right:
            yield f"job {name} ({draws[name].fate}): {state} {reason}, not {' or '.join(sorted(right)) or 'anything'}"
        elif state == JobState.FAILED and not reason:
            yield f"job {name}: failed without a reason"
    # A cancellation is told when it is asked for and when it is done.
    ends = JobEvent.objects.filter(type__in=ENDS_ONCE).order_by().values("job__name").annotate(ends=Count("id"))
    yield from (f"job {row['job__name']}: ended {row['ends']} times" for row in ends.filter(ends__gt=1))


def succeeded_wrong() -> Iterator[str]:
    """Yield jobs that succeeded although not every task did, and tasks that ran after their success."""
    total = dict(TaskGroup.objects.order_by().values_list("job").annotate(Sum("tasks")))
    done = dict(
        Task.objects.filter(state=TaskState.SUCCEEDED)
        .order_by()
        .values_list("wave__job")
        .annotate(Count("index", distinct=True))
    )
    # Of what people made the object tells, also when it completes behind its last attempt: its makers look at it.
    ours = Job.objects.filter(state=JobState.SUCCEEDED, object_uid=None).order_by("id")
    for pk, name in ours.values_list("id", "name"):
        if done.get(pk, 0) < total[pk]:
            yield f"job {name}: succeeded with {done.get(pk, 0)} of {total[pk]} tasks"
    again = (
        Task.objects.filter(wave__job__shape="independent")
        .order_by()
        .values("wave__job__name", "index")
        .annotate(done=Count("id", filter=Q(state=TaskState.SUCCEEDED)))
        .filter(done__gt=1)
    )
    yield from (f"job {row['wave__job__name']}: task {row['index']} succeeded {row['done']} times" for row in again)


def ledger_left() -> Iterator[str]:
    """Yield what the database still holds, promises or means to tell."""
    tables = {
        "tasks that hold": Task.objects.filter(state__in=TASK_HOLDING),
        "waves that hold": Wave.objects.filter(state__in=HOLDING),
        "waves to be told": Wave.objects.filter(wish_due_at__isnull=False),
        "evictions to be told": Eviction.objects.filter(due_at__isnull=False),
        "logs to be read": KeptLog.objects.filter(due_at__isnull=False),
        "claims": Claim.objects.all(),
        "holds": Hold.objects.all(),
        "places kept idle": Idle.objects.all(),
        "jobs that wait": Job.objects.filter(Q(ready=True) | Q(waiting_tasks__gt=0) | Q(backoff_until__isnull=False)),
        "verdicts": Verdict.objects.all(),
        "nodes with others' pods": Node.objects.filter(
            Q(outside_units__gt=0) | Q(outside_pods__gt=0), gone_at__isnull=True
        ),
    }
    for what, rows in tables.items():
        if count := rows.count():
            yield f"{count} {what}"


def recount_wrong(now: datetime) -> Iterator[str]:
    """Yield what the next decision, which counts everything anew from the waves, would still see."""
    with snapshot.load(now) as seen:
        yield from (f"attempt of job {attempt.job} still counts" for attempt in seen.world.attempts)
        yield from (f"class {job_class.id} still waits" for job_class in seen.world.classes)
        yield from (f"claim of job {claim.job} still stands" for claim in seen.world.claims)
    for flavor in Flavor.objects.exclude(installed=F("usable")).order_by("id"):
        yield f"{flavor.usable} of {flavor.installed} {flavor.name} are usable"


def locks_left() -> Iterator[str]:
    """Yield advisory locks that somebody still holds."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT classid, objid, pid FROM pg_locks WHERE locktype = 'advisory'")
        yield from (f"advisory lock {kind}/{number} of {pid}" for kind, number, pid in cursor.fetchall())


def cluster_left(ground: Ground) -> Iterator[str]:
    """Yield what the cluster still has of us."""
    yield from ground.left()
