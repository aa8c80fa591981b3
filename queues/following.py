"""What queues do when people change teams, quotas or flavors: inside that change's transaction."""

from collections.abc import Iterable
from datetime import datetime

from queues import hints, notices, pausing
from queues.models import Job, Queue
from queues.states import ACTIVE
from tenants.changes import Change, ChangeKind
from tenants.errors import Conflict, Notice
from tenants.models import Team

DEFAULT_QUEUE = "default"
MATTERS = frozenset(
    {
        ChangeKind.TEAM_CREATED,
        ChangeKind.TEAM_UPDATED,
        ChangeKind.TEAM_PAUSED,
        ChangeKind.TEAM_RESUMED,
        ChangeKind.FLAVOR_CREATED,
        ChangeKind.FLAVOR_UPDATED,
        ChangeKind.QUOTA_SET,
        ChangeKind.INSTALLATION_EDITED,
    }
)


def follow(change: Change) -> Iterable[Notice]:
    """Keep queues in step with a change, and wake the loop where it can matter to admission."""
    team = change.team
    if team is not None and change.kind in {ChangeKind.TEAM_CREATED, ChangeKind.TEAM_UPDATED}:
        _keep_departments_free_of_jobs(team)
    if team is not None and change.kind is ChangeKind.TEAM_CREATED:
        Queue.objects.get_or_create(team=team, name=DEFAULT_QUEUE, defaults={"created_at": change.now})
    if team is not None and change.kind is ChangeKind.TEAM_RESUMED:
        _resume(change, team)
    if change.kind in MATTERS:
        hints.wake()
        hints.tell_pages("queue", "jobs", *([f"team:{team.name}"] if team else []))
    return tuple(notices.after(change))


def _keep_departments_free_of_jobs(team: Team) -> None:
    parent = team.parent
    if parent is not None and Job.objects.filter(team=parent, state__in=sorted(ACTIVE)).exists():
        raise Conflict(
            f"{parent.name} has jobs that have not ended: jobs belong to teams without teams below them.",
            code="team_has_jobs",
        )


def _resume(change: Change, team: Team) -> None:
    text = (change.before or {}).get("paused_at")
    if text:
        pausing.team_resumed(team, paused_at=datetime.fromisoformat(text), now=change.now)
