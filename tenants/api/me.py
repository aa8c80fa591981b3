"""Addresses of the person who asks, their tokens, and the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from tenants import queries, services
from tenants.api import shapes
from tenants.rest.schema import PAGING, paged
from tenants.rest.views import RestView

if TYPE_CHECKING:
    from rest_framework.request import Request

    from tenants.models import ApiToken

SECRET = "token"  # noqa: S105  a field's name


class MeView(RestView):
    """/me."""

    @extend_schema(operation_id="getMe", responses=shapes.MeOut)
    def get(self, request: Request) -> Response:
        """Show who you are, your own roles, and what your token is limited to."""
        user, token = self.actor.user, cast("ApiToken | None", request.auth)
        limits = {"scopes": token.scopes, "team": token.team.name if token.team else None} if token else None
        roles = [{"team": team, "role": role} for team, role in queries.roles_of(user)]
        data = {
            "username": user.username,
            "email": user.email,
            "global_role": user.global_role,
            "roles": roles,
            "token": limits,
        }
        return self.answer(shapes.MeOut(data).data)


class TokensView(RestView):
    """/tokens."""

    shown_once = (SECRET,)

    @extend_schema(operation_id="listTokens", parameters=PAGING, responses=paged(shapes.TokenOut))
    def get(self, request: Request) -> Response:
        """List your live tokens, newest first."""
        self.query()
        return self.page(queries.tokens(by=self.actor), rows=lambda some: shapes.TokenOut(some, many=True).data)

    @extend_schema(operation_id="createToken", request=shapes.TokenIn, responses={201: shapes.NewTokenOut})
    def post(self, request: Request) -> Response:
        """Make a token. Its secret is in this answer and nowhere else; a replayed answer has null there."""
        new = services.create_token(by=self.actor, now=self.now, **self.body(shapes.TokenIn))
        return self.made(_shown(new), at=f"tokens/{new.token.id}")


class TokenView(RestView):
    """/tokens/{id}."""

    @extend_schema(operation_id="revokeToken", responses={204: None})
    def delete(self, request: Request, token_id: int) -> Response:
        """End a token at once and for ever."""
        services.revoke_token(by=self.actor, now=self.now, token_id=token_id)
        return Response(status=204)


class RotateView(RestView):
    """/tokens/{id}/rotate."""

    shown_once = (SECRET,)

    @extend_schema(operation_id="rotateToken", request=None, responses=shapes.NewTokenOut)
    def post(self, request: Request, token_id: int) -> Response:
        """Give a token a new secret; the old one stops at once."""
        return self.answer(_shown(services.rotate_token(by=self.actor, now=self.now, token_id=token_id)))


class AuditView(RestView):
    """/audit."""

    @extend_schema(operation_id="listAudit", parameters=[shapes.AuditQuery, *PAGING], responses=paged(shapes.AuditOut))
    def get(self, request: Request) -> Response:
        """List changes, newest first: all for admins and auditors, those of their teams for leads."""
        entries = queries.audit(by=self.actor, **self.query(shapes.AuditQuery))
        return self.page(entries, rows=lambda some: shapes.AuditOut(some, many=True).data)


def _shown(new: services.NewToken) -> dict[str, Any]:
    return {**shapes.TokenOut(new.token).data, SECRET: new.secret}
