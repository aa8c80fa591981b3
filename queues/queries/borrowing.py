"""Which running tasks use borrowed units at this moment, counted as bars and loans count them (SEMANTICS 2)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from django.db import connection

from queues.states import TASK_HOLDING
from tenants.look import once

# The ledger's order: what may not be recalled first, then by admission; the last units above are borrowed.
_BORROWED = """
SELECT task, wave, least(units, upto - guaranteed) FROM (
    SELECT task.id AS task, task.wave_id AS wave, task.units, COALESCE(quota.guaranteed, 0) AS guaranteed,
        sum(task.units) OVER (
            PARTITION BY job.team_id, task.flavor_id
            ORDER BY job.borrow AND job.preemptible, task.wave_id, task.index, task.id
        ) AS upto
    FROM queues_task task JOIN queues_wave wave ON wave.id = task.wave_id JOIN queues_job job ON job.id = wave.job_id
    LEFT JOIN tenants_quota quota ON quota.team_id = job.team_id AND quota.flavor_id = task.flavor_id
    WHERE task.state = ANY(%s) AND job.team_id = ANY(%s)
) held
WHERE upto > guaranteed
"""


class Borrowed(NamedTuple):
    """Borrowed units, where there are any, by task and by wave."""

    of_task: Mapping[int, int]
    of_wave: Mapping[int, int]


def borrowed_by(teams: Iterable[int]) -> Borrowed:
    """Return what the tasks of some teams that hold units have borrowed now, whatever was so when they started."""
    return _borrowed(tuple(sorted(set(teams))))


@once
def _borrowed(teams: tuple[int, ...]) -> Borrowed:
    of_task: dict[int, int] = {}
    of_wave: dict[int, int] = defaultdict(int)
    if teams:
        with connection.cursor() as cursor:
            cursor.execute(_BORROWED, [sorted(TASK_HOLDING), list(teams)])
            for task, wave, units in cursor.fetchall():
                of_task[task] = int(units)
                of_wave[wave] += int(units)
    return Borrowed(of_task, of_wave)
