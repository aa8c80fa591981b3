"""What can be named in a spec, kept from one submission to the next: read anew where any row of it has changed.

One statement tells whether something has: it sees every committed change, whoever made it, so that nothing that people
set takes effect later than at once. Rights are in it as they are now.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from django.db import connection

from queues.ceilings import StoredCeilings
from queues.models import PriorityClass, Queue
from queues.namespaces import namespace_of
from queues.settled import versions
from queues.spec import FlavorChoice, PriorityChoice, QueueChoice, TeamChoice
from tenants.models import Flavor, Team
from tenants.permissions import Actor, Permission, reached

_TABLES = ("tenants_flavor", "tenants_team", "tenants_quota", "queues_queue", "queues_priorityclass")
_LOOK = f"""
SELECT ({versions(_TABLES)}), (
    SELECT jsonb_object_agg(flavor_id, units)::text FROM (
        SELECT flavor_id, max(units) AS units FROM queues_node
        WHERE gone_at IS NULL AND flavor_id IS NOT NULL GROUP BY flavor_id
    ) largest
), (SELECT jsonb_object_agg(team_id, role)::text FROM tenants_membership WHERE user_id = %s)
"""  # noqa: S608  constants only


class Choices(NamedTuple):
    """All that can be named, whoever asks: ``teams`` are those that have queues and no teams below them, by name."""

    teams: tuple[TeamChoice, ...]
    parents: Mapping[int, int | None]
    flavors: tuple[FlavorChoice, ...]
    priorities: tuple[PriorityChoice, ...]
    ceilings: StoredCeilings


_known: dict[tuple[str, str | None], Choices] = {}
"""The last one, by the versions of all rows that it is made of."""


def choices(by: Actor) -> tuple[Choices, tuple[TeamChoice, ...]]:
    """Return what can be named, and the teams to which somebody may submit."""
    with connection.cursor() as cursor:
        cursor.execute(_LOOK, [by.user.pk])
        version, largest, roles = cursor.fetchone()
    found = _known.get((version, largest))
    if found is None:
        found = _read({int(flavor): units for flavor, units in json.loads(largest or "{}").items()})
        _known.clear()
        _known[version, largest] = found
    own = {int(team): role for team, role in json.loads(roles or "{}").items()}
    mine = reached(by, Permission.SUBMIT_JOB, parents=found.parents, roles=own)
    return found, tuple(team for team in found.teams if team.id in mine)


def _read(largest: Mapping[int, int]) -> Choices:
    parents = dict(Team.objects.order_by("id").values_list("id", "parent_id"))
    flavors = _flavors(largest)
    priorities = PriorityClass.objects.order_by("-value", "id")
    return Choices(
        teams=_teams(frozenset(parents.values())),
        parents=parents,
        flavors=flavors,
        priorities=tuple(
            PriorityChoice(id=row.id, name=row.name, value=row.value, preemptible=row.preemptible) for row in priorities
        ),
        ceilings=StoredCeilings(flavors),
    )


def _teams(departments: frozenset[int | None]) -> tuple[TeamChoice, ...]:
    queues: dict[int, list[QueueChoice]] = {}
    teams: dict[int, Team] = {}
    for row in Queue.objects.select_related("team").order_by("team__name", "name", "id"):
        if row.team_id in departments:
            continue
        choice = QueueChoice(
            id=row.id,
            name=row.name,
            default_time_limit=row.default_time_limit,
            max_time_limit=row.max_time_limit,
            max_grace=row.max_grace,
            max_priority=row.max_priority,
        )
        queues.setdefault(row.team_id, []).append(choice)
        teams[row.team_id] = row.team
    return tuple(
        TeamChoice(
            id=pk,
            name=team.name,
            queues=tuple(queues[pk]),
            namespace=namespace_of(team.name),
            allows=frozenset(team.pod_allowances),
        )
        for pk, team in teams.items()
    )


def _flavors(largest: Mapping[int, int]) -> tuple[FlavorChoice, ...]:
    return tuple(
        FlavorChoice(
            id=row.id,
            name=row.name,
            default_cpu_milli=row.default_cpu_milli,
            default_memory=row.default_memory,
            cpu_step_milli=row.cpu_step_milli,
            memory_step=row.memory_step,
            largest=largest.get(row.id, 0),
            installed=row.installed,
            resource=row.resource,
            node_labels=tuple(sorted(row.node_labels.items())),
        )
        for row in Flavor.objects.order_by("id")
    )
