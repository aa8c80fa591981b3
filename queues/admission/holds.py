"""Bounded wait: planned starts, and whose hold comes first (SEMANTICS 7)."""

from bisect import bisect_left
from collections.abc import Iterator
from heapq import merge
from itertools import chain

from queues.admission.board import Board
from queues.admission.futures import Future, Futures
from queues.admission.holders import Holder, as_hold, as_waiting, backs_off, holder_of, tired
from queues.admission.named import NamedSets
from queues.admission.nodes import Room
from queues.admission.placement import witness
from queues.admission.plans import Plan
from queues.admission.quota import ROOT, Line, units_of
from queues.admission.record import Record
from queues.admission.rooms import minus, negative, rooms
from queues.admission.shapes import Option
from queues.admission.shares import Share, borrowed
from queues.admission.world import Hold, Milliseconds, Placed, Standing, Waiting


class Planner:
    """Plans starts on the board as it is now."""

    def __init__(self, board: Board, record: Record) -> None:
        """Nothing is planned yet."""
        self._board = board
        self._record = record
        self.sets = NamedSets(board)
        self._futures = Futures(board)
        self._shares = {
            place: Share(borrowed(board.hard, place), board.tree.weight[place])
            for place in range(1, len(board.tree.parent))
        }

    def plan(
        self, holder: Holder, option: Option, avoid: frozenset[int], than: Plan | None = None, *, alone: bool = False
    ) -> Plan | None:
        """Return the best start that can be planned without the nodes to avoid (better ``than`` one that is known).

        One inside the guarantee is better than an earlier one that borrows, and the own guarantee better than a
        department's: fewer may move it. Nodes on which something ends until then come first, so that a hold leaves
        alone what is free before. ``alone``: as if nobody else held.
        """
        last = self._futures.at(self._futures.times[-1])
        _, node = self._standing(holder, option, last.ended)
        for rank in range(self._rank(holder, node), self._rank(holder, None) + 1):
            before = None if than is None or than.rank != rank else than.at
            at = self._earliest_time(holder, option, avoid, before, rank, alone=alone)
            if at is not None:
                elsewhere = avoid | self._futures.at(at).as_free_before()
                beside = self._try(holder, option, at, elsewhere, rank=rank, alone=alone)
                return self._try(holder, option, at, avoid, rank=rank, alone=alone) if beside is None else beside
            if than is not None and than.rank == rank:
                return None
        return None

    def _rank(self, holder: Holder, node: int | None) -> int:
        """Return how far above its leaf the node is within which a job is inside; None: it borrows, above all."""
        path = self._board.tree.path[holder.asker.case.place]
        return len(path) if node is None else path.index(node)

    def _earliest_time(
        self,
        holder: Holder,
        option: Option,
        avoid: frozenset[int],
        before: Milliseconds | None,
        rank: int,
        *,
        alone: bool,
    ) -> Milliseconds | None:
        times = self._futures.times
        if before is not None:
            times = times[: bisect_left(times, before)]
        if not times or self._try(holder, option, times[-1], avoid, rank=rank, alone=alone) is None:
            return self._beside_others(holder, option, avoid, before, rank, alone=alone)
        low, high = 0, len(times) - 1
        while low < high:
            middle = (low + high) // 2
            if self._try(holder, option, times[middle], avoid, rank=rank, alone=alone) is None:
                low = middle + 1
            else:
                high = middle
        beside = self._beside_others(holder, option, avoid, times[low], rank, alone=alone)
        return times[low] if beside is None else beside

    def _beside_others(
        self,
        holder: Holder,
        option: Option,
        avoid: frozenset[int],
        before: Milliseconds | None,
        rank: int,
        *,
        alone: bool,
    ) -> Milliseconds | None:
        """Return the earliest planned start of somebody else, together with which the job could start as well."""
        if alone:
            return None
        taken = {plan.at for plan in self._board.plans if plan.at is not None and plan.job != holder.job.id}
        for at in sorted(at for at in taken if before is None or at < before):
            if self._try(holder, option, at, avoid, rank=rank) is not None:
                return at
        return None

    def _standing(self, holder: Holder, option: Option, own: dict[tuple[int, int], int]) -> tuple[Standing, int | None]:
        """Return what the job rests on without units of its own team, and the highest node within which it is."""
        tree, place = self._board.tree, holder.asker.case.place
        nodes = []
        for flavor, units in option.needs:
            line, gone = self._futures.without_surplus[flavor], own.get((place, flavor), 0)
            line.take(place, -gone)
            nodes.append(line.within(place, units))
            line.take(place, gone)
        known = [node for node in nodes if node is not None]
        if len(known) < len(nodes):
            return Standing.BORROWER, None
        return Standing.GUARANTEED, min(known, key=lambda node: len(tree.path[node]), default=place)

    def _allowed(
        self, holder: Holder, option: Option, future: Future, lines: dict[int, Line], standing: Standing
    ) -> bool:
        """Whether limits and quota will let the job start then."""
        case = holder.asker.case
        if not self._user_has_room(holder, option, future):
            return False
        if standing is Standing.BORROWER and not self._may_borrow(holder):
            return False
        if not self._within_limits(holder, option, lines):
            return False
        for flavor, units in option.needs:
            line = lines[flavor]
            if line.available(case.place) < units or (case.shape.firm and not line.covers(case.place, units)):
                return False
        return True

    def _leaves_quota(self, holder: Holder, option: Option, at: Milliseconds, minded: list[Plan]) -> bool:
        """Whether later planned starts would still find their quota if the job started then: else it could not."""
        asker, now = holder.asker, self._board.world.now
        until = None if asker.ends is None else at + asker.ends - now
        later = [plan for plan in minded if plan.at is not None and at < plan.at and (until is None or until > plan.at)]
        return self._board.leaves_quota(asker, option, later)

    def _within_limits(self, holder: Holder, option: Option, lines: dict[int, Line]) -> bool:
        """Whether no team's limit stands against the job with this in use, and what may not borrow is inside."""
        place, lent = holder.asker.case.place, self._may_borrow(holder)
        return all(
            lines[flavor].limited_by(place, units) is None and (lent or lines[flavor].within(place, units) is not None)
            for flavor, units in option.needs
        )

    def _user_has_room(self, holder: Holder, option: Option, future: Future) -> bool:
        """Whether the user's limits will leave room then."""
        board, place, user = self._board, holder.asker.case.place, holder.job.user
        ended: dict[int | None, int] = {
            node: future.ended_of_user.get((node, user), 0) for node in board.tree.counting[place]
        }
        ended[None] = ended[place]
        room = board.user_room(board.queues[holder.job_class.queue], user, ended)
        return room is None or room >= option.units

    def _may_borrow(self, holder: Holder) -> bool:
        """Whether the job may start outside its guarantee: it wants to, has the limit needed, does not back off."""
        queue = self._board.queues[holder.job_class.queue]
        if not holder.asker.case.shape.ask.borrow or (queue.limit_needed_to_borrow and holder.asker.ends is None):
            return False
        return not backs_off(self._board, holder.job_class, holder.job)

    def _try(
        self,
        holder: Holder,
        option: Option,
        at: Milliseconds,
        avoid: frozenset[int],
        placed: tuple[Placed, ...] | None = None,
        *,
        rank: int | None = None,
        alone: bool = False,
    ) -> Plan | None:
        board, place = self._board, holder.asker.case.place
        future = self._futures.at(at)
        lines = {flavor: future.lines[flavor].copy() for flavor, _ in option.needs}
        standing, node = self._standing(holder, option, future.ended)
        if rank is not None and self._rank(holder, node) > rank:
            return None
        minded = [plan for plan in board.plans if plan.job != holder.job.id and _minds(standing, place, plan)]
        counted = [plan for plan in minded if plan.in_use_at(at)]
        for plan in counted:
            plan.change_in(lines, plan.case.place)
        if not self._allowed(holder, option, future, lines, standing):
            return None
        if not alone and not self._leaves_quota(holder, option, at, minded):
            return None
        others = [] if alone else minded
        together = [plan for plan in others if plan.at == at]
        ground = future.ground(avoid.union(node for plan in others if plan.at != at for node in plan.needs))
        if together:
            ground = ground.copy()
            for plan in together:
                for number, room in plan.needs.items():
                    ground.shift(number, negative(room))
        if standing is Standing.BORROWER and board.kept:
            ground = ground.copy()
            for kept, room in board.kept.items():
                ground.shift(kept, negative(room))
        found = witness(ground, option) if placed is None else placed
        if found is None:
            return None
        needs = rooms(option, found)
        spare: dict[int, Room] = {}
        for number, room in needs.items():
            kind = ground.where.get(number)
            if kind is None:
                return None
            spare[number] = minus((kind.units, kind.cpu, kind.memory, kind.pods), room)
            if any(left < 0 < part for left, part in zip(spare[number], room, strict=True)):
                return None
        for flavor, units in option.needs:
            lines[flavor].take(place, units)
        plan = self._made(holder, option, found, at, standing, node, needs)
        plan.spare, plan.lines = spare, lines
        plan.counted = frozenset(other.job for other in counted)
        plan.beside = {
            other.job: {number: room for number, room in other.needs.items() if number in needs} for other in together
        }
        return plan

    def _made(
        self,
        holder: Holder,
        option: Option,
        placed: tuple[Placed, ...],
        at: Milliseconds | None,
        standing: Standing,
        node: int | None,
        needs: dict[int, Room],
    ) -> Plan:
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
            rank=self._rank(holder, node),
            needs=needs,
            spare={},
            lines={},
            counted=frozenset(),
            beside={},
            limit=holder.job.limit,
            grace=holder.job.grace,
            evictions=holder.job.evictions,
        )

    def _endless(self, holder: Holder, option: Option, placed: tuple[Placed, ...]) -> Plan | None:
        """Return a hold without a time on a named set, where limits let the job start once others are gone."""
        board = self._board
        own = self._waited_for(holder, option, placed)
        standing, node = self._standing(holder, option, own)
        case = holder.asker.case
        last = self._futures.at(self._futures.times[-1])
        if not self._user_has_room(holder, option, last):
            return None
        lines = {flavor: last.lines[flavor].copy() for flavor, _ in option.needs}
        for flavor, line in lines.items():
            line.take(case.place, last.ended.get((case.place, flavor), 0) - own.get((case.place, flavor), 0))
        for plan in board.plans:
            if plan.job != holder.job.id and _minds(standing, case.place, plan) and plan.endless():
                plan.change_in(lines, plan.case.place)
        if not self._within_limits(holder, option, lines):
            return None
        if case.shape.firm and not all(last.lines[flavor].covers(case.place, units) for flavor, units in option.needs):
            return None
        if standing is Standing.BORROWER and not (self._may_borrow(holder) and board.entitled(case, option)):
            return None
        if tired(board, holder.job, option):
            self._record.tired[holder.job.id] = (holder.job_class, option)
            return None
        return self._made(holder, option, placed, None, standing, node, rooms(option, placed))

    def _waited_for(self, holder: Holder, option: Option, placed: tuple[Placed, ...]) -> dict[tuple[int, int], int]:
        """Return the units of the team's own attempts that a named set waits for.

        They end in time, or lie on nodes of the set on which room lacks.
        """
        place = holder.asker.case.place
        own = dict(self._futures.at(self._futures.times[-1]).ended)
        nodes = self.sets.lacking(option, placed)
        for attempt in self._board.running.values():
            if self._board.tree.number[attempt.team] != place or attempt.ends_by is not None:
                continue
            if any(row.node in nodes for row in attempt.placed):
                for flavor, units in units_of(attempt, attempt.placed).items():
                    own[place, flavor] = own.get((place, flavor), 0) + units
        return own

    def renew(self, jobs: dict[int, Waiting]) -> None:
        """Plan the holds of the world again, in their order; a better plan replaces an old one."""
        board = self._board
        self._futures = Futures(board)
        given_way: list[Hold] = []
        for hold in board.world.holds:
            job_class = board.classes.get(hold.job_class)
            if job_class is None or board.spoken_for.get(hold.job):
                continue
            if board.paused(board.queues[job_class.queue]) is not None:
                continue
            given_way += self._replan(hold, holder_of(board, job_class, jobs.get(hold.job) or as_waiting(hold)))
        self._replan_all(given_way)
        board.forget_views()

    def _replan(self, hold: Hold, holder: Holder) -> list[Hold]:
        """Plan a hold again; return the borrowers' holds that gave way to it."""
        plan = self._renewed(hold, holder)
        return [] if plan is None else self._put(plan)

    def _replan_all(self, holds: list[Hold]) -> None:
        """Plan the holds of borrowers again that gave way, where there is room for them."""
        board = self._board
        for hold in holds:
            if len(board.plans) < len(board.ground.where):
                self._replan(hold, holder_of(board, board.classes[hold.job_class], as_waiting(hold)))

    def _put(self, plan: Plan) -> list[Hold]:
        """Add a plan, the only one of its job; borrowers' plans on its nodes give way to guaranteed demand.

        Those are returned as holds.
        """
        board = self._board
        board.drop_plan(plan.job)
        ways = [] if plan.standing is Standing.BORROWER else board.plans
        theirs = [row for row in ways if not _minds(plan.standing, plan.case.place, row)]
        out = [row for row in theirs if not row.needs.keys().isdisjoint(plan.needs)]
        for row in out:
            board.drop_plan(row.job)
        board.plans.append(plan)
        return [as_hold(row) for row in out]

    def repair(self) -> bool:
        """Plan again what others with a better right have taken away in this cycle; return whether there was any."""
        board = self._board
        broken = [plan for plan in board.plans if plan.broken()]
        self._futures = Futures(board)
        for plan in broken:
            board.drop_plan(plan.job)
        given_way: list[Hold] = []
        for hold in [as_hold(plan) for plan in broken]:
            given_way += self._replan(hold, holder_of(board, board.classes[hold.job_class], as_waiting(hold)))
        self._replan_all(given_way)
        board.forget_views()
        return bool(broken)

    def _renewed(self, hold: Hold, holder: Holder) -> Plan | None:
        case, now = holder.asker.case, self._board.world.now
        option = next((row for row in case.shape.options if row.flavors == hold.flavors), case.shape.options[0])
        old = None
        if hold.at is not None and hold.at >= now:
            old = self._try(holder, option, hold.at, frozenset(), hold.placed)
        new = self._earliest(holder, frozenset(), old)
        if old is not None and new is None:
            old.moved = hold.moved
            return old
        if new is not None:
            new.moved = hold.moved if new.at == hold.at else _cause(old, new)
            return new
        return self._renewed_endless(hold, holder, option, self._held_nodes(hold.standing, case.place))

    def _renewed_endless(self, hold: Hold, holder: Holder, option: Option, avoid: frozenset[int]) -> Plan | None:
        where = self._board.ground.where
        new = self.sets.nearest(option, avoid, beside=False)
        stays = hold.at is None and all(row.node in where and row.node not in avoid for row in hold.placed)
        if stays and (new is None or self.sets.not_free(option, new) >= self.sets.not_free(option, hold.placed)):
            return self._endless(holder, option, hold.placed)
        return None if new is None else self._endless(holder, option, new)

    def _earliest(
        self, holder: Holder, avoid: frozenset[int], than: Plan | None = None, *, alone: bool = False
    ) -> Plan | None:
        """Return the best plan among the listed flavors: a guaranteed one, then the earliest, ties by list order."""
        plans = [self.plan(holder, option, avoid, than, alone=alone) for option in holder.asker.case.shape.options]
        return min((plan for plan in plans if plan is not None), key=_goodness, default=None)

    def make(self, holders: list[Holder]) -> None:
        """Give holds in hold order to jobs that have waited long enough, never more than there are nodes.

        Those with different planned starts are on disjoint nodes; those with the same one may share.
        """
        board = self._board
        most = len(board.ground.where)
        if self._held(most):
            return
        self._futures = Futures(board)
        blocked: set[int] = set()
        failed: set[object] = set()
        for holder in self.in_order(holders):
            case = holder.asker.case
            if len(board.plans) >= most and (self._held(most) or not self.guaranteed(holder)):
                break
            if case in failed or all(self._all_blocked(option, blocked) for option in case.shape.options):
                continue
            plan = self._new(holder, frozenset(blocked))
            if plan is not None:
                self._replan_all(self._put(plan))
                continue
            failed.add(case)
            if board.plans and self._new(holder, frozenset(), alone=True) is not None:
                for option in case.shape.options:
                    blocked.update(self._usable(option))
        board.forget_views()

    def _held(self, most: int) -> bool:
        """Whether guaranteed demand has all the holds that there may be."""
        return sum(plan.standing is Standing.GUARANTEED for plan in self._board.plans) >= most

    def _held_nodes(self, standing: Standing, place: int) -> frozenset[int]:
        """Return the nodes of the holds that bind a job of this standing and team."""
        return frozenset(node for plan in self._board.plans if _minds(standing, place, plan) for node in plan.needs)

    def _new(self, holder: Holder, avoid: frozenset[int], *, alone: bool = False) -> Plan | None:
        plan = self._earliest(holder, avoid, alone=alone)
        if plan is not None:
            return plan
        for option in holder.asker.case.shape.options:
            if self._never_in_time(holder, option):
                standing = Standing.GUARANTEED if self.guaranteed(holder) else Standing.BORROWER
                elsewhere = avoid if alone else avoid | self._held_nodes(standing, holder.asker.case.place)
                placed = self.sets.nearest(option, elsewhere, beside=False)
                if placed is not None:
                    endless = self._endless(holder, option, placed)
                    if endless is not None:
                        return endless
        return None

    def _never_in_time(self, holder: Holder, option: Option) -> bool:
        """Whether no start can be planned even without other holds: what blocks it has no end."""
        return self.plan(holder, option, frozenset(), alone=True) is None

    def _usable(self, option: Option) -> set[int]:
        ground = self.sets.emptied(())
        return {
            node
            for pattern in option.patterns
            for kind, nodes in ground.usable(pattern.flavor)
            if kind.tasks(pattern)
            for node in nodes
        }

    def _all_blocked(self, option: Option, blocked: set[int]) -> bool:
        return bool(blocked) and self._usable(option) <= blocked

    def in_order(self, holders: list[Holder]) -> Iterator[Holder]:
        """Yield guaranteed demand first; siblings by what they borrowed as the cycle began; then the longest wait."""
        ended = self._futures.at(self._futures.times[-1]).ended
        rounds: tuple[list[Holder], list[Holder]] = ([], [])
        standings: dict[object, bool] = {}
        for holder in holders:
            case = holder.asker.case
            if case not in standings:
                standings[case] = self.guaranteed(holder, ended)
            rounds[0 if standings[case] else 1].append(holder)
        return chain.from_iterable(self._merged(ROOT, group) for group in rounds)

    def guaranteed(self, holder: Holder, ended: dict[tuple[int, int], int] | None = None) -> bool:
        """Whether a job will be inside a guarantee once its own team's attempts have ended."""
        gone = self._futures.at(self._futures.times[-1]).ended if ended is None else ended
        options = holder.asker.case.shape.options
        return any(self._standing(holder, option, gone)[0] is Standing.GUARANTEED for option in options)

    def _merged(self, node: int, holders: list[Holder]) -> Iterator[Holder]:
        """Yield those below a node in hold order; nobody is sorted in before their line's turn comes."""
        tree, shares = self._board.tree, self._shares
        if not tree.children[node]:
            yield from sorted(holders, key=lambda row: row.key)
            return
        below: dict[int, list[Holder]] = {}
        for holder in holders:
            path = tree.path[holder.asker.case.place]
            below.setdefault(path[-1 if node == ROOT else path.index(node) - 1], []).append(holder)
        by_share: dict[tuple[int, int], list[int]] = {}
        for child in tree.children[node]:
            if child in below:
                by_share.setdefault(shares[child].rank(tree.scale), []).append(child)
        for share in sorted(by_share):
            lines = (self._merged(child, below[child]) for child in by_share[share])
            yield from merge(*lines, key=lambda row: row.key[1:])


def _goodness(plan: Plan) -> tuple[int, Milliseconds]:
    """Return a key by which better plans with a time come first."""
    return plan.rank, plan.at or 0


def _cause(old: Plan | None, new: Plan) -> str:
    """Return why a planned start moved, where the old one is still possible if there is one."""
    if old is None:
        return "impossible"
    return "earlier" if _goodness(new)[1] < _goodness(old)[1] else "guaranteed"


def _minds(standing: Standing, place: int, plan: Plan) -> bool:
    """Whether somebody else's plan stands in the way of a job: a borrower's binds no guaranteed demand of other teams.

    In a team who waited longest goes first, whatever the standing.
    """
    return standing is Standing.BORROWER or plan.standing is Standing.GUARANTEED or plan.case.place == place
