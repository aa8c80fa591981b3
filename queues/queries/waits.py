"""How much waits: units and jobs by team and flavor, those that can never start left out."""

from typing import NamedTuple

from django.db import connection

from queues.admission.world import Ask, JobShape
from queues.states import JobState

STATES = [JobState.QUEUED.value, JobState.ADMITTED.value, JobState.RUNNING.value]

# Added up by class first: a class says once what all its jobs ask for, and of independent jobs its one task.
_WAITING = """
WITH waits AS (
    SELECT job_class_id, sum(waiting_tasks) AS tasks, count(*) AS jobs FROM queues_job
    WHERE state = ANY(%s) AND waiting_tasks > 0 GROUP BY job_class_id
)
SELECT queue.team_id, (class.ask #>> '{groups,0,flavors,0}')::bigint AS flavor, sum(waits.tasks * one.units),
    sum(waits.jobs)
FROM waits
JOIN queues_jobclass class ON class.id = waits.job_class_id JOIN queues_queue queue ON queue.id = class.queue_id
CROSS JOIN LATERAL (
    SELECT sum((each ->> 'tasks')::bigint * (each ->> 'units')::bigint) AS units
    FROM jsonb_array_elements(class.ask -> 'groups') each
) one
WHERE NOT EXISTS (
    SELECT FROM queues_verdict verdict
    WHERE verdict.job_class_id = class.id AND verdict.user_id IS NULL AND verdict.permanent
)
GROUP BY queue.team_id, flavor
"""


class Waits(NamedTuple):
    """Units that waiting tasks ask for, and how many jobs have some."""

    units: int = 0
    jobs: int = 0


def waiting() -> dict[tuple[int, int], Waits]:
    """Return what waits by team and first flavor of the wish."""
    with connection.cursor() as cursor:
        cursor.execute(_WAITING, [STATES])
        return {(team, flavor): Waits(int(units), int(jobs)) for team, flavor, units, jobs in cursor.fetchall()}


def units_waiting(ask: Ask, tasks: int) -> int:
    """Return the units of waiting tasks; of gangs ``tasks`` counts whole jobs."""
    if ask.shape is JobShape.INDEPENDENT:
        return tasks * ask.groups[0].units
    return tasks * sum(group.tasks * group.units for group in ask.groups)
