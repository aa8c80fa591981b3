"""One decision: a world and its waiting jobs in, admissions and reasons out."""

from collections import Counter
from collections.abc import Iterator, Mapping

from queues.admission.board import Board
from queues.admission.frame import Memory
from queues.admission.holders import as_hold
from queues.admission.nodes import Path
from queues.admission.outcome import Admission, Keep, Outcome, Verdict
from queues.admission.passes import Passes
from queues.admission.reasons import Code, Reason
from queues.admission.record import Record, Start
from queues.admission.rooms import rooms
from queues.admission.shapes import Option
from queues.admission.verdicts import Judge, reason
from queues.admission.world import Heads, JobClass, Placed, World

MOST_NAMED = 10
"""So many jobs without end are named as what blocks one that has kept units idle for too long."""

__all__ = ["Admission", "Memory", "Outcome", "Verdict", "decide"]


def decide(world: World, heads: Heads, memory: Memory | None = None) -> Outcome:
    """Decide who starts now, and say of every class with waiting jobs why the rest wait.

    A caller that decides again and again may keep a ``memory``: the same decisions, in less time.
    """
    board = Board(world, None if memory is None else memory.frame(world))
    judge = Judge(board)
    classes = sorted(world.classes, key=lambda row: row.id)
    active = [row for row in classes if judge.paused(row) is None]
    if world.policy.recall:
        active = [row for row in active if judge.permanent(row) is None]
    passes = Passes(board, heads, active)
    passes.run()
    judge = Judge(board)
    verdicts: list[Verdict] = list(_of_jobs(board, passes.record, judge))
    for job_class in classes:
        if passes.waits(job_class):
            verdicts.extend(_verdicts(judge, job_class))
    return Outcome(
        admissions=_merged(passes.record.starts, board.ground.paths),
        verdicts=tuple(verdicts),
        evictions=tuple(passes.record.evictions),
        claims=tuple(sorted(board.claims.values(), key=lambda row: row.id)),
        holds=tuple(as_hold(plan) for plan in board.plans),
        keeps=tuple(Keep(job=row.job.id, flavors=row.option.flavors, placed=row.placed) for row in passes.record.kept),
        growth=tuple(passes.record.growth),
        stalled=tuple(passes.record.stalled),
        idle=tuple(_idle(board, passes.record)),
    )


def _of_jobs(board: Board, record: Record, judge: Judge) -> Iterator[Verdict]:
    """Yield the reasons of jobs that have one of their own: a claim, a hold, a back-off, or what blocks it for ever."""
    own: dict[int, tuple[int, Reason]] = {}
    for job, (job_class, option) in record.tired.items():
        why = judge.of_class(job_class)
        own[job] = (job_class.id, reason(why.code, dict(why.numbers) | _endless(board, option)))
    for job, job_class in record.backing_off.items():
        own[job] = (job_class.id, reason(Code.BACKING_OFF, {}))
    for kept in record.kept:
        if kept.waits_for_age:
            own[kept.job.id] = (kept.job_class.id, reason(Code.WAITS_MIN_RUNTIME, _asked(board, kept.option)))
    for plan in board.plans:
        numbers = _asked(board, plan.option)
        if plan.at is not None:
            numbers["at"] = plan.at
        own.setdefault(plan.job, (plan.job_class, reason(Code.HOLDS, numbers)))
    reserved: Counter[int] = Counter()
    for claim in board.claims.values():
        option = board.option_of(claim)
        reserved[claim.job] += option.units
        told = _asked(board, option) | {"claim": claim.id, "needs": reserved[claim.job]}
        own[claim.job] = (claim.job_class, reason(Code.WAITS_VICTIMS, told))
    for job in sorted(own):
        number, found = own[job]
        yield Verdict(job_class=number, user=None, reason=found, job=job)


def _endless(board: Board, option: Option) -> dict[str, int | str]:
    """Return who blocks an option without end: how many jobs run there without a time limit, and which."""
    flavors = set(option.flavors)
    rows = (row for row in board.running.values() if row.ends_by is None and flavors.intersection(row.flavors))
    jobs = sorted({row.job for row in rows})
    if not jobs:
        return {}
    return {"endless": len(jobs), "endless_jobs": " ".join(str(job) for job in jobs[:MOST_NAMED])}


def _asked(board: Board, option: Option) -> dict[str, int | str]:
    """Return what an option asks for, as numbers of a reason."""
    told: dict[str, int | str] = {"needs": option.units}
    if len(option.needs) == 1:
        told["flavor"] = board.flavors[option.needs[0][0]].name
    return told


def _idle(board: Board, record: Record) -> Iterator[tuple[int, int]]:
    """Yield, per job that keeps or holds without a time, the free units that it keeps idle."""
    rows = [(plan.job, plan.option, plan.placed) for plan in board.plans if plan.at is None]
    rows += [(kept.job.id, kept.option, kept.placed) for kept in record.kept]
    for job, option, placed in rows:
        units = 0
        for node, room in rooms(option, placed).items():
            kind = board.ground.where.get(node)
            units += 0 if kind is None else min(room[0], max(0, kind.units))
        if units:
            yield job, units


def _verdicts(judge: Judge, job_class: JobClass) -> Iterator[Verdict]:
    """Yield the reason of the class, then those of users at their own limit."""
    paused = judge.paused(job_class)
    why = judge.permanent(job_class) or paused or judge.of_class(job_class)
    yield Verdict(job_class=job_class.id, user=None, reason=why)
    if paused is None and not why.permanent:
        for user, limited in judge.limited_users(job_class):
            yield Verdict(job_class=job_class.id, user=user, reason=limited)


def _merged(starts: list[Start], paths: Mapping[int, Path]) -> tuple[Admission, ...]:
    """Merge the steps of each job on the same flavors and cluster into one admission, at the place of its first."""
    steps: dict[tuple[int, tuple[int, ...], object], list[Start]] = {}
    for start in starts:
        cluster = paths[start.placed[0].node][0]
        steps.setdefault((start.job, start.option.flavors, cluster), []).append(start)
    admissions = []
    for (job, flavors, _), rows in steps.items():
        tasks: Counter[tuple[int, int]] = Counter()
        for row in rows:
            for placed in row.placed:
                tasks[placed.group, placed.node] += placed.tasks
        admissions.append(
            Admission(
                job=job,
                job_class=rows[0].job_class,
                flavors=flavors,
                placed=tuple(Placed(group=group, node=node, tasks=tasks[group, node]) for group, node in sorted(tasks)),
                tasks=tasks.total(),
                borrowed=any(row.borrowed for row in rows),
            )
        )
    return tuple(admissions)
