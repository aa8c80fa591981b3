"""Teams, quotas and priorities like those of a side-by-side load, and what became of its jobs."""

import time
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from django.db.models import Count
from django.utils import timezone

from clusters.kube import connect
from queues import services
from queues.launches import ceilings
from queues.models import Decision, Job, JobEvent, Node, Wave
from queues.namespaces import namespace_of
from tenants import services as tenants
from tenants.models import Flavor, GlobalRole, Quota, Team, User
from tenants.permissions import Actor, Scope, system

FLAVOR = "gpu"
FREE_OF_QUOTA = 10**6


def make(load: Any, *, within: str, min_runtime: timedelta, hold_after: timedelta) -> str:  # noqa: ANN401  the bench's own
    """Make a department a cohort and a team a queue; return a token that may submit to all.

    A department neither lends nor borrows, so that only the cohort's quota limits, however many GPUs the nodes have.
    """
    by, now = system(), timezone.now()
    tenants.create_flavor(by=by, now=now, name=FLAVOR, installed=sum(queue.quota for queue in load.queues))
    for priority in sorted({item.priority for item in load.items}):
        services.set_priority_class(name=f"p{priority}", value=priority, by=by, now=now)
    edits = []
    for cohort in dict.fromkeys(queue.cohort for queue in load.queues):
        tenants.create_team(by=by, now=now, name=f"cohort-{cohort}")
        edits.append(tenants.QuotaEdit(team=f"cohort-{cohort}", flavor=FLAVOR, borrow_limit=0, lend_limit=0))
    policy: services.QueuePolicy = {
        "hold_after": hold_after,
        "min_runtime": min_runtime,
        "preempt_within_team": within,
        "default_time_limit": None,
    }
    for queue in load.queues:
        tenants.create_team(by=by, now=now, name=queue.name, parent=f"cohort-{queue.cohort}")
        services.change_queue(team=queue.name, name="default", policy=policy, by=by, now=now)
        edits.append(
            tenants.QuotaEdit(team=queue.name, flavor=FLAVOR, guaranteed=queue.quota, borrow_limit=queue.borrow)
        )
    tenants.set_quotas(by=by, now=now, edits=edits)
    tenants.edit_installation(by=by, now=now, changes={"evictions_per_minute": None})
    user = User.objects.create_user("bench", global_role=GlobalRole.ADMIN)
    scopes = (Scope.JOBS_READ, Scope.JOBS_WRITE)
    return tenants.create_token(by=Actor(user=user), now=now, name="bench", scopes=scopes).secret


def wait_for_nodes(seconds: float) -> None:
    """Wait until the watcher has shown all that the teams are promised."""
    end = time.monotonic() + seconds
    while (
        sum(Flavor.objects.values_list("usable", flat=True)) < sum(Quota.objects.values_list("guaranteed", flat=True))
        or not Node.objects.exists()
    ):
        if time.monotonic() > end:
            raise TimeoutError("the watcher has not shown the nodes")
        time.sleep(0.1)


def ensure_namespaces(kubeconfig: str) -> None:
    """Make the teams' namespaces and fences before the clock starts, as the other system's are."""
    cluster = connect("real", kubeconfig=kubeconfig)
    leaves = Team.objects.filter(children=None).order_by("id")
    limits = ceilings(leaves.values_list("id", flat=True))
    for team in leaves:
        cluster.ensure_team(namespace_of(team.name), team=team.name, ceiling=limits[team.id])
    cluster.close()


def events(after: int, kinds: Sequence[str], *, known: Collection[int]) -> list[tuple[int, str, str]]:
    """Return id, job's name and type of the events behind an id that are not known yet."""
    rows = JobEvent.objects.filter(id__gt=after, type__in=kinds).order_by("id")
    new = [pk for pk in rows.values_list("id", flat=True) if pk not in known]
    return list(JobEvent.objects.filter(id__in=new).order_by("id").values_list("id", "job__name", "type"))


def counts() -> dict[str, Any]:
    """Return what our own rows count."""
    states = dict(Job.objects.values_list("state").annotate(jobs=Count("id")).order_by("state"))
    durations: dict[str, float] = {}
    for laps in Decision.objects.values_list("durations", flat=True):
        for stage, milliseconds in laps.items():
            durations[stage] = durations.get(stage, 0.0) + milliseconds
    return {
        "states": states,
        "waves": Wave.objects.count(),
        "cycles": Decision.objects.count(),
        "cycle_ms_by_stage": {stage: round(total) for stage, total in durations.items()},
    }
