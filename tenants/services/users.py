"""Verbs about accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from tenants import checks
from tenants.changes import Change, ChangeKind, made
from tenants.errors import Conflict, Invalid, NotFound
from tenants.models import GlobalRole, User
from tenants.permissions import Permission, require

if TYPE_CHECKING:
    from datetime import datetime

    from tenants.permissions import Actor


class UserChanges(TypedDict, total=False):
    """What may be changed of an account; what is left out stays."""

    email: str
    global_role: str
    is_active: bool


def create_user(
    *,
    by: Actor,
    now: datetime,
    username: str,
    email: str = "",
    password: str | None = None,
    global_role: str = "",
    comment: str = "",
) -> User:
    """Make an account; without a password it can only use tokens (a service account)."""
    require(by, Permission.EDIT_USERS)
    checks.one_of(global_role, GlobalRole.values, pointer="/global_role")
    user = User(username=username, email=email, global_role=global_role, date_joined=now)
    _clean(user, password)
    user.set_password(password)
    try:
        with transaction.atomic():
            user.save()
            made(
                Change(
                    kind=ChangeKind.USER_CREATED,
                    by=by,
                    now=now,
                    target=username,
                    after=picture(user),
                    comment=comment,
                )
            )
    except IntegrityError:
        raise Conflict(f"There is already an account {username!r}.", code="name_taken") from None
    return user


def update_user(*, by: Actor, now: datetime, username: str, changes: UserChanges, comment: str = "") -> User:
    """Change an account; one that is switched off cannot sign in and its tokens stop at once."""
    require(by, Permission.EDIT_USERS)
    with transaction.atomic():
        admins = User.objects.select_for_update().filter(global_role=GlobalRole.ADMIN, is_active=True).order_by("id")
        others = [each for each in admins if each.username != username]
        user = User.objects.select_for_update().filter(username=username).first()
        if user is None:
            raise NotFound(f"There is no account {username[:80]!r}.", code="unknown_user")
        before = picture(user)
        for key, value in changes.items():
            setattr(user, key, value)
        checks.one_of(user.global_role, GlobalRole.values, pointer="/global_role")
        _clean(user, None)
        if before["global_role"] == GlobalRole.ADMIN and not others and not _is_admin(user):
            raise Conflict(f"{username} is the last platform admin: appoint another one first.", code="last_admin")
        user.save()
        made(
            Change(
                kind=ChangeKind.USER_UPDATED,
                by=by,
                now=now,
                target=username,
                before=before,
                after=picture(user),
                comment=comment,
            )
        )
    return user


def picture(user: User) -> dict[str, object]:
    """Return an account as the audit shows it."""
    return {"email": user.email, "global_role": user.global_role, "is_active": user.is_active}


def _is_admin(user: User) -> bool:
    return user.is_active and user.global_role == GlobalRole.ADMIN


def _clean(user: User, password: str | None) -> None:
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        key, problems = next(iter(error.message_dict.items()))
        raise Invalid.field(f"/{key}", problems[0]) from None
    try:
        if password is not None:
            validate_password(password, user)
    except ValidationError as error:
        raise Invalid.field("/password", " ".join(error.messages), code="weak_password") from None
