"""Verbs about who is in a team."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from tenants import checks, queries
from tenants.changes import Change, ChangeKind, made
from tenants.errors import Invalid, NotFound, Notice
from tenants.models import Membership, Role, Team, User
from tenants.permissions import Permission, require

if TYPE_CHECKING:
    from datetime import datetime

    from tenants.permissions import Actor


def set_member(
    *, by: Actor, now: datetime, team: str, user: str, role: str, comment: str = ""
) -> tuple[Membership, tuple[Notice, ...]]:
    """Give a person a role in a team, instead of the one they had."""
    found = _team(team, by=by)
    checks.one_of(role, Role.values, pointer="/role")
    with transaction.atomic():
        _lock(found)
        person = User.objects.filter(username=user, is_active=True).first()
        if person is None:
            raise Invalid.field("/user", f"There is no account {user[:80]!r}.", code="unknown_user", given=user[:200])
        old = Membership.objects.filter(team=found, user=person).first()
        row, _ = Membership.objects.update_or_create(
            team=found, user=person, defaults={"role": role}, create_defaults={"role": role, "created_at": now}
        )
        notices = made(
            Change(
                kind=ChangeKind.MEMBER_SET,
                by=by,
                now=now,
                target=f"{found.name}/{user}",
                team=found,
                before={"role": old.role} if old else None,
                after={"role": role},
                comment=comment,
            )
        )
        return row, notices + _leads_left(found, lost=bool(old and old.role == Role.LEAD and role != Role.LEAD))


def remove_member(*, by: Actor, now: datetime, team: str, user: str, comment: str = "") -> tuple[Notice, ...]:
    """Take a person out of a team; their jobs go on."""
    found = _team(team, by=by)
    with transaction.atomic():
        _lock(found)
        row = Membership.objects.select_related("user").filter(team=found, user__username=user).first()
        if row is None:
            raise NotFound(f"{user[:80]!r} is not a member of {found.name} itself.", code="unknown_member")
        row.delete()
        notices = made(
            Change(
                kind=ChangeKind.MEMBER_REMOVED,
                by=by,
                now=now,
                target=f"{found.name}/{user}",
                team=found,
                before={"role": row.role},
                comment=comment,
            )
        )
        return notices + _leads_left(found, lost=row.role == Role.LEAD)


def _team(name: str, *, by: Actor) -> Team:
    found = queries.team(name, by=by)
    require(by, Permission.EDIT_MEMBERS, team=found)
    return found


def _lock(team: Team) -> None:
    Team.objects.select_for_update(no_key=True).get(id=team.id)


def _leads_left(team: Team, *, lost: bool) -> tuple[Notice, ...]:
    if not lost or Membership.objects.filter(team=team, role=Role.LEAD).exists():
        return ()
    return (Notice(code="no_lead", detail=f"{team.name} has no lead of its own any more."),)
