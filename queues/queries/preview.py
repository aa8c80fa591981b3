"""What edits of quotas would change: the rules on a snapshot with the quotas before and after. Nothing is written."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction

from queues import forecasting, settled, snapshot
from queues.admission.decide import decide
from queues.admission.heads import SimpleHeads
from queues.admission.outcome import Outcome
from queues.admission.quota import ledger
from queues.admission.world import World
from queues.models import Job
from queues.queries.rows.shares import PreviewJob, PreviewMove, QuotaPreview
from queues.simulation.expected import Present
from queues.simulation.forecast import Forecast
from queues.waiting import moment
from tenants import services
from tenants.errors import Notice
from tenants.permissions import Actor
from tenants.services import QuotaEdit

# A start that moves by less is the same start.
NOTABLE_MS = 60_000
MOST_SHOWN = 20

GoOn = Callable[[], bool]
Names = dict[int, Job]


def preview(by: Actor, edits: Sequence[QuotaEdit], *, now: datetime, go_on: GoOn = lambda: True) -> QuotaPreview:
    """Return what edits would change, checked as if they were made; ``go_on`` says how long starts may be looked for.

    Raises what making them would raise.
    """
    before, after, notices = _worlds(by, edits, now)
    outcomes = _decided(before), _decided(after)
    starts = tuple(_starts(outcome) for outcome in outcomes)
    gone = tuple(_evicted(outcome, world.world) for outcome, world in zip(outcomes, (before, after), strict=True))
    borrowed = _borrowed(before.world), _borrowed(after.world)
    moves = list(_moves(before, after, go_on))
    never = _never(outcomes[1]) - _never(outcomes[0])
    told = [*(starts[1] - starts[0]), *(starts[0] - starts[1]), *(gone[1] - gone[0]), *(borrowed[1] - borrowed[0])]
    names = _names(by, [*told, *(move.job for move in moves)])
    sooner, later = ([move for move in moves if (move.after < move.before) is way] for way in (True, False))
    return QuotaPreview(
        as_of=now,
        notices=notices,
        starts=_jobs(starts[1] - starts[0], names),
        starts_no_more=_jobs(starts[0] - starts[1], names),
        reclaimed=_jobs(gone[1] - gone[0], names),
        borrowed=_jobs(borrowed[1] - borrowed[0], names),
        impossible=sum(row.job_class in never for row in before.waiting),
        sooner=len(sooner),
        later=len(later),
        moves=tuple(
            PreviewMove(job=_job(move.job, 0, names), before=moment(move.before), after=moment(move.after))
            for move in sorted(moves, key=lambda move: (-abs(move.after - move.before), move.job))[:MOST_SHOWN]
        ),
    )


def _worlds(by: Actor, edits: Sequence[QuotaEdit], now: datetime) -> tuple[Present, Present, tuple[Notice, ...]]:
    """Return the present without and with the edits, which are made and taken back in one transaction."""
    with snapshot.load(now) as seen:
        before = forecasting.present_of(seen)
    with transaction.atomic():
        done = services.set_quotas(by=by, now=now, edits=edits, comment="preview")
        teams = settled.teams()
        transaction.set_rollback(True)
    return before, replace(before, world=replace(before.world, teams=teams)), done.notices


def _decided(present: Present) -> Outcome:
    return decide(present.world, SimpleHeads(present.waiting))


def _starts(outcome: Outcome) -> Counter[int]:
    """Count the tasks that start now, by job."""
    counts: Counter[int] = Counter()
    for row in outcome.admissions:
        counts[row.job] += row.tasks
    return counts


def _evicted(outcome: Outcome, world: World) -> Counter[int]:
    """Count the units that would be reclaimed, by job."""
    attempts = {attempt.id: attempt for attempt in world.attempts}
    counts: Counter[int] = Counter()
    for row in outcome.evictions:
        attempt = attempts[row.attempt]
        if not row.surplus:
            counts[attempt.job] += sum(part.tasks * attempt.groups[part.group].units for part in row.placed)
    return counts


def _borrowed(world: World) -> Counter[int]:
    """Count the borrowed units of what runs, by job."""
    jobs = {attempt.id: attempt.job for attempt in world.attempts}
    counts: Counter[int] = Counter()
    for attempt, _, units in ledger(world).attempts:
        counts[jobs[attempt]] += units
    return counts


def _never(outcome: Outcome) -> set[int]:
    return {row.job_class for row in outcome.verdicts if row.reason.permanent}


@dataclass(frozen=True, slots=True)
class _Move:
    job: int
    before: int
    after: int


def _moves(before: Present, after: Present, go_on: GoOn) -> Iterable[_Move]:
    """Yield the jobs whose expected start moves, as far as both can be told."""
    known: dict[int, list[int]] = defaultdict(list)
    for present in (before, after):
        found = Forecast(present)
        found.run(go_on)
        for job, start in found.starts().items():
            known[job].append(start.p50)
    for job, times in sorted(known.items()):
        if len(times) > 1 and abs(times[1] - times[0]) >= NOTABLE_MS:
            yield _Move(job, times[0], times[1])


def _names(by: Actor, jobs: Iterable[int]) -> Names:
    return Job.objects.visible_to(by).filter(id__in=set(jobs)).select_related("team", "user").defer("spec").in_bulk()


def _jobs(counts: Counter[int], names: Names) -> tuple[PreviewJob, ...]:
    return tuple(_job(job, count, names) for job, count in sorted(counts.items()) if count > 0)


def _job(job: int, count: int, names: Names) -> PreviewJob:
    row = names.get(job)
    if row is None:
        return PreviewJob(job=None, name="", team="", owner="", count=count)
    return PreviewJob(job=row.uid, name=row.name, team=row.team.name, owner=row.user.username, count=count)
