"""What people should know about a change that is allowed: a cut below what is used, aging that never helps."""

from collections.abc import Iterator
from itertools import pairwise

from django.db.models import Sum

from queues.models import PriorityClass, Task
from queues.states import TASK_HOLDING
from tenants.changes import Change, ChangeKind
from tenants.errors import Notice
from tenants.models import Flavor, Team


def after(change: Change) -> Iterator[Notice]:
    """Yield the warnings that go with a change."""
    if change.kind is ChangeKind.QUOTA_SET and change.team and change.flavor:
        yield from _cut(change, change.team, change.flavor)
    if change.kind is ChangeKind.INSTALLATION_EDITED:
        yield from _aging((change.after or {}).get("aging_cap", 0))


def _cut(change: Change, team: Team, flavor: Flavor) -> Iterator[Notice]:
    """Warn where a team that has no teams below uses more than what it now has (SEMANTICS 8, quota cut below use)."""
    quota = change.after or {}
    if Team.objects.filter(parent=team).exists():
        return
    tasks = Task.objects.filter(wave__job__team=team, flavor_id=flavor.id, state__in=sorted(TASK_HOLDING))
    used = tasks.aggregate(units=Sum("units", default=0))["units"]
    most = None if quota["borrow_limit"] is None else quota["guaranteed"] + quota["borrow_limit"]
    if most is not None and used > most:
        text = (
            f"{team.name} uses {used} {flavor.name}, {used - most} more than it now may: until then it starts nothing."
        )
        yield Notice(code="cut_below_use", detail=text)
    elif used > quota["guaranteed"] < ((change.before or {}).get("guaranteed") or 0):
        more = used - quota["guaranteed"]
        text = f"{team.name} uses {used} {flavor.name}: {more} of them are now borrowed and can be reclaimed."
        yield Notice(code="cut_below_use", detail=text)


def _aging(cap: int) -> Iterator[Notice]:
    """Warn where waiting never lifts a job into the next class (SEMANTICS 4)."""
    values = sorted(set(PriorityClass.objects.values_list("value", flat=True)))
    gaps = [above - below for below, above in pairwise(values)]
    if gaps and cap < max(gaps):
        text = f"A cap of {cap} is less than the step of {max(gaps)} between two classes: lower ones may wait for ever."
        yield Notice(code="may_wait_for_ever", detail=text)
