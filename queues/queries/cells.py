"""What is on machines, task by task."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from queues import limits, waiting
from queues.queries.borrowing import HELD
from queues.queries.rows.machines import Cell
from queues.states import TASK_HOLDING, TaskState
from tenants.permissions import Actor, Permission, teams_seen

# What is borrowed of a team is told by all that it holds, wherever that is.
_CELLS = f"""
SELECT held.node_id, held.units, held.state, held.index, held.started_at, held.wave_started_at, held.wave_stopped_at,
    held.team_id, held.owner_id, owner.username, held.job_uid, held.job_name, held.shape, held.time_limit, held.ran_for,
    held.borrowed
FROM ({HELD} AND job.team_id IN (
    SELECT job.team_id FROM queues_task task JOIN queues_wave wave ON wave.id = task.wave_id
    JOIN queues_job job ON job.id = wave.job_id
    WHERE task.state = ANY(%(holding)s) AND task.node_id = ANY(%(nodes)s)
)) held JOIN tenants_user owner ON owner.id = held.owner_id
WHERE held.node_id = ANY(%(nodes)s) ORDER BY held.node_id, held.id
"""  # noqa: S608  constants only


class _Held(NamedTuple):
    """A task that holds units, as ``_CELLS`` reads it."""

    node: int
    units: int
    state: str
    number: int
    started_at: datetime | None
    wave_started_at: datetime | None
    wave_stopped_at: datetime | None
    team: int
    user: int
    owner: str
    job: UUID
    job_name: str
    shape: str
    time_limit: timedelta | None
    ran_for: timedelta
    borrowed: int


def cells_on(by: Actor, nodes: list[int]) -> dict[int, list[Cell]]:
    """Return a cell for each task on machines; a map may have ten thousands, so that no model is made for one."""
    teams = {team.id: team.name for team in teams_seen(by, Permission.VIEW_JOB)}
    cells: dict[int, list[Cell]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_CELLS, {"holding": sorted(TASK_HOLDING), "nodes": nodes})
        tasks = list(map(_Held._make, cursor.fetchall()))
    for task in tasks:
        if task.team not in teams:
            cells[task.node].append(Cell(units=task.units, state=task.state))
            continue
        left = waiting.time_left(task.time_limit, task.ran_for, task.shape)
        cells[task.node].append(
            Cell(
                units=task.units,
                state=task.state,
                team=teams[task.team],
                owner=task.owner,
                job=task.job,
                job_name=task.job_name,
                task=task.number,
                mine=task.user == by.user.pk,
                borrowed_units=int(task.borrowed),
                started_at=task.started_at,
                ends_by=limits.run_ends(task.wave_started_at, left),
                leaving_since=task.wave_stopped_at if task.state == TaskState.LEAVING else None,
            )
        )
    return cells
