"""What runs, what leaves, and what claims have reserved for themselves (SEMANTICS 8)."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from queues.admission.binding import Binding
from queues.admission.frame import Frame
from queues.admission.nodes import Ground, Room
from queues.admission.quota import units_of
from queues.admission.rooms import NOTHING, minus, negative, plus, rooms, rooms_of
from queues.admission.settled import Settled
from queues.admission.shapes import Option
from queues.admission.world import Attempt, Claim, JobShape, Milliseconds, Placed, World


class Reserving(Binding):
    """The attempts of this point of the decision; claims count as usage, and keep units free and freed."""

    def __init__(
        self, world: World, frame: Frame | None, *, settled: Settled | None, count_lost: bool, leaving: bool
    ) -> None:
        """Count what the attempts hold, then what the world's claims reserve."""
        super().__init__(world, frame, settled=settled, count_lost=count_lost, leaving=leaving)
        self.running: dict[int, Attempt] = {}
        self.running_in: Counter[int] = Counter()
        self.with_surplus = 0
        self.evicted: list[tuple[Attempt, tuple[Placed, ...], bool]] = []
        self.claims: dict[int, Claim] = {}
        self._longest_grace: Milliseconds | None = None
        self.claim_ends: dict[int, Milliseconds | None] = {}
        self.spoken_for: dict[int, int] = {}
        self.pending: Counter[int] = Counter()
        self.coming: dict[int, Room] = {}
        self.leaving_until: list[tuple[Milliseconds, dict[int, Room]]] = []
        self._by_team: dict[int, list[int]] | None = None
        self._reserved: dict[int, Room] = {}
        self._freed: dict[int, Room] = {}
        self._reduced: dict[int, Room] = {}
        if settled is None:
            going = [attempt for attempt in world.attempts if attempt.leaving]
        else:
            going = sorted(settled.leaving.values(), key=_number)
        self.leaving = [attempt for attempt in going if not attempt.claimed]
        self.going = {attempt.flavors[row.group] for attempt in going for row in attempt.placed}
        if settled is None:
            self.count([attempt for attempt in world.attempts if leaving or not attempt.leaving])
            for attempt in world.attempts:
                if not attempt.leaving:
                    self._runs(attempt)
            self.elastic = any(attempt.shape is JobShape.ELASTIC for attempt in self.running.values())
        else:
            self.running_in, self.with_surplus = settled.running_in.copy(), settled.with_surplus
            self.running, self.elastic = settled.running.copy(), settled.elastic > 0
        for attempt in going if leaving else ():
            self._count_leaving(attempt)
        for claim in sorted(world.claims, key=lambda row: row.id):
            if claim.job_class in self.classes:
                self.reserve(claim)

    def _count_leaving(self, attempt: Attempt) -> None:
        until = self.world.now if attempt.ends_by is None else attempt.ends_by
        self.leaving_until.append((until, rooms_of(attempt, attempt.placed)))
        for node, room in rooms_of(attempt, attempt.placed).items():
            self.coming[node] = plus(self.coming.get(node, NOTHING), room)
            if attempt.claimed:
                self._freed[node] = plus(self._freed.get(node, NOTHING), room)

    def elsewhere(self, attempt: Attempt, placed: Iterable[Placed]) -> dict[int, int]:
        """Return the units of tasks on nodes that are not usable, by flavor: with them the root promises less."""
        rows = tuple(row for row in placed if row.node not in self.ground.where)
        return units_of(attempt, rows) if rows else {}

    def _no_more(self, attempt: Attempt, placed: tuple[Placed, ...], sign: int, *, soft: bool) -> None:
        """Count victims of claims as used no more (``sign`` -1: used again)."""
        self.use_attempt(attempt, placed, -sign, soft=soft)
        for flavor, units in self.elsewhere(attempt, placed).items():
            self.lines[flavor].install(-sign * units)
            if self.hard is not self.lines:
                self.hard[flavor].install(-sign * units)

    def running_of(self, place: int) -> Iterator[Attempt]:
        """Yield what runs of a team in the order of all that runs; in a decision attempts only go or shrink."""
        if self._by_team is None:
            self._by_team = {}
            for attempt in self.running.values():
                self._by_team.setdefault(self.tree.number[attempt.team], []).append(attempt.id)
        for number in self._by_team.get(place, ()):
            if number in self.running:
                yield self.running[number]

    def later(self) -> Ground:
        """Return the ground as it will be when all that leaves has gone and all that is reserved has started."""
        ground = self.ground.copy()
        for node in sorted({*self.coming, *self._reserved}):
            room = plus(self.coming.get(node, NOTHING), self._reduced.get(node, NOTHING))
            ground.shift(node, minus(room, self._reserved.get(node, NOTHING)))
        return ground

    def reserve(self, claim: Claim) -> None:
        """Count a claim as usage and keep its units, free ones and those that leave for it."""
        self._claim(claim, 1)
        self.claims[claim.id] = claim
        self.spoken_for[claim.job] = self.spoken_for.get(claim.job, 0) + 1

    def release(self, claim: Claim) -> None:
        """Take a claim back; what leaves for it leaves nevertheless."""
        self._claim(claim, -1)
        del self.claims[claim.id]
        self.spoken_for[claim.job] -= 1

    def step_aside(self, claim: Claim) -> None:
        """Take a claim back for a look elsewhere; on nodes for which others wait as well its part stays reserved.

        What leaves there for this claim would else seem to come for those others, whose free units would then be free.
        """
        before = {row.node: self._reduced.get(row.node, NOTHING) for row in claim.placed}
        self.release(claim)
        for node, reduced in before.items():
            if self._reserved.get(node, NOTHING) != NOTHING:
                self.shift(node, minus(self._reduced.get(node, NOTHING), reduced))
                self._reduced[node] = reduced

    def gone_elsewhere(self, claim: Claim) -> None:
        """Give back what a claim that stepped aside kept reserved."""
        self._settle(row.node for row in claim.placed)

    def _claim(self, claim: Claim, sign: int) -> None:
        self.turn += 1
        option = self.option_of(claim)
        job_class = self.classes[claim.job_class]
        case = self.case(job_class)
        for flavor, units in option.needs:
            self.use(case.place, flavor, units * sign, firm=case.shape.firm)
            self.count_user(case.place, job_class.queue, claim.user, flavor, units * sign)
        self._tell_plans(case, option, claim.placed, self._end_of(claim, sign), claim.job, sign)
        touched = rooms(option, claim.placed)
        for node, room in touched.items():
            change = room if sign > 0 else negative(room)
            self._reserved[node] = plus(self._reserved.get(node, NOTHING), change)
        for victim in claim.pending:
            self.pending[victim.attempt] += 0 if victim.surplus else sign
            attempt = self.running.get(victim.attempt)
            if attempt is not None:
                self._no_more(attempt, victim.placed, sign, soft=victim.surplus)
                for node, room in rooms_of(attempt, victim.placed).items():
                    change = room if sign > 0 else negative(room)
                    self._freed[node] = plus(self._freed.get(node, NOTHING), change)
                    self.coming[node] = plus(self.coming.get(node, NOTHING), change)
                    touched.setdefault(node, NOTHING)
        self._settle(touched)

    def _end_of(self, claim: Claim, sign: int) -> Milliseconds | None:
        """Return the sure end of a claim, from its reservation until it is taken back the same one."""
        if sign < 0:
            return self.claim_ends.pop(claim.id)
        ends = self._sure_end(claim)
        self.claim_ends[claim.id] = ends
        return ends

    def _sure_end(self, claim: Claim) -> Milliseconds | None:
        """Return when a claimant has surely ended that starts once its last victim is gone, if its nodes are there."""
        start, nodes = self.world.now, {row.node for row in claim.placed}
        if claim.length is None or not nodes <= self.ground.where.keys():
            return None
        for until, room_of in self.leaving_until:
            if not nodes.isdisjoint(room_of):
                start = max(start, until)
        for victim in claim.pending:
            attempt = self.running.get(victim.attempt)
            if attempt is not None and attempt.ends_by is None:
                return None
            start = start if attempt is None or attempt.ends_by is None else max(start, attempt.ends_by)
        return start + claim.length

    def ends_after_grace(self, ends: Milliseconds | None) -> Milliseconds | None:
        """Return when surely ends what starts once others have left: the longest grace later, if all may go at once."""
        if ends is None or self.world.policy.evictions_per_minute is not None:
            return None
        if self._longest_grace is None:
            self._longest_grace = max((attempt.grace for attempt in self.running.values()), default=0)
        return ends + self._longest_grace

    def staying(self, attempt: Attempt) -> Attempt:
        """Return what is left of an attempt once all have gone who have yet to go for a claim."""
        if not self.pending[attempt.id]:
            return attempt
        victims = [victim for claim in self.claims.values() for victim in claim.pending if not victim.surplus]
        rows = tuple(row for victim in victims if victim.attempt == attempt.id for row in victim.placed)
        return replace(attempt, placed=_less(attempt.placed, rows))

    def _settle(self, nodes: Iterable[int]) -> None:
        """Take from the free room what is reserved beyond what leaves for it."""
        for node in nodes:
            needed = minus(self._reserved.get(node, NOTHING), self._freed.get(node, NOTHING))
            reduced = (max(0, needed[0]), max(0, needed[1]), max(0, needed[2]), max(0, needed[3]))
            before = self._reduced.get(node, NOTHING)
            if reduced != before:
                self._reduced[node] = reduced
                self.shift(node, minus(before, reduced))

    def evict(self, attempt: Attempt, placed: tuple[Placed, ...], *, soft: bool) -> None:
        """Let tasks leave for a claim: no longer in use, on their nodes until their grace is over."""
        self.turn += 1
        self.evicted.append((attempt, placed, soft))
        if attempt.grace:
            self.going.update(attempt.flavors[row.group] for row in placed)
        self._no_more(attempt, placed, 1, soft=soft)
        place = self.tree.number[attempt.team]
        for plan in self.plans:
            if plan.outlasted_by(attempt.ends_by) and not soft:
                self._change_plan(plan, place, units_of(attempt, placed), -1)
                for node, room in rooms_of(attempt, placed).items():
                    plan.free(node, room)
        self._leave(attempt, placed, soft=soft)

    def _leave(self, attempt: Attempt, placed: tuple[Placed, ...], *, soft: bool) -> None:
        touched = rooms_of(attempt, placed)
        if attempt.grace:
            self.leaving_until.append((self.world.now + attempt.grace, touched))
        for node, room in touched.items():
            if attempt.grace:
                self.coming[node] = plus(self.coming.get(node, NOTHING), room)
                self._freed[node] = plus(self._freed.get(node, NOTHING), room)
            else:
                self.shift(node, room)
        self._settle(touched)
        left = self._without(attempt, placed, soft=soft)
        self._runs(left)

    def _runs(self, attempt: Attempt) -> None:
        """Remember what runs of an attempt; one that has nothing left is forgotten."""
        before = self.running.get(attempt.id)
        there = bool(attempt.placed or attempt.surplus)
        self.running_in[self.tree.number[attempt.team]] += there - (before is not None)
        self.with_surplus += bool(attempt.surplus) - bool(before is not None and before.surplus)
        if there:
            self.running[attempt.id] = attempt
        else:
            self.running.pop(attempt.id, None)

    def _without(self, attempt: Attempt, placed: tuple[Placed, ...], *, soft: bool) -> Attempt:
        now = self.running.get(attempt.id, attempt)
        if soft:
            return replace(now, surplus=_less(now.surplus, placed))
        return replace(now, placed=_less(now.placed, placed))

    def physically_free(self, option: Option, placed: tuple[Placed, ...]) -> bool:
        """Whether all that a reservation needs is free on its nodes now, so that it may start."""
        for node, room in rooms(option, placed).items():
            if node not in self.ground.where:
                return False
            if any(have < need for have, need in zip(self.physical(node), room, strict=True)):
                return False
        return True

    def physical(self, node: int) -> Room:
        """Return what is free on a usable node now, reserved or not; nothing on another."""
        kind = self.ground.where.get(node)
        if kind is None:
            return NOTHING
        return plus((kind.units, kind.cpu, kind.memory, kind.pods), self._reduced.get(node, NOTHING))


def _number(attempt: Attempt) -> int:
    return attempt.id


def _less(rows: tuple[Placed, ...], gone: tuple[Placed, ...]) -> tuple[Placed, ...]:
    """Return the rows without some tasks of theirs."""
    counts: dict[tuple[int, int], int] = {}
    for row in gone:
        counts[row.group, row.node] = counts.get((row.group, row.node), 0) + row.tasks
    result = []
    for row in rows:
        part = min(row.tasks, counts.get((row.group, row.node), 0))
        if part:
            counts[row.group, row.node] -= part
        if row.tasks > part:
            result.append(replace(row, tasks=row.tasks - part))
    return tuple(result)
