"""The board of one decision: quota, nodes and users as they stand after everything decided so far."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain

from queues.admission.frame import Frame
from queues.admission.lineup import wishes_of
from queues.admission.placement import Mix, witness
from queues.admission.plans import Asker, Case, Plan
from queues.admission.quota import demand
from queues.admission.reserving import Reserving
from queues.admission.rooms import negative, rooms, rooms_of
from queues.admission.settled import Tasks, shapes_of
from queues.admission.shapes import Option, Pattern
from queues.admission.world import Attempt, Milliseconds, Placed, Queue, World


@dataclass(frozen=True, slots=True)
class Entry:
    """One admission as the board remembers it."""

    case: Case
    option: Option
    placed: tuple[Placed, ...]
    queue: int
    user: int
    ends: Milliseconds | None


class Board(Reserving):
    """What is free, used and promised at this point of the decision."""

    def __init__(
        self, world: World, frame: Frame | None = None, *, count_lost: bool = False, leaving: bool = True
    ) -> None:
        """Count what the attempts hold and survey the nodes; the flags suppose another world, as in ``survey``."""
        settled = frame.settled(world) if frame is not None and leaving and not count_lost else None
        super().__init__(world, frame, settled=settled, count_lost=count_lost, leaving=leaving)
        self._settled = settled
        self.log: list[Entry] = []
        self._mixes: dict[int, Mix] = {}
        self._wants_units: bool | None = None
        self._beside: dict[int | None, dict[int, int]] = {}

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

    def planned_for_user(self, asker: Asker, option: Option, queue: Queue, user: int) -> int:
        """Return what planned starts of a user's other jobs keep of their limits from the ask; 0: it leaves room."""
        limits = self.user_limits(queue)
        plans = [plan for plan in self.plans if plan.user == user and plan.job != asker.job] if limits else []
        binding = self.binding(asker, option) if plans else []
        most = 0
        for plan in binding:
            theirs = self.user_limits(self._queue_of(plan)) if plan.user == user else ()
            for node, limit in limits:
                if (node, limit) not in theirs or not self._counts(plan, node, queue):
                    continue
                soft = self.soft_in_queue.get((queue.id, user)) if node is None else self.soft_in_team.get((node, user))
                used = self.used_by(node, queue, user) - (soft or 0) - self._ended_of_user(node, queue, user, plan.at)
                planned = sum(
                    row.option.units
                    for row in plans
                    if row is plan or (self._counts(row, node, queue) and row.meets(plan))
                )
                if used + planned <= limit < used + planned + option.units:
                    most = max(most, planned)
        return most

    def _queue_of(self, plan: Plan) -> Queue:
        return self.queues[self.classes[plan.job_class].queue]

    def _counts(self, plan: Plan, node: int | None, queue: Queue) -> bool:
        """Whether a planned start counts in a team or department, or in the queue (None)."""
        return self._queue_of(plan).id == queue.id if node is None else node in self.tree.counting[plan.case.place]

    def _ended_of_user(self, node: int | None, queue: Queue, user: int, at: Milliseconds | None) -> int:
        """Return the units of a user in a team or department, or in the queue (None), that surely end by then."""
        going = [row for row in chain(self.running.values(), self.leaving) if row.user == user]
        rows = [(self.tree.number[row.team], row.queue, row.ends_by, demand(row, surplus=False)) for row in going]
        rows += [(row.case.place, row.queue, row.ends, dict(row.option.needs)) for row in self.log if row.user == user]
        return sum(
            sum(needs.values())
            for place, own, ends, needs in rows
            if ends is not None
            and (at is None or ends <= at)
            and (own == queue.id if node is None else node in self.tree.counting[place])
        )

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

    def grow(self, attempt: Attempt, row: Placed) -> None:
        """Count one more surplus task of an elastic job."""
        self.turn += 1
        for node, room in rooms_of(attempt, (row,)).items():
            self.shift(node, negative(room))
        self.part()
        self.use_attempt(attempt, (row,), 1, soft=True)
        now = self.running[attempt.id]
        self._runs(replace(now, surplus=(*now.surplus, row)))

    def what_if(self, *, count_lost: bool, leaving: bool) -> "Board":
        """Return the board of another world (see ``survey``) with the same evictions, claims and admissions made."""
        other = Board(self.world, self.frame, count_lost=count_lost, leaving=leaving)
        before = dict(other.claims)
        for claim in before.values():
            if self.claims.get(claim.id) != claim:
                other.release(claim)
        for attempt, placed, soft in self.evicted:
            other.evict(attempt if leaving else replace(attempt, grace=0), placed, soft=soft)
        for claim in self.claims.values():
            if before.get(claim.id) != claim:
                other.reserve(claim)
        for entry in self.log:
            asker = Asker(entry.case, None, 0, entry.ends)
            other.admit(asker, entry.option, entry.placed, entry.queue, entry.user)
        return other

    def wants_units(self) -> bool:
        """Whether each task that waits takes units, so that no node has more of them than units."""
        if self._wants_units is None:
            groups = (group for row in self.classes.values() for group in row.ask.groups)
            self._wants_units = all(group.units > 0 for group in groups)
        return self._wants_units

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


def _mixes(counts: Counter[Tasks]) -> dict[int, Mix]:
    result: dict[int, list[tuple[Pattern, int]]] = {}
    for key in sorted(counts):
        result.setdefault(key[0], []).append((Pattern(*key), counts[key]))
    return {flavor: tuple(rows) for flavor, rows in result.items()}
