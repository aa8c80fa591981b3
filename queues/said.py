"""Verdicts as rows: what a decision says replaces what was said before, and only what differs is written.

What is left of a GPU type changes with every start and end, and most reasons tell it: it is one row (``Spare``), to
which they point. The process that wrote the last decision knows what the rows say; any other reads them first. Only
decisions write them, one at a time under the loop's lock.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import is_
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


class _Split(NamedTuple):
    """A reason, all that a row would say of it, what stays of that, and what is left of which GPU type."""

    reason: Reason
    whole: _Told
    stays: _Told
    flavor: str = ""
    left: tuple[int, ...] = ()


class _Known(NamedTuple):
    """What was said up to a cycle; ``said`` and ``reasons`` (by identity) are those that this process said itself."""

    cycle: int | None
    rows: dict[Key, _Row]
    left: dict[str, _Left]
    said: tuple[Said, ...] | None = None
    reasons: Mapping[int, _Split] = MappingProxyType({})


class _Memory:
    """What this process knows of the rows."""

    known = _Known(None, {}, {})


def keep(verdicts: Iterable[Said], teams: Mapping[int, int] = NOBODY, *, now: datetime, cycle: int) -> int:
    """Write what ``cycle`` says that was not said before, and return how many verdicts that changed.

    ``teams`` gives the team of each class; without it a verdict keeps all its numbers to itself.
    """
    before, every = _before(cycle), tuple(verdicts)
    if before.said is not None and len(every) == len(before.said) and all(map(is_, every, before.said)):
        transaction.on_commit(lambda: setattr(_Memory, "known", before._replace(cycle=cycle)))
        return 0
    after: dict[Key, _Row] = {}
    changed: list[Verdict] = []
    reasons = _Reasons(before.reasons)
    for said in every:
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
    transaction.on_commit(lambda: setattr(_Memory, "known", _Known(cycle, after, left, every, reasons.known)))
    return len(changed) + len(gone)


def forget() -> None:
    """Read the rows anew the next time."""
    _Memory.known = _Known(None, {}, {})


class _Reasons:
    """Splits reasons into what stays and what is left, each once: many verdicts share one, from cycle to cycle."""

    def __init__(self, before: Mapping[int, _Split]) -> None:
        self.left: dict[str, _Left] = {}
        self.known: dict[int, _Split] = {}
        self._before = before
        self._same: dict[_Told, _Told] = {}

    def told(self, reason: Reason, team: int | None) -> _Told:
        """Return what the row of a verdict of a team's class says, and note what is left to the team."""
        found = self.known.get(id(reason))
        if found is None:
            # A reason lives as long as its split, so that no other one can have its identity.
            found = self.known[id(reason)] = self._before.get(id(reason)) or self._split(reason)
            if found.flavor and found.flavor not in self.left:
                self.left[found.flavor] = _Left(found.left[0], found.left[1], {})
        if team is None:
            return found.whole
        if found.flavor:
            self.left[found.flavor].teams[str(team)] = [*found.left[2:]]
        return found.stays

    def _split(self, reason: Reason) -> _Split:
        numbers = dict(reason.numbers)
        left = [numbers.pop(key, None) for key in SPARE]
        flavor, code = numbers.get("flavor"), str(reason.code)
        whole = _Told(code, reason.permanent, reason.numbers, spare=False)
        known = tuple(number for number in left if isinstance(number, int))
        if len(known) < len(SPARE) or not isinstance(flavor, str):
            return _Split(reason, whole, whole)
        stays = _Told(code, reason.permanent, tuple(sorted(numbers.items())), spare=True)
        return _Split(reason, whole, self._same.setdefault(stays, stays), flavor, known)


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
