"""Evictions, and claims taken over, in the audit: for whom, by which rule, at what cost."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from queues.admission.outcome import Takeover
from queues.models import Job
from tenants.models import AuditEntry, Team

ACTION = "job.evict"
TAKEOVER = "job.take_over"
FINDER = "Tidegate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """What one claim took from one job."""

    victim: Job
    claimant: Job
    claim: int
    rule: str
    exact: bool
    tasks: int
    units: int
    lost_unit_seconds: int
    grace: int


def audit(recalls: Iterable[Recall], *, now: datetime) -> None:
    """Write one entry for each, which belongs to the nearest team that sees both sides: it names both."""
    rows = list(recalls)
    if not rows:
        return
    teams = {team.id: team for team in Team.objects.only("id", "name", "parent_id")}
    AuditEntry.objects.bulk_create(
        AuditEntry(
            at=now,
            actor_name=FINDER,
            action=ACTION,
            target=_named(row.victim)[:200],
            team=_common(teams[row.victim.team_id], teams[row.claimant.team_id], teams),
            before={"team": teams[row.victim.team_id].name, "state": row.victim.state},
            after={
                "claimant": _named(row.claimant),
                "claimant_team": teams[row.claimant.team_id].name,
                "claim": row.claim,
                "rule": row.rule,
                "exact": row.exact,
                "tasks": row.tasks,
                "units": row.units,
                "lost_unit_seconds": row.lost_unit_seconds,
                "grace_seconds": row.grace,
            },
        )
        for row in rows
    )


def audit_takeovers(takeovers: Iterable[tuple[Job, Job, Takeover]], *, now: datetime) -> None:
    """Write one entry for each job that lost a claim to another, which belongs to the nearest team that sees both."""
    teams = {team.id: team for team in Team.objects.only("id", "name", "parent_id")}
    AuditEntry.objects.bulk_create(
        AuditEntry(
            at=now,
            actor_name=FINDER,
            action=TAKEOVER,
            target=_named(loser)[:200],
            team=_common(teams[loser.team_id], teams[taker.team_id], teams),
            before={"team": teams[loser.team_id].name, "claim": row.claim, "units": row.units},
            after={"claimant": _named(taker), "claimant_team": teams[taker.team_id].name},
        )
        for loser, taker, row in takeovers
    )


def _named(job: Job) -> str:
    return f"job {job.uid} {job.name}"


def _common(one: Team, other: Team, teams: dict[int, Team]) -> Team | None:
    """Return the nearest team that is, or is above, both."""
    above = _path(one, teams)
    return next((team for team in _path(other, teams) if team in above), None)


def _path(team: Team, teams: dict[int, Team]) -> list[Team]:
    path = [team]
    while path[-1].parent_id is not None:
        path.append(teams[path[-1].parent_id])
    return path
