"""Claims on lost or cordoned nodes: made anew where that succeeds, else they wait for their nodes (SEMANTICS 8)."""

from collections.abc import Callable

from queues.admission.board import Board
from queues.admission.claims import Claims
from queues.admission.holders import tired
from queues.admission.order import asker_of
from queues.admission.plans import Asker, Case
from queues.admission.reclaim import Claimant, Recall
from queues.admission.record import Record
from queues.admission.roster import Roster
from queues.admission.shapes import Option
from queues.admission.world import Claim, JobClass, Standing, Waiting

MayBorrow = Callable[[JobClass, Case, Option, Waiting], bool]
Execute = Callable[[Asker, Option, Recall, JobClass, int, Standing], None]


class Away:
    """The claims of a cycle that stand though a node of theirs may take no work now."""

    def __init__(
        self, board: Board, record: Record, claims: Claims, roster: Roster, may_borrow: MayBorrow, execute: Execute
    ) -> None:
        """Take what carries claims out, and says who may borrow where."""
        self._board = board
        self._record = record
        self._claims = claims
        self._roster = roster
        self._may_borrow = may_borrow
        self._execute = execute

    def claim_anew(self, standing: Standing) -> None:
        """Let claimants take other units where they find them; who has kept idle what it may waits no longer."""
        board = self._board
        for claim in [row for row in self._record.away if row.standing is standing]:
            job_class = board.classes[claim.job_class]
            job = self._roster.waiting(job_class, claim.user, claim.job) if claim.id in board.claims else None
            if job is None:
                continue
            asker = asker_of(board.world, board.case(job_class), job_class, job)
            board.release(claim)
            found = self._found(claim, asker, job_class, job)
            if found is not None:
                self._execute(asker, found[0], found[1], job_class, claim.user, standing)
            elif not tired(board, job, board.option_of(claim)):
                board.reserve(claim)
            else:
                self._record.claims += 1

    def _found(self, claim: Claim, asker: Asker, job_class: JobClass, job: Waiting) -> tuple[Option, Recall] | None:
        """Return on what a claim would succeed now, as its claimant found it first."""
        board, case = self._board, asker.case
        queue = board.queues[job_class.queue]
        for option in case.shape.options:
            claimant = Claimant(board, asker, option, queue, job_class.priority, user=claim.user, young=False)
            recall = None
            if claim.standing is Standing.BORROWER:
                if self._may_borrow(job_class, case, option, job):
                    recall = self._free(asker, option) or claimant.from_surplus() or claimant.within_team()
            elif board.inside(case, option) and board.covered(case, option) and board.entitled(case, option):
                recall = claimant.guaranteed()
            if recall is not None:
                return option, recall
        return None

    def _free(self, asker: Asker, option: Option) -> Recall | None:
        """Return a claim on units that are free for all, from nobody."""
        board = self._board
        return Recall((), board.place(asker, option)) if board.admissible(asker, option) else None
