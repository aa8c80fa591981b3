"""New jobs: one, many at once, and the same again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from django.db import IntegrityError, connection, transaction

from queues import ceilings, hints, submission
from queues.models import Job
from queues.spec import Catalog, Spec, hidden
from queues.states import ENDED, JobState
from queues.submission import Draft
from tenants.errors import Conflict, DomainError, FieldError, Hint, Invalid, NotFound, Notice
from tenants.permissions import Actor

MOST_AT_ONCE = 500
TRIES = 3
EXTERNAL_ID_ONCE = "job_external_id_once"


class IfExists(StrEnum):
    """What a submission does when its external_id is taken: give back that job, or fail even if that has ended."""

    ATTACH = "attach"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that is there now; ``created`` False and perhaps ``terminal`` where external_id had been used before.

    ``spec`` is what a new one was made from, None for a rerun.
    """

    job: Job
    created: bool = True
    terminal: bool = False
    warnings: tuple[Notice, ...] = ()
    spec: Spec | None = None


Outcome = Submitted | DomainError


def submit(*, spec: object, by: Actor, now: datetime, if_exists: IfExists | None = None) -> Submitted:
    """Queue a job from a compact spec (parsed JSON or YAML); Invalid names every wrong field."""
    return _only(_submit([spec], by=by, now=now, if_exists=if_exists))


def submit_batch(
    *, specs: Sequence[object], by: Actor, now: datetime, if_exists: IfExists | None = None
) -> tuple[Outcome, ...]:
    """Queue up to 500 jobs in few statements; an item's error does not stop the others."""
    if len(specs) > MOST_AT_ONCE:
        detail = f"a batch has at most {MOST_AT_ONCE} jobs, not {len(specs)}"
        raise Invalid.field("/jobs", detail, code="too_many", given=len(specs), allowed=[MOST_AT_ONCE])
    return _submit(specs, by=by, now=now, if_exists=if_exists)


def rerun(*, uid: UUID, by: Actor, now: datetime) -> Submitted:
    """Queue a job with the same spec, owned by whom asks; the external_id stays with the first."""
    old = Job.objects.visible_to(by).filter(uid=uid).only("id", "spec", "user").first()
    if old is None:
        raise NotFound(f"There is no job {uid}.")
    if old.user_id != by.user.pk:
        _refuse_credentials(old)
    metadata = {key: value for key, value in old.spec["metadata"].items() if key != "external_id"}
    return _only(_submit([{**old.spec, "metadata": metadata}], by=by, now=now, if_exists=None, cloned_from=old.id))


def _refuse_credentials(job: Job) -> None:
    """Raise where a job has credentials in its environment: they are its owner's, and nobody else's pods get them."""
    found = list(hidden.credentials(job.spec))
    if found:
        errors = [
            FieldError(pointer=each.pointer, code="hidden", detail=f"{each.name} {hidden.SAY_AGAIN}") for each in found
        ]
        names = ", ".join(dict.fromkeys(each.name for each in found))
        detail = f"This job is another person's and has credentials that only they may use: {names}."
        hint = Hint(action="Edit and resubmit it, with your own.", href=f"/jobs/new?from={job.uid}")
        raise Invalid(detail, code="hidden", fields=errors, hints=[hint])


def _only(outcomes: tuple[Outcome, ...]) -> Submitted:
    (outcome,) = outcomes
    if isinstance(outcome, DomainError):
        raise outcome
    return outcome


def _submit(
    specs: Sequence[object], *, by: Actor, now: datetime, if_exists: IfExists | None, cloned_from: int | None = None
) -> tuple[Outcome, ...]:
    """Read all, then write those that are sound at once; a race about an external_id is looked at again."""
    names = [submission.team_named(data) for data in specs]
    catalog = submission.catalog(by, teams=None if None in names else [name for name in names if name is not None])
    read = {place: _draft(data, catalog, by=by, cloned_from=cloned_from) for place, data in enumerate(specs)}
    drafts = {place: row for place, row in read.items() if isinstance(row, Draft)}
    refused = {place: row for place, row in read.items() if isinstance(row, DomainError)}
    for _ in range(TRIES):
        known = _known(drafts, if_exists=if_exists)
        new = {place: draft for place, draft in drafts.items() if place not in known}
        try:
            with transaction.atomic():
                written = _write(new, catalog, by=by, now=now, if_exists=if_exists)
        except IntegrityError as error:
            if EXTERNAL_ID_ONCE not in str(error):
                raise
            continue
        return tuple(outcome for _, outcome in sorted({**known, **written, **refused}.items(), key=lambda row: row[0]))
    raise Conflict("Others submit jobs with the same external_id at this moment; try again.", code="external_id_taken")


def _draft(data: object, catalog: Catalog, *, by: Actor, cloned_from: int | None) -> Draft | DomainError:
    try:
        return Draft(spec=submission.read(data, catalog, by=by), cloned_from=cloned_from)
    except DomainError as error:
        return error


def _known(drafts: Mapping[int, Draft], *, if_exists: IfExists | None) -> dict[int, Outcome]:
    """Answer those whose external_id is taken already."""
    wanted = {
        place: (draft.spec.team.id, draft.spec.external_id)
        for place, draft in drafts.items()
        if draft.spec.external_id is not None
    }
    if not wanted:
        return {}
    jobs = Job.objects.filter(
        team__in={team for team, _ in wanted.values()}, external_id__in={name for _, name in wanted.values()}
    ).select_related("team")
    # The live one counts, else the newest.
    taken = {
        (job.team_id, job.external_id): job for job in sorted(jobs, key=lambda job: (job.state not in ENDED, job.id))
    }
    found = {place: _taken(taken[key], if_exists) for place, key in wanted.items() if key in taken}
    return {place: outcome for place, outcome in found.items() if outcome is not None}


def _taken(job: Job, if_exists: IfExists | None) -> Outcome | None:
    """Return what a submission gets whose external_id belongs to ``job``; None lets it through."""
    ended = JobState(job.state) in ENDED
    if if_exists is IfExists.ATTACH:
        return Submitted(job=job, created=False, terminal=ended)
    if ended and if_exists is None:
        return None
    detail = f"There is already a job with external_id {job.external_id} in {job.team.name}: {job.uid}, {job.state}."
    hint = Hint(action="See that job, or submit with if_exists=attach.", href=f"/api/v1/jobs/{job.uid}")
    return Conflict(detail, code="external_id_taken", hints=[hint])


def _write(
    new: Mapping[int, Draft], catalog: Catalog, *, by: Actor, now: datetime, if_exists: IfExists | None
) -> dict[int, Outcome]:
    """Write new jobs; of several with one external_id the first counts."""
    if not new:
        return {}
    firsts: dict[tuple[int, str | int], int] = {}
    first_of = {
        place: firsts.setdefault((draft.spec.team.id, draft.spec.external_id or place), place)
        for place, draft in new.items()
    }
    kept = sorted(set(first_of.values()))
    jobs = dict(zip(kept, submission.store((new[place] for place in kept), by=by, now=now), strict=True))
    # Asked after the rows are written: these hold their teams, so that none can become a department any more.
    _keep_leaves([new[place].spec for place in kept])
    hints.wake()
    hints.tell_pages("jobs", "queue", *sorted({f"team:{draft.spec.team.name}" for draft in new.values()}))
    return {
        place: Submitted(
            job=jobs[place],
            warnings=(*ceilings.warnings(draft.spec, catalog.ceilings), *hidden.warnings(jobs[place].spec)),
            spec=None if draft.cloned_from else draft.spec,
        )
        if first_of[place] == place
        else _twice(jobs[first_of[place]], if_exists)
        for place, draft in new.items()
    }


def _twice(job: Job, if_exists: IfExists | None) -> Outcome:
    """Return what a later item of a batch gets whose external_id an earlier one has."""
    if if_exists is IfExists.ATTACH:
        return Submitted(job=job, created=False)
    detail = f"An earlier job of this batch has the external_id {job.external_id} too."
    return Conflict(detail, code="external_id_taken")


_DEPARTMENTS = """
SELECT team.name FROM tenants_team team JOIN tenants_team below ON below.parent_id = team.id
WHERE team.id = ANY(%s) LIMIT 1
"""


def _keep_leaves(specs: Sequence[Spec]) -> None:
    """Raise where a team has become a department; to be asked after the rows are written, which hold their teams."""
    with connection.cursor() as cursor:
        cursor.execute(_DEPARTMENTS, [sorted({spec.team.id for spec in specs})])
        found = cursor.fetchone()
    if found is not None:
        raise Conflict(f"{found[0]} has become a department: submit to one of its teams.", code="team_is_department")
