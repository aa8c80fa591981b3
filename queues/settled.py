"""What people set and seldom change, as the rules see it: policy, flavors, teams with quotas, queues."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from queues.admission.world import Aging, Flavor, Milliseconds, Policy, Queue, QueueOrder, Quota, Team
from queues.models import Queue as StoredQueue
from queues.models.queue import PreemptWithinTeam
from queues.waiting import span
from tenants.models import Flavor as StoredFlavor
from tenants.models import Installation
from tenants.models import Quota as StoredQuota
from tenants.models import Team as StoredTeam


class Settled(NamedTuple):
    """What people set and seldom change."""

    policy: Policy
    flavors: tuple[Flavor, ...]
    teams: tuple[Team, ...]
    queues: tuple[Queue, ...]
    start_limits: Mapping[int, Milliseconds]


_TABLES = ("tenants_installation", "tenants_flavor", "tenants_team", "tenants_quota", "queues_queue")
# A version is ``xmin`` and ``ctid`` of a row: no update of whatever kind, by whoever, keeps both.
_ROW = "SELECT '{0}' AS of, id, xmin::text || ctid::text AS version FROM {0}"


def versions(tables: Iterable[str]) -> str:
    """Return the statement that tells one version of all rows of some small tables."""
    rows = " UNION ALL ".join(_ROW.format(table) for table in tables)
    return f"SELECT md5(string_agg(concat_ws(' ', of, id, version), ',' ORDER BY of, id)) FROM ({rows}) found"  # noqa: S608  constants only


VERSION = versions(_TABLES)
_known: dict[str, Settled] = {}
"""The last one, by the versions of all rows that it is made of."""


def forget() -> None:
    """Read everything anew the next time."""
    _known.clear()


def settled(version: str) -> Settled:
    """Return what people set: the same object where ``version``, the answer to ``VERSION``, is that of last time."""
    known = _known.get(version)
    if known is None:
        queues = list(StoredQueue.objects.order_by("id"))
        limits = {queue.id: span(queue.start_limit) for queue in queues}
        known = Settled(_policy(), _flavors(), teams(), _queues(queues), limits)
        _known.clear()
        _known[version] = known
    return known


def _policy() -> Policy:
    row = Installation.objects.filter(id=1).first()
    if row is None:
        return Policy()
    return Policy(
        aging=Aging(every=span(row.aging_every), step=row.aging_step, cap=row.aging_cap),
        overcommit=row.overcommit,
        restart_cost=span(row.restart_cost),
        evictions_per_minute=row.evictions_per_minute,
        max_evictions=row.max_evictions,
        hold_idle_limit=None if row.hold_idle_limit is None else row.hold_idle_limit * 1000,
    )


def _flavors() -> tuple[Flavor, ...]:
    rows = StoredFlavor.objects.order_by("id").values_list("id", "name", "value_milli", "spread")
    return tuple(Flavor(id=pk, name=name, value=value, spread=spread) for pk, name, value, spread in rows)


def teams() -> tuple[Team, ...]:
    """Return the teams with their quotas."""
    quotas: dict[int, list[Quota]] = defaultdict(list)
    for team, flavor, guaranteed, borrow, lend in StoredQuota.objects.order_by("team_id", "flavor_id").values_list(
        "team_id", "flavor_id", "guaranteed", "borrow_limit", "lend_limit"
    ):
        quota = Quota(flavor=flavor, guaranteed=guaranteed, borrow_limit=borrow, lend_limit=lend)
        quotas[team].append(quota)
    return tuple(
        Team(
            id=team.id,
            name=team.name,
            parent=team.parent_id,
            weight=team.weight_milli,
            quotas=tuple(quotas[team.id]),
            per_user_limit=team.per_user_limit,
            paused=team.paused_at is not None,
        )
        for team in StoredTeam.objects.order_by("id")
    )


def _queues(rows: Iterable[StoredQueue]) -> tuple[Queue, ...]:
    return tuple(
        Queue(
            id=queue.id,
            name=queue.name,
            team=queue.team_id,
            order=QueueOrder(queue.order),
            per_user_limit=queue.per_user_limit,
            paused=queue.paused_at is not None,
            hold_after=span(queue.hold_after),
            preempt_within_team=queue.preempt_within_team == PreemptWithinTeam.LOWER_PRIORITY,
            limit_needed_to_borrow=queue.limit_needed_to_borrow,
        )
        for queue in rows
    )
