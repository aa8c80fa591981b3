"""The database as a world: one REPEATABLE READ transaction and a fixed number of queries, whatever waits.

What one snapshot has read is kept for the next, which reads again only what has been committed in between. A process
that has kept nothing reads everything and sees the same.
"""

import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models.expressions import RawSQL

from queues import changes, promises, settled
from queues.admission.world import Ask, JobClass, Policy, World
from queues.attempts import attempts
from queues.changes import Changed, Seen
from queues.classes import ask_from_json
from queues.fingerprint import Marks
from queues.heads import StoredHeads
from queues.holdings import Holdings, holdings
from queues.machines import CLUSTERS, Key, Machines, levels_and, machines
from queues.models import JobClass as StoredClass
from queues.settled import Settled
from queues.waiting import First, first, milliseconds

MOST_ASKS = 200_000
_id = attrgetter("id")


class Snapshot(NamedTuple):
    """What one cycle decides from."""

    world: World
    heads: StoredHeads


class _Kept(NamedTuple):
    """What was read as of a snapshot; never changed, only replaced, so that threads may share it."""

    seen: Seen
    settled: Settled
    first: First
    classes: tuple[JobClass, ...]
    holdings: Holdings
    machines: Machines


class _Memory:
    """What this process has read last."""

    kept: _Kept | None = None


@contextmanager
def load(now: datetime) -> Iterator[Snapshot]:
    """Open a snapshot as of ``now``; its heads can be read until it is left. It writes nothing.

    Inside a caller's transaction it shares that one.
    """
    alone = not connection.in_atomic_block
    # Before the snapshot is taken: what is kept is then never younger than what is read.
    before = _Memory.kept
    with transaction.atomic():
        if alone:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        kept, there = _read(before, now)
        if alone:
            # What a caller's transaction sees may never be committed.
            _Memory.kept = kept
        promised = promises.promised(there, now)
        heads = StoredHeads(kept.first, promised.idle)
        yield Snapshot(_world(now, kept, promised), heads)


def forget() -> None:
    """Read everything anew the next time."""
    _Memory.kept = None
    settled.forget()
    _asks.clear()


def digest(snapshot: Snapshot) -> str:
    """Return a fingerprint of what the cycle saw: equal inputs have equal ones."""
    world, heads = snapshot
    few = replace(world, policy=Policy(), flavors=(), teams=(), queues=(), nodes=(), classes=(), attempts=())
    rules = {"policy": world.policy, "flavors": world.flavors, "teams": world.teams, "queues": world.queues}
    sums = (
        _rules_marks.total(rules.items()),
        _nodes_marks.total(zip(map(_id, world.nodes), world.nodes, strict=True)),
        _attempts_marks.total(zip(map(_id, world.attempts), world.attempts, strict=True)),
        _heads_marks.total((row.id, heads.users(row.id)) for row in world.classes),
        _classes_marks.total(zip(map(_id, world.classes), world.classes, strict=True)),
    )
    return hashlib.sha256(repr((few, sums)).encode()).hexdigest()


_rules_marks, _nodes_marks, _attempts_marks, _heads_marks, _classes_marks = (Marks() for _ in range(5))


# What changed, by which rules, of what there are rows, and which clusters: asked for together.
_LOOK = f"""
SELECT looked.*, rules.*, promised.*, clusters.*
FROM ({changes.LOOK}) looked CROSS JOIN ({settled.VERSION}) rules CROSS JOIN ({promises.THERE}) promised
    CROSS JOIN ({CLUSTERS}) clusters
"""  # noqa: S608  constants only


def _read(before: _Kept | None, now: datetime) -> tuple[_Kept, promises.There]:
    """Return what is there now: what changed after ``before`` is read again, or everything; and what is promised."""
    last, at = None if before is None else before.seen, time.monotonic()
    with connection.cursor() as cursor:
        since = changes.since(last, at=at)
        cursor.execute(_LOOK, {"before": since, "minute_ago": now - promises.MINUTE})
        *looked, version, claims, holds, idle, evictions, resting, clusters = cursor.fetchone()
    seen, changed = changes.compare(last, looked, at=at)
    there = promises.There(claims, holds, idle, evictions, resting)
    key = levels_and(clusters)
    return _keep(before, seen, changed, settled.settled(str(version)), key), there


def _keep(before: _Kept | None, seen: Seen, changed: Changed | None, rules: Settled, key: Key) -> _Kept:
    """Return ``before`` with what changed read again, or everything."""
    if before is None or changed is None:
        heads = first(rules.start_limits)
        return _Kept(seen, rules, heads, _classes(heads), holdings(), machines(key))
    heads = first(rules.start_limits, before.first, changed.classes)
    return _Kept(
        # It is as old as what was read at once.
        seen._replace(at=before.seen.at),
        rules,
        heads,
        before.classes if heads.waiting.keys() == before.first.waiting.keys() else _classes(heads, before.classes),
        # Attempts know their queue.
        holdings(before.holdings, changed.waves, changed.jobs) if rules is before.settled else holdings(),
        machines(key, before.machines, changed.nodes, changed.waves),
    )


def _world(now: datetime, kept: _Kept, promised: promises.Promised) -> World:
    return World(
        now=milliseconds(now),
        policy=kept.settled.policy,
        flavors=kept.settled.flavors,
        teams=kept.settled.teams,
        queues=kept.settled.queues,
        nodes=kept.machines.listed,
        attempts=attempts(kept.holdings, now),
        classes=kept.classes,
        claims=promised.claims,
        holds=promised.holds,
        evicted_at=promised.evicted_at,
        resting=tuple(_read_classes([pk for pk in promised.resting if pk not in kept.first.waiting])),
    )


_CLASSES = """
SELECT id, queue_id, priority, digest FROM queues_jobclass WHERE id = ANY(%s)
"""
_asks: dict[str, Ask] = {}
"""By digest, which says what is asked for: equal ones are equal for ever."""


def _classes(heads: First, known: Iterable[JobClass] = ()) -> tuple[JobClass, ...]:
    """Return the classes that have waiting jobs, by id; a class never changes, so ``known`` ones are not read."""
    found = {row.id: row for row in known if row.id in heads.waiting}
    missing = [pk for pk in heads.waiting if pk not in found]
    found.update((row.id, row) for row in _read_classes(missing))
    return tuple(found[pk] for pk in sorted(found))


def _read_classes(ids: list[int]) -> Iterator[JobClass]:
    if not ids:
        return
    with connection.cursor() as cursor:
        cursor.execute(_CLASSES, [ids])
        rows = cursor.fetchall()
    if len(_asks) > MOST_ASKS:
        _asks.clear()
    missing = {digest: pk for pk, _, _, digest in rows if digest not in _asks}
    if missing:
        known = StoredClass.objects.filter(id__in=RawSQL("SELECT unnest(%s::bigint[])", [list(missing.values())]))
        _asks.update((digest, ask_from_json(ask)) for digest, ask in known.values_list("digest", "ask"))
    for pk, queue, priority, digest in rows:
        yield JobClass(id=pk, queue=queue, priority=priority, ask=_asks[digest])
