"""Bounded wait: planned starts, and whose hold comes first (SEMANTICS 7)."""

from collections import deque
from collections.abc import Iterator

from queues.admission.board import Board
from queues.admission.futures import Future, standing_of
from queues.admission.holders import Holder, Holders, as_hold, as_waiting, holder_of, tired
from queues.admission.holdorder import HoldOrder
from queues.admission.named import NamedSets
from queues.admission.order import effective_priority
from queues.admission.outlooks import Outlooks, binds, within_limit
from queues.admission.plans import Plan
from queues.admission.quota import units_of
from queues.admission.record import Record
from queues.admission.search import Search, planned
from queues.admission.shapes import Option, Pattern
from queues.admission.short import Short
from queues.admission.topology import lies
from queues.admission.world import Hold, JobClass, Milliseconds, Placed, Standing, Waiting


class Planner:
    """Plans starts on the board as it is now."""

    def __init__(self, board: Board, record: Record) -> None:
        """Nothing is planned yet."""
        self._board = board
        self._record = record
        self.sets = NamedSets(board)
        self._outlooks = Outlooks(board)
        self._most: dict[int, int] = {}
        self._takers: dict[tuple[Pattern, ...], set[int]] = {}
        self._order = HoldOrder(board)

    def _search(
        self, holder: Holder, option: Option, avoid: frozenset[int] = frozenset(), *, alone: bool = False
    ) -> Search:
        return Search(self._board, self._outlooks, holder, option, avoid, alone=alone)

    @property
    def _last(self) -> Future:
        return self._outlooks.futures.last

    def _endless(self, holder: Holder, option: Option, placed: tuple[Placed, ...]) -> Plan | None:
        """Return a hold without a time on a named set, where limits let the job start once others are gone."""
        board = self._board
        case, last, search = holder.asker.case, self._last, self._search(holder, option)
        own = self._waited_for(holder, option, placed)
        rests_on, node = standing_of(board.tree, self._outlooks.futures.without_surplus, case.place, option.needs, own)
        if not search.user_has_room(last, None):
            return None
        lines = {flavor: last.lines[flavor].copy() for flavor, _ in option.needs}
        for flavor, line in lines.items():
            line.take(case.place, last.ended.get((case.place, flavor), 0) - own.get((case.place, flavor), 0))
        whom = self._outlooks.book.whom(rests_on, case.place, holder.asker.priority)
        for plan in board.plans:
            if binds(plan, whom) and plan.endless():
                plan.change_in(lines, 1)
        if not all(
            within_limit(lines[flavor], case.place, units, lent=search.may_borrow) for flavor, units in option.needs
        ):
            return None
        if case.shape.firm and not all(last.lines[flavor].covers(case.place, units) for flavor, units in option.needs):
            return None
        if rests_on is Standing.BORROWER and not (search.may_borrow and board.entitled(case, option)):
            return None
        if tired(board, holder.job, option):
            self._record.tired[holder.job.id] = (holder.job_class, option)
            return None
        return planned(board, holder, option, placed, None, rests_on, node)

    def _waited_for(self, holder: Holder, option: Option, placed: tuple[Placed, ...]) -> dict[tuple[int, int], int]:
        """Return the units of the team's own attempts that a named set waits for.

        They end in time, or lie on nodes of the set on which room lacks.
        """
        place = holder.asker.case.place
        own = dict(self._last.ended)
        nodes = self.sets.lacking(option, placed)
        for attempt in self._board.running.values():
            if self._board.tree.number[attempt.team] != place or attempt.ends_by is not None:
                continue
            if any(row.node in nodes for row in attempt.placed):
                for flavor, units in units_of(attempt, attempt.placed).items():
                    own[place, flavor] = own.get((place, flavor), 0) + units
        return own

    def renew(self) -> None:
        """Plan the holds of the world again, in their order; a better plan replaces an old one."""
        board = self._board
        self._outlooks = Outlooks(board)
        given_way: list[Hold] = []
        for hold in board.world.holds:
            job_class = board.classes.get(hold.job_class)
            if job_class is None or board.spoken_for.get(hold.job):
                continue
            if board.paused(board.queues[job_class.queue]) is not None:
                continue
            given_way += self._replan_again(hold)
        self._replan_all(given_way)
        board.forget_views()

    def _replan_again(self, hold: Hold) -> list[Hold]:
        """Plan a hold again that is there; on its own flavor it may stay, however many there are."""
        holder = self._holder(hold)
        options, free = holder.asker.case.shape.options, self._open(holder)
        return self._replan(hold, holder, tuple(row for row in options if row.flavors == hold.flavors or row in free))

    def _holder(self, hold: Hold) -> Holder:
        return holder_of(self._board, self._board.classes[hold.job_class], as_waiting(hold))

    def _replan(self, hold: Hold, holder: Holder, options: tuple[Option, ...]) -> list[Hold]:
        """Plan a hold again, the only one of its job; return the holds that gave way to it."""
        known = self._outlooks.book.of(hold.job)
        if known is not None:
            self._drop(known)
        plan = self._renewed(hold, holder, options)
        return [] if plan is None else self._put(plan)

    def _replan_all(self, holds: list[Hold]) -> None:
        """Plan the holds again that gave way, and those that give way to them, each once and while there is room."""
        left, seen = deque(holds), set[int]()
        while left:
            hold = left.popleft()
            if hold.job not in seen:
                seen.add(hold.job)
                holder = self._holder(hold)
                options = self._open(holder)
                left += self._replan(hold, holder, options) if options else []

    def _put(self, plan: Plan) -> list[Hold]:
        """Add a plan; those on its nodes, or in its quota, that do not bind it give way and are returned as holds."""
        book, plans = self._outlooks.book, self._board.plans
        whom = book.whom(plan.standing, plan.case.place, plan.priority)
        out = [row for row in book.near(plan) if not binds(row, whom)]
        if book.guaranteed < len(plans) or book.outranks(plan.case.place, plan.priority):
            out += [row for row in plans if row not in out and row.robs(plan) and not binds(row, whom)]
        for row in out:
            self._drop(row)
        book.add(plan)
        self._board.plans.append(plan)
        return [as_hold(row) for row in out]

    def _drop(self, plan: Plan) -> None:
        self._outlooks.book.drop(plan)
        self._board.drop_plan(plan.job)

    def repair(self) -> bool:
        """Plan again what others with a better right have taken away in this cycle; return whether there was any."""
        board = self._board
        broken = [plan for plan in board.plans if plan.broken()]
        for plan in broken:
            board.drop_plan(plan.job)
        self._outlooks = Outlooks(board)
        given_way: list[Hold] = []
        for hold in [as_hold(plan) for plan in broken]:
            given_way += self._replan_again(hold)
        self._replan_all(given_way)
        board.forget_views()
        return bool(broken)

    def _renewed(self, hold: Hold, holder: Holder, options: tuple[Option, ...]) -> Plan | None:
        now = self._board.world.now
        option = next((row for row in options if row.flavors == hold.flavors), options[0])
        old = None
        if hold.at is not None and hold.at >= now:
            old = self._search(holder, option).again(hold.at, hold.placed)
        new = self._earliest(holder, options, frozenset(), old)
        if old is not None and new is None:
            old.moved = hold.moved
            return old
        if new is not None:
            new.moved = hold.moved if new.at == hold.at else _cause(old, new)
            return new
        if not self._never_in_time(holder, option):
            return None
        return self._renewed_endless(hold, holder, option, self._held_nodes(hold.standing, holder))

    def _renewed_endless(self, hold: Hold, holder: Holder, option: Option, avoid: frozenset[int]) -> Plan | None:
        new = self.sets.nearest(option, avoid, beside=False)
        stays = hold.at is None and not any(row.node in avoid for row in hold.placed)
        stays = stays and lies(self._board.ground, option, hold.placed)
        if stays and (new is None or self.sets.not_free(option, new) >= self.sets.not_free(option, hold.placed)):
            return self._endless(holder, option, hold.placed)
        return None if new is None else self._endless(holder, option, new)

    def _earliest(
        self,
        holder: Holder,
        options: tuple[Option, ...],
        avoid: frozenset[int],
        than: Plan | None = None,
        *,
        alone: bool = False,
    ) -> Plan | None:
        """Return the best plan among some listed flavors: a guaranteed one, then the earliest, ties by list order."""
        plans = [self._search(holder, option, avoid, alone=alone).best(than) for option in options]
        return min((plan for plan in plans if plan is not None), key=_goodness, default=None)

    def wants_any(self, place: int, urgency: int) -> bool:
        """Whether no hold stands before that of some job of a team, none of which is more urgent than that."""
        return not self._outlooks.book.guaranteed or self._outlooks.book.outranks(place, urgency)

    def wants(self, job_class: JobClass, job: Waiting) -> bool:
        """Whether no hold stands before a job's, as far as can be told before all others are known."""
        board, book = self._board, self._outlooks.book
        if book.of(job.id) is not None:
            return False
        priority = effective_priority(board.world.policy.aging, job_class.priority, job.wait_from, board.world.now)
        return not book.guaranteed or book.outranks(board.case(job_class).place, priority)

    def make_first(self, holders: Holders) -> None:
        """Give a hold to the first in hold order, where it will be guaranteed demand, on what was just renewed."""
        first = next(self.in_order(holders), None)
        options = () if first is None else self._open(first)
        plan = None
        if first is not None and options and self.guaranteed(first):
            plan = self._new(first, options, frozenset())
        if plan is not None:
            self._add(plan)
            self._board.forget_views()

    def make(self, holders: Holders) -> None:
        """Give holds in hold order to jobs that have waited long enough, never more on a flavor than it has nodes.

        Those with different planned starts are on disjoint nodes; those with the same one may share.
        """
        board = self._board
        self._outlooks = Outlooks(board)
        flavors = holders.flavors
        if self._full(flavors, guaranteed=True):
            book = self._outlooks.book
            urgent = [place for place, priority in holders.urgency.items() if book.outranks(place, priority)]
            holders = holders.only(urgent, self._outranks)
            if not holders.urgency:
                return
        blocked: set[int] = set()
        short = Short(board.tree, self._last, self.guaranteed)
        failed: dict[object, set[object]] = {}
        for holder in self.in_order(holders):
            case = holder.asker.case
            options = self._open(holder)
            if not options and self._full(flavors, guaranteed=self.guaranteed(holder)):
                break
            if not options:
                continue
            if self._outlooks.book.of(holder.job.id) is not None:
                continue
            if case in failed and self._own_state(holder) in failed[case]:
                continue
            if all(self._all_blocked(option, blocked) for option in options):
                continue
            plan = self._new(holder, options, frozenset(blocked))
            if plan is not None and not short.taken_by(plan):
                self._add(plan)
                continue
            failed.setdefault(case, set()).add(self._own_state(holder))
            if plan is not None:
                continue
            if board.plans and self._lacks_nodes(holder, options):
                for option in options:
                    blocked.update(self._usable(option))
                if len(blocked) == len(board.ground.where):
                    break  # on no node anybody later could get a hold
            elif board.plans and self._lacks_quota(holder, options):
                short.note(holder)
        board.forget_views()

    def _own_state(self, holder: Holder) -> object:
        """Return by what jobs of one case differ here: their user's room, whether they may borrow, are tired."""
        now_at = self._board.world.now
        now = self._outlooks.futures.at(now_at)
        searches = [self._search(holder, option) for option in holder.asker.case.shape.options]
        rooms_of_user = tuple((row.user_has_room(now, now_at), row.user_has_room(self._last, None)) for row in searches)
        worn = tuple(tired(self._board, holder.job, option) for option in holder.asker.case.shape.options)
        return rooms_of_user, searches[0].may_borrow, worn

    def _add(self, plan: Plan) -> None:
        """Add a plan; those that give way are planned again, and the last of them goes where there are too many."""
        self._replan_all(self._put(plan))
        board, book = self._board, self._outlooks.book
        whom = book.whom(plan.standing, plan.case.place, plan.priority)
        for flavor in sorted(set(plan.option.flavors)):
            if book.on_flavor(flavor, guaranteed=False) > self._nodes_of(flavor):
                rows = [row for row in board.plans if flavor in row.option.flavors and not binds(row, whom)]
                for row in rows[-1:]:
                    self._drop(row)

    def _outranks(self, holder: Holder) -> bool:
        """Whether a hold of a less urgent job of its own team gives way to a job's, which is guaranteed demand."""
        if not self._outlooks.book.outranks(holder.asker.case.place, holder.asker.priority):
            return False
        return self.guaranteed(holder)

    def _open(self, holder: Holder) -> tuple[Option, ...]:
        """Return on what there may be one more hold: a job's, in place of a borrower's if it is guaranteed demand."""
        options = holder.asker.case.shape.options
        free = tuple(row for row in options if not self._any_full(row, guaranteed=False))
        if len(free) == len(options) or self._outranks(holder):
            return options
        if not self.guaranteed(holder):
            return free
        return tuple(row for row in options if not self._any_full(row, guaranteed=True))

    def _any_full(self, option: Option, *, guaranteed: bool) -> bool:
        return any(self._full({flavor}, guaranteed=guaranteed) for flavor in option.flavors)

    def _full(self, flavors: set[int], *, guaranteed: bool) -> bool:
        """Whether all the holds that there may be on all of these flavors are there, of guaranteed demand or any."""
        book = self._outlooks.book
        return all(book.on_flavor(flavor, guaranteed=guaranteed) >= self._nodes_of(flavor) for flavor in flavors)

    def _nodes_of(self, flavor: int) -> int:
        """Return how many usable nodes a flavor has."""
        if flavor not in self._most:
            self._most[flavor] = sum(len(nodes) for _, nodes in self._board.ground.usable(flavor))
        return self._most[flavor]

    def _held_nodes(self, standing: Standing, holder: Holder) -> frozenset[int]:
        """Return the nodes of the holds that bind a job of this standing."""
        whom = self._outlooks.book.whom(standing, holder.asker.case.place, holder.asker.priority)
        return frozenset(node for plan in self._board.plans if binds(plan, whom) for node in plan.needs)

    def _new(
        self, holder: Holder, options: tuple[Option, ...], avoid: frozenset[int], *, alone: bool = False
    ) -> Plan | None:
        plan = self._earliest(holder, options, avoid, alone=alone)
        if plan is not None:
            return plan
        for option in options:
            if self._never_in_time(holder, option):
                standing = Standing.GUARANTEED if self.guaranteed(holder) else Standing.BORROWER
                elsewhere = avoid if alone else avoid | self._held_nodes(standing, holder)
                placed = self.sets.nearest(option, elsewhere, beside=False)
                if placed is not None:
                    endless = self._endless(holder, option, placed)
                    if endless is not None:
                        return endless
        return None

    def _lacks_nodes(self, holder: Holder, options: tuple[Option, ...]) -> bool:
        """Whether a job has no plan only because other holds occupy its nodes, and not the quota of their team."""
        if self._new(holder, options, frozenset(), alone=True) is not None:
            return True
        return any(
            not self._never_in_time(holder, option) and not self._search(holder, option).possible()
            for option in options
        )

    def _lacks_quota(self, holder: Holder, options: tuple[Option, ...]) -> bool:
        """Whether a job has no plan only because other planned starts will use the quota that it needs."""
        return any(
            self._search(holder, option).lacks_quota() and not self._never_in_time(holder, option) for option in options
        )

    def _never_in_time(self, holder: Holder, option: Option) -> bool:
        """Whether no start can be planned even when all holds have run: what blocks it has no end."""
        return not self._search(holder, option, alone=True).possible()

    def _usable(self, option: Option) -> set[int]:
        """Return the nodes that take a task of the option when nothing of ours is on them."""
        known = self._takers.get(option.patterns)
        if known is None:
            ground = self.sets.emptied(())
            known = self._takers[option.patterns] = {
                node
                for pattern in option.patterns
                for kind, nodes in ground.usable(pattern.flavor)
                if kind.tasks(pattern)
                for node in nodes
            }
        return known

    def _all_blocked(self, option: Option, blocked: set[int]) -> bool:
        return bool(blocked) and self._usable(option) <= blocked

    def in_order(self, holders: Holders) -> Iterator[Holder]:
        """Yield guaranteed demand first; siblings by what they borrowed as the cycle began; then the longest wait."""
        return self._order.of(holders, self.guaranteed)

    def guaranteed(self, holder: Holder) -> bool:
        """Whether a job will be inside a guarantee once its own team's attempts have ended."""
        case, last = holder.asker.case, self._last
        return any(last.standing(case.place, option.needs)[0] is Standing.GUARANTEED for option in case.shape.options)


def _goodness(plan: Plan) -> tuple[int, Milliseconds]:
    """Return a key by which better plans with a time come first."""
    return plan.rank, plan.at or 0


def _cause(old: Plan | None, new: Plan) -> str:
    """Return why a planned start moved, where the old one is still possible if there is one."""
    if old is None:
        return "impossible"
    return "earlier" if _goodness(new)[1] < _goodness(old)[1] else "guaranteed"
