"""What is on machines, task by task."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from queues import limits, waiting
from queues.models import Task
from queues.queries.borrowing import borrowed_by
from queues.queries.rows.machines import Cell
from queues.states import TASK_HOLDING, TaskState
from tenants.permissions import Actor, Permission, teams_seen

# Of a task what a cell tells of it, of its wave and of its job.
_CELL = (
    *("node_id", "id", "units", "state", "index", "started_at", "wave__started_at", "wave__stopped_at"),
    *("wave__job__team_id", "wave__job__user_id", "wave__job__user__username", "wave__job__uid", "wave__job__name"),
    *("wave__job__shape", "wave__job__time_limit", "wave__job__ran_for"),
)


class _Held(NamedTuple):
    """A task that holds units, as ``_CELL`` reads it."""

    node: int
    id: int
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


def cells_on(by: Actor, nodes: list[int]) -> dict[int, list[Cell]]:
    """Return a cell for each task on machines; a map may have ten thousands, so that no model is made for one."""
    teams = {team.id: team.name for team in teams_seen(by, Permission.VIEW_JOB)}
    cells: dict[int, list[Cell]] = defaultdict(list)
    holding = Task.objects.filter(node__in=nodes, state__in=sorted(TASK_HOLDING)).order_by("node_id", "id")
    tasks = list(map(_Held._make, holding.values_list(*_CELL)))
    borrowed = borrowed_by(task.team for task in tasks if task.team in teams).of_task
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
                borrowed_units=borrowed.get(task.id, 0),
                started_at=task.started_at,
                ends_by=limits.run_ends(task.wave_started_at, left),
                leaving_since=task.wave_stopped_at if task.state == TaskState.LEAVING else None,
            )
        )
    return cells
