"""What holds units as of a snapshot: waves with what the rules ask of their jobs, and their tasks, equal ones counted.

After one snapshot only what changed is read again, and what did not is taken over whole: no loop of ours goes through
all that holds. Moments and lengths are whole microseconds: numbers are read many times faster than moments.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeVar

from django.db import connection

from queues.admission.world import Attempt, JobShape
from queues.states import HOLDING, TASK_HOLDING, WaveState

Kind = tuple[int, int, int, int, int]
"""Group, flavor, units, CPU and memory: tasks that the rules cannot tell apart."""
Microseconds = int


class Holding(NamedTuple):
    """Equal tasks of one wave and group on one node.

    ``starting`` counts those that do not run yet, ``told`` is when the last of them had to leave for a claim, ``saved``
    when the last reported a checkpoint, and ``unsaved`` from when on work of one of them is not saved: its start, or
    its own checkpoint.
    """

    wave: int
    group: int
    node: int
    flavor: int
    units: int
    cpu: int
    memory: int
    leaves: bool
    claimed: bool
    tasks: int
    starting: int
    told: Microseconds | None
    saved: Microseconds | None
    unsaved: Microseconds | None

    @property
    def kind(self) -> Kind:
        """Return what its tasks have in common."""
        return (self.group, self.flavor, self.units, self.cpu, self.memory)


class Held(NamedTuple):
    """A wave that holds, with its job and queue as far as the rules ask for them."""

    id: int
    base: int | None
    state: WaveState
    priority: int
    flavors: list[int]
    admitted_at: Microseconds
    launched_at: Microseconds | None
    started_at: Microseconds | None
    deadline_at: Microseconds | None
    grows_from: Microseconds | None
    job: int
    job_class: int
    team: int
    user: int
    queue: int
    shape: JobShape
    borrow: bool
    preemptible: bool
    evictions: int
    grace: Microseconds
    time_limit: Microseconds | None
    ran_for: Microseconds
    min_runtime: Microseconds
    start_limit: Microseconds

    @property
    def leaves(self) -> bool:
        """Whether all of it was told to go."""
        return self.state == WaveState.EVICTING

    @property
    def start_ends_at(self) -> Microseconds:
        """Return until when all its tasks must have started (``limits.start_ends_at``)."""
        return max(self.admitted_at, self.launched_at or self.admitted_at) + self.start_limit

    @property
    def time_left(self) -> Microseconds | None:
        """Return how long it may run from its start: a gang's attempts share the limit (``limits.time_left``)."""
        if self.time_limit is None or self.shape == JobShape.INDEPENDENT:
            return self.time_limit
        return max(self.time_limit - self.ran_for, 0)


class Holdings(NamedTuple):
    """What holds as of a snapshot, by wave; never changed but for ``parts``, only replaced.

    ``elastic`` are the waves of elastic jobs, ``guarded`` the queues of independent jobs that ask for a least run time
    (or did). ``parts`` are attempts that do not depend on the time.
    """

    waves: dict[int, Held]
    rows: dict[int, tuple[Holding, ...]]
    elastic: frozenset[int]
    guarded: dict[int, Microseconds]
    parts: dict[int, tuple[Attempt, ...]]


def holdings(before: Holdings | None = None, waves: Collection[int] = (), jobs: Collection[int] = ()) -> Holdings:
    """Return what holds: all of it anew, or after ``before`` that of the ``waves`` and ``jobs`` that changed."""
    if before is None:
        kept = Holdings({}, {}, frozenset(), {}, {})
        ids, found, rows = frozenset[int](), _read_waves(None, ()), _read_rows(None)
    elif waves or jobs:
        kept, found = before, _read_waves(waves, jobs)
        ids = frozenset([*waves, *found])
        rows = _read_rows(ids)
    else:
        return before
    guarded = {row.queue: row.min_runtime for row in found.values() if _guards(row)}
    return Holdings(
        _after(kept.waves, found, ids),
        _after(kept.rows, {pk: rows[pk] for pk in found if pk in rows}, ids),
        (kept.elastic - ids) | {pk for pk, row in found.items() if row.shape == JobShape.ELASTIC},
        kept.guarded | guarded,
        _after(kept.parts, {}, ids),
    )


Row = TypeVar("Row")


def _after(before: dict[int, Row], found: Mapping[int, Row], ids: Collection[int]) -> dict[int, Row]:
    """Return ``before`` with what was found of the waves ``ids``, by id: a wave that is new mostly is the last."""
    last = next(reversed(before), 0)
    merged = {**before, **found}
    for gone in ids:
        if gone not in found:
            merged.pop(gone, None)
    return merged if all(pk > last or pk in before for pk in found) else dict(sorted(merged.items()))


def _guards(row: Held) -> bool:
    return row.shape == JobShape.INDEPENDENT and row.min_runtime > 0


def _us(expression: str) -> str:
    return f"(extract(epoch FROM {expression}) * 1000000)::bigint"


_WAVES = f"""
SELECT wave.id, wave.base_id, wave.state, wave.priority, wave.flavors, {_us("wave.admitted_at")},
    {_us("wave.launched_at")}, {_us("wave.started_at")}, {_us("wave.deadline_at")}, {_us("wave.grows_from")},
    job.id, job.job_class_id, job.team_id, job.user_id, job.queue_id, job.shape, job.borrow, job.preemptible,
    job.evictions, {_us("job.grace")}, {_us("job.time_limit")}, {_us("job.ran_for")},
    {_us("queue.min_runtime")}, {_us("queue.start_limit")}
FROM queues_wave wave JOIN queues_job job ON job.id = wave.job_id JOIN queues_queue queue ON queue.id = job.queue_id
WHERE wave.state = ANY(%s)
"""  # noqa: S608  constants only
_ALL = " ORDER BY wave.id"
_THESE = """ AND wave.id IN (
    SELECT unnest(%s::bigint[]) UNION SELECT id FROM queues_wave WHERE job_id = ANY(%s::bigint[])
) ORDER BY wave.id"""


def _read_waves(ids: Collection[int] | None, jobs: Collection[int]) -> dict[int, Held]:
    """Return the waves that hold (None: all, else of these and of these jobs)."""
    where = (_ALL, ()) if ids is None else (_THESE, ([*ids], [*jobs]))
    with connection.cursor() as cursor:
        cursor.execute(_WAVES + where[0], [sorted(HOLDING), *where[1]])
        return {row[0]: Held._make(row) for row in cursor.fetchall()}


_ROWS = f"""
SELECT task.wave_id, task."group", task.node_id, task.flavor_id, task.units, task.cpu_milli, task.memory,
    task.state = 'leaving', eviction.claimant_id IS NOT NULL,
    count(*), count(*) FILTER (WHERE task.state = 'pending'), {_us("max(eviction.at)")}, {_us("max(task.saved_at)")},
    {_us("min(COALESCE(task.saved_at, task.started_at))")}
FROM queues_task task LEFT JOIN queues_eviction eviction ON eviction.id = task.eviction_id
WHERE task.state = ANY(%s) AND (%s::bigint[] IS NULL OR task.wave_id = ANY(%s::bigint[]))
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
"""  # noqa: S608  constants only


def _read_rows(ids: Collection[int] | None) -> dict[int, tuple[Holding, ...]]:
    """Return the tasks that hold (None: all, else of these waves), equal ones counted, sorted."""
    wanted = None if ids is None else [*ids]
    found: dict[int, list[Holding]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, [sorted(TASK_HOLDING), wanted, wanted])
        for row in cursor.fetchall():
            found[row[0]].append(Holding._make(row))
    return {wave: tuple(sorted(rows, key=_order)) if len(rows) > 1 else (*rows,) for wave, rows in found.items()}


def _order(row: Holding) -> tuple[int, ...]:
    return (row.group, row.node, row.units, row.cpu, row.memory, row.flavor, row.leaves, row.claimed)
