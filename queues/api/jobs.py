"""Addresses of jobs."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import QueryDict
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from queues import queries, services
from queues.api.shapes import jobs as shapes
from queues.models import Job
from queues.queries.filters import JobFilter
from queues.queries.history import event_rows, found_events
from queues.queries.jobs import found_jobs, job_rows
from queues.spec.schema import SCHEMA
from queues.stopwatch import within
from tenants.errors import DomainError, Invalid, Unreadable
from tenants.permissions import Actor
from tenants.rest.pages import PARAMS
from tenants.rest.schema import PAGING, paged
from tenants.rest.views import MIB, RestView, refuse_unknown

SPEC = {"application/json": SCHEMA, "application/yaml": SCHEMA}
PLAN_SECONDS = 3.0
LIST_PARAMS = frozenset(shapes.JobQuery().fields) | PARAMS | {"fields"}


class JobsView(RestView):
    """/jobs."""

    @extend_schema(operation_id="listJobs", parameters=[shapes.JobQuery, *PAGING], responses=paged(shapes.JobOut))
    def get(self, request: Request) -> Response:
        """List the jobs of the teams that you see, newest first. ``fields=id,state`` keeps only those."""
        refuse_unknown(request.query_params, known=LIST_PARAMS)
        wanted = JobFilter.read(request.query_params)
        kept = _kept(request.query_params.get("fields", ""))
        return self.page(found_jobs(self.actor, wanted), rows=lambda page: self._rows(page, kept))

    @extend_schema(
        operation_id="submitJob",
        parameters=[shapes.SubmitQuery],
        request=SPEC,
        responses={201: shapes.SubmittedOut, 200: shapes.SubmittedOut},
    )
    def post(self, request: Request) -> Response:
        """Submit a job as a compact spec, JSON or YAML. 200 where if_exists=attach found it."""
        wish = self.query(shapes.SubmitQuery).get("if_exists")
        done = services.submit(
            spec=request.data, by=self.actor, now=self.now, if_exists=services.IfExists(wish) if wish else None
        )
        return _submitted(self, done)

    def _rows(self, page: Sequence[Job], kept: frozenset[str]) -> list[dict[str, Any]]:
        rows = shapes.JobOut(job_rows(page, self.actor, self.now), many=True).data
        return [{key: value for key, value in row.items() if key in kept} if kept else dict(row) for row in rows]


class BatchView(RestView):
    """/jobs:batch."""

    body_limit = 8 * MIB

    @extend_schema(
        operation_id="submitJobs",
        parameters=[shapes.SubmitQuery],
        request=shapes.BatchIn,
        responses=shapes.BatchOut,
    )
    def post(self, request: Request) -> Response:
        """Submit up to 500 jobs; each gets its own result, and a bad one does not stop the others."""
        wish = self.query(shapes.SubmitQuery).get("if_exists")
        outcomes = services.submit_batch(
            specs=self.body(shapes.BatchIn)["jobs"],
            by=self.actor,
            now=self.now,
            if_exists=services.IfExists(wish) if wish else None,
        )
        items = [_batch_item(outcome) for outcome in outcomes]
        created = sum(item["created"] for item in items)
        refused = sum(item["error"] is not None for item in items)
        return self.answer(shapes.BatchOut({"items": items, "created": created, "refused": refused}).data)


class PlanView(RestView):
    """/jobs:plan."""

    @extend_schema(operation_id="planJob", request=SPEC, responses=shapes.PlanOut)
    def post(self, request: Request) -> Response:
        """Tell what would become of a job: valid, fits, borrows, position, estimate. Nothing is written."""
        self.query()
        found = queries.plan(self.actor, request.data, now=self.now, go_on=within(PLAN_SECONDS))
        return self.answer(shapes.PlanOut(found).data)


class CountView(RestView):
    """/jobs:count."""

    @extend_schema(operation_id="countJobs", parameters=[shapes.JobCountQuery], responses=shapes.CountsOut)
    def get(self, request: Request) -> Response:
        """Count the jobs that you see, by state unless said otherwise."""
        group_by = self.query(shapes.JobCountQuery)["group_by"]
        counts = queries.count_jobs(self.actor, JobFilter.read(request.query_params), group_by=group_by)
        return self.answer({"group_by": group_by, "counts": counts})


class CancelManyView(RestView):
    """/jobs:cancel."""

    @extend_schema(operation_id="cancelJobs", request=shapes.CancelManyIn, responses=shapes.ManyOut)
    def post(self, request: Request) -> Response:
        """Cancel up to 1000 jobs, named or found by a filter of the list; dry_run only tells which."""
        asked = self.body(shapes.CancelManyIn)
        if ("ids" in asked) == ("filter" in asked):
            raise Invalid.field("", "Send either ids or filter.", code="ids_or_filter")
        done = services.cancel_many(
            by=self.actor,
            now=self.now,
            uids=asked.get("ids", ()),
            wanted=_filter(asked["filter"]) if "filter" in asked else None,
            dry_run=asked["dry_run"],
        )
        items = [{"id": row.uid, "name": row.name, "error": _problem(row.error)} for row in done.results]
        return self.answer(shapes.ManyOut({"items": items, "matched": done.matched, "dry_run": done.dry_run}).data)


class JobView(RestView):
    """/jobs/{id}."""

    @extend_schema(operation_id="getJob", responses=shapes.JobDetailOut)
    def get(self, request: Request, uid: UUID) -> Response:
        """Show a job, with its reason and its place in the queue."""
        return self.answer(shapes.JobDetailOut.show(queries.job(self.actor, uid, now=self.now)))

    @extend_schema(operation_id="changeJob", request=shapes.JobPatch, responses=shapes.JobDetailOut)
    def patch(self, request: Request, uid: UUID) -> Response:
        """Change the priority of a waiting job, any job's labels, or to how many tasks an elastic one may grow."""
        services.change(uid=uid, by=self.actor, now=self.now, **self.body(shapes.JobPatch))
        return _shown(self, uid)


Verb = Callable[..., Job]


class VerbView(RestView):
    """/jobs/{id}:cancel, :hold and :release."""

    verb: Verb

    def post(self, request: Request, uid: UUID) -> Response:
        """Do it, and show the job as it is then."""
        type(self).verb(uid=uid, by=self.actor, now=self.now)
        return _shown(self, uid)


@extend_schema_view(post=extend_schema(operation_id="cancelJob", request=None, responses=shapes.JobDetailOut))
class CancelView(VerbView):
    """/jobs/{id}:cancel."""

    verb = services.cancel


@extend_schema_view(post=extend_schema(operation_id="holdJob", request=None, responses=shapes.JobDetailOut))
class HoldView(VerbView):
    """/jobs/{id}:hold."""

    verb = services.hold


@extend_schema_view(post=extend_schema(operation_id="releaseJob", request=None, responses=shapes.JobDetailOut))
class ReleaseView(VerbView):
    """/jobs/{id}:release."""

    verb = services.release


class CheckpointView(RestView):
    """/jobs/{id}/checkpoint."""

    @extend_schema(operation_id="reportCheckpoint", request=shapes.CheckpointIn, responses=shapes.CheckpointOut)
    def post(self, request: Request, uid: UUID) -> Response:
        """Report that a running job has saved its work: what a recall would cost counts from there."""
        done = services.report_checkpoint(uid=uid, by=self.actor, now=self.now, **self.body(shapes.CheckpointIn))
        return self.answer(shapes.CheckpointOut(done).data)


class RerunView(RestView):
    """/jobs/{id}:rerun."""

    @extend_schema(operation_id="rerunJob", request=None, responses={201: shapes.SubmittedOut})
    def post(self, request: Request, uid: UUID) -> Response:
        """Submit a job with the same spec."""
        return _submitted(self, services.rerun(uid=uid, by=self.actor, now=self.now))


class ExplainView(RestView):
    """/jobs/{id}/explain."""

    @extend_schema(operation_id="explainJob", responses=shapes.ExplanationOut)
    def get(self, request: Request, uid: UUID) -> Response:
        """Tell why a job waits, in numbers."""
        return self.answer(shapes.ExplanationOut(queries.explain(self.actor, uid, now=self.now)).data)


class EventsView(RestView):
    """/jobs/{id}/events."""

    @extend_schema(operation_id="listJobEvents", parameters=PAGING, responses=paged(shapes.EventOut))
    def get(self, request: Request, uid: UUID) -> Response:
        """List what happened to a job, oldest first."""
        self.query()
        found = found_events(self.actor, uid)
        return self.page(
            found, rows=lambda page: shapes.EventOut(event_rows(page, self.actor), many=True).data, order=("id",)
        )


class AttemptsView(RestView):
    """/jobs/{id}/attempts."""

    @extend_schema(operation_id="listAttempts", responses=shapes.AttemptsOut)
    def get(self, request: Request, uid: UUID) -> Response:
        """List a job's attempts with their waves and tasks, newest first; of a wave at most 500 tasks."""
        return self.answer({"items": shapes.AttemptOut(queries.attempts(self.actor, uid), many=True).data})


class ManifestView(RestView):
    """/jobs/{id}/manifest."""

    @extend_schema(operation_id="getManifest", responses=shapes.ManifestOut)
    def get(self, request: Request, uid: UUID) -> Response:
        """Show the Kubernetes objects that a job has, or would get."""
        found = queries.manifest(self.actor, uid)
        return self.answer({"items": list(found.objects), "changed": list(found.changed)})


def _shown(view: RestView, uid: UUID) -> Response:
    return view.answer(_detail(view.actor, uid, view.now))


def _detail(by: Actor, uid: UUID, now: datetime) -> dict[str, Any]:
    """Return a job without its place in the queue, which the next cycle may change anyway."""
    return shapes.JobDetailOut.show(queries.job(by, uid, now=now, position=False))


def _submitted(view: RestView, done: services.Submitted) -> Response:
    uid, by = done.job.uid, view.actor
    new = done.spec and shapes.JobDetailOut.show(queries.new_job(done.job, done.spec, by))
    data = {
        **(new or _detail(by, uid, view.now)),
        "created": done.created,
        "terminal": done.terminal,
        "warnings": [{"code": notice.code, "detail": notice.detail} for notice in done.warnings],
    }
    return view.made(data, at=f"jobs/{uid}") if done.created else view.answer(data)


def _batch_item(outcome: services.Submitted | DomainError) -> dict[str, Any]:
    if isinstance(outcome, DomainError):
        nothing: dict[str, Any] = {"id": None, "name": None, "created": False, "terminal": False, "warnings": []}
        return {**nothing, "error": _problem(outcome)}
    return {
        "id": outcome.job.uid,
        "name": outcome.job.name,
        "created": outcome.created,
        "terminal": outcome.terminal,
        "warnings": outcome.warnings,
        "error": None,
    }


def _problem(error: DomainError | None) -> dict[str, Any] | None:
    """Return why one item of many was refused, in the fields of a problem."""
    if error is None:
        return None
    errors = [
        {
            "pointer": each.pointer,
            "code": each.code,
            "detail": each.detail,
            "given": each.given,
            "allowed": list(each.allowed),
        }
        for each in error.fields
    ]
    return {"status": error.status, "code": error.code, "detail": error.detail, "errors": errors}


def _kept(text: str) -> frozenset[str]:
    kept = frozenset(word.strip() for word in text.split(",") if word.strip())
    known = shapes.JobOut().fields
    for word in sorted(kept):
        if word not in known:
            raise Unreadable(f"There is no field {word[:80]!r}; there is {', '.join(known)}.", code="unknown_field")
    return kept


def _filter(given: dict[str, str]) -> JobFilter:
    refuse_unknown(given, known=shapes.JobQuery().fields)
    params = QueryDict(mutable=True)
    params.update(given)
    return JobFilter.read(params)
