"""The passes of a cycle: guaranteed demand first, then borrowers, then holds and surplus (SEMANTICS 4)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from queues.admission.away import Away
from queues.admission.board import Board
from queues.admission.claims import Claims
from queues.admission.holders import Holder, Holders, backs_off, holder_of, holders_by_team
from queues.admission.holds import Planner
from queues.admission.keeps import Keeps
from queues.admission.lanes import Candidate
from queues.admission.lineup import Lineup
from queues.admission.order import Stream, asker_of
from queues.admission.plans import Asker, Case
from queues.admission.reclaim import Claimant, Recall
from queues.admission.record import Record, Start
from queues.admission.roster import Roster
from queues.admission.shapes import Option
from queues.admission.surplus import Surplus
from queues.admission.tournament import Tournament
from queues.admission.world import Heads, JobClass, Standing, Waiting


@dataclass(frozen=True, slots=True)
class Sent:
    """A job that goes to the head of the second pass; until then it counts as usage of its guaranteed flavors."""

    stream: Stream
    job: Waiting
    asker: Asker
    instead: Option


@dataclass(slots=True)
class _Choice:
    """What a stream's head would take: whether it could start there (else claim), and at which state that was asked."""

    option: Option | None
    ready: bool
    inside: bool
    version: int = -1
    turn: tuple[int, int] = (-1, -1)


Found = tuple[Option | None, bool]
"""What a stream's head would take, and whether it could start there at once."""

Find = Callable[[Stream], Found]
NOTHING: Found = (None, False)


class Passes:
    """Runs the passes over the classes that may take turns."""

    def __init__(self, board: Board, heads: Heads, lineup: Lineup) -> None:
        """Prepare; no waiting job is read before its class is known to fit."""
        self._board = board
        self._roster = Roster(board, heads, lineup)
        self._unfinished = {claim.job_class for claim in board.world.claims}
        self._failed: set[tuple[Case, int, int]] = set()
        self._keepless: set[int] = set()
        self._gave = False
        self._came_back: list[tuple[JobClass, Waiting]] = []
        self._chosen: dict[tuple[int, int], _Choice] = {}
        self._within: dict[int | None, tuple[object, Recall | None]] = {}
        self._full: dict[Case, tuple[int, int]] = {}
        self._preempting = {
            board.tree.number[queue.team] for queue in board.queues.values() if queue.preempt_within_team
        }
        self.record = Record()
        self._claims = Claims(board, self.record)
        self._planner = Planner(board, self.record)
        self._keeps = Keeps(board, self.record, self._planner.sets)
        self._away = Away(board, self.record, self._claims, self._roster, self._may_borrow, self._execute)
        self._tournament = Tournament(board, {}, self._inside_option, guaranteed=True)

    def run(self) -> None:
        """Make the passes."""
        self._claims.begin_pending()
        self._claims.start(Standing.GUARANTEED)
        self._planner.renew()
        self._plan_first()
        self._claims.start_inside(Standing.GUARANTEED)
        self._away.claim_anew(Standing.GUARANTEED)
        sent = self._guaranteed()
        self._claims.start(Standing.BORROWER)
        self._claims.start_inside(Standing.BORROWER)
        self._away.claim_anew(Standing.BORROWER)
        self._claimants_elsewhere()
        for row in sent:
            self._start_elsewhere(row)
        self._borrowers()
        given_up = self._keeps.give_up()
        replanned = self._planner.repair()
        if replanned or given_up or self._gave:
            self._kept_again()
        if replanned or given_up:
            self._chosen.clear()
            self._borrowers()
        self._wait_on()
        self._start_planned()
        Surplus(self._board, self.record).grow()

    def waits(self, job_class: JobClass) -> bool:
        """Whether jobs of the class are left; a class of which no job was read has some."""
        return job_class.id in self._unfinished or self._roster.is_left(job_class)

    # --- the first pass

    def _guaranteed(self) -> list[Sent]:
        board = self._board
        sent: list[Sent] = []
        able = self._roster.able(self._inside_room, self._may_be_inside, set())
        tournament = self._tournament = Tournament(
            board, able, self._inside_option, guaranteed=True, over=self._is_outside
        )
        while candidate := tournament.winner():
            stream, option = candidate.stream, candidate.option
            if self._may_start(stream, option):
                self._start(stream, option)
            elif (recall := self._from_surplus(stream, option)) is not None:
                self._claim(stream, option, recall, Standing.GUARANTEED)
            elif self._may_send(candidate):
                sent.append(self._send(candidate))
            elif not self._claim_or_keep(stream):
                tournament.drop(stream.case)
            tournament.touch(candidate.place)
        self._roster.go_back()
        for row in sent:
            board.promise(row.stream.case, row.instead.needs, -1)
        for kept in self.record.kept:
            self._keeps.lower(kept)
        return sent

    def _inside_room(self, place: int, flavor: int) -> int:
        return max(0, self._board.hard[flavor].promised_room(place))

    def _borrowed_room(self, place: int, flavor: int) -> int:
        return self._board.lines[flavor].available(place)

    def _may_be_inside(self, case: Case) -> bool:
        """Whether jobs of the case can be candidates of the first pass."""
        board = self._board
        return any(board.inside(case, option) and board.covered(case, option) for option in case.shape.options)

    def _is_outside(self, stream: Stream) -> bool:
        """Whether a stream's jobs cannot be inside a guarantee any more."""
        return stream.head is None or not self._may_be_inside(stream.case)

    def _inside_option(self, stream: Stream) -> Option | None:
        """Return the first option that is inside and admissible, else the first inside.

        Behind a job that found no set to keep only those of its line have a turn whom planned starts may bind less.
        """
        while (head := stream.head) is not None:
            if head.id not in self._keepless:
                return self._remembered(stream, 1, self._find_inside)
            if not stream.pass_over():
                break
        return None

    def _find_inside(self, stream: Stream) -> Found:
        board, case = self._board, stream.case
        inside = [row for row in case.shape.options if board.inside(case, row) and board.covered(case, row)]
        if not inside:
            return NOTHING
        asker = stream.asker()
        for option in inside:
            if board.admissible(asker, option):
                return option, True
        for option in inside:
            if self._from_surplus(stream, option) is not None:
                return option, False
        return inside[0], False

    def _remembered(self, stream: Stream, number: int, find: Find) -> Option | None:
        """Ask again only where steps since may have changed the answer: others' starts leave an answer without room."""
        if stream.head is None:
            return None
        board, place = self._board, stream.case.place
        key, turn = (stream.head.id, number), board.turn_of(place)
        version = self.record.version_of(board.tree.path[place][-1])
        known = self._chosen.get(key)
        if known is None or not (known.version == version or (known.turn == turn and self._stands(stream, known))):
            known = self._chosen[key] = _Choice(*find(stream), inside=number == 1)
            turn = board.turn_of(place)
        known.version, known.turn = version, turn
        return known.option

    def _stands(self, stream: Stream, known: "_Choice") -> bool:
        """Whether an answer holds after steps that only took room."""
        option, case = known.option, stream.case
        if self._any_surplus() or (stream.queue.preempt_within_team and not (known.ready or known.inside)):
            return False
        if option is None:
            return True
        if known.inside and not (self._board.inside(case, option) and self._board.covered(case, option)):
            return False
        return not known.ready or self._board.admissible(stream.asker(), option)

    def _claim_or_keep(self, stream: Stream) -> bool:
        """Claim on the first inside option where that succeeds, else keep; whether others of the case have a turn."""
        board, case = self._board, stream.case
        inside = [row for row in case.shape.options if board.inside(case, row) and board.covered(case, row)]
        for option in inside:
            recall = self._recall_for(stream, option)
            if recall is not None:
                self._claim(stream, option, recall, Standing.GUARANTEED)
                return True
        entitled = [row for row in inside if board.entitled(case, row)]
        if stream.head is None or not entitled:
            return False
        head = stream.head
        for option in entitled:
            young, behind = self._waits_for_age(stream, option), self._behind_own_hold(stream, option)
            if self._keeps.keep(head, stream.job_class, option, young=young, behind=behind):
                self._unfinished.add(stream.job_class.id)
                if head.id in self.record.tired:
                    stream.skip()
                else:
                    stream.advance()
                return True
        self._keepless.add(head.id)
        return True

    def _recall_for(self, stream: Stream, option: Option) -> Recall | None:
        key = (stream.case, id(option), self.record.version)
        if key in self._failed or not self._board.entitled(stream.case, option):
            return None
        recall = self._claimant(stream, option).guaranteed()
        if recall is None:
            self._failed.add(key)
        return recall

    def _claimant(self, stream: Stream, option: Option, *, young: bool = False) -> Claimant:
        base, user = stream.job_class.priority, stream.user
        return Claimant(self._board, stream.asker(), option, stream.queue, base, user=user, young=young)

    def _waits_for_age(self, stream: Stream, option: Option) -> bool:
        """Whether only the minimum run time of others stands between the job and its claim."""
        now = self._board.world.now
        if not any(attempt.safe_until > now for attempt in self._board.running.values()):
            return False
        return self._claimant(stream, option, young=True).guaranteed() is not None

    def _behind_own_hold(self, stream: Stream, option: Option) -> bool:
        """Whether a hold of its own team stands in the job's way: until then what it kept would only idle."""
        return any(plan.case.place == stream.case.place for plan in self._board.binding(stream.asker(), option))

    def _may_send(self, candidate: Candidate) -> bool:
        """Whether another flavor could be borrowed that no more urgent job of the team could take in pass 2."""
        case = candidate.stream.case
        option = self._remembered(candidate.stream, 2, self._find_borrowed)
        if option is None or self._board.inside(case, option):
            return False
        return not self._wanted_by_more_urgent(case, option, -candidate.key[0])

    def _wanted_by_more_urgent(self, case: Case, option: Option, priority: int) -> bool:
        """Whether a job of the team with a higher effective priority could borrow a flavor of the option."""
        taken = {flavor for flavor, _ in option.needs}
        for job_class, other in self._roster.of_team(case.place):
            if self._may_be_inside(other):
                continue
            for stream in self._roster.streams(job_class, other):
                if stream.head is None or -stream.key[0] <= priority:
                    continue
                wish = self._borrowed_option(stream)
                if wish is not None and not taken.isdisjoint(flavor for flavor, _ in wish.needs):
                    return True
        return False

    def _send(self, candidate: Candidate) -> Sent:
        """Count the job as usage of its guaranteed flavor for the rest of the pass."""
        stream = candidate.stream
        if stream.head is None:
            raise AssertionError("a candidate has a job")
        row = Sent(stream=stream, job=stream.head, asker=stream.asker(), instead=candidate.option)
        self._board.promise(stream.case, candidate.option.needs, 1)
        self._chosen.clear()
        stream.advance()
        return row

    # --- the second pass

    def _claimants_elsewhere(self) -> None:
        """Start claimants whose units are not free yet where another flavor that they list could be borrowed now."""
        board = self._board
        for claim in sorted(board.claims.values(), key=lambda row: row.id):
            job_class = board.classes[claim.job_class]
            case = board.case(job_class)
            free = [row for row in case.shape.options if row.flavors != claim.flavors and board.could(case, row)]
            job = self._roster.waiting(job_class, claim.user, claim.job) if free else None
            if job is None:
                continue
            asker = asker_of(board.world, case, job_class, job)
            options = [
                row
                for row in free
                if self._may_borrow(job_class, case, row, job)
                and not self._wanted_by_more_urgent(case, row, asker.priority)
            ]
            if options:
                self._claims.start_elsewhere(claim, asker, options)

    def _start_elsewhere(self, row: Sent) -> None:
        """Start a job that was sent on where it may borrow; else claim on its guaranteed flavor, else keep."""
        board, stream = self._board, row.stream
        case = stream.case
        room = board.user_room(stream.queue, stream.user)
        options = [
            option
            for option in case.shape.options
            if (room is None or room >= option.units) and self._may_borrow(stream.job_class, case, option, row.job)
        ]
        for option in options:
            if board.admissible(row.asker, option):
                self._admit(stream.job_class, stream.user, row.asker, option)
                return
        self._unfinished.add(stream.job_class.id)
        for option in options:
            recall = self._claimant_of(row, option).from_surplus() if self._any_surplus() else None
            if recall is not None:
                standing = self._standing(stream, option)
                self._execute(row.asker, option, recall, stream.job_class, stream.user, standing)
                return
        full = room is not None and room < row.instead.units and not self._any_surplus()
        if not full and board.inside(case, row.instead):
            recall = self._claimant_of(row, row.instead).guaranteed()
            if recall is not None:
                self._execute(row.asker, row.instead, recall, stream.job_class, stream.user, Standing.GUARANTEED)
                return
            if board.entitled(case, row.instead) and self._keeps.keep(
                row.job, stream.job_class, row.instead, young=False
            ):
                self._keeps.lower(self.record.kept[-1])
        self._came_back.append((stream.job_class, row.job))

    def _claimant_of(self, row: Sent, option: Option) -> Claimant:
        stream = row.stream
        base, user = stream.job_class.priority, stream.user
        return Claimant(self._board, row.asker, option, stream.queue, base, user=user, young=False)

    def _any_surplus(self) -> bool:
        return self._board.with_surplus > 0

    def _borrowers(self) -> None:
        board = self._board
        everything = {place for place in self._preempting if board.running_in[place] > 0}
        room = None if self._any_surplus() else self._borrowed_room
        able = self._roster.able(room, self._may_borrow_at_all, everything)
        tournament = self._tournament = Tournament(
            board, able, self._borrowed_option, guaranteed=False, over=self._is_over
        )
        while candidate := tournament.winner():
            stream, option = candidate.stream, candidate.option
            if self._may_start(stream, option):
                self._start(stream, option)
            elif (recall := self._from_surplus(stream, option)) is not None:
                self._claim(stream, option, recall, self._standing(stream, option))
            elif (recall := self._within_team(stream, option)) is not None:
                self._claim(stream, option, recall, Standing.GUARANTEED if recall.inside else Standing.BORROWER)
            else:
                tournament.drop(stream.case)
            tournament.touch(candidate.place)
        self._roster.go_back()

    def _kept_again(self) -> None:
        """Let those start who had no second turn, since they kept or came back, and whom a hold no longer binds."""
        board = self._board
        for kept in list(self.record.kept):
            if self._starts_now(kept.job_class, kept.job):
                self._keeps.forget(kept)
        self._came_back = [row for row in self._came_back if not self._starts_now(*row)]
        board.forget_views()

    def _starts_now(self, job_class: JobClass, job: Waiting) -> bool:
        """Start a job, or one task of it, where it could have started at its turn were the board then as it is now."""
        board, case = self._board, self._board.case(job_class)
        room = board.user_room(board.queues[job_class.queue], job.user)
        asker = asker_of(board.world, case, job_class, job)
        for option in case.shape.options:
            may = (room is None or room >= option.units) and self._may_borrow(job_class, case, option, job)
            if may and board.admissible(asker, option):
                self._admit(job_class, job.user, asker, option)
                return True
        return False

    def _standing(self, stream: Stream, option: Option) -> Standing:
        return Standing.GUARANTEED if self._board.inside(stream.case, option) else Standing.BORROWER

    def _may_borrow_at_all(self, case: Case) -> bool:
        """Whether jobs of the case may find room now, keeps and holds aside."""
        board = self._board
        for option in case.shape.options:  # asked of every case, so that a generator would show
            if board.could(case, option):
                return True
        within = case.place in self._preempting and board.running_in[case.place] > 0
        return within or self._any_surplus()

    def _borrowed_option(self, stream: Stream) -> Option | None:
        """Return the first option that could be admitted, or claimed within the team, at this moment.

        A job that backs off lets those behind it go first, and so does one that would delay a planned start.
        """
        while (head := stream.head) is not None:
            option = self._remembered(stream, 2, self._find_borrowed)
            if option is not None:
                return option
            if head.id in self.record.backing_off:
                self._unfinished.add(stream.job_class.id)
                self._came_back.append((stream.job_class, head))  # it may hold where it will be inside
                stream.skip()
            elif not (self._would_delay(stream) and stream.pass_over()):
                return None
        return None

    def _would_delay(self, stream: Stream) -> bool:
        """Whether there is room and quota for the first job of a line, so that only keeps and holds are in its way."""
        board, case = self._board, stream.case
        return bool(board.plans) and any(
            board.could(case, option) and self._may_borrow(stream.job_class, case, option, stream.head)
            for option in case.shape.options
        )

    def _find_borrowed(self, stream: Stream) -> Found:
        board, case = self._board, stream.case
        if stream.head is not None and stream.head.evictions < board.world.policy.max_evictions and self._no_room(case):
            return NOTHING
        lent = [row for row in case.shape.options if self._may_borrow(stream.job_class, case, row, stream.head)]
        asker = stream.asker()
        for option in lent:
            if board.admissible(asker, option):
                return option, True
        for option in lent:
            if self._from_surplus(stream, option) is not None:
                return option, False
        for option in lent if stream.queue.preempt_within_team else ():
            if self._within_team(stream, option) is not None:
                return option, False
        return NOTHING

    def _within_team(self, stream: Stream, option: Option) -> Recall | None:
        """Return the claim of a job on its own team; it is not searched for again before anything has happened."""
        job = stream.asker().job
        state = (id(option), self.record.version, self._board.turn_of(stream.case.place))
        known = self._within.get(job)
        if known is None or known[0] != state:
            known = self._within[job] = (state, self._claimant(stream, option).within_team())
        return known[1]

    def _is_over(self, stream: Stream) -> bool:
        """Whether a stream has nothing to start any more; who was evicted often is asked, since it may back off."""
        head = stream.head
        if head is None:
            return True
        return head.evictions < self._board.world.policy.max_evictions and self._no_room(stream.case)

    def _no_room(self, case: Case) -> bool:
        """Whether no job of the case can find room any more in this turn of the board."""
        turn = self._board.turn_of(case.place)
        if self._full.get(case) != turn:
            if self._may_borrow_at_all(case):
                return False
            self._full[case] = turn
        return True

    def _may_borrow(self, job_class: JobClass, case: Case, option: Option, job: Waiting | None) -> bool:
        """Whether the job may start where it is not inside: it borrows, has the limit needed, does not back off."""
        board = self._board
        if board.inside(case, option):
            return True
        ask = case.shape.ask
        if not ask.borrow or job is None:
            return False
        if board.queues[job_class.queue].limit_needed_to_borrow and job.limit is None and ask.time_limit is None:
            return False
        if backs_off(board, job_class, job):
            if not any(board.inside(case, other) for other in case.shape.options):
                self.record.backing_off[job.id] = job_class
            return False
        return True

    # --- steps

    def _may_start(self, stream: Stream, option: Option) -> bool:
        """Whether the job may start now as it is; a user's limit that surplus fills lets it only claim that back."""
        board = self._board
        if not board.admissible(stream.asker(), option):
            return False
        room = board.user_room(stream.queue, stream.user) if self._any_surplus() else None
        return room is None or room >= option.units

    def _from_surplus(self, stream: Stream, option: Option) -> Recall | None:
        if not self._any_surplus():
            return None
        return self._claimant(stream, option).from_surplus()

    def _claim(self, stream: Stream, option: Option, recall: Recall, standing: Standing) -> None:
        if stream.head is None:
            return
        self._tournament.ask_all()
        self._gave = True
        asker = stream.asker()
        self._unfinished.add(stream.job_class.id)
        stream.advance()
        self._execute(asker, option, recall, stream.job_class, stream.user, standing)

    def _execute(
        self, asker: Asker, option: Option, recall: Recall, job_class: JobClass, user: int, standing: Standing
    ) -> None:
        """Let a claim take effect; whose claim is taken over holds again at once, as it did before it claimed."""
        self._claims.execute(asker, option, recall, job_class, user, standing)
        for claim in recall.taken_over:
            job_class = self._board.classes[claim.job_class]
            job = self._roster.waiting(job_class, claim.user, claim.job)
            if job is not None and not self._board.spoken_for.get(job.id) and self._waited(job_class, job):
                self._planner.make(holders_by_team([holder_of(self._board, job_class, job)]))

    def _start(self, stream: Stream, option: Option) -> None:
        if stream.head is None:
            return
        asker = stream.asker()
        if self._board.gives(asker, option):
            self._tournament.ask_all()
            self._gave = True
        stream.advance()
        self._admit(stream.job_class, stream.user, asker, option)

    def _admit(self, job_class: JobClass, user: int, asker: Asker, option: Option) -> None:
        if asker.job is None:
            raise AssertionError("who starts is a job")
        board = self._board
        borrowed = not board.inside(asker.case, option)
        placed = board.place(asker, option)
        board.admit(asker, option, placed, job_class.queue, user)
        self.record.starts.append(Start(asker.job, job_class.id, option, placed, borrowed))

    # --- holds

    def _plan_first(self) -> None:
        """Let the first in hold order hold before anybody has a turn: who starts now could be in its way for long."""
        teams, urgency = self._notable()
        wanted = {place: rows for place, rows in teams.items() if self._planner.wants_any(place, urgency[place])}
        if wanted:
            firsts = {place: self._first_of(rows) for place, rows in wanted.items()}
            self._planner.make_first(Holders(firsts, {place: urgency[place] for place in wanted}, set()))

    def _notable(self) -> tuple[dict[int, list[tuple[JobClass, Case]]], dict[int, int]]:
        """Return the classes of which some job may hold, by team, and how urgent the jobs of a team are at most."""
        teams: dict[int, list[tuple[JobClass, Case]]] = {}
        urgency: dict[int, int] = {}
        most = max(0, self._board.world.policy.aging.cap)
        for job_class, case in self._roster.notable():
            teams.setdefault(case.place, []).append((job_class, case))
            urgency[case.place] = max(job_class.priority + most, urgency.get(case.place, job_class.priority))
        return teams, urgency

    def _first_of(self, rows: list[tuple[JobClass, Case]]) -> Iterator[Holder]:
        """Yield the first jobs of some classes that may hold before others have."""
        for job_class, case in rows:
            for job in self._roster.first(job_class, case):
                if self._waited(job_class, job) and self._planner.wants(job_class, job):
                    yield holder_of(self._board, job_class, job)

    def _wait_on(self) -> None:
        """Note whose jobs are left and who backs off, and offer holds to what has waited long enough."""
        board = self._board
        self._unfinished |= self._roster.read()
        for job_class, case in self._roster.may_back_off():
            for job in self._roster.first(job_class, case):
                if backs_off(board, job_class, job) and not any(board.inside(case, row) for row in case.shape.options):
                    self.record.backing_off[job.id] = job_class
        self._planner.make(self._holders())

    def _holders(self) -> Holders:
        """Return who may hold: who keeps, came back, or is of a class and user the first that waits long enough."""
        board = self._board
        seen = {plan.job for plan in board.plans}
        first: dict[int, list[Holder]] = {}
        flavors: set[int] = set()
        teams, urgency = self._notable()
        for job_class, job in [*((kept.job_class, kept.job) for kept in self.record.kept), *self._came_back]:
            # An independent job keeps for each of its tasks, and holds for the next one.
            if job.id not in seen and self._waited(job_class, job):
                seen.add(job.id)
                holder = holder_of(board, job_class, job)
                place, priority = holder.asker.case.place, holder.asker.priority
                first.setdefault(place, []).append(holder)
                urgency[place] = max(priority, urgency.get(place, priority))
                flavors.update(holder.asker.case.shape.flavors)
        seen.update(claim.job for claim in board.claims.values())
        for row in chain.from_iterable(teams.values()):
            if not flavors.issuperset(row[1].shape.flavors) and next(self._long_of([row], seen), None) is not None:
                flavors.update(row[1].shape.flavors)
        rows = {place: chain(first.get(place, ()), self._long_of(teams.get(place, []), seen)) for place in urgency}
        return Holders(rows, urgency, flavors)

    def _long_of(self, rows: list[tuple[JobClass, Case]], seen: set[int]) -> Iterator[Holder]:
        """Yield of each of some classes and each user the first job not ``seen``, where it waits long enough."""
        board, now = self._board, self._board.world.now
        for job_class, case in rows:
            since = now - board.queues[job_class.queue].hold_after
            for job in self._roster.first_beside(job_class, case, seen, since):
                yield holder_of(board, job_class, job)

    def _start_planned(self) -> None:
        """Start what was planned for this very moment because a hold has ended in this cycle.

        Whom a keep does not let start has no time any more: nobody knows when the keep will end.
        """
        board, now = self._board, self._board.world.now
        for plan in list(board.plans):
            if plan.at is None or plan.at > now:
                continue
            limit = plan.limit if plan.limit is not None else plan.case.shape.ask.time_limit
            asker = Asker(plan.case, plan.job, plan.priority, None if limit is None else now + limit + plan.grace)
            job_class = board.classes[plan.job_class]
            room = board.user_room(board.queues[job_class.queue], plan.user)
            if board.admissible(asker, plan.option) and (room is None or room >= plan.option.units):
                self._admit(job_class, plan.user, asker, plan.option)
            elif board.kept and board.minds_keeps(asker, plan.option):
                plan.at = None

    def _waited(self, job_class: JobClass, job: Waiting) -> bool:
        return self._board.world.now - job.wait_from >= self._board.queues[job_class.queue].hold_after
