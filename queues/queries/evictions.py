"""Who had to go for whom: claimant, rule, victims, what was lost, and the grace that was used."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import DateTimeField, Exists, OuterRef, Q, QuerySet, Subquery

from queues.evictions import RULES, SURPLUS
from queues.models import Eviction, Job, Task
from queues.queries.jobs import visible_job
from queues.queries.rows.decisions import EvictionRow
from queues.queries.rows.jobs import JobRef
from queues.states import TASK_HOLDING
from tenants.errors import NotFound, Unreadable
from tenants.permissions import Actor, Permission, teams_seen, visible_teams


def evictions(
    by: Actor, *, team: str = "", job: UUID | None = None, limit: int = 50, before: int | None = None
) -> tuple[EvictionRow, ...]:
    """Return the evictions that concern a visible team (or ``team``, or ``job``), newest first."""
    found = found_evictions(by, team=team, job=job)
    if before is not None:
        found = found.filter(id__lt=before)
    return eviction_rows(found.order_by("-id")[:limit], by)


def found_evictions(
    by: Actor,
    *,
    team: str = "",
    job: UUID | None = None,
    rule: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
) -> QuerySet[Eviction]:
    """Return the evictions of which a visible team is one side, for ``eviction_rows``."""
    found = Eviction.objects.filter(claimant__isnull=False)
    teams = visible_teams(by, Permission.VIEW_JOB)
    if team or teams.query.where:
        ids = [row.id for row in teams_seen(by, Permission.VIEW_JOB) if row.name == (team or row.name)]
        if team and not ids:
            raise NotFound(f"There is no team {team[:63]}.")
        found = found.filter(Q(wave__job__team__in=ids) | Q(claimant__team__in=ids))
    if job is not None:
        one = visible_job(by, job)
        found = found.filter(Q(wave__job=one) | Q(claimant=one))
    if rule:
        if rule not in RULES:
            raise Unreadable(f"rule is one of {', '.join(RULES)}; not {rule[:40]!r}.", code="bad_filter")
        found = found.filter(rule=rule)
    if since is not None:
        found = found.filter(at__gte=since)
    if until is not None:
        found = found.filter(at__lt=until)
    return found


def eviction_rows(found: QuerySet[Eviction] | Iterable[Eviction], by: Actor) -> tuple[EvictionRow, ...]:
    """Return evictions as rows; the side that the reader may not see has no name."""
    ids = [row.id for row in found]
    gone = Task.objects.filter(wave=OuterRef("wave"), eviction=OuterRef("id")).order_by()
    last = gone.order_by("-ended_at").values("ended_at")[:1]
    rows = Eviction.objects.filter(id__in=ids).select_related("wave__job__team", "claimant__team")
    rows = rows.defer("wave__job__spec", "claimant__spec").annotate(
        leaves=Exists(gone.filter(state__in=sorted(TASK_HOLDING))),
        gone_at=Subquery(last, output_field=DateTimeField()),
    )
    seen = {team.id for team in teams_seen(by, Permission.VIEW_JOB)} if ids else set()
    by_id = {row.id: _row(row, seen) for row in rows}
    return tuple(by_id[number] for number in ids if number in by_id)


def _row(row: Eviction, seen: set[int]) -> EvictionRow:
    leaves, gone_at = row.leaves, row.gone_at  # type: ignore[attr-defined]  # annotated above
    return EvictionRow(
        id=row.id,
        at=row.at,
        rule=row.rule,
        summary=SURPLUS if row.surplus else RULES.get(row.rule, row.rule),
        claimant=_ref(row.claimant, seen),
        victim=_ref(row.wave.job, seen),
        attempt=row.wave.attempt,
        tasks=row.tasks,
        units=row.units,
        lost_unit_seconds=row.lost_unit_seconds,
        grace=row.grace,
        grace_used=None if leaves or gone_at is None else max(gone_at - row.at, timedelta()),
        exact=row.exact,
        surplus=row.surplus,
    )


def _ref(job: Job | None, seen: set[int]) -> JobRef:
    if job is None or job.team_id not in seen:
        return JobRef()
    return JobRef(job=job.uid, name=job.name, team=job.team.name)
