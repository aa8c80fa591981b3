"""The board of one decision: quota, nodes and users as they stand after everything decided so far."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from queues.admission.frame import Frame
from queues.admission.lineup import wishes_of
from queues.admission.nodes import Ground, Room, survey
from queues.admission.placement import Mix, fits, witness
from queues.admission.plans import Asker, Case, Plan
from queues.admission.quota import units_of
from queues.admission.rooms import NOTHING, least, minus, negative, plus, rooms, rooms_of
from queues.admission.settled import Tasks, shapes_of
from queues.admission.shapes import Option, Pattern
from queues.admission.usage import Usage
from queues.admission.world import Attempt, Claim, JobShape, Milliseconds, Placed, Standing, World


@dataclass(frozen=True, slots=True)
class Entry:
    """One admission as the board remembers it."""

    case: Case
    option: Option
    placed: tuple[Placed, ...]
    queue: int
    user: int
    ends: Milliseconds | None


class Board(Usage):
    """What is free, used and promised at this point of the decision."""

    def __init__(
        self, world: World, frame: Frame | None = None, *, count_lost: bool = False, leaving: bool = True
    ) -> None:
        """Count what the attempts hold and survey the nodes; the flags suppose another world, as in ``survey``."""
        settled = frame.settled(world) if frame is not None and leaving and not count_lost else None
        super().__init__(world, frame, settled=settled, count_lost=count_lost)
        self._settled = settled
        if settled is None:
            self.ground: Ground = survey(world, count_lost=count_lost, leaving=leaving)
        else:
            self.ground = settled.ground.copy()
        self.log: list[Entry] = []
        self.running: dict[int, Attempt] = {}
        self.running_in: Counter[int] = Counter()
        self.with_surplus = 0
        self.claims: dict[int, Claim] = {}
        self._longest_grace: Milliseconds | None = None
        self.claim_ends: dict[int, Milliseconds | None] = {}
        self.spoken_for: dict[int, int] = {}
        self.pending: Counter[int] = Counter()
        self.plans: list[Plan] = []
        self._seen: list[Plan] = []
        self._planned: dict[int, Plan] = {}
        self._plans_on: dict[int, list[Plan]] = {}
        self._binding: dict[tuple[int, int, Milliseconds | None, int | None], list[Plan]] = {}
        self.kept: dict[int, Room] = {}
        self.coming: dict[int, Room] = {}
        self.leaving_until: list[tuple[Milliseconds, dict[int, Room]]] = []
        self.touched: dict[int, Room] | None = None
        self._by_team: dict[int, list[int]] | None = None
        self._reserved: dict[int, Room] = {}
        self._freed: dict[int, Room] = {}
        self._reduced: dict[int, Room] = {}
        self._views: dict[tuple[bool, frozenset[int]], Ground] = {}
        self._mixes: dict[int, Mix] = {}
        self._beside: dict[int | None, dict[int, int]] = {}
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

    # --- room

    def could(self, case: Case, option: Option) -> bool:
        """Whether the job could start now if no keep or hold stood in its way."""
        return self.quota(case, option) and fits(self.ground, option)

    def admissible(self, asker: Asker, option: Option) -> bool:
        """Whether the job could start now: quota, cover and a witness, no keep or hold that binds it being touched."""
        if not self.quota(asker.case, option):
            return False
        if not self.plans and not self.kept:
            return fits(self.ground, option)
        binding = self.binding(asker, option)
        return self.leaves_quota(asker, option, binding) and fits(self.view(asker, option), option)

    def binding(self, asker: Asker, option: Option) -> list[Plan]:
        """Return the planned starts that the job may not delay (SEMANTICS 7)."""
        if not self.plans:
            return []
        self._look_at_plans()
        key = (asker.case.place, asker.priority, asker.ends, self.inside_at(asker.case, option))
        known = self._binding.get(key)
        if known is None:
            known = self._binding[key] = [plan for plan in self.plans if self._binds(plan, asker, key[3])]
        return known if asker.job not in self._planned else [plan for plan in known if plan.job != asker.job]

    def _look_at_plans(self) -> None:
        """Find plans by job and node; plans only come at the end of their list, and where one goes it is a new one."""
        if self._seen is not self.plans or len(self._planned) != len(self.plans):
            self._seen = self.plans
            self._planned = {plan.job: plan for plan in self.plans}
            self._plans_on = {}
            for plan in self.plans:
                for node in plan.needs:
                    self._plans_on.setdefault(node, []).append(plan)
            self._binding.clear()

    def _binds(self, plan: Plan, asker: Asker, inside: int | None) -> bool:
        if plan.at is not None and asker.ends is not None and asker.ends <= plan.at:
            return False
        if plan.case.place == asker.case.place and asker.priority > plan.priority:
            return False
        if inside is None:
            return True
        if plan.standing is Standing.BORROWER:
            return False
        below = plan.node is not None and plan.node != inside and plan.node in self.tree.path[inside]
        return not below

    def leaves_quota(self, asker: Asker, option: Option, binding: list[Plan]) -> bool:
        """Whether planned starts would still find their quota, and their guarantee, with the ask in use."""
        place, job, needs = asker.case.place, asker.job, option.needs
        return all(
            job in plan.counted or plan.leaves(place, flavor, units) for plan in binding for flavor, units in needs
        )

    def view(self, asker: Asker, option: Option, *, everything: bool = False) -> Ground:
        """Return what is free for this asker, less what is kept or held against it (``everything``: anybody)."""
        binding = self.plans if everything else self.binding(asker, option)
        keeps = bool(self.kept) and (everything or not self.inside(asker.case, option))
        if not binding and not keeps:
            return self.ground
        key = (keeps, frozenset(plan.job for plan in binding))
        known = self._views.get(key)
        if known is None:
            known = self._views[key] = self.ground.copy()
            touched = {node for plan in binding for node in plan.needs} | (set(self.kept) if keeps else set())
            for node in sorted(touched):
                self._look(known, key, node)
        return known

    def _look(self, view: Ground, key: tuple[bool, frozenset[int]], node: int) -> None:
        kind = self.ground.where.get(node)
        if kind is None:
            return
        room: Room = (kind.units, kind.cpu, kind.memory, kind.pods)
        if key[0] and node in self.kept:
            room = minus(room, self.kept[node])
        self._look_at_plans()
        for plan in self._plans_on.get(node, ()):
            if plan.job in key[1]:
                spare = plan.room_beside(node, key[1])
                room = least(room, spare) if spare is not None else minus(room, plan.needs[node])
        view.set(node, room)

    def shift(self, node: int, room: Room) -> None:
        """Add free room to a node (negative: take it), in what everybody sees."""
        if self.touched is not None and node not in self.touched and (kind := self.ground.where.get(node)) is not None:
            self.touched[node] = (kind.units, kind.cpu, kind.memory, kind.pods)
        self.ground.shift(node, room)
        if node in self.ground.where:
            for key, view in self._views.items():
                self._look(view, key, node)

    def forget_views(self) -> None:
        """Look again at what is kept and held against whom."""
        self.turn += 1
        self._views.clear()

    def later(self) -> Ground:
        """Return the ground as it will be when all that leaves has gone and all that is reserved has started."""
        ground = self.ground.copy()
        for node in sorted({*self.coming, *self._reserved}):
            room = plus(self.coming.get(node, NOTHING), self._reduced.get(node, NOTHING))
            ground.shift(node, minus(room, self._reserved.get(node, NOTHING)))
        return ground

    # --- what is decided

    def place(self, asker: Asker, option: Option) -> tuple[Placed, ...]:
        """Return the witness of an admissible option."""
        pattern = option.patterns[0]
        ground = self.view(asker, option)
        beside = self._tasks_of(asker.job) if option.evenly and asker.job is not None else {}
        spread = self.flavors[pattern.flavor].spread
        found = witness(ground, option, self.mix(pattern.flavor), spread=spread, beside=beside)
        if found is None:
            raise AssertionError(f"no witness for an admissible ask of team {self.tree.ids[asker.case.place]}")
        return found

    def admit(
        self,
        asker: Asker,
        option: Option,
        placed: tuple[Placed, ...],
        queue: int,
        user: int,
    ) -> None:
        """Count an admission everywhere."""
        case = asker.case
        self.log.append(Entry(case, option, placed, queue, user, asker.ends))
        self.moves.append(case.place)
        self.drop_plan(asker.job)
        self._tell_plans(case, option, placed, asker.ends, asker.job)
        for node, room in rooms(option, placed).items():
            self.shift(node, negative(room))
        if asker.job in self._beside:
            for row in placed:
                self._beside[asker.job][row.node] = self._beside[asker.job].get(row.node, 0) + row.tasks
        for flavor, units in option.needs:
            self.use(case.place, flavor, units, firm=case.shape.firm)
            self.count_user(case.place, queue, user, flavor, units)

    def _tasks_of(self, job: int) -> dict[int, int]:
        """Return on which nodes tasks of a job run, this cycle's counted; looked up once a cycle."""
        known = self._beside.get(job)
        if known is None:
            known = self._beside[job] = {}
            for attempt in self.running.values():
                for row in attempt.placed if attempt.job == job else ():
                    known[row.node] = known.get(row.node, 0) + row.tasks
        return known

    def drop_plan(self, job: int | None) -> None:
        """Forget the planned start of a job that starts or claims."""
        if job is not None and any(plan.job == job for plan in self.plans):
            self.plans = [plan for plan in self.plans if plan.job != job]
            for plan in self.plans:
                plan.forget(job)
            self.forget_views()

    def _tell_plans(
        self,
        case: Case,
        option: Option,
        placed: tuple[Placed, ...],
        ends: Milliseconds | None,
        job: int | None,
        sign: int = 1,
    ) -> None:
        """Let planned starts count what will still be in use at their time."""
        for plan in self.plans:
            if plan.outlasted_by(ends):
                self.squeezed += 1
                before = plan.grip()
                if job not in plan.counted:
                    plan.change(case.place, dict(option.needs), sign)
                if sign < 0 or plan.grip() != before:
                    self.turn += 1
                for node, room in rooms(option, placed).items():
                    plan.free(node, negative(room) if sign > 0 else room)

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
        """Return when a claimant has surely ended that starts once its last victim is gone."""
        if claim.length is None:
            return None
        start, nodes = self.world.now, {row.node for row in claim.placed}
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
        self._no_more(attempt, placed, 1, soft=soft)
        place = self.tree.number[attempt.team]
        for plan in self.plans:
            if plan.outlasted_by(attempt.ends_by) and not soft:
                plan.change(place, units_of(attempt, placed), -1)
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

    def grow(self, attempt: Attempt, row: Placed) -> None:
        """Count one more surplus task of an elastic job."""
        self.turn += 1
        for node, room in rooms_of(attempt, (row,)).items():
            self.shift(node, negative(room))
        self.part()
        self.use_attempt(attempt, (row,), 1, soft=True)
        now = self.running[attempt.id]
        self._runs(replace(now, surplus=(*now.surplus, row)))

    def physically_free(self, option: Option, placed: tuple[Placed, ...]) -> bool:
        """Whether all that a reservation needs is free on its nodes now, so that it may start."""
        for node, room in rooms(option, placed).items():
            kind = self.ground.where.get(node)
            if kind is None:
                return False
            free = plus((kind.units, kind.cpu, kind.memory, kind.pods), self._reduced.get(node, NOTHING))
            if any(have < need for have, need in zip(free, room, strict=True)):
                return False
        return True

    def what_if(self, *, count_lost: bool, leaving: bool) -> "Board":
        """Return the board of another world (see ``survey``) with the same admissions made."""
        other = Board(self.world, self.frame, count_lost=count_lost, leaving=leaving)
        for claim in list(other.claims.values()):
            if claim.id not in self.claims:
                other.release(claim)
        for entry in self.log:
            asker = Asker(entry.case, None, 0, entry.ends)
            other.admit(asker, entry.option, entry.placed, entry.queue, entry.user)
        return other

    def mix(self, flavor: int) -> Mix:
        """Return the common shapes of tasks on a flavor: running ones by number, each waiting class once."""
        if not self._mixes:
            settled, lineup = self._settled, self.frame.lineup
            counts = shapes_of(self.world.attempts) if settled is None else settled.shapes.copy()
            if lineup.of(self.classes):
                counts.update(lineup.wishes)
            else:
                counts.update(wish for row in self.world.classes for wish in wishes_of(self.shapes.of(row.ask)))
            self._mixes = _mixes(counts)
        return self._mixes.get(flavor, ())


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


def _mixes(counts: Counter[Tasks]) -> dict[int, Mix]:
    result: dict[int, list[tuple[Pattern, int]]] = {}
    for key in sorted(counts):
        result.setdefault(key[0], []).append((Pattern(*key), counts[key]))
    return {flavor: tuple(rows) for flavor, rows in result.items()}
