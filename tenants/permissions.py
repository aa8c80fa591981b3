"""Who may do what: one table of roles, one of token scopes, one test.

Roles count in their team and in all teams below it. A token only narrows what its owner may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from django.db.models import OuterRef, Subquery
from django.db.models.expressions import RawSQL

from tenants.errors import NotAllowed
from tenants.look import looking, once
from tenants.models import GlobalRole, Membership, Role, Team, User

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django.contrib.auth.models import AnonymousUser
    from django.db.models import QuerySet
    from django.http import HttpRequest
    from rest_framework.request import Request


class Permission(StrEnum):
    """What one may do; those below the line are about the installation and not about a team."""

    VIEW_TEAM = "view_team"
    VIEW_JOB = "view_job"
    VIEW_QUOTA = "view_quota"
    SUBMIT_JOB = "submit_job"
    CHANGE_OWN_JOB = "change_own_job"
    CHANGE_ANY_JOB = "change_any_job"
    EDIT_QUEUE = "edit_queue"
    EDIT_MEMBERS = "edit_members"
    EDIT_TEAM = "edit_team"  # title, limit per user, pause
    EDIT_QUOTA = "edit_quota"  # guarantees, limits, weights, place in the tree, new teams
    VIEW_AUDIT = "view_audit"
    # ---
    VIEW_NODES = "view_nodes"
    EDIT_TOKENS = "edit_tokens"  # one's own
    VIEW_DECISIONS = "view_decisions"
    EDIT_FLAVOR = "edit_flavor"
    EDIT_USERS = "edit_users"
    EDIT_INSTALLATION = "edit_installation"


P = Permission
EVERYONE = frozenset({P.VIEW_NODES, P.EDIT_TOKENS})
VIEWER = frozenset({P.VIEW_TEAM, P.VIEW_JOB, P.VIEW_QUOTA})
MEMBER = VIEWER | {P.SUBMIT_JOB, P.CHANGE_OWN_JOB}
LEAD = MEMBER | {P.CHANGE_ANY_JOB, P.EDIT_QUEUE, P.EDIT_MEMBERS, P.EDIT_TEAM, P.VIEW_AUDIT}

IN_TEAM: dict[str, frozenset[Permission]] = {Role.VIEWER: VIEWER, Role.MEMBER: MEMBER, Role.LEAD: LEAD}
EVERYWHERE: dict[str, frozenset[Permission]] = {
    GlobalRole.NONE: EVERYONE,
    GlobalRole.AUDITOR: EVERYONE | VIEWER | {P.VIEW_AUDIT, P.VIEW_DECISIONS},
    GlobalRole.ADMIN: frozenset(Permission),
}


class Scope(StrEnum):
    """What a token may be used for."""

    JOBS_READ = "jobs:read"
    JOBS_WRITE = "jobs:write"
    QUOTA_READ = "quota:read"
    QUOTA_WRITE = "quota:write"
    AUDIT_READ = "audit:read"
    ADMIN = "admin"


READ_JOBS = frozenset({P.VIEW_TEAM, P.VIEW_JOB, P.VIEW_NODES, P.VIEW_DECISIONS})
READ_QUOTA = frozenset({P.VIEW_TEAM, P.VIEW_QUOTA, P.VIEW_NODES})
BY_SCOPE: dict[str, frozenset[Permission]] = {
    Scope.JOBS_READ: READ_JOBS,
    Scope.JOBS_WRITE: READ_JOBS | {P.SUBMIT_JOB, P.CHANGE_OWN_JOB, P.CHANGE_ANY_JOB},
    Scope.QUOTA_READ: READ_QUOTA,
    Scope.QUOTA_WRITE: READ_QUOTA | {P.EDIT_QUOTA},
    Scope.AUDIT_READ: frozenset({P.VIEW_AUDIT}),
    Scope.ADMIN: frozenset(Permission),  # all that its owner may do
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who acts: a person, or a token of theirs (``scopes`` not None), perhaps for one team and those below it."""

    user: User
    scopes: frozenset[str] | None = None
    team_id: int | None = None
    request_id: str = ""

    @property
    def name(self) -> str:
        """Return the name for records."""
        return self.user.username


def system() -> Actor:
    """Return the actor of commands and of the demo: may do all, is nobody's account."""
    return Actor(user=User(username="system", global_role=GlobalRole.ADMIN))


def actor_of(request: HttpRequest | Request) -> Actor:
    """Return who makes a request. Only for requests of somebody known."""
    token = getattr(request, "auth", None)
    user = request.user
    if not isinstance(user, User):
        raise TypeError("nobody known makes this request")
    request_id = str(getattr(request, "request_id", ""))
    if token is None:
        return Actor(user=user, request_id=request_id)
    return Actor(user=user, scopes=frozenset(token.scopes), team_id=token.team_id, request_id=request_id)


def can(who: Actor | User | AnonymousUser, permission: Permission, *, team: Team | None = None) -> bool:
    """Return whether someone may do something, in ``team`` or (None) everywhere."""
    actor = _actor(who)
    if actor is None or not _scoped(actor, permission):
        return False
    if team is not None and looking():
        return any(row.id == team.id for row in teams_seen(actor, permission))
    if team is not None:
        return visible_teams(actor, permission).filter(id=team.id).exists()
    if actor.team_id is not None:
        return permission in EVERYONE
    return permission in EVERYWHERE[actor.user.global_role]


def require(who: Actor | User | AnonymousUser, permission: Permission, *, team: Team | None = None) -> None:
    """Raise NotAllowed unless ``can`` says yes."""
    if not can(who, permission, team=team):
        where = f" in team {team.name}" if team else ""
        raise NotAllowed(f"This needs the right to {permission.replace('_', ' ')}{where}.", code=f"needs_{permission}")


def visible_teams(
    who: Actor | User | AnonymousUser, permission: Permission = Permission.VIEW_TEAM
) -> QuerySet[Team, Team]:
    """Return the teams in which someone may do something: the start of every query in an edge.

    Jobs are seen where VIEW_JOB holds, quotas where VIEW_QUOTA holds: a token may have one without the other.
    """
    actor = _actor(who)
    if actor is None or not _scoped(actor, permission):
        return Team.objects.none()
    teams = Team.objects.all()
    if not actor.user.global_role or permission not in EVERYWHERE[actor.user.global_role]:
        roles = [role for role, allowed in IN_TEAM.items() if permission in allowed]
        member = "SELECT team_id FROM tenants_membership WHERE user_id = %s AND role = ANY(%s)"
        teams = teams.filter(id__in=_below(member, (actor.user.pk, roles)))
    if actor.team_id is not None:
        teams = teams.filter(id__in=_below("SELECT %s::bigint", (actor.team_id,)))
    return teams


def teams_seen(who: Actor | User | AnonymousUser, permission: Permission = Permission.VIEW_TEAM) -> tuple[Team, ...]:
    """Return the rows of ``visible_teams`` in order of creation; a look reads them once for all permissions."""
    actor = _actor(who)
    if actor is None or not _scoped(actor, permission):
        return ()
    reach = _reach(actor.user.pk, everywhere=bool(actor.user.global_role))
    everywhere = bool(actor.user.global_role) and permission in EVERYWHERE[actor.user.global_role]
    allowed = {role for role, rights in IN_TEAM.items() if permission in rights}
    rows = tuple(team for team in reach.teams if everywhere or reach.roles[team.id] & allowed)
    if actor.team_id is None:
        return rows
    inside = set(below(actor.team_id).values_list("id", flat=True))
    return tuple(team for team in rows if team.id in inside)


def reached(
    who: Actor, permission: Permission, *, parents: Mapping[int, int | None], roles: Mapping[int, str]
) -> frozenset[int]:
    """Return the ids of ``visible_teams`` from what is at hand: the team above each, and the person's own roles."""
    if not who.user.is_active or not _scoped(who, permission):
        return frozenset()
    everywhere = bool(who.user.global_role) and permission in EVERYWHERE[who.user.global_role]
    allowed = {role for role, rights in IN_TEAM.items() if permission in rights}
    paths = {team: _path(team, parents) for team in parents}
    return frozenset(
        team
        for team, path in paths.items()
        if (everywhere or any(roles.get(above) in allowed for above in path))
        and (who.team_id is None or who.team_id in path)
    )


def _path(team: int | None, parents: Mapping[int, int | None]) -> frozenset[int]:
    """Return a team and those above it; each once, even on a cycle."""
    path: set[int] = set()
    while team is not None and team not in path:
        path.add(team)
        team = parents.get(team)
    return frozenset(path)


def leaves_seen(who: Actor | User | AnonymousUser, permission: Permission = Permission.VIEW_TEAM) -> tuple[Team, ...]:
    """Return those of ``teams_seen`` that have jobs of their own: what has teams below it is a department."""
    # Who sees a team sees those below it.
    rows = teams_seen(who, permission)
    departments = {team.parent_id for team in rows}
    return tuple(team for team in rows if team.id not in departments)


def joined(who: Actor) -> frozenset[int]:
    """Return the ids of the teams in which a person has a role, be it by a department above."""
    roles = _reach(who.user.pk, everywhere=bool(who.user.global_role)).roles
    return frozenset(team for team, found in roles.items() if found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """The teams that a person may see at all, in order of creation, and their roles in each."""

    teams: tuple[Team, ...]
    roles: dict[int, frozenset[str]]


@once
def _reach(user: int, *, everywhere: bool) -> _Reach:
    own = Membership.objects.filter(user=user, team=OuterRef("pk")).values("role")[:1]
    teams = Team.objects.annotate(own_role=Subquery(own)).order_by("id")
    if not everywhere:
        teams = teams.filter(id__in=_below("SELECT team_id FROM tenants_membership WHERE user_id = %s", (user,)))
    rows = {team.id: team for team in teams}
    roles = {number: frozenset(_roles_above(team, rows)) for number, team in rows.items()}
    return _Reach(teams=tuple(rows.values()), roles=roles)


def _roles_above(team: Team | None, rows: Mapping[int, Team]) -> Iterator[str]:
    """Yield the roles of a person in a team and in those above it; each once, even on a cycle."""
    seen: set[int] = set()
    while team is not None and team.id not in seen:
        seen.add(team.id)
        if team.own_role:  # type: ignore[attr-defined]  # annotated above
            yield team.own_role  # type: ignore[attr-defined]
        team = rows.get(team.parent_id) if team.parent_id else None


def roles_in(user: User, team: Team) -> frozenset[Role]:
    """Return the roles that a person has in a team, its own and those of the departments above."""
    above = RawSQL(
        "WITH RECURSIVE up(id) AS (SELECT %s::bigint UNION"
        " SELECT t.parent_id FROM tenants_team t JOIN up ON t.id = up.id WHERE t.parent_id IS NOT NULL)"
        " SELECT id FROM up",
        (team.id,),
    )
    return frozenset(Role(role) for role in user.memberships.filter(team__in=above).values_list("role", flat=True))


def below(team_id: int) -> QuerySet[Team, Team]:
    """Return a team and all teams below it."""
    return Team.objects.filter(id__in=_below("SELECT %s::bigint", (team_id,)))


def _below(start: str, values: tuple[object, ...]) -> RawSQL:
    """Return the ids that ``start`` selects and those of all teams below; UNION ends even on a cycle."""
    return RawSQL(  # noqa: S611  constant text, bound values
        f"WITH RECURSIVE down(id) AS ({start} UNION SELECT t.id FROM tenants_team t JOIN down ON t.parent_id = down.id)"  # noqa: S608
        " SELECT id FROM down",
        values,
    )


def _actor(who: Actor | User | AnonymousUser) -> Actor | None:
    actor = who if isinstance(who, Actor) else Actor(user=who) if isinstance(who, User) else None
    return actor if actor and actor.user.is_active else None


def _scoped(actor: Actor, permission: Permission) -> bool:
    return actor.scopes is None or any(permission in BY_SCOPE.get(scope, ()) for scope in actor.scopes)
