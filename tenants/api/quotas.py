"""Addresses of flavors, quotas and the policy of the installation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from drf_spectacular.utils import extend_schema

from tenants import queries, services
from tenants.api import shapes
from tenants.permissions import Permission, require
from tenants.rest.schema import IF_MATCH, PAGING, paged
from tenants.rest.views import RestView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rest_framework.request import Request
    from rest_framework.response import Response

    from tenants.models import Quota


class FlavorsView(RestView):
    """/flavors."""

    @extend_schema(operation_id="listFlavors", parameters=PAGING, responses=paged(shapes.FlavorOut))
    def get(self, request: Request) -> Response:
        """List all GPU types, in order of creation."""
        self.query()
        return self.page(
            queries.flavors(by=self.actor), rows=lambda some: shapes.FlavorOut(some, many=True).data, order=("id",)
        )

    @extend_schema(operation_id="createFlavor", request=shapes.FlavorIn, responses={201: shapes.FlavorOut})
    def post(self, request: Request) -> Response:
        """Make a GPU type (admins)."""
        values = self.body(shapes.FlavorIn)
        name, comment = values.pop("name"), values.pop("comment", "")
        services.create_flavor(
            by=self.actor,
            now=self.now,
            name=name,
            comment=comment,
            values=cast("services.FlavorChanges", values),
        )
        return self.made(_flavor(name, self), at=f"flavors/{name}")


class FlavorView(RestView):
    """/flavors/{flavor}."""

    @extend_schema(operation_id="getFlavor", responses=shapes.FlavorOut)
    def get(self, request: Request, flavor: str) -> Response:
        """Show a GPU type."""
        return self.answer(_flavor(flavor, self))

    @extend_schema(operation_id="changeFlavor", request=shapes.FlavorPatch, responses=shapes.FlavorOut)
    def patch(self, request: Request, flavor: str) -> Response:
        """Change a GPU type (admins)."""
        changes = self.body(shapes.FlavorPatch)
        comment = changes.pop("comment", "")
        services.update_flavor(
            by=self.actor,
            now=self.now,
            flavor=flavor,
            comment=comment,
            changes=cast("services.FlavorChanges", changes),
        )
        return self.answer(_flavor(flavor, self))


class QuotasView(RestView):
    """/quotas."""

    @extend_schema(operation_id="listQuotas", parameters=[shapes.QuotaQuery, *PAGING], responses=paged(shapes.QuotaOut))
    def get(self, request: Request) -> Response:
        """List the quotas that are set, of the teams that you see."""
        return self.page(queries.quotas(by=self.actor, **self.query(shapes.QuotaQuery)), rows=_quotas, order=("id",))


class QuotaView(RestView):
    """/quotas/{team}/{flavor}."""

    @extend_schema(operation_id="getQuota", responses=shapes.QuotaOut)
    def get(self, request: Request, team: str, flavor: str) -> Response:
        """Show a quota; zeros and version 0 where nobody has set it."""
        row = queries.quota(self._team(team), queries.flavor(flavor))
        return self.answer(shapes.QuotaOut(row).data, version=row.version)

    @extend_schema(
        operation_id="setQuota", parameters=[IF_MATCH], request=shapes.QuotaIn, responses=shapes.QuotaChangedOut
    )
    def put(self, request: Request, team: str, flavor: str) -> Response:
        """Set a quota as a whole (admins)."""
        return self._set(team, flavor, shapes.QuotaIn)

    @extend_schema(
        operation_id="changeQuota", parameters=[IF_MATCH], request=shapes.QuotaPatch, responses=shapes.QuotaChangedOut
    )
    def patch(self, request: Request, team: str, flavor: str) -> Response:
        """Change parts of a quota (admins)."""
        return self._set(team, flavor, shapes.QuotaPatch)

    def _team(self, name: str) -> Any:  # noqa: ANN401  a team
        return queries.team(name, by=self.actor, permission=Permission.VIEW_QUOTA)

    def _set(self, team: str, flavor: str, shape: type[shapes.QuotaIn | shapes.QuotaPatch]) -> Response:
        self._team(team)
        values = {"version": self.wanted_version(), **self.body(shape)}
        comment = values.pop("comment", "")
        edit = services.QuotaEdit(team=team, flavor=flavor, **values)
        result = services.set_quotas(by=self.actor, now=self.now, edits=[edit], comment=comment)
        row = result.rows[0]
        return self.answer(shapes.QuotaOut(row).data, version=row.version, notices=result.notices)


class QuotaHistoryView(RestView):
    """/quotas/{team}/{flavor}/history."""

    @extend_schema(operation_id="listQuotaHistory", parameters=PAGING, responses=paged(shapes.AuditOut))
    def get(self, request: Request, team: str, flavor: str) -> Response:
        """List who changed a quota, when, from what to what."""
        self.query()
        found = queries.team(team, by=self.actor, permission=Permission.VIEW_QUOTA)
        history = queries.quota_history(found, queries.flavor(flavor))
        return self.page(history, rows=lambda some: shapes.AuditOut(some, many=True).data)


class InstallationView(RestView):
    """/installation."""

    @extend_schema(operation_id="getInstallation", responses=shapes.InstallationOut)
    def get(self, request: Request) -> Response:
        """Show the policy that holds for everybody."""
        require(self.actor, Permission.VIEW_NODES)
        row = queries.installation()
        return self.answer(shapes.InstallationOut(row).data, version=row.version)

    @extend_schema(
        operation_id="changeInstallation",
        parameters=[IF_MATCH],
        request=shapes.InstallationPatch,
        responses=shapes.InstallationOut,
    )
    def patch(self, request: Request) -> Response:
        """Change the policy (admins)."""
        version, changes = self.wanted_version(), self.body(shapes.InstallationPatch)
        comment = changes.pop("comment", "")
        row, notices = services.edit_installation(
            by=self.actor,
            now=self.now,
            version=version,
            comment=comment,
            changes=cast("services.InstallationChanges", changes),
        )
        return self.answer(shapes.InstallationOut(row).data, version=row.version, notices=notices)


def _flavor(name: str, view: RestView) -> dict[str, Any]:
    return dict(shapes.FlavorOut(queries.flavor(name, by=view.actor)).data)


def _quotas(some: Sequence[Quota]) -> Any:  # noqa: ANN401  a page of rows
    rows = [queries.quota_row(each, team=each.team.name, flavor=each.flavor.name) for each in some]
    return shapes.QuotaOut(rows, many=True).data
