"""The queue order of a flavor, and why one job waits."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from queues import snapshot, wording
from queues.admission.quota import Line, in_use
from queues.admission.ranking import Rank
from queues.admission.world import JobShape, World
from queues.classes import ask_from_json
from queues.models import Job, TaskGroup, Verdict
from queues.queries import ranks
from queues.queries.bounds import bound_of
from queues.queries.estimates import estimates
from queues.queries.jobs import groups_of, job_rows, visible_job
from queues.queries.reasons import OTHERS, Reasons
from queues.queries.room import free_blocks
from queues.queries.rows.jobs import JobRow
from queues.queries.rows.lines import OrderRow, QueueOrder
from queues.queries.rows.reasons import Action, Blocker, Explanation
from queues.queries.waits import units_waiting, waiting
from queues.states import ENDED, JobState
from tenants.errors import Invalid
from tenants.models import Flavor
from tenants.permissions import Actor, Permission, teams_seen
from tenants.queries import kinds

SHOWN_AHEAD = 10
MOST_PERMANENT = 200
SHOWN_WITH = ("team", "queue", "user", "priority_class")


def queue_order(by: Actor, flavor: str, *, now: datetime, limit: int = 200, team: str = "") -> QueueOrder:
    """Return who starts next on a flavor, across teams; jobs that ``by`` may not see are counted and not named.

    ``team`` leaves out the rows of other teams; ranks stay those of the whole order.
    """
    kind = _flavor(flavor)
    line = ranks.line(kind.id, now=now, limit=limit)
    free = sum(free_blocks(line.world, kind.id))
    waits = [row for (_, of_flavor), row in waiting().items() if of_flavor == kind.id]
    ranked, never = _jobs_shown(line.ranks, _never(by, kind.id, team))
    teams = {row.id for row in teams_seen(by, Permission.VIEW_JOB)}
    shown = [*(job for job in ranked.values() if job.team_id in teams), *never]
    reasons = Reasons([*ranked.values(), *never], by, now)
    told = {row.id: row for row in job_rows(shown, by, now, reasons)}
    rows = _ranked(line.ranks, ranked, told, reasons, free=free)
    return QueueOrder(
        flavor=kind.name,
        free=free,
        rows=tuple(row for row in rows if not team or (row.job is not None and row.job.team == team)),
        permanent=tuple(
            OrderRow(rank=None, units=told[job.id].units, units_ahead=0, starts_next=False, job=told[job.id])
            for job in never
        ),
        waiting_jobs=sum(row.jobs for row in waits),
        waiting_units=sum(row.units for row in waits),
        as_of=line.as_of,
    )


def explain(by: Actor, uid: UUID, *, now: datetime) -> Explanation:
    """Return why a visible job waits, in numbers."""
    job = visible_job(by, uid)
    groups = groups_of([job])[job.id]
    flavor = groups[0].flavors[0]
    with snapshot.load(now) as seen:
        line = ranks.line(flavor, now=now, seen=seen)
        kind = next(row.name for row in seen.world.flavors if row.id == flavor)
        latest = bound_of(job, seen, flavor, kind)
    tree, lines = in_use(line.world)
    quota, place = lines[flavor], tree.number[job.team_id]
    blocks, left = free_blocks(line.world, flavor), max(0, quota.promised_room(place))
    reason = Reasons([job], by, now).of(job)
    position = line.position(job) if job.waiting_tasks else None
    ahead = line.ranks[: position.rank - 1] if position else ()
    return Explanation(
        reason=reason,
        flavor=quota.flavor.name,
        needs=_needs(job, groups, flavor),
        team_guaranteed=quota.guaranteed[place],
        team_used=quota.usage[place],
        team_left=left,
        may_borrow=max(0, quota.available(place) - left),
        free_now=sum(blocks),
        largest_free_block=max(blocks, default=0),
        rule=wording.rule(reason.code) if reason else "",
        bound=latest,
        position=position,
        ahead=tuple(_blockers(ahead[:SHOWN_AHEAD], by, kind=quota.flavor.name)),
        helps=tuple(_helps(job, groups, line.world, lines, place, known=reason.actions if reason else ())),
        as_of=line.as_of,
    )


def _flavor(name: str) -> Flavor:
    flavors = {flavor.name: flavor for flavor in kinds()}
    if name not in flavors:
        names = list(flavors)
        detail = f"there is no GPU type {name[:63]}; there is {', '.join(names) or 'none'}"
        raise Invalid.field("/flavor", detail, code="unknown_gpu_type", given=name[:63], allowed=names)
    return flavors[name]


def _jobs_shown(ranks: Iterable[Rank], never: QuerySet[Job]) -> tuple[dict[int, Job], list[Job]]:
    """Return the jobs of an order and those that can never start, read together.

    One that has begun to run meanwhile is left out.
    """
    ids = {rank.job for rank in ranks}
    found = Job.objects.filter(Q(id__in=ids) | Q(id__in=never.values("id")), waiting_tasks__gt=0).order_by("id")
    rows = list(found.select_related(*SHOWN_WITH, "job_class").defer("spec"))
    return {job.id: job for job in rows if job.id in ids}, [job for job in rows if job.id not in ids]


def _ranked(
    ranks: Iterable[Rank], jobs: Mapping[int, Job], told: Mapping[int, JobRow], reasons: Reasons, *, free: int
) -> Iterator[OrderRow]:
    """Yield the rows of an order; every job is counted, the visible ones are told."""
    expected = estimates({pk: job.job_class_id for pk, job in jobs.items() if pk in told})
    for rank in ranks:
        if rank.job in jobs:
            job = jobs[rank.job]
            ask = ask_from_json(job.job_class.ask)
            asked, least = units_waiting(ask, job.waiting_tasks), units_waiting(ask, 1)
            yield OrderRow(
                rank=rank.position,
                units=asked,
                units_ahead=rank.units_ahead,
                starts_next=rank.units_ahead + least <= free and reasons.free_units_help(job),
                job=told.get(rank.job),
                estimate=expected.get(rank.job),
            )


def _never(by: Actor, flavor: int, team: str) -> QuerySet[Job]:
    """Return the visible jobs that can never start as they are."""
    never = Verdict.objects.filter(job_class=OuterRef("job_class"), user=None, permanent=True)
    wanted = TaskGroup.objects.filter(job=OuterRef("id"), flavors__contains=[flavor])
    found = Job.objects.visible_to(by).filter(Exists(never), Exists(wanted), state=JobState.QUEUED)
    if team:
        found = found.filter(team__name=team)
    return found.order_by("id")[:MOST_PERMANENT]


def _needs(job: Job, groups: list[TaskGroup], flavor: int) -> int:
    """Return the units of a flavor that must be free at once: of one task, or of all tasks that start together."""
    if job.shape == JobShape.INDEPENDENT:
        return groups[0].units
    return sum(group.tasks * group.units for group in groups if group.flavors[0] == flavor)


def _blockers(ahead: Iterable[Rank], by: Actor, *, kind: str) -> Iterator[Blocker]:
    """Yield what is before a job, by name where the reader may see it; what has begun to run meanwhile is left out."""
    ahead = tuple(ahead)
    columns = ("id", "uid", "name", "team_id", "team__name", "waiting_tasks", "job_class__ask")
    found = Job.objects.filter(id__in=[rank.job for rank in ahead], waiting_tasks__gt=0).values_list(*columns)
    rows = {job: told for job, *told in found}
    seen = {team.id for team in teams_seen(by, Permission.VIEW_JOB)}
    for rank in ahead:
        if rank.job in rows:
            uid, name, team, team_name, tasks, ask = rows[rank.job]
            units = units_waiting(ask_from_json(ask), tasks)
            if team in seen:
                yield Blocker(text=f"{team_name}: {name}, {units} {kind}", units=units, job=uid)
            else:
                yield Blocker(text=f"{OTHERS}, {units} {kind}", units=units)


def _helps(
    job: Job, groups: list[TaskGroup], world: World, lines: dict[int, Line], place: int, *, known: tuple[Action, ...]
) -> Iterator[Action]:
    """Yield what would help: what the reason says, a smaller gang, another GPU type that is free."""
    yield from known
    if JobState(job.state) in ENDED or not job.waiting_tasks:
        return
    wish = {flavor for group in groups for flavor in group.flavors}
    flavor, needs = groups[0].flavors[0], _needs(job, groups, groups[0].flavors[0])
    room = min(sum(free_blocks(world, flavor)), lines[flavor].available(place))
    fitting = room // groups[0].units * groups[0].units
    if job.shape == JobShape.GANG and 0 < fitting < needs:
        yield Action(text=f"With {fitting} {lines[flavor].flavor.name} instead of {needs} there would be room now.")
    for other in sorted(set(lines) - wish):
        free = sum(free_blocks(world, other))
        if min(free, lines[other].available(place)) >= needs:
            yield Action(text=f"Allow {lines[other].flavor.name} as well: {free} are free.")
