"""The one verb about the policy of the whole installation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from django.db import transaction

from tenants import checks, queries
from tenants.changes import Change, ChangeKind, made
from tenants.errors import Invalid, Stale
from tenants.models import Flavor, Installation
from tenants.permissions import Permission, require

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from tenants.errors import Notice
    from tenants.permissions import Actor

SMALL = 2**15 - 1


class InstallationChanges(TypedDict, total=False):
    """What may be changed of the policy; what is left out stays."""

    overcommit: bool
    aging_every: timedelta
    aging_step: int
    aging_cap: int
    restart_cost: timedelta
    evictions_per_minute: int | None
    max_evictions: int
    hold_idle_limit: int | None
    elastic_pause: timedelta


def edit_installation(
    *, by: Actor, now: datetime, changes: InstallationChanges, version: int | None = None, comment: str = ""
) -> tuple[Installation, tuple[Notice, ...]]:
    """Change the policy. Over-commit cannot end while some sum of guarantees is above what is installed."""
    require(by, Permission.EDIT_INSTALLATION)
    _check(changes)
    with transaction.atomic():
        list(Flavor.objects.select_for_update(no_key=True).order_by("id"))  # as for quotas: the sums stand still
        start = {"aging_every": queries.installation().aging_every, "version": 0}
        Installation.objects.get_or_create(id=1, defaults=start)
        row = Installation.objects.select_for_update().get(id=1)
        if version is not None and version != row.version:
            raise Stale(f"The policy was changed meanwhile: it is at version {row.version}, not {version}.")
        before = picture(row)
        for key, value in changes.items():
            setattr(row, key, value)
        if before["overcommit"] and not row.overcommit:
            _check_sums()
        row.version += 1
        row.save()
        notices = made(
            Change(
                kind=ChangeKind.INSTALLATION_EDITED,
                by=by,
                now=now,
                target="installation",
                before=before,
                after=picture(row),
                comment=comment,
            )
        )
        return row, notices


def picture(row: Installation) -> dict[str, Any]:
    """Return the policy as the audit shows it."""
    return {
        "overcommit": row.overcommit,
        "aging_every": f"{int(row.aging_every.total_seconds())}s",
        "aging_step": row.aging_step,
        "aging_cap": row.aging_cap,
        "restart_cost": f"{int(row.restart_cost.total_seconds())}s",
        "evictions_per_minute": row.evictions_per_minute,
        "max_evictions": row.max_evictions,
        "hold_idle_limit": row.hold_idle_limit,
        "elastic_pause": f"{int(row.elastic_pause.total_seconds())}s",
    }


def _check(changes: InstallationChanges) -> None:
    if "aging_every" in changes:
        checks.whole(int(changes["aging_every"].total_seconds()), pointer="/aging_every", least=1, most=365 * 86400)
    if "restart_cost" in changes:
        checks.whole(int(changes["restart_cost"].total_seconds()), pointer="/restart_cost", most=86400)
    if "elastic_pause" in changes:
        checks.whole(int(changes["elastic_pause"].total_seconds()), pointer="/elastic_pause", most=86400)
    if (often := changes.get("evictions_per_minute")) is not None:
        checks.whole(often, pointer="/evictions_per_minute", most=10**6)
    if (idle := changes.get("hold_idle_limit")) is not None:
        checks.whole(idle, pointer="/hold_idle_limit", most=10**12)
    if "max_evictions" in changes:
        checks.whole(changes["max_evictions"], pointer="/max_evictions", most=SMALL)
    if "aging_step" in changes:
        checks.whole(changes["aging_step"], pointer="/aging_step", most=SMALL)
    if "aging_cap" in changes:
        checks.whole(changes["aging_cap"], pointer="/aging_cap", most=SMALL)


def _check_sums() -> None:
    over = [total for total in queries.totals() if total.guaranteed > total.installed]
    if over:
        said = "; ".join(f"{each.flavor}: {each.guaranteed} guaranteed, {each.installed} installed" for each in over)
        raise Invalid.field("/overcommit", f"Guarantees are above what is installed ({said}).", code="over_installed")
