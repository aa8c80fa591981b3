"""The rules about guarantees, pure: what one quota may say, and what all of a flavor may add up to (SEMANTICS 2).

Units are whole numbers; a limit of None is no limit, 0 is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenants.errors import FieldError, Invalid, Notice

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What of a flavor is there; ``overcommit`` lets guarantees exceed what is installed."""

    flavor: str
    installed: int
    usable: int
    overcommit: bool = False


def check_lend(*, guaranteed: int, lend_limit: int | None, pointer: str) -> None:
    """Refuse to lend more than what is guaranteed."""
    if lend_limit is not None and lend_limit > guaranteed:
        raise Invalid.field(
            f"{pointer}/lend_limit",
            f"{lend_limit} cannot be lent of {guaranteed} guaranteed; no limit lends all of it, 0 nothing.",
            code="lend_above_guarantee",
            given=lend_limit,
            allowed=(0, guaranteed, None),
        )


def check_sum(
    *, capacity: Capacity, before: Mapping[str, int], after: Mapping[str, int], pointers: Mapping[str, str]
) -> tuple[Notice, ...]:
    """Refuse a sum of guarantees above what is installed, unless over-commit is on; warn above what is usable.

    ``before`` and ``after`` are all teams' guarantees. A sum that is too high already (a node was lost) may stay or
    fall, so that it can be repaired step by step.
    """
    old, new = sum(before.values()), sum(after.values())
    if new > max(capacity.installed, old) and not capacity.overcommit:
        raise _too_much(capacity, before, after, pointers)
    if new > capacity.installed:
        return (_notice("over_installed", f"{new} guaranteed, {capacity.installed} installed", capacity),)
    if new > capacity.usable:
        return (_notice("over_usable", f"{new} guaranteed, {capacity.usable} usable at the moment", capacity),)
    return ()


def _notice(code: str, numbers: str, capacity: Capacity) -> Notice:
    return Notice(code=code, detail=f"{capacity.flavor}: {numbers}. Teams may have to wait for their own guarantee.")


def _too_much(
    capacity: Capacity, before: Mapping[str, int], after: Mapping[str, int], pointers: Mapping[str, str]
) -> Invalid:
    """Return the refusal with each team's number and what each changed team could have at most."""
    new = sum(after.values())
    teams = ", ".join(f"{team} {units}" for team, units in sorted(after.items()) if units)
    seen = "" if capacity.installed else " No node of this GPU type has been seen yet."
    detail = (
        f"{capacity.flavor}: {new} would be guaranteed ({teams}), {capacity.installed} are installed:"
        f" {new - capacity.installed} too many.{seen}"
    )
    grown = [team for team in after if after[team] > before.get(team, 0)]
    fields = []
    for team in grown:
        most = max(0, after[team] - (new - capacity.installed))
        fields.append(
            FieldError(
                pointer=f"{pointers.get(team, '')}/guaranteed",
                code="over_installed",
                detail=f"At most {most} for {team} beside what the others have.",
                given=after[team],
                allowed=(0, most),
            )
        )
    return Invalid(detail, code="over_installed", fields=fields)
