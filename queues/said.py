"""Verdicts as rows: what a decision says replaces what was said before, and only what differs is written.

The process that wrote the last decision knows what the rows say; any other reads them first. Only decisions write them,
one at a time under the loop's lock.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from django.db import transaction

from queues.admission.decide import Verdict as Said
from queues.models import Decision, Verdict

Key = tuple[int, int | None, int | None]
"""Class, user, job."""


class _Row(NamedTuple):
    """What a row says."""

    id: int
    code: str
    permanent: bool
    numbers: dict[str, int | str]
    since: datetime


class _Known(NamedTuple):
    """What was said up to a cycle."""

    cycle: int | None
    rows: dict[Key, _Row]


class _Memory:
    """What this process knows of the rows."""

    known = _Known(None, {})


def keep(verdicts: Iterable[Said], *, now: datetime, cycle: int) -> int:
    """Write what ``cycle`` says that was not said before, and return how many rows that changed."""
    before = _before(cycle)
    after: dict[Key, _Row] = {}
    changed: list[Verdict] = []
    for said in verdicts:
        key = (said.job_class, said.user, said.job)
        reason, old = said.reason, before.get(key)
        numbers = dict(reason.numbers)
        if old is not None and (old.code, old.numbers, old.permanent) == (reason.code, numbers, reason.permanent):
            after[key] = old
            continue
        since = old.since if old is not None and old.code == reason.code else now
        after[key] = _Row(0, str(reason.code), reason.permanent, numbers, since)
        changed.append(_verdict(key, after[key], now))
    gone = [before[key].id for key in before.keys() - after.keys()]
    if gone:
        Verdict.objects.filter(id__in=gone).delete()
    for row in _written(changed):
        key = (row.job_class_id, row.user_id, row.job_id)
        after[key] = after[key]._replace(id=row.id)
    transaction.on_commit(lambda: setattr(_Memory, "known", _Known(cycle, after)))
    return len(changed) + len(gone)


def forget() -> None:
    """Read the rows anew the next time."""
    _Memory.known = _Known(None, {})


def _before(cycle: int) -> dict[Key, _Row]:
    last = Decision.objects.filter(id__lt=cycle).order_by("-id").values_list("id", flat=True).first()
    if last is not None and last == _Memory.known.cycle:
        return _Memory.known.rows
    columns = ("id", "code", "permanent", "numbers", "since", "job_class_id", "user_id", "job_id")
    return {row[5:]: _Row(*row[:5]) for row in Verdict.objects.values_list(*columns)}


def _verdict(key: Key, row: _Row, now: datetime) -> Verdict:
    job_class, user, job = key
    return Verdict(
        job_class_id=job_class,
        user_id=user,
        job_id=job,
        code=row.code,
        permanent=row.permanent,
        numbers=row.numbers,
        since=row.since,
        at=now,
    )


def _written(changed: list[Verdict]) -> list[Verdict]:
    return Verdict.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["job_class", "user", "job"],
        update_fields=["code", "permanent", "numbers", "since", "at"],
    )
