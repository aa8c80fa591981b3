"""Addresses of teams, their members and accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from drf_spectacular.utils import extend_schema

from tenants import queries, services
from tenants.api import shapes
from tenants.errors import NotFound
from tenants.permissions import Permission, require, visible_teams
from tenants.rest.schema import IF_MATCH, PAGING, paged
from tenants.rest.views import RestView

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

    from tenants.models import Team


class TeamsView(RestView):
    """/teams."""

    @extend_schema(operation_id="listTeams", parameters=[shapes.TeamQuery, *PAGING], responses=paged(shapes.TeamOut))
    def get(self, request: Request) -> Response:
        """List the teams that you see, in order of creation."""
        wanted = self.query(shapes.TeamQuery)
        teams = visible_teams(self.actor)
        if "parent" in wanted:
            teams = teams.filter(parent=queries.team(wanted["parent"], by=self.actor))
        return self.page(teams, rows=self._rows, order=("id",))

    @extend_schema(operation_id="createTeam", request=shapes.TeamIn, responses={201: shapes.TeamOut})
    def post(self, request: Request) -> Response:
        """Make a team or department (admins)."""
        team = services.create_team(by=self.actor, now=self.now, **self.body(shapes.TeamIn))
        return self.made(_shown(team, self), at=f"teams/{team.name}", version=team.version)

    def _rows(self, teams: Any) -> Any:  # noqa: ANN401  a page of teams
        return shapes.TeamOut(queries.team_rows(teams, by=self.actor), many=True).data


class TeamView(RestView):
    """/teams/{team}."""

    @extend_schema(operation_id="getTeam", responses=shapes.TeamOut)
    def get(self, request: Request, team: str) -> Response:
        """Show a team."""
        found = queries.team(team, by=self.actor)
        return self.answer(_shown(found, self), version=found.version)

    @extend_schema(operation_id="changeTeam", parameters=[IF_MATCH], request=shapes.TeamPatch, responses=shapes.TeamOut)
    def patch(self, request: Request, team: str) -> Response:
        """Change a team (leads: title and limit per user; admins: weight, place and pod allowances too)."""
        version, changes = self.wanted_version(), self.body(shapes.TeamPatch)
        comment = changes.pop("comment", "")
        found = services.update_team(
            by=self.actor,
            now=self.now,
            team=team,
            version=version,
            comment=comment,
            changes=cast("services.TeamChanges", changes),
        )
        return self.answer(_shown(found, self), version=found.version)


class PauseView(RestView):
    """/teams/{team}:pause."""

    @extend_schema(operation_id="pauseTeam", request=None, responses=shapes.TeamOut)
    def post(self, request: Request, team: str) -> Response:
        """Let nothing of a team and the teams below start; what runs goes on."""
        found = services.pause_team(by=self.actor, now=self.now, team=team)
        return self.answer(_shown(found, self), version=found.version)


class ResumeView(RestView):
    """/teams/{team}:resume."""

    @extend_schema(operation_id="resumeTeam", request=None, responses=shapes.TeamOut)
    def post(self, request: Request, team: str) -> Response:
        """Let a paused team start jobs again."""
        found = services.resume_team(by=self.actor, now=self.now, team=team)
        return self.answer(_shown(found, self), version=found.version)


class MembersView(RestView):
    """/teams/{team}/members."""

    @extend_schema(operation_id="listMembers", parameters=PAGING, responses=paged(shapes.MemberOut))
    def get(self, request: Request, team: str) -> Response:
        """List a team's own members; those of departments above count here too and are listed there."""
        self.query()
        members = queries.members(queries.team(team, by=self.actor))
        return self.page(members, rows=lambda some: shapes.MemberOut(some, many=True).data, order=("id",))


class MemberView(RestView):
    """/teams/{team}/members/{user}."""

    @extend_schema(operation_id="getMember", responses=shapes.MemberOut)
    def get(self, request: Request, team: str, user: str) -> Response:
        """Show a person's role in a team."""
        found = queries.members(queries.team(team, by=self.actor)).filter(user__username=user).first()
        if found is None:
            raise NotFound(f"{user[:80]!r} is not a member of {team} itself.", code="unknown_member")
        return self.answer(shapes.MemberOut(found).data)

    @extend_schema(operation_id="setMember", request=shapes.MemberIn, responses=shapes.MemberChangedOut)
    def put(self, request: Request, team: str, user: str) -> Response:
        """Give a person a role in a team (leads)."""
        row, notices = services.set_member(
            by=self.actor, now=self.now, team=team, user=user, **self.body(shapes.MemberIn)
        )
        return self.answer(shapes.MemberOut(row).data, notices=notices)

    @extend_schema(operation_id="removeMember", responses={200: shapes.WarningsOut})
    def delete(self, request: Request, team: str, user: str) -> Response:
        """Take a person out of a team (leads)."""
        notices = services.remove_member(by=self.actor, now=self.now, team=team, user=user)
        return self.answer({}, notices=notices)


class UsersView(RestView):
    """/users."""

    @extend_schema(operation_id="listUsers", parameters=PAGING, responses=paged(shapes.UserOut))
    def get(self, request: Request) -> Response:
        """List all accounts (admins)."""
        self.query()
        require(self.actor, Permission.EDIT_USERS)
        return self.page(queries.users(), rows=lambda some: shapes.UserOut(some, many=True).data, order=("id",))

    @extend_schema(operation_id="createUser", request=shapes.UserIn, responses={201: shapes.UserOut})
    def post(self, request: Request) -> Response:
        """Make an account (admins)."""
        user = services.create_user(by=self.actor, now=self.now, **self.body(shapes.UserIn))
        return self.made(shapes.UserOut(user).data, at=f"users/{user.username}")


class UserView(RestView):
    """/users/{user}."""

    @extend_schema(operation_id="changeUser", request=shapes.UserPatch, responses=shapes.UserOut)
    def patch(self, request: Request, user: str) -> Response:
        """Change an account (admins)."""
        changes = self.body(shapes.UserPatch)
        comment = changes.pop("comment", "")
        found = services.update_user(
            by=self.actor,
            now=self.now,
            username=user,
            comment=comment,
            changes=cast("services.UserChanges", changes),
        )
        return self.answer(shapes.UserOut(found).data)


def _shown(team: Team, view: RestView) -> dict[str, Any]:
    return dict(shapes.TeamOut(queries.team_rows([team], by=view.actor)[0]).data)
