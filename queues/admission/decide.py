"""One decision: a world and its waiting jobs in, admissions and reasons out."""

import gc
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from queues.admission.board import Board
from queues.admission.frame import Memory
from queues.admission.holders import as_hold
from queues.admission.nodes import Path
from queues.admission.outcome import Admission, Keep, Outcome, Verdict
from queues.admission.passes import Passes
from queues.admission.record import Record, Start
from queues.admission.rooms import rooms
from queues.admission.telling import Verdicts
from queues.admission.verdicts import Judge
from queues.admission.world import Heads, Placed, World

__all__ = ["Admission", "Memory", "Outcome", "Verdict", "decide"]


def decide(world: World, heads: Heads, memory: Memory | None = None) -> Outcome:
    """Decide who starts now, and say of every class with waiting jobs why the rest wait.

    A caller that decides again and again may keep a ``memory``: the same decisions, in less time.
    """
    with _uncollected():
        board = Board(world, None if memory is None else memory.frame(world))
        lineup = board.frame.lineup
        lineup.move(board.classes, board.case, Judge(board).takes_turns)
        passes = Passes(board, heads, lineup)
        passes.run()
    return Outcome(
        admissions=_merged(passes.record.starts, board.ground.paths),
        verdicts=Verdicts(board, passes.record, passes.waits),
        evictions=tuple(passes.record.evictions),
        claims=tuple(sorted(board.claims.values(), key=lambda row: row.id)),
        holds=tuple(as_hold(plan) for plan in board.plans),
        keeps=tuple(Keep(job=row.job.id, flavors=row.option.flavors, placed=row.placed) for row in passes.record.kept),
        takeovers=tuple(passes.record.takeovers),
        growth=tuple(passes.record.growth),
        stalled=tuple(passes.record.stalled),
        idle=tuple(_idle(board, passes.record)),
    )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Let Python look for garbage afterwards: what a decision makes meanwhile is in use, and the world is large."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _idle(board: Board, record: Record) -> Iterator[tuple[int, int]]:
    """Yield, per job that keeps, holds without a time or has claimed a node that is away, what it keeps idle."""
    rows = [(plan.job, plan.option, plan.placed) for plan in board.plans if plan.at is None]
    rows += [(kept.job.id, kept.option, kept.placed) for kept in record.kept]
    for job, option, placed in rows:
        units = 0
        for node, room in rooms(option, placed).items():
            kind = board.ground.where.get(node)
            units += 0 if kind is None else min(room[0], max(0, kind.units))
        if units:
            yield job, units
    for claim in record.away:
        option = board.option_of(claim)
        there = rooms(option, claim.placed).items() if claim.id in board.claims else ()
        if units := sum(min(room[0], max(0, board.physical(node)[0])) for node, room in there):
            yield claim.job, units


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
