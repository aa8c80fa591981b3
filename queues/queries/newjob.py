"""A job that was submitted a moment ago, from what is at hand: a platform that submits thousands waits for none."""

from datetime import timedelta

from queues import wording
from queues.admission.world import JobShape
from queues.models import Job
from queues.queries.elastic import bounds
from queues.queries.rows.jobs import GroupRow, JobDetail, JobRow
from queues.queries.rows.reasons import ReasonRow
from queues.spec import Spec
from queues.spec.hidden import masked
from tenants.permissions import Actor

# Whoever may submit to a team may do all this to a job of their own that waits.
MAY = frozenset({"labels", "cancel", "hold", "priority", "rerun"})


def new_job(job: Job, spec: Spec, by: Actor) -> JobDetail:
    """Return what ``queries.job`` would say of a job that ``by`` has just submitted, without asking the database.

    Nothing has been decided about it yet: it has neither place nor estimate.
    """
    text = wording.sentence(wording.NOT_DECIDED, {})
    reason = ReasonRow(code=wording.NOT_DECIDED, permanent=False, summary=text, since=job.state_since)
    return JobDetail(
        row=_row(job, spec, by, reason),
        groups=tuple(
            GroupRow(
                name=group.name,
                tasks=group.tasks,
                most=group.most,
                units=group.units,
                flavors=tuple(flavor.name for flavor in group.flavors),
                cpu_milli=group.cpu_milli,
                memory=group.memory,
                image=group.run.image,
            )
            for group in spec.groups
        ),
        spec=masked(job.spec),
        time_limit=job.time_limit,
        ran_for=timedelta(),
        ends_by=None,
        grace=job.grace,
        retries=job.retries,
        failures=0,
        evictions=0,
        interruptions=0,
        borrow=job.borrow,
        preemptible=job.preemptible,
        borrowed=False,
        next_state="",
        backoff_until=None,
        cloned_from=None,
        position=None,
        tasks_by_state={"waiting": spec.tasks},
        may=MAY | {"max_tasks"} if spec.shape is JobShape.ELASTIC and len(spec.groups) == 1 else MAY,
    )


def _row(job: Job, spec: Spec, by: Actor, reason: ReasonRow) -> JobRow:
    flavors = dict.fromkeys(flavor.name for group in spec.groups for flavor in group.flavors)
    return JobRow(
        id=job.id,
        uid=job.uid,
        name=job.name,
        team=spec.team.name,
        queue=spec.queue.name,
        owner=by.name,
        mine=True,
        shape=job.shape,
        tasks=spec.tasks,
        tasks_waiting=job.waiting_tasks if job.shape == JobShape.INDEPENDENT else spec.tasks,
        units=job.units,
        flavors=tuple(flavors),
        priority=spec.priority.name,
        state=job.state,
        state_since=job.state_since,
        attempt=job.attempt,
        submitted_at=job.submitted_at,
        wait_from=job.wait_from,
        started_at=None,
        ended_at=None,
        external_id=job.external_id,
        labels=job.labels,
        reason=reason,
        elastic=bounds(spec.tasks, spec.most_tasks) if spec.shape is JobShape.ELASTIC else None,
    )
