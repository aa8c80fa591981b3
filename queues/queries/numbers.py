"""The numbers that monitoring asks for, in few queries at the moment of asking."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min, Q, Sum

from queues.models import ClusterState, Decision, Job, Task, Wave
from queues.queries.inventory import count_drift
from queues.states import ACTIVE, TASK_HOLDING
from tenants.models import Flavor


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What is there at one moment; ages are seconds, None where nothing has happened yet."""

    jobs: dict[tuple[str, str], int]  # (team, state) of jobs that have not ended
    waiting_tasks: dict[str, int]  # team
    used: dict[tuple[str, str], int]  # (team, flavor) -> units that are held
    capacity: dict[str, tuple[int, int, int]]  # flavor -> installed, usable, guaranteed
    cycle: int | None
    cycle_age: float | None
    cycle_seconds: float | None
    outbox: int
    outbox_age: float | None
    cluster_ages: dict[str, float | None]
    cluster_unreachable: dict[str, bool]
    drift: dict[tuple[str, str], int]


def last_cycle_at() -> datetime | None:
    """Return when the loop last decided."""
    return Decision.objects.order_by("-at").values_list("at", flat=True).first()


def numbers(*, now: datetime) -> Numbers:
    """Return what monitoring shows: six queries, whatever is waiting."""
    active = Job.objects.filter(state__in=sorted(ACTIVE)).values_list("team__name", "state")
    jobs = list(active.annotate(Count("id"), Sum("waiting_tasks")).order_by("team__name", "state"))
    waiting: dict[str, int] = {}
    for team, _, _, tasks in jobs:
        waiting[team] = waiting.get(team, 0) + tasks
    flavors = {
        id_: (name, installed, usable, total)
        for id_, name, installed, usable, total in Flavor.objects.order_by("id")
        .annotate(total=Sum("quotas__guaranteed", default=0))
        .values_list("id", "name", "installed", "usable", "total")
    }
    held = (
        Task.objects.filter(state__in=sorted(TASK_HOLDING))
        .values_list("wave__job__team__name", "flavor_id")
        .annotate(Sum("units"))
        .order_by("wave__job__team__name", "flavor_id")
    )
    decision = Decision.objects.order_by("-at").first()
    outbox = Wave.objects.filter(wish_due_at__isnull=False).aggregate(
        count=Count("id"), oldest=Min("wish_due_at", filter=Q(wish_due_at__lte=now))
    )
    clusters = list(ClusterState.objects.order_by("id"))
    return Numbers(
        jobs={(team, state): count for team, state, count, _ in jobs},
        waiting_tasks=waiting,
        used={(team, flavors[flavor][0]): units for team, flavor, units in held if flavor in flavors},
        capacity={name: (installed, usable, total) for name, installed, usable, total in flavors.values()},
        cycle=decision.id if decision else None,
        cycle_age=_age(decision.at, now) if decision else None,
        cycle_seconds=sum(decision.durations.values()) / 1000 if decision else None,
        outbox=outbox["count"],
        outbox_age=_age(outbox["oldest"], now),
        cluster_ages={each.name: _age(each.heard_at or each.listed_at, now) for each in clusters},
        drift=count_drift(),
        cluster_unreachable={each.name: each.unreachable_since is not None for each in clusters},
    )


def _age(at: datetime | None, now: datetime) -> float | None:
    return (now - at).total_seconds() if at else None
