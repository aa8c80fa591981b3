"""Objects that people made suspended in a team's namespace and gave into its queue by a label: they become jobs.

The object stays theirs: it is let run and suspended again, never deleted. What cannot be a job is told so.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from clusters import names
from clusters.port import Offer
from queues import spec as specs
from queues import submission
from queues.models import ClusterState, Job
from queues.progress import Trouble
from queues.states import ENDED, JobState
from queues.steps import step
from queues.submission import Draft
from queues.view import View
from tenants.errors import DomainError
from tenants.models import User
from tenants.permissions import Actor, system

# Kubernetes does not tell who made an object.
SUBMITTER = "system:kubectl"
WAITING = (JobState.QUEUED, JobState.HELD)
OBJECT_ONCE = "job_object_once"
MOST_ERRORS = 5
ONCE = "Its job {end}, and an object is queued once: delete it and create it anew to queue it again"
_ENDS = {
    JobState.SUCCEEDED: "has succeeded",
    JobState.FAILED: "has failed",
    JobState.CANCELLED: "has been cancelled",
}
# What has run and ended while it was taken back: one that failed cannot run again.
_TOLD = "Its object failed by itself while it was taken back, and cannot run again"
_FAILED: dict[str, Any] = {"summary": f"Failed: {_TOLD}", "reason_code": Trouble.TASK_FAILED, "reason_text": _TOLD}
_DONE: dict[str, Any] = {
    "summary": "Succeeded: its object completed while it was taken back",
    "reason_code": "",
    "reason_text": "",
}


@dataclass(slots=True, kw_only=True)
class Adopted:
    """What became of offers: ids of jobs that came or went, and offers with what is to be told about them."""

    jobs: set[int] = field(default_factory=set)
    refused: list[tuple[Offer, str]] = field(default_factory=list)


def adopt(cluster: int, view: View, *, now: datetime, uids: Collection[str] | None = None) -> Adopted:
    """Take new offers (of these UIDs only, where given) into their queues, and let go of jobs whose object is gone."""
    found = Adopted()
    wanted = view.offers.values() if uids is None else [view.offers[uid] for uid in uids if uid in view.offers]
    new = _new(found, (offer for offer in wanted if offer.suspended and not offer.over and not offer.leaving))
    if new:
        catalog = submission.catalog(system())
        teams = {team.namespace: team.name for team in catalog.teams}
        by = Actor(user=_submitter())
        home = ClusterState.objects.get(id=cluster)
        for offer in new:
            if offer.namespace in teams:
                _take(offer, catalog, teams[offer.namespace], home, by, now, found)
    _let_go(cluster, view, uids, now, found)
    return found


def _new(found: Adopted, offers: Iterable[Offer]) -> list[Offer]:
    """Return the offers that never were a job, in order of their names; those whose job is over are told so."""
    there = {offer.uid: offer for offer in offers}
    if not there:
        return []
    known = dict(Job.objects.filter(object_uid__in=there).values_list("object_uid", "state"))
    order = sorted(there.values(), key=lambda offer: (offer.namespace, offer.name, offer.uid))
    found.refused += [
        (offer, ONCE.format(end=_ENDS[JobState(known[offer.uid])])) for offer in order if known.get(offer.uid) in ENDED
    ]
    return [offer for offer in order if offer.uid not in known]


def _take(
    offer: Offer,
    catalog: specs.Catalog,
    team: str,
    home: ClusterState,
    by: Actor,
    now: datetime,
    found: Adopted,
) -> None:
    try:
        spec = _bound(specs.read(offer.manifest, catalog, team=team), home)
    except DomainError as error:
        found.refused.append((offer, _told(error)))
        return
    try:
        with transaction.atomic():
            (job,) = submission.store([Draft(spec=spec, object_uid=offer.uid, object_cluster=home.id)], by=by, now=now)
    except IntegrityError as error:
        # Somebody else who follows the cluster was first.
        if OBJECT_ONCE not in str(error):
            raise
        return
    found.jobs.add(job.id)


def _bound(spec: specs.Spec, home: ClusterState) -> specs.Spec:
    """Return the spec with its tasks on the cluster where the object is."""
    place = (names.LABEL_CLUSTER, home.name)
    groups = (
        replace(group, run=replace(group.run, node_labels=tuple(sorted({*group.run.node_labels, place}))))
        for group in spec.groups
    )
    return replace(spec, groups=tuple(groups))


def _told(error: DomainError) -> str:
    lines = [f"{each.pointer}: {each.detail}" for each in error.fields[:MOST_ERRORS]]
    return "; ".join(lines) or error.detail


def _let_go(cluster: int, view: View, uids: Collection[str] | None, now: datetime, found: Adopted) -> None:
    """End waiting jobs whose object was deleted, started by somebody else, or has come to its end."""
    rows = Job.objects.filter(object_cluster=cluster, state__in=WAITING).order_by("id")
    if uids is not None:
        rows = rows.filter(object_uid__in=uids)
    rows = rows.exclude(kind__in=view.unseen)
    for job_id, uid, state, attempt in rows.values_list("id", "object_uid", "state", "attempt"):
        end = _end(view, uid or "", has_run=attempt > 1)
        if end is None:
            continue
        goal, changes = end
        with transaction.atomic():
            if step(job_id, JobState(state), goal, now=now, event=goal.value, **changes):
                found.jobs.add(job_id)


def _end(view: View, uid: str, *, has_run: bool) -> tuple[JobState, dict[str, Any]] | None:
    """Return how a waiting job ends by what its object shows, None where it may wait on."""
    offer = view.offers.get(uid)
    if offer is None:
        return None if view.is_there(uid) else _cancelled("its object was deleted in the cluster")
    if offer.over and has_run:
        return (JobState.FAILED, _FAILED) if offer.failed else (JobState.SUCCEEDED, _DONE)
    if offer.over:
        return _cancelled("its object has ended outside the queue")
    return None if offer.suspended else _cancelled("somebody else started its object, which runs outside the queue")


def _cancelled(why: str) -> tuple[JobState, dict[str, Any]]:
    return JobState.CANCELLED, {"summary": f"Cancelled: {why}"}


def _submitter() -> User:
    """Return the account that stands for whoever made an object; nobody can sign in with it."""
    user, made = User.objects.get_or_create(username=SUBMITTER, defaults={"is_active": False})
    if made:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user
