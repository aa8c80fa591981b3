"""From a compact spec to rows: what a person may name, what is in the way, and the rows of a job."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import uuid6
from django.conf import settings

from queues import classes
from queues import spec as specs
from queues.admission.world import JobShape
from queues.choices import choices
from queues.models import Job, JobEvent, TaskGroup
from tenants.errors import DomainError, Invalid, NotAllowed, NotFound
from tenants.permissions import Actor, visible_teams


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A spec that was read, the job that it would be a rerun of, and the object (of which cluster) that is adopted."""

    spec: specs.Spec
    cloned_from: int | None = None
    object_uid: str | None = None
    object_cluster: int | None = None


def catalog(by: Actor, *, teams: Iterable[str] | None = None) -> specs.Catalog:
    """Return the names that somebody may use in a spec (``teams``: of these teams only, where that is enough)."""
    found, mine = choices(by)
    named = None if teams is None else set(teams)
    some = mine if named is None else tuple(team for team in mine if team.name in named)
    return specs.Catalog(
        # Where somebody named a team that is not theirs, the answer lists all that are.
        teams=some if named is None or {team.name for team in some} == named else mine,
        flavors=found.flavors,
        priorities=found.priorities,
        ceilings=found.ceilings,
        test_annotations=settings.TIDEGATE_TEST_ANNOTATIONS,
        levels=tuple(settings.TIDEGATE_LEVELS),
    )


def team_named(data: object) -> str | None:
    """Return the team that a spec names, if it can be found without reading it properly."""
    metadata = data.get("metadata") if isinstance(data, Mapping) else None
    team = metadata.get("team") if isinstance(metadata, Mapping) else None
    return team if isinstance(team, str) else None


def read(data: object, of_names: specs.Catalog, *, by: Actor) -> specs.Spec:
    """Read a spec; of a team that somebody may see but not submit to, say so instead of hiding it."""
    try:
        return specs.read(data, of_names)
    except NotFound as error:
        raise _about_team(team_named(data), by=by, otherwise=error) from None


def _about_team(name: str | None, *, by: Actor, otherwise: NotFound) -> DomainError:
    team = visible_teams(by).filter(name=name or "").first()
    if team is None:
        return otherwise
    below = sorted(team.children.values_list("name", flat=True))
    if below:
        detail = f"{team.name} is a department: submit to one of its teams, {', '.join(below)}"
        return Invalid.field("/metadata/team", detail, code="team_is_department", given=team.name, allowed=below)
    return NotAllowed(f"You may see team {team.name} but not submit jobs to it.", code="needs_submit_job")


def store(drafts: Iterable[Draft], *, by: Actor, now: datetime) -> list[Job]:
    """Write the rows of new jobs, in the order given, in four statements however many they are."""
    drafts = list(drafts)
    asks = [(draft.spec.queue.id, draft.spec.priority.value, classes.ask_of(draft.spec)) for draft in drafts]
    ids = classes.ensure(asks)
    jobs = Job.objects.bulk_create(
        _job(draft, by=by, now=now, job_class=ids[queue, priority, classes.digest(ask)])
        for draft, (queue, priority, ask) in zip(drafts, asks, strict=True)
    )
    TaskGroup.objects.bulk_create(
        group for job, draft in zip(jobs, drafts, strict=True) for group in _groups(job, draft.spec)
    )
    JobEvent.objects.bulk_create(
        JobEvent(job=job, at=now, type="submitted", actor=by.name, summary=_summary(draft))
        for job, draft in zip(jobs, drafts, strict=True)
    )
    return jobs


def _job(draft: Draft, *, by: Actor, now: datetime, job_class: int) -> Job:
    spec = draft.spec
    return Job(
        uid=UUID(int=uuid6.uuid7().int),
        name=spec.name,
        external_id=spec.external_id,
        team_id=spec.team.id,
        queue_id=spec.queue.id,
        user=by.user,
        priority_class_id=spec.priority.id,
        priority=spec.priority.value,
        job_class_id=job_class,
        shape=spec.shape,
        units=spec.units,
        labels=dict(spec.labels),
        spec=specs.to_json(spec),
        kind=spec.kind,
        object_uid=draft.object_uid,
        object_cluster_id=draft.object_cluster,
        borrow=spec.borrow,
        preemptible=spec.priority.preemptible,
        time_limit=spec.time_limit,
        grace=min(spec.grace, spec.queue.max_grace),
        retries=spec.retries,
        state_since=now,
        waiting_tasks=spec.tasks if spec.shape is JobShape.INDEPENDENT else 1,
        ran_for=timedelta(),
        submitted_at=now,
        wait_from=now,
        cloned_from_id=draft.cloned_from,
    )


def _groups(job: Job, spec: specs.Spec) -> Iterable[TaskGroup]:
    for index, group in enumerate(spec.groups):
        yield TaskGroup(
            job=job,
            index=index,
            name=group.name,
            tasks=group.tasks,
            most=group.most,
            units=group.units,
            cpu_milli=group.cpu_milli,
            memory=group.memory,
            flavors=[flavor.id for flavor in group.flavors],
            node_labels=dict(group.run.node_labels),
        )


def _summary(draft: Draft) -> str:
    spec = draft.spec
    kinds = "/".join(sorted({flavor.name for group in spec.groups for flavor in group.flavors}))
    tasks = "1 task" if spec.tasks == 1 else f"{spec.tasks} tasks"
    if spec.shape is JobShape.ELASTIC:
        tasks = f"{spec.tasks} to {spec.most_tasks} tasks"
    together = " together" if spec.shape is JobShape.GANG and spec.tasks > 1 else ""
    again = ", as a rerun" if draft.cloned_from else ""
    return f"Submitted to {spec.team.name}/{spec.queue.name}: {tasks}{together}, {spec.units} {kinds}{again}"
