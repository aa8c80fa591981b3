"""Verdicts as rows: what a decision says replaces what was said before, and only what differs is written.

What is left of a GPU type changes with every start and end, and most reasons tell it: it is one row (``Spare``), to
which they point. The process that wrote the last decision knows what the rows say; any other reads them first. Only
decisions write them, one at a time under the loop's lock.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from django.db import transaction

from queues.admission.decide import Verdict as Said
from queues.admission.reasons import Reason
from queues.models import Decision, Spare, Verdict

Key = tuple[int, int | None, int | None]
"""Class, user, job."""
Numbers = tuple[tuple[str, int | str], ...]
SPARE = ("free", "largest_block", "team_left", "may_borrow")
NOBODY: Mapping[int, int] = MappingProxyType({})


class _Told(NamedTuple):
    """What a verdict's row says; ``spare``: what is left belongs to it."""

    code: str
    permanent: bool
    numbers: Numbers
    spare: bool


class _Row(NamedTuple):
    """A row, and since when it has had its code."""

    id: int
    told: _Told
    since: datetime


class _Left(NamedTuple):
    """What is left of a GPU type, and to teams."""

    free: int
    largest_block: int
    teams: dict[str, list[int]]


class _Known(NamedTuple):
    """What was said up to a cycle."""

    cycle: int | None
    rows: dict[Key, _Row]
    left: dict[str, _Left]


class _Memory:
    """What this process knows of the rows."""

    known = _Known(None, {}, {})


def keep(verdicts: Iterable[Said], teams: Mapping[int, int] = NOBODY, *, now: datetime, cycle: int) -> int:
    """Write what ``cycle`` says that was not said before, and return how many verdicts that changed.

    ``teams`` gives the team of each class; without it a verdict keeps all its numbers to itself.
    """
    before = _before(cycle)
    after: dict[Key, _Row] = {}
    changed: list[Verdict] = []
    reasons = _Reasons()
    for said in verdicts:
        key = (said.job_class, said.user, said.job)
        told, old = reasons.told(said.reason, teams.get(said.job_class)), before.rows.get(key)
        if old is not None and old.told == told:
            after[key] = old
            continue
        since = old.since if old is not None and old.told.code == told.code else now
        after[key] = _Row(0, told, since)
        changed.append(_verdict(key, after[key], now))
    gone = [before.rows[key].id for key in before.rows.keys() - after.keys()]
    if gone:
        Verdict.objects.filter(id__in=gone).delete()
    for row in _written(changed):
        key = (row.job_class_id, row.user_id, row.job_id)
        after[key] = after[key]._replace(id=row.id)
    left = _keep_left(before.left, reasons.left)
    transaction.on_commit(lambda: setattr(_Memory, "known", _Known(cycle, after, left)))
    return len(changed) + len(gone)


def forget() -> None:
    """Read the rows anew the next time."""
    _Memory.known = _Known(None, {}, {})


class _Reasons:
    """Splits reasons into what stays and what is left, each reason once: many verdicts share one."""

    def __init__(self) -> None:
        self.left: dict[str, _Left] = {}
        self._told: dict[int, tuple[Reason, _Told, _Told]] = {}
        self._spare: dict[int, tuple[str, list[int]]] = {}
        self._same: dict[_Told, _Told] = {}

    def told(self, reason: Reason, team: int | None) -> _Told:
        """Return what the row of a verdict of a team's class says, and note what is left to the team."""
        found = self._told.get(id(reason))
        if found is None:
            found = self._told[id(reason)] = self._split(reason)
        if team is None:
            return found[1]
        spare = self._spare.get(id(reason))
        if spare is not None:
            self.left[spare[0]].teams[str(team)] = spare[1]
        return found[2]

    def _split(self, reason: Reason) -> tuple[Reason, _Told, _Told]:
        """Return the reason (so that it lives as long as its number is used), all of it, and what stays of it."""
        numbers = dict(reason.numbers)
        free, largest, left, more = (numbers.pop(key, None) for key in SPARE)
        flavor, code = numbers.get("flavor"), str(reason.code)
        whole = _Told(code, reason.permanent, reason.numbers, spare=False)
        if not (isinstance(free, int) and isinstance(largest, int) and isinstance(left, int) and isinstance(more, int)):
            return reason, whole, whole
        if not isinstance(flavor, str):
            return reason, whole, whole
        if flavor not in self.left:
            self.left[flavor] = _Left(free, largest, {})
        self._spare[id(reason)] = (flavor, [left, more])
        stays = _Told(code, reason.permanent, tuple(sorted(numbers.items())), spare=True)
        return reason, whole, self._same.setdefault(stays, stays)


def _before(cycle: int) -> _Known:
    last = Decision.objects.filter(id__lt=cycle).order_by("-id").values_list("id", flat=True).first()
    if last is not None and last == _Memory.known.cycle:
        return _Memory.known
    columns = ("id", "code", "permanent", "numbers", "spare", "since", "job_class_id", "user_id", "job_id")
    rows: dict[Key, _Row] = {}
    for pk, code, permanent, numbers, spare, since, *key in Verdict.objects.order_by("id").values_list(*columns):
        told = _Told(code, permanent, tuple(sorted(numbers.items())), spare)
        rows[key[0], key[1], key[2]] = _Row(pk, told, since)
    left = Spare.objects.order_by("id").values_list("flavor", "free", "largest_block", "teams")
    return _Known(last, rows, {flavor: _Left(*numbers) for flavor, *numbers in left})


def _keep_left(before: Mapping[str, _Left], left: Mapping[str, _Left]) -> dict[str, _Left]:
    """Write what is left of the GPU types that somebody waits for; what was said of others stays and is not read."""
    changed = [
        Spare(flavor=flavor, free=row.free, largest_block=row.largest_block, teams=row.teams)
        for flavor, row in left.items()
        if before.get(flavor) != row
    ]
    if changed:
        Spare.objects.bulk_create(
            changed,
            update_conflicts=True,
            unique_fields=["flavor"],
            update_fields=["free", "largest_block", "teams"],
        )
    return {**before, **left}


def _verdict(key: Key, row: _Row, now: datetime) -> Verdict:
    job_class, user, job = key
    return Verdict(
        job_class_id=job_class,
        user_id=user,
        job_id=job,
        code=row.told.code,
        permanent=row.told.permanent,
        numbers=dict(row.told.numbers),
        spare=row.told.spare,
        since=row.since,
        at=now,
    )


def _written(changed: list[Verdict]) -> list[Verdict]:
    return Verdict.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["job_class", "user", "job"],
        update_fields=["code", "permanent", "numbers", "spare", "since", "at"],
    )
