"""One decision: a world and its waiting jobs in, admissions and reasons out."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from queues.admission.board import Board
from queues.admission.passes import Passes, Start
from queues.admission.reasons import Reason
from queues.admission.verdicts import Judge
from queues.admission.world import Heads, JobClass, Placed, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """``tasks`` tasks of a job start (of a gang: all of them); ``flavors`` names each group's flavor.

    ``borrowed`` says that the job starts outside every guarantee of its path. Several admissions of one independent job
    in one decision are merged into one (one wave).
    """

    job: int
    job_class: int
    flavors: tuple[int, ...]
    placed: tuple[Placed, ...]
    tasks: int
    borrowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why the jobs of a class (``user`` None) or those of one user in it still wait, as one code with numbers."""

    job_class: int
    user: int | None
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one cycle decided, admissions in the order in which they were made."""

    admissions: tuple[Admission, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


def decide(world: World, heads: Heads) -> Outcome:
    """Decide who starts now, and say of every class with waiting jobs why the rest wait."""
    board = Board(world)
    judge = Judge(board)
    classes = sorted(world.classes, key=lambda row: row.id)
    passes = Passes(board, heads, [row for row in classes if judge.paused(row) is None])
    passes.run()
    judge = Judge(board)
    verdicts: list[Verdict] = []
    for job_class in classes:
        if passes.waits(job_class):
            verdicts.extend(_verdicts(judge, job_class))
    return Outcome(admissions=_merged(passes.starts), verdicts=tuple(verdicts))


def _verdicts(judge: Judge, job_class: JobClass) -> Iterator[Verdict]:
    """Yield the reason of the class, then those of users at their own limit."""
    paused = judge.paused(job_class)
    reason = paused or judge.of_class(job_class)
    yield Verdict(job_class=job_class.id, user=None, reason=reason)
    if paused is None and not reason.permanent:
        for user, limited in judge.limited_users(job_class):
            yield Verdict(job_class=job_class.id, user=user, reason=limited)


def _merged(starts: list[Start]) -> tuple[Admission, ...]:
    """Merge the steps of each job (on the same flavors) into one admission, at the place of its first step."""
    steps: dict[tuple[int, tuple[int, ...]], list[Start]] = {}
    for start in starts:
        steps.setdefault((start.job, start.option.flavors), []).append(start)
    admissions = []
    for (job, flavors), rows in steps.items():
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
