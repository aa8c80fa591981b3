"""Verbs about the team tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from django.db import connection, transaction

from tenants import checks, queries
from tenants.allowances import Allowance
from tenants.changes import Change, ChangeKind, made
from tenants.errors import Conflict, Invalid, Stale
from tenants.models import Team
from tenants.permissions import Permission, below, require

if TYPE_CHECKING:
    from datetime import datetime

    from tenants.permissions import Actor

TREE_LOCK = 0x7465616D  # one writer at a time for the shape of the tree
AUDITED = ("name", "title", "parent", "weight_milli", "per_user_limit", "pod_allowances", "paused_at")
ADMINS_ONLY = frozenset({"parent", "weight_milli", "pod_allowances"})


class TeamChanges(TypedDict, total=False):
    """What may be changed; what is left out stays. ``parent`` None puts the team below the root."""

    title: str
    parent: str | None
    weight_milli: int
    per_user_limit: int | None
    pod_allowances: list[str]


def create_team(
    *,
    by: Actor,
    now: datetime,
    name: str,
    title: str = "",
    parent: str | None = None,
    weight_milli: int = 1000,
    per_user_limit: int | None = None,
    comment: str = "",
) -> Team:
    """Make a team below ``parent`` (None: below the root). A team that has jobs cannot get children."""
    require(by, Permission.EDIT_QUOTA)
    values = _checked({"title": title, "weight_milli": weight_milli, "per_user_limit": per_user_limit})
    checks.name(name)
    with transaction.atomic():
        _lock_tree()
        above = _parent(parent, by=by)
        if Team.objects.filter(name=name).exists():
            raise Conflict(f"There is already a team {name!r}.", code="name_taken")
        team = Team.objects.create(name=name, parent=above, created_at=now, **values)
        made(
            Change(
                kind=ChangeKind.TEAM_CREATED,
                by=by,
                now=now,
                target=name,
                team=team,
                after=picture(team),
                comment=comment,
            )
        )
    return team


def update_team(
    *, by: Actor, now: datetime, team: str, changes: TeamChanges, version: int | None = None, comment: str = ""
) -> Team:
    """Change a team; ``version`` (None: any) must be the one that the caller read."""
    found = queries.team(team, by=by)
    require(by, Permission.EDIT_TEAM, team=found)
    if ADMINS_ONLY & changes.keys():
        require(by, Permission.EDIT_QUOTA, team=found)
    values = _checked(dict(changes))
    with transaction.atomic():
        if "parent" in values:
            _lock_tree()
            values["parent"] = _parent(values["parent"], by=by, child=found)
        row = locked(found, version=version)
        before = picture(row)
        for key, value in values.items():
            setattr(row, key, value)
        _save(row, kind=ChangeKind.TEAM_UPDATED, before=before, by=by, now=now, comment=comment)
    return row


def pause_team(*, by: Actor, now: datetime, team: str, version: int | None = None, comment: str = "") -> Team:
    """Let nothing of a team and the teams below start; what runs goes on. Pausing twice changes nothing."""
    return _set_pause(by=by, now=now, team=team, paused=True, version=version, comment=comment)


def resume_team(*, by: Actor, now: datetime, team: str, version: int | None = None, comment: str = "") -> Team:
    """Let a paused team start jobs again; the pause does not count as waiting."""
    return _set_pause(by=by, now=now, team=team, paused=False, version=version, comment=comment)


def picture(team: Team) -> dict[str, Any]:
    """Return a team as the audit shows it."""
    values = {key: getattr(team, key) for key in AUDITED}
    return values | {
        "parent": team.parent.name if team.parent else None,
        "paused_at": team.paused_at.isoformat() if team.paused_at else None,
    }


def locked(team: Team, *, version: int | None) -> Team:
    """Return the team's row, locked, after comparing its version."""
    row = Team.objects.select_for_update(of=("self",)).select_related("parent").get(id=team.id)
    if version is not None and version != row.version:
        raise Stale(f"Team {row.name} was changed meanwhile: it is at version {row.version}, not {version}.")
    return row


def _set_pause(*, by: Actor, now: datetime, team: str, paused: bool, version: int | None, comment: str) -> Team:
    found = queries.team(team, by=by)
    require(by, Permission.EDIT_TEAM, team=found)
    with transaction.atomic():
        row = locked(found, version=version)
        if (row.paused_at is not None) == paused:
            return row
        before = picture(row)
        row.paused_at = now if paused else None
        kind = ChangeKind.TEAM_PAUSED if paused else ChangeKind.TEAM_RESUMED
        _save(row, kind=kind, before=before, by=by, now=now, comment=comment)
    return row


def _save(row: Team, *, kind: ChangeKind, before: dict[str, Any], by: Actor, now: datetime, comment: str) -> None:
    row.version += 1
    row.save()
    made(
        Change(
            kind=kind,
            by=by,
            now=now,
            target=row.name,
            team=row,
            before=before,
            after=picture(row),
            comment=comment,
        )
    )


def _lock_tree() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [TREE_LOCK])


def _parent(name: str | None, *, by: Actor, child: Team | None = None) -> Team | None:
    """Return the department, locked against new jobs, or refuse one that lies below its own child."""
    if name is None:
        return None
    found = queries.team(name, by=by)
    require(by, Permission.EDIT_QUOTA, team=found)
    if child is not None and below(child.id).filter(id=found.id).exists():
        raise Invalid.field(
            "/parent",
            f"{name} is {child.name} itself or lies below it: that would be a circle.",
            code="circle",
            given=name,
        )
    return Team.objects.select_for_update().get(id=found.id)


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a team's fields after checking each."""
    if "title" in values:
        checks.text(values["title"], pointer="/title", longest=100)
    if "weight_milli" in values:
        checks.whole(values["weight_milli"], pointer="/weight")
    if "per_user_limit" in values:
        checks.limit(values["per_user_limit"], pointer="/per_user_limit")
    if "pod_allowances" in values:
        values["pod_allowances"] = _allowances(values["pod_allowances"])
    return values


def _allowances(given: list[str]) -> list[str]:
    """Return allowances in their order, each once, or refuse one that there is not."""
    known = [str(each) for each in Allowance]
    for place, name in enumerate(given):
        if name not in known:
            detail = f"there is no allowance {name!r}; there is {', '.join(known)}"
            raise Invalid.field(f"/pod_allowances/{place}", detail, code="unknown_allowance", given=name, allowed=known)
    return [name for name in known if name in given]
