"""Lists of jobs, and one job."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from queues import limits
from queues.admission.world import JobShape
from queues.models import Job, Task, TaskGroup, Wave
from queues.queries import ranks
from queues.queries.borrowing import borrowed_by
from queues.queries.elastic import elastic_rows
from queues.queries.estimates import estimates
from queues.queries.filters import JobFilter
from queues.queries.reasons import Reasons
from queues.queries.rows.jobs import ElasticRow, GroupRow, JobDetail, JobPage, JobRow
from queues.spec import runs
from queues.spec.hidden import masked
from queues.states import ENDED, HOLDING, TASK_HOLDING, JobState, TaskState
from tenants.errors import NotFound, Unreadable
from tenants.look import looking, once
from tenants.permissions import Actor, Permission, can
from tenants.queries import kinds

COUNTED = {"state": "state", "team": "team__name", "queue": "queue__name", "owner": "user__username"}
WAITING = frozenset({JobState.QUEUED, JobState.HELD})


def found_jobs(by: Actor, wanted: JobFilter) -> QuerySet[Job]:
    """Return the visible jobs that a filter finds, ready for ``job_rows``."""
    jobs = wanted.apply(Job.objects.visible_to(by), by)
    return jobs.select_related("team", "queue", "user", "priority_class").defer("spec")


def jobs(
    by: Actor,
    wanted: JobFilter,
    *,
    now: datetime,
    limit: int = 50,
    before: int | None = None,
    after: int | None = None,
    count: bool = False,
) -> JobPage:
    """Return a page of the visible jobs, newest first, older than id ``before`` or newer than id ``after``."""
    found = found_jobs(by, wanted)
    if after is not None:
        some = list(found.filter(id__gt=after).order_by("id")[: limit + 1])
        page = some[:limit][::-1]
        older, newer = bool(page), len(some) > limit
    else:
        some = list((found if before is None else found.filter(id__lt=before)).order_by("-id")[: limit + 1])
        page = some[:limit]
        older, newer = len(some) > limit, bool(page) and before is not None
    return JobPage(
        rows=job_rows(page, by, now),
        older=page[-1].id if older else None,
        newer=page[0].id if newer else None,
        count=found.order_by().count() if count else None,
    )


def job_rows(page: Sequence[Job], by: Actor, now: datetime, reasons: Reasons | None = None) -> tuple[JobRow, ...]:
    """Return jobs as rows, in a fixed number of statements; ``reasons`` are theirs, where these are read already."""
    reasons = reasons or Reasons(page, by, now)
    groups = groups_of(page)
    names = flavor_names() if page else {}
    elastic = elastic_rows(page, groups)
    return tuple(_row(job, groups[job.id], names, reasons, by, elastic.get(job.id)) for job in page)


def groups_of(page: Iterable[Job]) -> dict[int, list[TaskGroup]]:
    """Return the task groups of jobs, by job."""
    groups: dict[int, list[TaskGroup]] = defaultdict(list)
    for group in _groups(tuple(job.id for job in page)):
        groups[group.job_id].append(group)
    return groups


@once
def _groups(jobs: tuple[int, ...]) -> tuple[TaskGroup, ...]:
    return tuple(TaskGroup.objects.filter(job__in=jobs).order_by("job_id", "index")) if jobs else ()


def flavor_names() -> dict[int, str]:
    """Return the names of the flavors by id."""
    return {kind.id: kind.name for kind in kinds()}


def _row(
    job: Job,
    groups: list[TaskGroup],
    names: dict[int, str],
    reasons: Reasons,
    by: Actor,
    elastic: ElasticRow | None,
) -> JobRow:
    tasks = sum(group.tasks for group in groups)
    flavors = dict.fromkeys(flavor for group in groups for flavor in group.flavors)
    return JobRow(
        id=job.id,
        uid=job.uid,
        name=job.name,
        team=job.team.name,
        queue=job.queue.name,
        owner=job.user.username,
        mine=job.user_id == by.user.pk,
        shape=job.shape,
        tasks=tasks,
        tasks_waiting=job.waiting_tasks if job.shape == JobShape.INDEPENDENT else tasks * bool(job.waiting_tasks),
        units=job.units,
        flavors=tuple(names.get(flavor, "?") for flavor in flavors),
        priority=job.priority_class.name,
        state=job.state,
        state_since=job.state_since,
        attempt=job.attempt,
        submitted_at=job.submitted_at,
        wait_from=job.wait_from,
        started_at=job.started_at,
        ended_at=job.ended_at,
        external_id=job.external_id,
        labels=job.labels,
        reason=reasons.of(job),
        elastic=elastic,
    )


@once
def visible_job(by: Actor, uid: UUID) -> Job:
    """Return one visible job with its team, queue, owner and priority class, or raise NotFound."""
    found = Job.objects.visible_to(by).select_related("team", "queue", "user", "priority_class", "cloned_from")
    job = found.filter(uid=uid).first()
    if job is None:
        raise NotFound(f"There is no job {uid}.")
    return job


@once
def waves_of(job: Job) -> tuple[Wave, ...]:
    """Return all waves of a job, the newest first."""
    return tuple(Wave.objects.filter(job=job).order_by("-number"))


def _holding(job: Job) -> list[Wave]:
    """Return the waves of a job that hold units, the oldest first; a page reads them with all others."""
    if looking():
        return sorted((wave for wave in waves_of(job) if wave.state in HOLDING), key=lambda wave: wave.id)
    return list(Wave.objects.filter(job=job, state__in=sorted(HOLDING)).order_by("id"))


def job(by: Actor, uid: UUID, *, now: datetime, position: bool = True) -> JobDetail:
    """Return one visible job with its reason and (``position``) its place in the queue order."""
    found = visible_job(by, uid)
    names = flavor_names()
    groups = groups_of([found])[found.id]
    waves = _holding(found)
    for wave in waves:
        wave.job = found
    # Surplus ends with its minimum.
    firsts = [wave for wave in waves if not wave.surplus]
    ends = [limits.run_ends_at(wave) for wave in firsts]
    borrowed = borrowed_by(found.team_id) if firsts else {}
    return JobDetail(
        row=_row(
            found,
            groups,
            names,
            Reasons([found], by, now),
            by,
            elastic_rows([found], {found.id: groups}).get(found.id),
        ),
        groups=tuple(
            GroupRow(
                name=group.name,
                tasks=group.tasks,
                most=group.most,
                units=group.units,
                flavors=tuple(names.get(flavor, "?") for flavor in group.flavors),
                cpu_milli=group.cpu_milli,
                memory=group.memory,
                image=run.image,
            )
            for group, run in zip(groups, runs(found.spec), strict=True)
        ),
        spec=masked(found.spec),
        time_limit=found.time_limit,
        ran_for=found.ran_for,
        ends_by=max((end for end in ends if end is not None), default=None),
        grace=found.grace,
        retries=found.retries,
        failures=found.failures,
        evictions=found.evictions,
        interruptions=found.interruptions,
        borrow=found.borrow,
        preemptible=found.preemptible,
        borrowed=any(wave.id in borrowed for wave in firsts),
        next_state=found.next_state,
        backoff_until=found.backoff_until,
        cloned_from=found.cloned_from.uid if found.cloned_from else None,
        position=ranks.position(found, groups, now=now) if position and found.ready else None,
        tasks_by_state=_tasks_by_state(found, groups),
        may=_may(found, by, bounded=found.shape == JobShape.ELASTIC and len(groups) == 1),
        estimate=estimates({found.id: found.job_class_id}).get(found.id) if found.ready else None,
    )


def _tasks_by_state(job: Job, groups: list[TaskGroup]) -> dict[str, int]:
    """Count the tasks by where each stands now: of a gang in this attempt, of an independent job since it began."""
    tasks = sum(group.tasks for group in groups)
    if looking() and not waves_of(job):
        return (
            {"waiting": job.waiting_tasks if job.shape == JobShape.INDEPENDENT else tasks} if job.waiting_tasks else {}
        )
    runs_of = Task.objects.filter(wave__job=job)
    if job.shape != JobShape.INDEPENDENT:
        if job.waiting_tasks:
            return {"waiting": tasks}
        runs_of = runs_of.filter(wave__attempt=job.attempt)
    if job.shape == JobShape.ELASTIC:
        # Surplus counts while it is there.
        runs_of = runs_of.filter(Q(wave__base__isnull=True) | Q(state__in=TASK_HOLDING))
    newest = runs_of.order_by("index", "-id").distinct("index").values_list("state", flat=True)
    counts = Counter(newest)
    again = job.waiting_tasks - max(0, tasks - counts.total())
    for ended in (TaskState.STOPPED, TaskState.FAILED):
        # A task that waits again stands no longer where its last run ended.
        waits = max(0, min(again, counts[ended]))
        counts[ended] -= waits
        again -= waits
    counts["waiting"] = job.waiting_tasks
    return {state: count for state, count in counts.items() if count}


def _may(job: Job, by: Actor, *, bounded: bool) -> frozenset[str]:
    """Return what the reader may do to the job as it stands."""
    state = JobState(job.state)
    verbs: set[str] = set()
    own = job.user_id == by.user.pk
    if can(by, Permission.CHANGE_OWN_JOB if own else Permission.CHANGE_ANY_JOB, team=job.team):
        verbs |= {"labels"}
        verbs |= {"cancel"} if state not in ENDED and job.next_state != JobState.CANCELLED else set()
        verbs |= {"hold"} if state is JobState.QUEUED or job.next_state == JobState.QUEUED else set()
        verbs |= {"release"} if JobState.HELD in {state, job.next_state} else set()
        verbs |= {"priority"} if state in WAITING else set()
        verbs |= {"max_tasks"} if bounded and state not in ENDED else set()
    if can(by, Permission.SUBMIT_JOB, team=job.team):
        verbs |= {"rerun"}
    return frozenset(verbs)


def count_jobs(by: Actor, wanted: JobFilter, *, group_by: str = "state") -> dict[str, int]:
    """Return how many visible jobs there are by ``state``, ``team``, ``queue`` or ``owner``."""
    if group_by not in COUNTED:
        allowed = ", ".join(COUNTED)
        raise Unreadable(f"group_by is one of {allowed}; not {group_by[:40]!r}.", code="bad_group_by")
    key = COUNTED[group_by]
    rows = wanted.apply(Job.objects.visible_to(by), by).order_by(key).values_list(key).annotate(Count("id"))
    return dict(rows)
