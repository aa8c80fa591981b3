"""Which running tasks use borrowed units at this moment, counted as bars and loans count them (SEMANTICS 2)."""

from collections.abc import Mapping

from django.db import connection

from queues.states import TASK_HOLDING
from tenants.look import once

# All that teams hold, task by task, with what of each is borrowed. The ledger's order: what may not be recalled first,
# then by admission; the last units above the guarantee are the borrowed ones.
HELD = """
SELECT task.*, job.team_id, job.user_id AS owner_id, job.uid AS job_uid, job.name AS job_name, job.shape,
    job.time_limit, job.ran_for, wave.started_at AS wave_started_at, wave.stopped_at AS wave_stopped_at,
    greatest(0, least(task.units, sum(task.units) OVER (
        PARTITION BY job.team_id, task.flavor_id
        ORDER BY job.borrow AND job.preemptible, task.wave_id, task.index, task.id
    ) - COALESCE(quota.guaranteed, 0))) AS borrowed
FROM queues_task task JOIN queues_wave wave ON wave.id = task.wave_id JOIN queues_job job ON job.id = wave.job_id
LEFT JOIN tenants_quota quota ON quota.team_id = job.team_id AND quota.flavor_id = task.flavor_id
WHERE task.state = ANY(%(holding)s)
"""
_BORROWED = f"""
SELECT held.wave_id, sum(held.borrowed) FROM ({HELD} AND job.team_id = %(team)s) held
WHERE held.borrowed > 0 GROUP BY held.wave_id
"""  # noqa: S608  constants only


@once
def borrowed_by(team: int) -> Mapping[int, int]:
    """Return the borrowed units of the waves of a team, where there are any: as it is now, not when they started."""
    with connection.cursor() as cursor:
        cursor.execute(_BORROWED, {"holding": sorted(TASK_HOLDING), "team": team})
        return {wave: int(units) for wave, units in cursor.fetchall()}
