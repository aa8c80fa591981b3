"""What follows from a change: its audit entry, and what other apps do about it.

Queues sets its callback in AppConfig.ready (this app may not import queues). A callback runs inside the change's
transaction, may refuse it by raising a DomainError, may add warnings, and sends effects with ``on_commit`` only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tenants import checks
from tenants.models import AuditEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from tenants.errors import Notice
    from tenants.models import Flavor, Team
    from tenants.permissions import Actor


LONGEST_TARGET = 200


class ChangeKind(StrEnum):
    """What changed; the value is the audit's action too."""

    TEAM_CREATED = "team.create"
    TEAM_UPDATED = "team.update"
    TEAM_PAUSED = "team.pause"
    TEAM_RESUMED = "team.resume"
    MEMBER_SET = "member.set"
    MEMBER_REMOVED = "member.remove"
    USER_CREATED = "user.create"
    USER_UPDATED = "user.update"
    FLAVOR_CREATED = "flavor.create"
    FLAVOR_UPDATED = "flavor.update"
    QUOTA_SET = "quota.set"
    TOKEN_CREATED = "token.create"  # noqa: S105  an action's name
    TOKEN_ROTATED = "token.rotate"  # noqa: S105  an action's name
    TOKEN_REVOKED = "token.revoke"  # noqa: S105  an action's name
    INSTALLATION_EDITED = "installation.edit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change by a person; ``team`` and ``flavor`` where it is about those, ``before`` and ``after`` as audited."""

    kind: ChangeKind
    by: Actor
    now: datetime
    target: str
    team: Team | None = None
    flavor: Flavor | None = None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    comment: str = ""


_callbacks: list[Callable[[Change], Iterable[Notice]]] = []


def on_change(callback: Callable[[Change], Iterable[Notice]]) -> None:
    """Call ``callback`` within the transaction of every change; its notices go to whoever made the change."""
    if callback not in _callbacks:
        _callbacks.append(callback)


def made(change: Change) -> tuple[Notice, ...]:
    """Write the change's audit entry, tell the callbacks, and return their warnings. Called once by each service."""
    checks.text(change.comment, pointer="/comment", longest=checks.LONGEST_COMMENT)
    AuditEntry.objects.create(
        at=change.now,
        actor=change.by.user if change.by.user.pk else None,
        actor_name=change.by.name,
        action=change.kind,
        target=change.target[:LONGEST_TARGET],
        team=change.team,
        before=change.before,
        after=change.after,
        comment=change.comment,
        request_id=change.by.request_id,
    )
    return tuple(notice for callback in _callbacks for notice in callback(change))
