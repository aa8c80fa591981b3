"""The one verb about quotas: a set of edits that holds as a whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db import transaction

from tenants import checks, queries
from tenants.changes import Change, ChangeKind, made
from tenants.errors import Invalid, Notice, Stale
from tenants.models import Flavor, Quota, Team
from tenants.permissions import Permission, require
from tenants.sums import Capacity, check_lend, check_sum

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from tenants.permissions import Actor
    from tenants.queries import QuotaRow


class _Keep:
    """The mark of a value that stays; None means "no limit" and cannot say that."""

    def __repr__(self) -> str:
        return "KEEP"


KEEP: Final = _Keep()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEdit:
    """What a team shall own, may borrow and lends on a flavor. ``version`` is the one read (0: none yet, None: any)."""

    team: str
    flavor: str
    guaranteed: int | _Keep = KEEP
    borrow_limit: int | _Keep | None = KEEP
    lend_limit: int | _Keep | None = KEEP
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaResult:
    """The quotas as they are now, in the order of the edits, and warnings."""

    rows: tuple[QuotaRow, ...]
    notices: tuple[Notice, ...]


def set_quotas(*, by: Actor, now: datetime, edits: Sequence[QuotaEdit], comment: str = "") -> QuotaResult:
    """Apply edits together: sums are checked on the outcome, so units can move between teams.

    Rows are locked in the order of ids, flavors first; whoever edits the same flavor waits.
    """
    teams = {edit.team: queries.team(edit.team, by=by, permission=Permission.VIEW_QUOTA) for edit in edits}
    for team in teams.values():
        require(by, Permission.EDIT_QUOTA, team=team)
    _refuse_twice(edits)
    with transaction.atomic():
        flavors = _locked_flavors({edit.flavor for edit in edits})
        wanted = [
            _Wanted(
                edit, team=teams[edit.team], flavor=flavors[edit.flavor], pointer="" if len(edits) == 1 else f"/{at}"
            )
            for at, edit in enumerate(edits)
        ]
        overcommit = queries.installation().overcommit
        notices = [
            notice for flavor in flavors.values() for notice in _check_flavor(flavor, wanted, overcommit=overcommit)
        ]
        for each in wanted:
            notices += each.save(by=by, now=now, comment=comment)
    return QuotaResult(rows=tuple(each.row() for each in wanted), notices=tuple(dict.fromkeys(notices)))


class _Wanted:
    """One edit joined with the row that it changes; made under the flavor's lock."""

    def __init__(self, edit: QuotaEdit, *, team: Team, flavor: Flavor, pointer: str) -> None:
        self.team, self.flavor, self.pointer = team, flavor, pointer
        found = Quota.objects.filter(team=team, flavor=flavor).first()
        self.quota = found or Quota(team=team, flavor=flavor, version=0)
        if edit.version is not None and edit.version != self.quota.version:
            raise Stale(
                f"The quota of {team.name} on {flavor.name} was changed meanwhile:"
                f" it is at version {self.quota.version}, not {edit.version}."
            )
        self.old = picture(self.quota) if found else None
        self.before = self.quota.guaranteed
        if not isinstance(edit.guaranteed, _Keep):
            self.quota.guaranteed = checks.whole(edit.guaranteed, pointer=f"{pointer}/guaranteed")
        if not isinstance(edit.borrow_limit, _Keep):
            self.quota.borrow_limit = checks.limit(edit.borrow_limit, pointer=f"{pointer}/borrow_limit")
        if not isinstance(edit.lend_limit, _Keep):
            self.quota.lend_limit = checks.limit(edit.lend_limit, pointer=f"{pointer}/lend_limit")
        check_lend(guaranteed=self.quota.guaranteed, lend_limit=self.quota.lend_limit, pointer=pointer)

    def save(self, *, by: Actor, now: datetime, comment: str) -> tuple[Notice, ...]:
        """Write the row; an edit that changes nothing leaves no trace."""
        if picture(self.quota) == self.old:
            return ()
        self.quota.version += 1
        self.quota.save()
        return made(
            Change(
                kind=ChangeKind.QUOTA_SET,
                by=by,
                now=now,
                target=f"{self.team.name}/{self.flavor.name}",
                team=self.team,
                flavor=self.flavor,
                before=self.old,
                after=picture(self.quota),
                comment=comment,
            )
        )

    def row(self) -> QuotaRow:
        """Return what holds now."""
        return queries.quota_row(self.quota, team=self.team.name, flavor=self.flavor.name)


def picture(quota: Quota) -> dict[str, Any]:
    """Return a quota as the audit shows it."""
    return {"guaranteed": quota.guaranteed, "borrow_limit": quota.borrow_limit, "lend_limit": quota.lend_limit}


def _locked_flavors(names: set[str]) -> dict[str, Flavor]:
    found = {
        row.name: row for row in Flavor.objects.select_for_update(no_key=True).filter(name__in=names).order_by("id")
    }
    for name in sorted(names - found.keys()):
        queries.flavor(name)
    return found


def _check_flavor(flavor: Flavor, wanted: list[_Wanted], *, overcommit: bool) -> tuple[Notice, ...]:
    mine = [each for each in wanted if each.flavor == flavor]
    before = dict(Quota.objects.filter(flavor=flavor).order_by("id").values_list("team__name", "guaranteed"))
    capacity = Capacity(flavor=flavor.name, installed=flavor.installed, usable=flavor.usable, overcommit=overcommit)
    return check_sum(
        capacity=capacity,
        before=before,
        after=before | {each.team.name: each.quota.guaranteed for each in mine},
        pointers={each.team.name: each.pointer for each in mine},
    )


def _refuse_twice(edits: Sequence[QuotaEdit]) -> None:
    seen: set[tuple[str, str]] = set()
    for at, edit in enumerate(edits):
        if (edit.team, edit.flavor) in seen:
            raise Invalid.field(f"/{at}", f"{edit.team} on {edit.flavor} is edited twice.", code="twice")
        seen.add((edit.team, edit.flavor))
