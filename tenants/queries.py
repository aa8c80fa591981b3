"""What is read of teams, quotas, flavors, tokens and the audit, as querysets and frozen rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import F, FilteredRelation, OuterRef, Q, QuerySet, Subquery, Sum

from tenants.errors import NotFound
from tenants.look import looking, once
from tenants.models import ApiToken, AuditEntry, Flavor, Installation, Membership, Quota, Team, User
from tenants.permissions import Actor, Permission, can, require, teams_seen, visible_teams

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """What a team owns, may borrow and lends on a flavor; ``version`` 0 where nobody has set it yet."""

    team: str
    flavor: str
    guaranteed: int = 0
    borrow_limit: int | None = None
    lend_limit: int | None = None
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorTotal:
    """The sum of guarantees of a flavor beside what is installed and usable."""

    flavor: str
    guaranteed: int
    installed: int
    usable: int

    @property
    def unassigned(self) -> int:
        """Return the usable units that are promised to nobody."""
        return max(0, self.usable - self.guaranteed)


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamRow:
    """A team as pages and the API show it."""

    id: int
    name: str
    title: str
    parent: str | None
    children: tuple[str, ...]
    weight_milli: int
    per_user_limit: int | None
    paused_at: datetime | None
    version: int
    created_at: datetime
    pod_allowances: tuple[str, ...] = ()


def team(name: str, *, by: Actor, permission: Permission = Permission.VIEW_TEAM) -> Team:
    """Return a team by name, or raise NotFound where it is not there for this actor."""
    if looking():
        found = next((row for row in teams_seen(by, permission) if row.name == name), None)
    else:
        found = visible_teams(by, permission).filter(name=name).first()
    if found is None:
        raise NotFound(f"There is no team {name!r}, or you are not in it.", code="unknown_team")
    return found


def flavor(name: str, *, by: Actor | None = None) -> Flavor:
    """Return a flavor by name with its sum of guarantees, or raise NotFound; without ``by`` no right is asked for."""
    found = _with_sums(Flavor.objects.all()).filter(name=name).first()
    if found is None or (by is not None and not can(by, Permission.VIEW_NODES)):
        raise NotFound(f"There is no GPU type {name[:80]!r}.", code="unknown_flavor")
    return found


def flavors(*, by: Actor) -> QuerySet[Flavor, Flavor]:
    """Return all kinds of capacity with their sums of guarantees, in order of creation; they are no team's secret."""
    return _with_sums(Flavor.objects.order_by("id") if can(by, Permission.VIEW_NODES) else Flavor.objects.none())


@once
def kinds() -> tuple[Flavor, ...]:
    """Return all kinds of capacity in order of creation, without sums."""
    return tuple(Flavor.objects.order_by("id"))


def flavor_names(by: Actor) -> list[str]:
    """Return the names of the kinds of capacity that one may choose from, in order of creation."""
    return [kind.name for kind in kinds()] if can(by, Permission.VIEW_NODES) else []


def team_rows(teams: Iterable[Team], *, by: Actor) -> list[TeamRow]:
    """Return rows of teams; names of parents and children only where the actor sees those."""
    teams = list(teams)
    near = teams_seen(by)
    names = {row.id: row.name for row in near}
    children: dict[int, list[str]] = {}
    for row in near:
        if row.parent_id is not None:
            children.setdefault(row.parent_id, []).append(row.name)
    return [
        TeamRow(
            id=each.id,
            name=each.name,
            title=each.title,
            parent=names.get(each.parent_id) if each.parent_id else None,
            children=tuple(children.get(each.id, ())),
            weight_milli=each.weight_milli,
            per_user_limit=each.per_user_limit,
            paused_at=each.paused_at,
            version=each.version,
            created_at=each.created_at,
            pod_allowances=tuple(each.pod_allowances),
        )
        for each in teams
    ]


def members(team: Team) -> QuerySet[Membership, Membership]:
    """Return a team's own members, by name."""
    return Membership.objects.filter(team=team).select_related("user", "team").order_by("user__username", "id")


def quota(team: Team, flavor: Flavor) -> QuotaRow:
    """Return what is set for a team on a flavor, or the row of zeros that holds where nothing is set."""
    found = Quota.objects.filter(team=team, flavor=flavor).first()
    if found is None:
        return QuotaRow(team=team.name, flavor=flavor.name)
    return quota_row(found, team=team.name, flavor=flavor.name)


def quota_lines(team: Team) -> tuple[tuple[QuotaRow, FlavorTotal], ...]:
    """Return for each flavor what is set for a team (zeros where nothing is) beside the sum of all guarantees."""
    total = Quota.objects.filter(flavor=OuterRef("pk")).order_by().values("flavor").annotate(sum=Sum("guaranteed"))
    own = FilteredRelation("quotas", condition=Q(quotas__team=team))
    rows = Flavor.objects.alias(own=own, total=Subquery(total.values("sum"))).order_by("id")
    columns = ("name", "installed", "usable", "own__guaranteed", "own__borrow_limit", "own__lend_limit", "own__version")
    return tuple(
        (
            QuotaRow(
                team=team.name,
                flavor=name,
                guaranteed=guaranteed or 0,
                borrow_limit=borrow,
                lend_limit=lend,
                version=version or 0,
            ),
            FlavorTotal(flavor=name, guaranteed=promised or 0, installed=installed, usable=usable),
        )
        for name, installed, usable, guaranteed, borrow, lend, version, promised in rows.values_list(
            *columns, F("total")
        )
    )


def quota_row(quota: Quota, *, team: str, flavor: str) -> QuotaRow:
    """Return a stored quota as a frozen row."""
    return QuotaRow(
        team=team,
        flavor=flavor,
        guaranteed=quota.guaranteed,
        borrow_limit=quota.borrow_limit,
        lend_limit=quota.lend_limit,
        version=quota.version,
    )


def quotas(*, by: Actor, team: str = "", flavor: str = "") -> QuerySet[Quota, Quota]:
    """Return the quotas that an actor may see, perhaps of one team or flavor."""
    found = Quota.objects.filter(team__in=visible_teams(by, Permission.VIEW_QUOTA)).select_related("team", "flavor")
    if team:
        found = found.filter(team__name=team)
    if flavor:
        found = found.filter(flavor__name=flavor)
    return found.order_by("id")


def totals() -> list[FlavorTotal]:
    """Return for each flavor the sum of guarantees beside what is there."""
    rows = Flavor.objects.alias(total=Sum("quotas__guaranteed", default=0)).order_by("id")
    return [
        FlavorTotal(flavor=name, guaranteed=total, installed=installed, usable=usable)
        for name, total, installed, usable in rows.values_list("name", F("total"), "installed", "usable")
    ]


def tokens(*, by: Actor) -> QuerySet[ApiToken, ApiToken]:
    """Return one's own tokens that are not revoked, newest first."""
    return ApiToken.objects.filter(user=by.user, revoked_at=None).select_related("team").order_by("-id")


def audit(
    *,
    by: Actor,
    team: str = "",
    actor: str = "",
    action: str = "",
    target: str = "",
    at__gte: datetime | None = None,
    at__lt: datetime | None = None,
) -> QuerySet[AuditEntry, AuditEntry]:
    """Return the changes that an actor may see: all for admins and auditors, those of their teams for leads."""
    entries = AuditEntry.objects.select_related("team").order_by("-id")
    if not can(by, Permission.VIEW_AUDIT):
        teams = visible_teams(by, Permission.VIEW_AUDIT)
        if not teams.exists():
            require(by, Permission.VIEW_AUDIT)
        entries = entries.filter(team__in=teams)
    wanted = {
        "team__name": team,
        "actor_name": actor,
        "action": action,
        "target": target,
        "at__gte": at__gte,
        "at__lt": at__lt,
    }
    return entries.filter(**{key: value for key, value in wanted.items() if value})


def quota_history(team: Team, flavor: Flavor) -> QuerySet[AuditEntry, AuditEntry]:
    """Return the changes of one quota, newest first."""
    return AuditEntry.objects.filter(action="quota.set", target=f"{team.name}/{flavor.name}").order_by("-id")


def installation() -> Installation:
    """Return the one row of policy, or its defaults where nobody has edited it yet."""
    return Installation.objects.filter(id=1).first() or Installation(aging_every=timedelta(hours=1), version=0)


def users() -> QuerySet[User, User]:
    """Return all accounts by name."""
    return User.objects.order_by("username", "id")


def roles_of(user: User) -> tuple[tuple[str, str], ...]:
    """Return a person's own roles as (team, role), by team."""
    return tuple(user.memberships.order_by("team__name", "id").values_list("team__name", "role"))


def _with_sums(rows: QuerySet[Flavor, Flavor]) -> QuerySet[Flavor, Flavor]:
    return rows.annotate(guaranteed=Sum("quotas__guaranteed", default=0))
