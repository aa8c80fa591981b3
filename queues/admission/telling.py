"""Why all that is left waits: worked out when it is read, and the same objects as long as it rests on the same."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import overload

from queues.admission.board import Board
from queues.admission.outcome import Verdict
from queues.admission.reasons import Code, Reason, reason
from queues.admission.record import Record
from queues.admission.shapes import Option
from queues.admission.verdicts import Judge
from queues.admission.world import Claim, JobClass

MOST_NAMED = 10
"""So many jobs without end are named as what blocks one that has kept units idle for too long."""


class Verdicts(Sequence[Verdict]):
    """The reasons that one decision leaves: of single jobs first, then class by class. The board must not change."""

    def __init__(self, board: Board, record: Record, waits: Callable[[JobClass], bool]) -> None:
        """Remember what was decided; nothing is worked out before somebody reads."""
        self._board = board
        self._record = record
        self._waits = waits
        self._rows: tuple[Verdict, ...] | None = None

    def __iter__(self) -> Iterator[Verdict]:
        """Yield all verdicts."""
        return iter(self._all)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)

    @overload
    def __getitem__(self, place: int) -> Verdict: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Verdict]: ...
    def __getitem__(self, place: int | slice) -> Verdict | Sequence[Verdict]:
        """Return one verdict, or some."""
        return self._all[place]

    def __eq__(self, other: object) -> bool:
        """Whether the same is said."""
        return isinstance(other, Sequence) and self._all == tuple(other)

    def __hash__(self) -> int:
        """Return the hash of what is said."""
        return hash(self._all)

    @property
    def _all(self) -> tuple[Verdict, ...]:
        if self._rows is None:
            judge = Judge(self._board)
            rows = list(_of_jobs(self._board, self._record, judge))
            for job_class in sorted(self._board.classes.values(), key=_number):
                if self._waits(job_class):
                    rows += self._said(judge, job_class)
            rows += _of_resting(self._board, judge)
            self._rows = tuple(rows)
        return self._rows

    def _said(self, judge: Judge, job_class: JobClass) -> tuple[Verdict, ...]:
        """Return the verdicts on a class, those of the last decision where they still hold."""
        said = self._board.frame.said
        before, rests = said.get(job_class.id), judge.rests_on(job_class)
        if before is not None and before[0] is job_class and before[1] is rests and rests is not None:
            return before[2]
        rows = tuple(_verdicts(judge, job_class))
        if before is not None and before[2] == rows:
            rows = before[2]
        said[job_class.id] = (job_class, None if judge.looked_further(job_class) else rests, rows)
        return rows


def _number(job_class: JobClass) -> int:
    return job_class.id


def _verdicts(judge: Judge, job_class: JobClass) -> Iterator[Verdict]:
    """Yield the reason of the class, then those of users at their own limit."""
    paused = judge.paused(job_class)
    why = judge.permanent(job_class) or paused or judge.of_class(job_class)
    yield Verdict(job_class=job_class.id, user=None, reason=why)
    if paused is None and not why.permanent:
        for user, limited in judge.limited_users(job_class):
            yield Verdict(job_class=job_class.id, user=user, reason=limited)


def _of_resting(board: Board, judge: Judge) -> Iterator[Verdict]:
    """Yield why jobs can never start that take no turn anyway: that is their reason all the same (SEMANTICS 10)."""
    for job_class in sorted(board.world.resting, key=_number):
        why = None if job_class.id in board.classes else judge.permanent(job_class)
        if why is not None:
            yield Verdict(job_class=job_class.id, user=None, reason=why)


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
        code = Code.WAITS_VICTIMS
        if claim in record.away and not _leaves_for(board, claim):
            code, told["node"] = Code.CAPACITY_REDUCED, _first_away(board, claim)
        own[claim.job] = (claim.job_class, reason(code, told))
    for job in sorted(own):
        number, found = own[job]
        yield Verdict(job_class=number, user=None, reason=found, job=job)


def _leaves_for(board: Board, claim: Claim) -> bool:
    """Whether somebody still leaves, or has yet to go, where a claim waits."""
    nodes = {row.node for row in claim.placed}
    return bool(claim.pending) or any(not nodes.isdisjoint(room_of) for _, room_of in board.leaving_until)


def _first_away(board: Board, claim: Claim) -> str:
    """Return the name of a node that a claim waits for."""
    nodes = {row.node for row in claim.placed} - board.ground.where.keys()
    return next(node.name for node in board.world.nodes if node.id in nodes)


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
