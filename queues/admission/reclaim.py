"""Claims: who may have units back, from whom, and which victims cost least (SEMANTICS 8)."""

from dataclasses import dataclass, replace

from queues.admission.board import Board
from queues.admission.choice import Choice
from queues.admission.placement import witness
from queues.admission.plans import Asker
from queues.admission.shapes import Option
from queues.admission.trial import Candidate, Trial
from queues.admission.victims import Victims
from queues.admission.world import Claim, Placed, Queue, Standing, Victim


@dataclass(frozen=True, slots=True)
class Recall:
    """A claim that succeeds: who goes, where the claimant will be, whose reservations it takes over.

    ``inside`` tells whether it will be inside its guarantee once they have gone.
    """

    victims: tuple[Victim, ...]
    placed: tuple[Placed, ...]
    taken_over: tuple[Claim, ...] = ()
    rule: str = "guarantee"
    exact: bool = True
    inside: bool = False


class Claimant:
    """One job that looks for units on one option, on the board as it is now."""

    def __init__(
        self, board: Board, asker: Asker, option: Option, queue: Queue, base: int, *, user: int, young: bool
    ) -> None:
        """``base`` is the job's class priority; ``young`` also counts tasks within their minimum run time.

        With these nobody goes yet, and any set of victims will do.
        """
        self._board = board
        self._asker = replace(asker, ends=board.ends_after_grace(asker.ends)) if board.plans else asker
        self._case = asker.case
        self._option = option
        self._queue = queue
        self._base = base
        self._user = user
        self._young = young

    def from_surplus(self) -> Recall | None:
        """Return what an admission takes back of the surplus of elastic jobs; None where that is not enough."""
        trial = self._begin()
        return self._recall(trial, []) if trial.surplus and trial.succeeds() else None

    def within_team(self) -> Recall | None:
        """Return the claim of a job that is not inside: own victims of lower priority, others' only beside these."""
        return self._find(only_own=True) if self._queue.preempt_within_team else None

    def guaranteed(self) -> Recall | None:
        """Return the claim of a job inside its guarantee, reservations of lower standing taken over first."""
        board = self._board
        found = self._find(only_own=False)
        if found is not None and not found.victims:
            return found
        released = [claim for claim in sorted(board.claims.values(), key=lambda row: -row.id) if self._may_take(claim)]
        if not released:
            return found
        for claim in released:
            board.release(claim)
        after = self._find(only_own=False)
        kept: list[Claim] = []
        for claim in reversed(released):
            board.reserve(claim)
            again = self._find(only_own=False) if after is not None else None
            if again is not None and _as_good(again, after):
                kept.append(claim)
            else:
                board.release(claim)
        over = tuple(claim for claim in released if claim not in kept)
        final = self._find(only_own=False) if after is not None else None
        for claim in reversed(over):
            board.reserve(claim)
        if final is None or (found is not None and len(found.victims) <= len(final.victims)):
            return found
        return replace(final, taken_over=over)

    def _may_take(self, claim: Claim) -> bool:
        """Whether a reservation stands below this claim."""
        board = self._board
        if claim.job == self._asker.job:
            return False
        if claim.standing is Standing.BORROWER:
            return True
        other = board.option_of(claim)
        case = board.case(board.classes[claim.job_class])
        board.release(claim)
        theirs = board.inside_at(case, other)
        board.reserve(claim)
        mine = board.inside_at(self._case, self._option)
        return theirs is not None and mine is not None and theirs != mine and theirs in board.tree.path[mine]

    def _begin(self) -> Trial:
        return Trial(self._board, self._asker, self._option, queue=self._queue, user=self._user)

    def _find(self, *, only_own: bool) -> Recall | None:
        trial = self._begin()
        if trial.succeeds():
            return self._recall(trial, [])
        base = self._base if self._queue.preempt_within_team else None
        victims = Victims(trial, base=base, young=self._young, only_own=only_own)
        if not any(True for _ in victims.attempts()):
            return None
        victims.lacking = trial.lacking()
        chosen, exact = Choice(trial, victims, any_set=self._young).best()
        if chosen is None:
            return None
        trial.put(chosen)
        return self._recall(trial, chosen, exact=exact)

    def _recall(self, trial: Trial, chosen: list[Candidate], *, exact: bool = True) -> Recall:
        board, option = self._board, self._option
        surplus = trial.fewest_surplus(chosen)
        placed = witness(board.view(self._asker, option), option, board.mix(option.patterns[0].flavor))
        placed = placed or trial.witness()
        if placed is None:
            raise AssertionError("a claim that succeeds has a witness")
        by_attempt: dict[int, list[Placed]] = {}
        for attempt in {row.attempt.id: row.attempt for row in chosen if row.attempt.surplus}.values():
            by_attempt[attempt.id] = list(attempt.surplus)
        for attempt, row in surplus:
            by_attempt.setdefault(attempt.id, []).append(row)
        victims = [
            Victim(attempt=number, placed=tuple(rows), surplus=True) for number, rows in sorted(by_attempt.items())
        ]
        victims += [
            Victim(attempt=row.attempt.id, placed=row.rows)
            for row in sorted(chosen, key=lambda row: (-row.attempt.number, -row.attempt.id))
        ]
        rule = "within team" if chosen and all(row.own for row in chosen) else "guarantee"
        return Recall(tuple(victims), placed, (), rule, exact, trial.inside())


def _as_good(one: Recall, other: Recall | None) -> bool:
    return other is not None and len(one.victims) <= len(other.victims)
