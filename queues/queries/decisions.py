"""What the loop decided."""

from django.db.models import F, QuerySet, Sum

from queues.models import Decision, Job, Wave
from queues.queries.rows.decisions import AdmittedRow, DecisionDetail, DecisionRow
from tenants.errors import NotFound
from tenants.permissions import Actor, Permission, require


def decisions(by: Actor, *, limit: int = 50, before: int | None = None, busy: bool = False) -> tuple[DecisionRow, ...]:
    """Return the last cycles, newest first (``busy``: only those that admitted something). Needs VIEW_DECISIONS."""
    found = found_decisions(by, busy=busy)
    if before is not None:
        found = found.filter(id__lt=before)
    return tuple(map(decision_row, found.order_by("-id")[:limit]))


def found_decisions(by: Actor, *, busy: bool = False) -> QuerySet[Decision]:
    """Return the cycles (``busy``: those that admitted something), for ``decision_row``. Needs VIEW_DECISIONS."""
    require(by, Permission.VIEW_DECISIONS)
    return Decision.objects.filter(admissions__gt=0) if busy else Decision.objects.all()


def decision(by: Actor, cycle: int) -> DecisionDetail:
    """Return one cycle and what it admitted. Needs VIEW_DECISIONS; jobs that are not visible are not named."""
    require(by, Permission.VIEW_DECISIONS)
    row = Decision.objects.filter(id=cycle).first()
    if row is None:
        raise NotFound(f"There is no cycle {cycle}.")
    visible = set(Job.objects.visible_to(by).filter(waves__cycle=cycle).values_list("id", flat=True))
    waves = Wave.objects.filter(cycle=cycle).annotate(units=Sum("tasks__units"), team=F("job__team__name"))
    return DecisionDetail(
        row=decision_row(row),
        admitted=tuple(
            AdmittedRow(
                job=wave.job.uid if wave.job_id in visible else None,
                name=wave.job.name if wave.job_id in visible else "another team's job",
                team=wave.team if wave.job_id in visible else "",
                wave=wave.number,
                units=wave.units or 0,
                borrowed=wave.borrowed,
            )
            for wave in waves.select_related("job").defer("job__spec").order_by("id")
        ),
    )


def decision_row(row: Decision) -> DecisionRow:
    """Return a cycle as a row."""
    durations = {stage: float(length) for stage, length in row.durations.items()}
    return DecisionRow(
        cycle=row.id,
        at=row.at,
        digest=row.digest,
        classes=row.classes,
        admissions=row.admissions,
        tasks=row.tasks,
        units=row.units,
        milliseconds=sum(durations.values()),
        durations=durations,
        details=row.details,
    )
