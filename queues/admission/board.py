"""The board of one decision: quota, nodes and users as they stand after everything decided so far."""

from dataclasses import dataclass

from queues.admission.nodes import Ground, survey
from queues.admission.placement import Mix, fits, witness
from queues.admission.quota import demand, in_use
from queues.admission.shapes import Option, Pattern, Shape, Shapes
from queues.admission.world import JobClass, Placed, Queue, Team, World


@dataclass(frozen=True, slots=True)
class Case:
    """All classes of one leaf that ask for the same: the verdict on quota and placement is one for all of them."""

    place: int
    shape: Shape

    def __hash__(self) -> int:
        """Tell cases apart by leaf and by the identity of the shape, which is unique for equal asks."""
        return hash((self.place, id(self.shape)))


@dataclass(frozen=True, slots=True)
class Entry:
    """One admission as the board remembers it."""

    case: Case
    option: Option
    placed: tuple[Placed, ...]
    queue: int
    user: int


class Board:
    """What is free, used and promised at this point of the decision."""

    def __init__(self, world: World, *, count_lost: bool = False, leaving: bool = True) -> None:
        """Count what the attempts hold and survey the nodes; the flags suppose another world, as in ``survey``."""
        self.world = world
        self.tree, self.lines = in_use(world, count_lost=count_lost, leaving=leaving)
        self.ground: Ground = survey(world, count_lost=count_lost, leaving=leaving)
        self.log: list[Entry] = []
        self.shapes = Shapes()
        self.flavors = {flavor.id: flavor for flavor in world.flavors}
        self.teams = {team.id: team for team in world.teams}
        self.queues = {queue.id: queue for queue in world.queues}
        self.used_value: dict[tuple[int, int], int] = {}
        self.used_in_team: dict[tuple[int, int], int] = {}
        self.used_in_queue: dict[tuple[int, int], int] = {}
        self._mixes: dict[int, Mix] = {}
        for attempt in world.attempts:
            if attempt.leaving and not leaving:
                continue
            for flavor, units in demand(attempt).items():
                self._count_user(self.tree.number[attempt.team], attempt.queue, attempt.user, flavor, units)

    def _count_user(self, place: int, queue: int | None, user: int, flavor: int, units: int) -> None:
        key = (place, user)
        self.used_value[key] = self.used_value.get(key, 0) + units * self.flavors[flavor].value
        self.used_in_team[key] = self.used_in_team.get(key, 0) + units
        if queue is not None:
            self.used_in_queue[queue, user] = self.used_in_queue.get((queue, user), 0) + units

    def case(self, job_class: JobClass) -> Case:
        """Return the case that a class belongs to."""
        queue = self.queues[job_class.queue]
        return Case(self.tree.number[queue.team], self.shapes.of(job_class.ask))

    def team(self, place: int) -> Team:
        """Return the team with this number in the tree."""
        return self.tree.teams[place - 1]

    def inside(self, case: Case, option: Option) -> bool:
        """Whether the job would be guaranteed demand: within a node of its path on every flavor that it takes."""
        return all(units <= max(0, self.lines[flavor].promised_room(case.place)) for flavor, units in option.needs)

    def covered(self, case: Case, option: Option) -> bool:
        """Whether firm use stays covered by what cannot be recalled; true of jobs that are not firm."""
        return not case.shape.firm or all(
            self.lines[flavor].covers(case.place, units) for flavor, units in option.needs
        )

    def entitled(self, case: Case, option: Option) -> bool:
        """Whether limits leave room, whatever others use; user and queue limits are asked by ``user_room``."""
        for flavor, units in option.needs:
            line = self.lines[flavor]
            if line.limited_by(case.place, units) is not None:
                return False
            if line.usage[case.place] + units > line.most(case.place):
                return False
        return True

    def quota(self, case: Case, option: Option) -> bool:
        """Whether quota is there now, its own or lent, and firm use stays covered."""
        return all(
            self.lines[flavor].available(case.place) >= units for flavor, units in option.needs
        ) and self.covered(case, option)

    def admissible(self, case: Case, option: Option) -> bool:
        """Whether the job could start now: quota, cover and a placement witness."""
        return self.quota(case, option) and fits(self.ground, option)

    def guaranteed_option(self, case: Case) -> Option | None:
        """Return the first option that is inside and admissible; else the first inside if another could be borrowed."""
        inside = [option for option in case.shape.options if self.inside(case, option) and self.covered(case, option)]
        if not inside:
            return None
        first = next((option for option in inside if self.admissible(case, option)), None)
        return first or (inside[0] if self.borrowed_option(case) else None)

    def borrowed_option(self, case: Case) -> Option | None:
        """Return the first option that could be admitted at this moment (a job that does not borrow: only inside)."""
        for option in case.shape.options:
            if self.admissible(case, option) and (case.shape.ask.borrow or self.inside(case, option)):
                return option
        return None

    def user_room(self, place: int, queue: Queue, user: int) -> int | None:
        """Return how many more units the user may have here by the limits of team and queue; None: no limit."""
        limits = (
            (self.team(place).per_user_limit, self.used_in_team.get((place, user), 0)),
            (queue.per_user_limit, self.used_in_queue.get((queue.id, user), 0)),
        )
        return min((limit - used for limit, used in limits if limit is not None), default=None)

    def place(self, case: Case, option: Option) -> tuple[Placed, ...]:
        """Return the witness of an admissible option."""
        pattern = option.patterns[0]
        found = witness(self.ground, option, self.mix(pattern.flavor), spread=self.flavors[pattern.flavor].spread)
        if found is None:
            raise AssertionError(f"no witness for an admissible ask of team {self.tree.ids[case.place]}")
        return found

    def admit(self, case: Case, option: Option, placed: tuple[Placed, ...], queue: int, user: int) -> None:
        """Count an admission everywhere."""
        self.log.append(Entry(case, option, placed, queue, user))
        for row in placed:
            self.ground.take(row.node, option.patterns[row.group], row.tasks)
        for flavor, units in option.needs:
            self.lines[flavor].take(case.place, units)
            if case.shape.firm:
                self.lines[flavor].take_firm(case.place, units)
            self._count_user(case.place, queue, user, flavor, units)

    def suppose(self, case: Case, option: Option, user: int, times: int) -> None:
        """Count ``times`` admissions as usage, without nodes: the turns that come next see it."""
        for flavor, units in option.needs:
            self.lines[flavor].take(case.place, units * times)
            if case.shape.firm:
                self.lines[flavor].take_firm(case.place, units * times)
            self._count_user(case.place, None, user, flavor, units * times)

    def what_if(self, *, count_lost: bool, leaving: bool) -> "Board":
        """Return the board of another world (see ``survey``) with the same admissions made."""
        other = Board(self.world, count_lost=count_lost, leaving=leaving)
        other.shapes = self.shapes
        for entry in self.log:
            other.admit(entry.case, entry.option, entry.placed, entry.queue, entry.user)
        return other

    def mix(self, flavor: int) -> Mix:
        """Return the common shapes of tasks on a flavor: running ones by number, each waiting class once."""
        if not self._mixes:
            self._mixes = _mixes(self.world, self.shapes)
        return self._mixes.get(flavor, ())


def _mixes(world: World, shapes: Shapes) -> dict[int, Mix]:
    counts: dict[tuple[int, int, int, int, tuple[tuple[str, str], ...]], int] = {}
    for attempt in world.attempts:
        for row in attempt.placed:
            group = attempt.groups[row.group]
            key = (attempt.flavors[row.group], group.units, group.cpu, group.memory, group.labels)
            counts[key] = counts.get(key, 0) + row.tasks
    for job_class in world.classes:
        for pattern in shapes.of(job_class.ask).options[0].patterns:
            key = (pattern.flavor, pattern.units, pattern.cpu, pattern.memory, pattern.labels)
            counts[key] = counts.get(key, 0) + 1
    result: dict[int, list[tuple[Pattern, int]]] = {}
    for key in sorted(counts):
        result.setdefault(key[0], []).append((Pattern(*key), counts[key]))
    return {flavor: tuple(rows) for flavor, rows in result.items()}
