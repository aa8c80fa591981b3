"""Carries claims out: who is evicted when, what is reserved, and when a reservation starts (SEMANTICS 8, Memory)."""

from dataclasses import replace

from queues.admission.board import Board
from queues.admission.exchange import Exchange
from queues.admission.handover import Handover
from queues.admission.outcome import Eviction, Takeover
from queues.admission.plans import Asker, Case
from queues.admission.reclaim import Recall
from queues.admission.record import Record, Start
from queues.admission.shapes import Option
from queues.admission.topology import lies
from queues.admission.world import Claim, JobClass, NodeState, Placed, Standing, Victim


class Claims:
    """The reservations of a cycle."""

    def __init__(self, board: Board, record: Record) -> None:
        """Begin with those of the world."""
        self._board = board
        self._record = record
        self._away: set[int] | None = None
        self._last = max((claim.id for claim in board.world.claims), default=0)

    def begin_pending(self) -> None:
        """Let victims go whose turn has come, in the order of their claims; who may not start claims nothing."""
        for claim in sorted(self._board.claims.values(), key=lambda row: -row.id):  # the newest is given up first
            if not self._may_start(claim):
                self._board.release(claim)
        for claim in sorted(self._board.claims.values(), key=lambda row: row.id):
            if len(self._there(claim)) < len(claim.placed):
                continue
            due, rest = self._turn(claim.pending)
            if due or len(rest) < len(claim.pending):
                self._board.release(claim)
                for victim in due:
                    self._go(victim, claim.id, claim.job, "guarantee", exact=True)
                self._board.reserve(replace(claim, pending=rest))

    def _may_start(self, claim: Claim) -> bool:
        """Whether neither a pause nor a limit of its user, lowered since, stands against a claim."""
        board = self._board
        queue = board.queues[board.classes[claim.job_class].queue]
        room = board.user_room(queue, claim.user)
        return board.paused(queue) is None and (room is None or room >= 0)

    def _turn(self, victims: tuple[Victim, ...]) -> tuple[list[Victim], tuple[Victim, ...]]:
        """Split victims into those that may go now and those beyond the evictions of this minute."""
        policy, world = self._board.world.policy, self._board.world
        there = [victim for victim in victims if victim.attempt in self._board.running]
        left = len(there)
        if policy.evictions_per_minute is not None:
            begun = sum(not row.surplus for row in self._record.evictions)
            left = max(0, policy.evictions_per_minute - len(world.evicted_at) - begun)
        due, rest = [], []
        for victim in there:
            if victim.surplus or left > 0:
                due.append(victim)
                left -= not victim.surplus
            else:
                rest.append(victim)
        return due, tuple(rest)

    def _go(self, victim: Victim, claim: int, job: int, rule: str, *, exact: bool) -> None:
        attempt = self._board.running[victim.attempt]
        self._board.evict(attempt, victim.placed, soft=victim.surplus)
        self._record.evictions.append(
            Eviction(
                attempt=victim.attempt,
                placed=victim.placed,
                claim=claim,
                job=job,
                surplus=victim.surplus,
                rule=rule,
                exact=exact,
            )
        )

    def start(self, standing: Standing) -> None:
        """Start the reservations of a standing whose units are all free; end those without a right or a hope."""
        handover = Handover(self._board, self._of(Standing.GUARANTEED) if standing is Standing.BORROWER else ())
        for claim in self._of(standing):
            self._start(claim, handover)
            if claim.id in self._board.claims:
                handover.wait(claim)

    def start_inside(self, standing: Standing) -> None:
        """Start claimants on other units, free for all, inside their guarantee; planned starts and keeps bind them."""
        for claim in self._of(standing):
            board, job_class = self._board, self._board.classes[claim.job_class]
            case = board.case(job_class)
            board.step_aside(claim)
            inside = [option for option in case.shape.options if board.inside(case, option)]
            if not self._admit_elsewhere(claim, self._asker(claim), inside):
                board.reserve(claim)

    def _of(self, standing: Standing) -> list[Claim]:
        claims = sorted(self._board.claims.values(), key=lambda row: row.id)
        return [claim for claim in claims if claim.standing is standing]

    def _asker(self, claim: Claim) -> Asker:
        board = self._board
        job_class = board.classes[claim.job_class]
        ends = None if claim.length is None else board.world.now + claim.length
        return Asker(board.case(job_class), claim.job, job_class.priority, ends)

    def _start(self, claim: Claim, handover: Handover) -> None:
        board = self._board
        option = board.option_of(claim)
        job_class = board.classes[claim.job_class]
        case = board.case(job_class)
        board.release(claim)
        there = self._there(claim)
        if not lies(board.ground, option, there) or not self._has_right(case, option):
            return
        away = len(there) < len(claim.placed)
        if not away and board.quota(case, option) and handover.free(option, claim.placed):
            self._admit(self._asker(claim), option, claim, job_class)
        elif claim.pending or handover.comes(option, there):
            board.reserve(claim)
            if away:
                self._record.away.append(claim)

    def _there(self, claim: Claim) -> tuple[Placed, ...]:
        """Return what of a claim does not lie on nodes that may come back: lost or cordoned ones."""
        where = self._board.ground.where
        if all(row.node in where for row in claim.placed):
            return claim.placed
        if self._away is None:
            self._away = {node.id for node in self._board.world.nodes if node.state is not NodeState.READY}
        return tuple(row for row in claim.placed if row.node not in self._away)

    def _has_right(self, case: Case, option: Option) -> bool:
        """Whether a claimant is still entitled to its claim, what leaves already left out as when it claimed."""
        board = self._board
        if board.entitled(case, option):
            return True
        for attempt in board.leaving:
            board.use_attempt(attempt, attempt.placed, -1)
        found = board.entitled(case, option)
        for attempt in board.leaving:
            board.use_attempt(attempt, attempt.placed, 1)
        return found

    def start_elsewhere(self, claim: Claim, asker: Asker, options: list[Option]) -> None:
        """Start a claimant on the first of other listed flavors that is free for it; its claim is then withdrawn."""
        self._board.step_aside(claim)
        if not self._admit_elsewhere(claim, asker, options):
            self._board.reserve(claim)

    def _admit_elsewhere(self, claim: Claim, asker: Asker, options: list[Option]) -> bool:
        board = self._board
        option = next((row for row in options if board.admissible(asker, row)), None)
        if option is None:
            return False
        elsewhere = replace(claim, placed=board.place(asker, option), flavors=option.flavors)
        self._admit(asker, option, elsewhere, board.classes[claim.job_class])
        board.gone_elsewhere(claim)
        return True

    def _admit(self, asker: Asker, option: Option, claim: Claim, job_class: JobClass) -> None:
        board = self._board
        borrowed = not board.inside(asker.case, option)
        board.admit(asker, option, claim.placed, job_class.queue, claim.user)
        board.spoken_for[claim.job] = board.spoken_for.get(claim.job, 0) + 1
        self._record.starts.append(Start(claim.job, claim.job_class, option, claim.placed, borrowed))

    def execute(
        self, asker: Asker, option: Option, recall: Recall, job_class: JobClass, user: int, standing: Standing
    ) -> None:
        """Evict, reserve, and start at once where nobody needs time to leave."""
        board, version = self._board, self._record.version
        self._record.claims += 1
        exchange = None if recall.taken_over else Exchange(board)
        job = asker.job if asker.job is not None else 0
        for claim in recall.taken_over:
            board.release(claim)
            units = board.option_of(claim).units
            self._record.takeovers.append(Takeover(claim=claim.id, job=claim.job, by=job, units=units))
        board.drop_plan(asker.job)
        self._last += 1
        due, rest = self._turn(recall.victims)
        attempts = {victim.attempt: board.running[victim.attempt] for victim in recall.victims}
        for victim in due:
            self._go(victim, self._last, job, recall.rule, exact=recall.exact)
        claim = Claim(
            id=self._last,
            job=job,
            job_class=job_class.id,
            team=board.tree.ids[asker.case.place],
            user=user,
            flavors=option.flavors,
            placed=recall.placed,
            standing=standing,
            pending=rest,
            length=None if asker.ends is None else asker.ends - board.world.now,
        )
        earlier = [*self._of(Standing.GUARANTEED), *self._of(Standing.BORROWER)]
        if not rest and board.quota(asker.case, option) and Handover(board, earlier).free(option, recall.placed):
            self._admit(asker, option, claim, job_class)
        else:
            board.reserve(claim)
        if exchange is not None:
            teams = (attempts[victim.attempt].team for victim in recall.victims)
            places = {asker.case.place, *(board.tree.number[team] for team in teams)}
            top = exchange.within(places)
            if top is not None:
                self._record.stayed_within(top, version)
            exchange.close(places)
