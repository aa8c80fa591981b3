"""Addresses of queues, priority classes and the order."""

from typing import Any, cast

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from queues import queries, services
from queues.api.shapes import lines as shapes
from queues.stopwatch import within
from tenants.errors import NotFound
from tenants.rest.schema import IF_MATCH
from tenants.rest.views import RestView
from tenants.services import QuotaEdit

PREVIEW_SECONDS = 3.0


class OrderView(RestView):
    """/queue."""

    @extend_schema(operation_id="getOrder", parameters=[shapes.OrderQuery], responses=shapes.OrderOut)
    def get(self, request: Request) -> Response:
        """Show who starts next on a GPU type, across teams, the first 200."""
        wanted = self.query(shapes.OrderQuery)
        order = queries.queue_order(self.actor, wanted["flavor"], now=self.now, team=wanted["team"])
        return self.answer(shapes.OrderOut(order).data)


class LoansView(RestView):
    """/loans."""

    @extend_schema(operation_id="listLoans", parameters=[shapes.LoanQuery], responses=shapes.LoansOut)
    def get(self, request: Request) -> Response:
        """Show from whom the teams that you see borrow and to whom they lend, with the jobs that use it."""
        wanted = self.query(shapes.LoanQuery)
        found = queries.loans(self.actor, team=wanted["team"], flavor=wanted["flavor"])
        return self.answer({"items": shapes.TeamLoansOut(found, many=True).data})


class QueuesView(RestView):
    """/queues."""

    @extend_schema(operation_id="listQueues", parameters=[shapes.QueueQuery], responses=shapes.QueuesOut)
    def get(self, request: Request) -> Response:
        """List the queues of the teams that you see."""
        found = queries.queues(self.actor, team=self.query(shapes.QueueQuery).get("team", ""))
        return self.answer({"items": shapes.QueueOut(found, many=True).data})

    @extend_schema(operation_id="createQueue", request=shapes.QueueIn, responses={201: shapes.QueueOut})
    def post(self, request: Request) -> Response:
        """Make a queue in a team (leads)."""
        policy = self.body(shapes.QueueIn)
        team, name = policy.pop("team"), policy.pop("name")
        services.create_queue(team=team, name=name, by=self.actor, now=self.now, policy=_policy(policy))
        row = queries.queue(self.actor, team, name)
        return self.made(shapes.QueueOut(row).data, at=f"queues/{team}/{name}", version=row.version)


class QueueView(RestView):
    """/queues/{team}/{name}."""

    @extend_schema(operation_id="getQueue", responses=shapes.QueueOut)
    def get(self, request: Request, team: str, name: str) -> Response:
        """Show a queue and its policy."""
        row = queries.queue(self.actor, team, name)
        return self.answer(shapes.QueueOut(row).data, version=row.version)

    @extend_schema(
        operation_id="changeQueue", parameters=[IF_MATCH], request=shapes.QueuePatch, responses=shapes.QueueOut
    )
    def patch(self, request: Request, team: str, name: str) -> Response:
        """Change a queue's policy, or pause and resume it (leads)."""
        version, policy = self.wanted_version(), _policy(self.body(shapes.QueuePatch))
        services.change_queue(team=team, name=name, policy=policy, version=version, by=self.actor, now=self.now)
        row = queries.queue(self.actor, team, name)
        return self.answer(shapes.QueueOut(row).data, version=row.version)


class PrioritiesView(RestView):
    """/priority-classes."""

    @extend_schema(operation_id="listPriorityClasses", responses=shapes.PrioritiesOut)
    def get(self, request: Request) -> Response:
        """List the priority classes, highest first."""
        return self.answer({"items": shapes.PriorityOut(queries.priority_classes(), many=True).data})


class PriorityView(RestView):
    """/priority-classes/{name}."""

    @extend_schema(operation_id="getPriorityClass", responses=shapes.PriorityOut)
    def get(self, request: Request, name: str) -> Response:
        """Show a priority class."""
        return self._shown(name)

    @extend_schema(
        operation_id="setPriorityClass",
        parameters=[IF_MATCH],
        request=shapes.PriorityIn,
        responses=shapes.PriorityOut,
    )
    def put(self, request: Request, name: str) -> Response:
        """Set a priority class (admins); If-Match "v0" makes a new one."""
        version = self.wanted_version()
        services.set_priority_class(
            name=name, version=version, by=self.actor, now=self.now, **self.body(shapes.PriorityIn)
        )
        return self._shown(name)

    def _shown(self, name: str) -> Response:
        for row in queries.priority_classes():
            if row.name == name:
                return self.answer(shapes.PriorityOut(row).data, version=row.version)
        raise NotFound(f"There is no priority class {name[:63]}.")


def _policy(values: dict[str, Any]) -> services.QueuePolicy:
    return cast("services.QueuePolicy", values)


class QuotaPreviewView(RestView):
    """/quota-changes/preview."""

    @extend_schema(operation_id="previewQuotas", request=shapes.QuotaPreviewIn, responses=shapes.QuotaPreviewOut)
    def post(self, request: Request) -> Response:
        """Tell what edits of quotas would change: who starts, is reclaimed, borrows, starts later. Writes nothing."""
        edits = [QuotaEdit(**edit) for edit in self.body(shapes.QuotaPreviewIn)["edits"]]
        found = queries.preview(self.actor, edits, now=self.now, go_on=within(PREVIEW_SECONDS))
        return self.answer(shapes.QuotaPreviewOut(found).data)
