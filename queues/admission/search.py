"""The best start of one job that can be planned beside the starts planned so far (SEMANTICS 7)."""

from bisect import bisect_left
from functools import cached_property

from queues.admission.board import Board
from queues.admission.futures import Future
from queues.admission.holders import Holder, backs_off
from queues.admission.outlooks import Outlook, Outlooks, binds
from queues.admission.plans import Plan
from queues.admission.quota import ROOT
from queues.admission.rooms import minus, rooms
from queues.admission.shapes import Option
from queues.admission.topology import lies
from queues.admission.world import Milliseconds, Placed, Standing

FOREVER: Milliseconds = 1 << 60
"""Later than anything ends."""


class Search:
    """Looks for a start of a job on an option, without some nodes; ``alone``: as if nobody else held."""

    def __init__(
        self,
        board: Board,
        outlooks: Outlooks,
        holder: Holder,
        option: Option,
        avoid: frozenset[int] = frozenset(),
        *,
        alone: bool = False,
    ) -> None:
        """Nothing is tried yet; the job itself has no plan."""
        self._board = board
        self._outlooks = outlooks
        self._holder = holder
        self._place = holder.asker.case.place
        self._option = option
        self._avoid = avoid
        self._alone = alone

    def best(self, than: Plan | None = None) -> Plan | None:
        """Return the best start that can be planned (better ``than`` one that is known).

        One inside the guarantee is better than an earlier one that borrows, and the own guarantee better than a
        department's: fewer may move it. Nodes on which something ends until then come first, so that a hold leaves
        alone what is free before.
        """
        for rank in self._ranks:
            before = None if than is None or than.rank != rank else than.at
            at = self._earliest(before, rank)
            if at is not None:
                return self._at(at)
            if than is not None and than.rank == rank:
                return None
        return None

    def possible(self) -> bool:
        """Whether there is a start once all has ended that ends, what others plan to start included."""
        return self._could(FOREVER, len(self._board.tree.path[self._place]))

    def lacks_quota(self) -> bool:
        """Whether only planned starts of others stand against a start once all has ended that runs now: in quota."""
        times = self._outlooks.futures.times
        outlook = self._outlook(times[-1])
        if outlook.whom.standing is Standing.BORROWER and not self.may_borrow:
            return False
        return self.user_has_room(outlook.future, outlook.at) and not self._allowed(outlook)

    def again(self, at: Milliseconds, placed: tuple[Placed, ...]) -> Plan | None:
        """Return the start at this very time and place, if it can still be planned: labels may have changed since."""
        if not lies(self._board.ground, self._option, placed):
            return None
        outlook = self._outlook(at)
        return self._plan(outlook, placed, ending=False) if self._allowed(outlook) else None

    @cached_property
    def _ranks(self) -> range:
        """Return how far above its leaf a job may be inside at most, the best first; none is better than the last."""
        _, node = self._outlooks.futures.last.standing(self._place, self._option.needs)
        path = self._board.tree.path[self._place]
        return range(rank_of(path, node), len(path) + 1)

    def _at(self, at: Milliseconds) -> Plan | None:
        outlook = self._outlook(at)
        for ending in (True, False):
            found = outlook.view(alone=self._alone, ending=ending).witness(self._option, self._avoid)
            if found is not None:
                return self._plan(outlook, found, ending=ending)
        return None

    def _earliest(self, before: Milliseconds | None, rank: int) -> Milliseconds | None:
        times = self._outlooks.futures.times
        count = len(times) if before is None else bisect_left(times, before)
        if not count or not self._could(times[count - 1], rank):
            return self._beside_others(before, rank)
        low, high = 0, count - 1
        while low < high:
            middle = (low + high) // 2
            if self._could(times[middle], rank):
                high = middle
            else:
                low = middle + 1
        beside = self._beside_others(times[low], rank)
        return times[low] if beside is None else beside

    def _beside_others(self, before: Milliseconds | None, rank: int) -> Milliseconds | None:
        """Return the earliest planned start of somebody else, together with which the job could start as well."""
        if self._alone:
            return None
        times = self._outlooks.book.times
        count = len(times) if before is None else bisect_left(times, before)
        return next((at for at in times[:count] if self._could(at, rank)), None)

    def _could(self, at: Milliseconds, rank: int) -> bool:
        """Whether the job could start then, and be inside so far above its leaf at most."""
        _, node = self._outlooks.futures.at(at).standing(self._place, self._option.needs)
        if rank_of(self._board.tree.path[self._place], node) > rank:
            return False
        outlook = self._outlook(at)
        return self._allowed(outlook) and outlook.view(alone=self._alone, ending=False).fits(self._option, self._avoid)

    def _outlook(self, at: Milliseconds) -> Outlook:
        standing, _ = self._outlooks.futures.at(at).standing(self._place, self._option.needs)
        return self._outlooks.at(at, standing, self._place, self._holder.asker.priority)

    def _allowed(self, outlook: Outlook) -> bool:
        """Whether limits and quota will let the job start then, and leave later planned starts theirs."""
        if outlook.whom.standing is Standing.BORROWER and not self.may_borrow:
            return False
        if not self.user_has_room(outlook.future, outlook.at):
            return False
        if not outlook.allows(self._holder.asker.case, self._option, lent=self.may_borrow):
            return False
        return self._alone or self._leaves_quota(outlook)

    def _leaves_quota(self, outlook: Outlook) -> bool:
        """Whether later planned starts would still find their quota if the job started then: else it could not."""
        board, asker, at = self._board, self._holder.asker, outlook.at
        tight = self._outlooks.book.tight((*board.tree.path[self._place], ROOT), self._option.needs)
        until = None if asker.ends is None else at + asker.ends - board.world.now
        later = [
            plan
            for plan in tight
            if binds(plan, outlook.whom) and plan.at is not None and at < plan.at and plan.outlasted_by(until)
        ]
        return board.leaves_quota(asker, self._option, later)

    def user_has_room(self, future: Future, at: Milliseconds | None) -> bool:
        """Whether the user's limits will leave room then, beside planned starts of theirs that run at the same time."""
        board, user = self._board, self._holder.job.user
        queue = board.queues[self._holder.job_class.queue]
        if not board.user_limits(queue):
            return True
        back: dict[int | None, int] = {
            node: future.ended_of_user.get((node, user), 0) for node in board.tree.counting[self._place]
        }
        back[None] = back[self._place]
        for plan in board.plans:
            if plan.user == user and plan.job != self._holder.job.id and self._meets(plan, at):
                for node in board.tree.counting[plan.case.place]:
                    back[node] = back.get(node, 0) - plan.option.units
                if board.classes[plan.job_class].queue == queue.id:
                    back[None] -= plan.option.units
        room = board.user_room(queue, user, back)
        return room is None or room >= self._option.units

    def _meets(self, plan: Plan, at: Milliseconds | None) -> bool:
        """Whether the job, started then, and another as planned may both run at some time."""
        if plan.at is None or at is None:
            return True
        if plan.at <= at:
            return plan.in_use_at(at)
        ends = self._holder.asker.ends
        return plan.outlasted_by(None if ends is None else at + ends - self._board.world.now)

    @cached_property
    def may_borrow(self) -> bool:
        """Whether the job may start outside its guarantee: it wants to, has the limit needed, does not back off."""
        holder = self._holder
        queue = self._board.queues[holder.job_class.queue]
        if not holder.asker.case.shape.ask.borrow or (queue.limit_needed_to_borrow and holder.asker.ends is None):
            return False
        return not backs_off(self._board, holder.job_class, holder.job)

    def _plan(self, outlook: Outlook, placed: tuple[Placed, ...], *, ending: bool) -> Plan | None:
        """Return the plan, with what it leaves of its nodes and of quota; None: there is no room for it."""
        option, place, at = self._option, self._place, outlook.at
        where = outlook.view(alone=self._alone, ending=ending).ground(self._avoid).where
        needs = rooms(option, placed)
        standing, node = outlook.future.standing(place, option.needs)
        plan = planned(self._board, self._holder, option, placed, at, standing, node)
        for number, room in needs.items():
            kind = where.get(number)
            if kind is None:
                return None
            spare = plan.spare[number] = minus((kind.units, kind.cpu, kind.memory, kind.pods), room)
            if any(left < 0 < part for left, part in zip(spare, room, strict=True)):
                return None
        plan.lines = {flavor: outlook.lines[flavor].copy() for flavor, _ in option.needs}
        plan.change_in(plan.lines, 1)
        plan.counted = frozenset(outlook.counted)
        for number in () if self._alone else needs:
            for other in outlook.book.on.get(number, ()):
                if other.at == at and binds(other, outlook.whom):
                    plan.beside.setdefault(other.job, {})[number] = other.needs[number]
        return plan


def rank_of(path: tuple[int, ...], node: int | None) -> int:
    """Return how far above its leaf the node is within which a job is inside; None: it borrows, above all."""
    return len(path) if node is None else path.index(node)


def planned(
    board: Board,
    holder: Holder,
    option: Option,
    placed: tuple[Placed, ...],
    at: Milliseconds | None,
    standing: Standing,
    node: int | None,
) -> Plan:
    """Return a plan of which nothing is counted yet."""
    return Plan(
        job=holder.job.id,
        job_class=holder.job_class.id,
        user=holder.job.user,
        case=holder.asker.case,
        option=option,
        priority=holder.asker.priority,
        wait_from=holder.job.wait_from,
        placed=placed,
        at=at,
        standing=standing,
        node=node,
        rank=rank_of(board.tree.path[holder.asker.case.place], node),
        needs=rooms(option, placed),
        spare={},
        lines={},
        counted=frozenset(),
        beside={},
        limit=holder.job.limit,
        grace=holder.job.grace,
        evictions=holder.job.evictions,
        idle=holder.job.idle,
    )
