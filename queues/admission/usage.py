"""Quota, users and names as they stand after everything decided so far."""

from collections import Counter
from collections.abc import Mapping

from queues.admission.frame import Frame
from queues.admission.plans import Case
from queues.admission.quota import Line, units_of
from queues.admission.settled import Settled
from queues.admission.shapes import Needs, Option
from queues.admission.world import Attempt, Claim, JobClass, Placed, Queue, Team, World

NOTHING_BACK: Mapping[int | None, int] = {}


def copies(lines: dict[int, Line]) -> dict[int, Line]:
    """Return lines whose usage goes its own way."""
    return {flavor: line.copy() for flavor, line in lines.items()}


class Usage:
    """What teams and users have: ``lines`` counts all that is in use, ``hard`` leaves soft surplus out.

    ``moves`` are the teams whose steps took quota and room, in order; ``turn`` changes with everything else that may
    change what others can do: a step leaves those without room without, a turn may not. ``turns`` are those of single
    teams; ``squeezed`` changes where a planned start leaves less to others, ``tight`` where a claim may.
    """

    def __init__(
        self, world: World, frame: Frame | None = None, *, settled: Settled | None = None, count_lost: bool = False
    ) -> None:
        """Take teams, queues and quotas, and what is ``settled``; without it nothing is in use yet.

        ``count_lost`` takes every node as usable.
        """
        self.world = world
        self.frame = frame or Frame(world)
        self.tree = self.frame.tree
        self.lines = self.frame.lines(world, count_lost=count_lost) if settled is None else copies(settled.lines)
        soft = any(attempt.surplus for attempt in world.attempts) if settled is None else settled.soft > 0
        self.hard = copies(self.lines) if soft else self.lines
        self.shapes = self.frame.shapes
        self.flavors = self.frame.flavors
        self.teams = self.frame.teams
        self.queues = self.frame.queues
        self.classes = self.frame.classes(world)
        self.turn = 0
        self.tight = 0
        self.squeezed = 0
        self.turns: Counter[int] = Counter()
        self.moves: list[int] = []
        self.used_value: dict[tuple[int, int], int] = {}
        self.used_in_team: dict[tuple[int, int], int] = {}
        self.used_in_queue: dict[tuple[int, int], int] = {}
        self.soft_in_team: dict[tuple[int, int], int] = {}
        self.soft_in_queue: dict[tuple[int, int], int] = {}
        self._cases = self.frame.cases
        if settled is not None:
            self.hard = copies(settled.hard) if soft else self.lines
            self.used_value, self.used_in_team = dict(settled.used_value), dict(settled.used_in_team)
            self.used_in_queue, self.soft_in_team = dict(settled.used_in_queue), dict(settled.soft_in_team)
            self.soft_in_queue = dict(settled.soft_in_queue)

    def count(self, attempts: list[Attempt]) -> None:
        """Count what the attempts hold, victims of claims left out; sums by team first, since teams are few."""
        sums: dict[tuple[int, int, bool, bool], int] = {}
        number = self.tree.number
        for attempt in attempts:
            if attempt.claimed:
                continue
            place = number[attempt.team]
            firm = not (attempt.borrow and attempt.preemptible)
            for soft, placed in ((False, attempt.placed), (True, attempt.surplus)):
                for row in placed:
                    flavor = attempt.flavors[row.group]
                    units = row.tasks * attempt.groups[row.group].units
                    key = (place, flavor, firm, soft)
                    sums[key] = sums.get(key, 0) + units
                    # What leaves already cannot be taken back for the user's next job.
                    still = soft and not attempt.leaving
                    self.count_user(place, attempt.queue, attempt.user, flavor, units, soft=still)
        for place, flavor, firm, soft in sorted(sums):
            self.use(place, flavor, sums[place, flavor, firm, soft], firm=firm, soft=soft)

    def use_attempt(self, attempt: Attempt, placed: tuple[Placed, ...], sign: int, *, soft: bool = False) -> None:
        """Count tasks of an attempt in (``sign`` -1: out) for its team and user."""
        place = self.tree.number[attempt.team]
        firm = not (attempt.borrow and attempt.preemptible)
        for flavor, units in units_of(attempt, placed).items():
            self.use(place, flavor, units * sign, firm=firm, soft=soft)
            self.count_user(place, attempt.queue, attempt.user, flavor, units * sign, soft=soft)

    def use(self, place: int, flavor: int, units: int, *, firm: bool, soft: bool = False) -> None:
        """Count units of a team; soft ones do not count where guarantees are judged, and are never firm."""
        line = self.lines[flavor]
        line.take(place, units)
        hard = self.hard[flavor]
        if hard is not line and not soft:
            hard.take(place, units)
        if firm and not soft:
            line.take_firm(place, units)

    def count_user(
        self, place: int, queue: int | None, user: int, flavor: int, units: int, *, soft: bool = False
    ) -> None:
        """Count units of a user in a team, in the departments above that limit them, and in a queue."""
        for node in self.tree.counting[place]:
            key = (node, user)
            self.used_in_team[key] = self.used_in_team.get(key, 0) + units
            if soft:
                self.soft_in_team[key] = self.soft_in_team.get(key, 0) + units
        key = (place, user)
        if soft:
            if queue is not None:
                self.soft_in_queue[queue, user] = self.soft_in_queue.get((queue, user), 0) + units
        else:
            self.used_value[key] = self.used_value.get(key, 0) + units * self.flavors[flavor].value
        if queue is not None:
            self.used_in_queue[queue, user] = self.used_in_queue.get((queue, user), 0) + units

    def paused(self, queue: Queue) -> str | None:
        """Return what of queue, team and departments above starts nothing now, by name; None: everything may start."""
        if queue.paused:
            return queue.name
        path = self.tree.path[self.tree.number[queue.team]]
        return next((self.team(place).name for place in path if self.team(place).paused), None)

    def turn_of(self, place: int) -> tuple[int, int]:
        """Return what changes when a team may have gained something otherwise than by others' steps."""
        return self.turn, self.turns.get(place, 0)

    # --- names

    def case(self, job_class: JobClass) -> Case:
        """Return the case that a class belongs to."""
        known = self._cases.get(job_class.id)
        if known is not None and (known[0] is job_class or known[0] == job_class):
            return known[1]
        queue = self.queues[job_class.queue]
        place, shape = self.tree.number[queue.team], self.shapes.of(job_class.ask)
        case = self.frame.one_case.setdefault((place, id(shape)), Case(place, shape))
        self._cases[job_class.id] = (job_class, case)
        return case

    def team(self, place: int) -> Team:
        """Return the team with this number in the tree."""
        return self.tree.teams[place - 1]

    def option_of(self, claim: Claim) -> Option:
        """Return the option of its class that a claim is for; the first where the wish has changed since."""
        options = self.case(self.classes[claim.job_class]).shape.options
        return next((option for option in options if option.flavors == claim.flavors), options[0])

    # --- quota

    def inside(self, case: Case, option: Option) -> bool:
        """Whether the job would be guaranteed demand: within a node of its path on every flavor that it takes."""
        hard, place = self.hard, case.place
        return all(units <= max(0, hard[flavor].promised_room(place)) for flavor, units in option.needs)

    def inside_at(self, case: Case, option: Option) -> int | None:
        """Return the highest of the nodes within which the job is on its flavors; None where it is not inside."""
        nodes = [self.hard[flavor].within(case.place, units) for flavor, units in option.needs]
        known = [node for node in nodes if node is not None]
        if len(known) < len(nodes):
            return None
        return min(known, key=lambda node: len(self.tree.path[node]), default=case.place)

    def covered(self, case: Case, option: Option) -> bool:
        """Whether firm use stays covered by what cannot be recalled; true of jobs that are not firm."""
        return not case.shape.firm or all(
            self.lines[flavor].covers(case.place, units) for flavor, units in option.needs
        )

    def entitled(self, case: Case, option: Option) -> bool:
        """Whether limits leave room, whatever others use; user and queue limits are asked by ``user_room``."""
        for flavor, units in option.needs:
            line = self.hard[flavor]
            if line.limited_by(case.place, units) is not None:
                return False
            if line.most(case.place) < line.usage[case.place] + units <= line.installed:
                return False
        return True

    def quota(self, case: Case, option: Option) -> bool:
        """Whether quota is there now, its own or lent, and firm use stays covered."""
        lines, place = self.lines, case.place
        for flavor, units in option.needs:  # asked so often that a generator would show
            if lines[flavor].available(place) < units:
                return False
        return not case.shape.firm or self.covered(case, option)

    def user_limits(self, queue: Queue) -> tuple[tuple[int | None, int], ...]:
        """Return what one user may have at most: by the queue (None), by its team, and by the departments above."""
        known = self.frame.user_limits.get(queue.id)
        if known is None:
            places = self.tree.counting[self.tree.number[queue.team]]
            rows = [(None, queue.per_user_limit), *((node, self.team(node).per_user_limit) for node in places)]
            known = tuple((node, limit) for node, limit in rows if limit is not None)
            self.frame.user_limits[queue.id] = known
        return known

    def used_by(self, node: int | None, queue: Queue, user: int) -> int:
        """Return what a user has where a limit binds: in a team or department, or in the queue (None)."""
        return self.used_in_queue.get((queue.id, user), 0) if node is None else self.used_in_team.get((node, user), 0)

    def user_room(self, queue: Queue, user: int, back: Mapping[int | None, int] = NOTHING_BACK) -> int | None:
        """Return how many more units the user may have here by all limits; None: no limit.

        ``back`` is what of theirs is taken to be given back, by team, and in the queue (None).
        """
        limits = self.user_limits(queue)
        return min(
            [limit - self.used_by(node, queue, user) + back.get(node, 0) for node, limit in limits], default=None
        )

    def hard_room(self, queue: Queue, user: int) -> int | None:
        """Return how many more units the user may have here, all surplus of theirs given back."""
        back: dict[int | None, int] = {}
        for node, _ in self.user_limits(queue):
            soft = self.soft_in_queue.get((queue.id, user)) if node is None else self.soft_in_team.get((node, user))
            back[node] = soft or 0
        return self.user_room(queue, user, back)

    def suppose(self, case: Case, option: Option, user: int, times: int) -> None:
        """Count ``times`` admissions as usage, without nodes: the turns that come next see it."""
        self.moves.append(case.place)
        for flavor, units in option.needs:
            self.use(case.place, flavor, units * times, firm=case.shape.firm)
            self.count_user(case.place, None, user, flavor, units * times)

    def promise(self, case: Case, needs: Needs, sign: int) -> None:
        """Count needs as usage where later jobs are judged inside (``sign`` -1: no longer); nothing else sees it."""
        self.turn += 1
        self.count_promise(case, needs, sign)

    def count_promise(self, case: Case, needs: Needs, sign: int) -> None:
        """Count needs so for a moment, which nobody has to be asked again for."""
        self.part()
        for flavor, units in needs:
            self.hard[flavor].take(case.place, units * sign)

    def part(self) -> None:
        """Let what counts for guarantees go its own way from what is in use."""
        if self.hard is self.lines:
            self.hard = copies(self.lines)
