"""Why the rest wait: one reason per class, judged on the board as the decision leaves it (SEMANTICS 10)."""

from queues.admission.board import Board
from queues.admission.never import Never
from queues.admission.placement import fits
from queues.admission.plans import Asker, Case
from queues.admission.reasons import ORDER, Code, Numbers, Reason, reason
from queues.admission.shapes import Needs, Option
from queues.admission.world import JobClass, NodeState, Queue

LIMITS = ORDER[Code.TIME_LIMIT_NEEDED]


class Judge:
    """Finds reasons on one board; what is the same for many classes is found once."""

    def __init__(self, board: Board) -> None:
        """Look at the board as it is now."""
        self._board = board
        self._never = Never(board)
        self._whole: Board | None = None
        self._later: Board | None = None
        self._unusable = board.frame.unusable
        self._leaving = board.going
        self._limits: dict[int, int | None] = {}
        self._limited: dict[tuple[int, Needs, bool, bool], Reason | None] = {}
        self._of_case: dict[tuple[Case, int], Reason] = {}
        self._rests: dict[tuple[int, tuple[int, ...]], object] = {}
        self._looked = False
        self._fleeting: set[Case] = set()
        self._paused: dict[int, Reason | None] = {}
        self._of_team: dict[tuple[int, int], tuple[int, int]] = {}
        self._plain: dict[tuple[Code, int, int, int, int], Reason] = {}
        self._free: dict[int, tuple[int, int]] = {}
        self._users: dict[int, list[int]] | None = None

    def paused(self, job_class: JobClass) -> Reason | None:
        """Return QUEUE_PAUSED where the queue, its team or a department above takes no turns."""
        if job_class.queue not in self._paused:
            self._paused[job_class.queue] = self._why_paused(self._board.queues[job_class.queue])
        return self._paused[job_class.queue]

    def _why_paused(self, queue: Queue) -> Reason | None:
        name = self._board.paused(queue)
        if name is None:
            return None
        return reason(Code.QUEUE_PAUSED, {"queue" if queue.paused else "team": name})

    def of_class(self, job_class: JobClass) -> Reason:
        """Return why the jobs of a class wait, users' limits aside."""
        case = self._board.case(job_class)
        key = (case, job_class.priority)
        known = self._of_case.get(key)
        if known is None:
            self._looked = False
            rows = [self._of_option(case, option, job_class.priority) for option in case.shape.options]
            known = self._of_case[key] = max(rows, key=lambda row: ORDER[row.code])
            if self._looked:
                self._fleeting.add(case)
        if known.permanent:
            return known
        return self._beyond_user_limit(job_class, case) or self._needs_limit(job_class, case, known) or known

    def takes_turns(self, job_class: JobClass) -> bool:
        """Whether jobs of a class may become candidates: neither paused, nor such that they can never start."""
        return self.paused(job_class) is None and self.permanent(job_class) is None

    def rests_on(self, job_class: JobClass) -> object | None:
        """Return what the reasons of a class rest on, the same object as long as it is the same; None: on more."""
        case = self._board.case(job_class)
        if self._board.queues[job_class.queue].limit_needed_to_borrow or self._user_limit(job_class) is not None:
            return None
        key = (case.place, case.shape.flavors)
        known = self._rests.get(key)
        if known is None:
            found = tuple([self._rests_on(case.place, flavor) for flavor in case.shape.flavors])
            before = self._board.frame.rests.get(key)
            known = self._rests[key] = before if before == found else found
            self._board.frame.rests[key] = known
        return known

    def looked_further(self, job_class: JobClass) -> bool:
        """Whether the reasons of a class were found by more than what is compared."""
        return self._board.case(job_class) in self._fleeting

    def _rests_on(self, place: int, flavor: int) -> tuple[object, ...]:
        line = self._board.lines[flavor]
        path = line.tree.path[place]
        return (
            *self._room(flavor),
            flavor in self._leaving,
            line.available(place),
            line.promised_room(place),
            tuple([line.usage[node] for node in path]),
            tuple([line.firm[node] for node in path]),
        )

    def permanent(self, job_class: JobClass) -> Reason | None:
        """Return the reason for which jobs of a class can never start, if there is one."""
        case = self._board.case(job_class)
        return self._never.of_case(case) or self._beyond_user_limit(job_class, case)

    def first_option(self, case: Case) -> Option:
        """Return the first option on which the job could ever start; the first of all if there is none."""
        options = case.shape.options
        return next((option for option in options if self._never.of_option(case, option) is None), options[0])

    def limited_users(self, job_class: JobClass) -> list[tuple[int, Reason]]:
        """Return the users whose own limit keeps their jobs of this class waiting."""
        board = self._board
        case = board.case(job_class)
        queue = board.queues[job_class.queue]
        limits = board.user_limits(queue)
        if not limits:
            return []
        result = []
        if self._users is None:
            self._users = {}
            for place, user in sorted(board.used_in_team):
                self._users.setdefault(place, []).append(user)
        users = {user for node in board.tree.counting[case.place] for user in self._users.get(node, ())}
        for user in sorted(users | {plan.user for plan in board.plans}):
            held = self._held_by(case, job_class, user)
            used = {node: board.used_by(node, queue, user) + held for node, _ in limits}
            node, limit = min(limits, key=lambda row: row[1] - used[row[0]])
            if limit - used[node] < case.shape.units:
                numbers: Numbers = {"needs": case.shape.units, "used": used[node], "limit": limit}
                result.append((user, reason(Code.USER_LIMIT, numbers)))
        return result

    def _held_by(self, case: Case, job_class: JobClass, user: int) -> int:
        """Return what planned starts of a user keep of their limits from further jobs of a class."""
        board, limit = self._board, job_class.ask.time_limit
        asker = Asker(case, None, job_class.priority, None if limit is None else board.world.now + limit)
        for option in case.shape.options:
            planned = board.planned_for_user(asker, option, board.queues[job_class.queue], user)
            if planned:
                return planned
        return 0

    def _beyond_user_limit(self, job_class: JobClass, case: Case) -> Reason | None:
        limit = self._user_limit(job_class)
        if limit is None or case.shape.units <= limit:
            return None
        return reason(Code.EXCEEDS_MAX, {"needs": case.shape.units, "limit": limit})

    def _user_limit(self, job_class: JobClass) -> int | None:
        if job_class.queue not in self._limits:
            limits = self._board.user_limits(self._board.queues[job_class.queue])
            self._limits[job_class.queue] = min((limit for _, limit in limits), default=None)
        return self._limits[job_class.queue]

    def _needs_limit(self, job_class: JobClass, case: Case, known: Reason) -> Reason | None:
        """Return TIME_LIMIT_NEEDED where jobs without a limit may not borrow and this one would have to."""
        queue = self._board.queues[job_class.queue]
        if not queue.limit_needed_to_borrow or ORDER[known.code] < LIMITS:
            return None
        if case.shape.ask.time_limit is not None or any(self._board.inside(case, row) for row in case.shape.options):
            return None
        return reason(Code.TIME_LIMIT_NEEDED, {"needs": case.shape.units})

    def _of_option(self, case: Case, option: Option, priority: int) -> Reason:
        return (
            self._never.of_option(case, option)
            or self._not_entitled(case, option)
            or self._reduced(case, option)
            or self._terminating(case, option)
            or self._short(case, option, priority)
            or self._ahead(case, option)
        )

    def _not_entitled(self, case: Case, option: Option) -> Reason | None:
        """Return the limit that stops the team, found once for all that takes the same."""
        key = (case.place, option.needs, case.shape.firm, case.shape.ask.borrow)
        if key not in self._limited:
            self._limited[key] = self._limit(case, option)
        return self._limited[key]

    def _limit(self, case: Case, option: Option) -> Reason | None:
        board = self._board
        for flavor, units in option.needs:
            line = board.lines[flavor]
            stop = line.limited_by(case.place, units)
            if stop is not None:
                code = Code.TEAM_LIMIT if stop == case.place else Code.BORROW_LIMIT
                limit = line.subtree[stop] + (line.borrow[stop] or 0)
                numbers: Numbers = {"team": board.team(stop).name, "used": line.usage[stop], "limit": limit}
                return reason(code, self._numbers(case, flavor, units) | numbers)
            if not case.shape.ask.borrow and line.within(case.place, units) is None:
                return reason(Code.TEAM_LIMIT, self._numbers(case, flavor, units) | self._own(case, flavor))
            if case.shape.firm and not line.covers(case.place, units):
                return reason(Code.TEAM_LIMIT, self._numbers(case, flavor, units) | self._own(case, flavor))
            after = line.usage[case.place] + units
            if line.most(case.place) < after <= line.installed:
                numbers = {"used": line.usage[case.place], "limit": line.most(case.place)}
                return reason(Code.LEND_LIMIT, self._numbers(case, flavor, units) | numbers)
        return None

    def _own(self, case: Case, flavor: int) -> Numbers:
        line = self._board.lines[flavor]
        return {
            "used": line.usage[case.place],
            "limit": sum(line.guaranteed[node] for node in line.tree.path[case.place]),
        }

    def _reduced(self, case: Case, option: Option) -> Reason | None:
        missing = [flavor for flavor, _ in option.needs if flavor in self._unusable]
        if not missing:
            return None
        self._looked = True
        if self._whole is None:
            self._whole = self._board.what_if(count_lost=True, leaving=True)
        if not self._whole.could(case, option):
            return None
        units = dict(option.needs)[missing[0]]
        world = self._board.world
        lost = sum(n.units for n in world.nodes if n.flavor == missing[0] and n.state is not NodeState.READY)
        installed = self._board.lines[missing[0]].installed
        numbers: Numbers = {"usable": installed - lost, "installed": installed}
        return reason(Code.CAPACITY_REDUCED, self._numbers(case, missing[0], units) | numbers)

    def _terminating(self, case: Case, option: Option) -> Reason | None:
        going = [flavor for flavor, _ in option.needs if flavor in self._leaving]
        if not going:
            return None
        self._looked = True
        if self._later is None:
            self._later = self._board.what_if(count_lost=False, leaving=False)
        if not self._later.could(case, option):
            return None
        coming = self._later.ground.free(going[0]) - self._board.ground.free(going[0])
        numbers = self._numbers(case, going[0], dict(option.needs)[going[0]])
        return reason(Code.WAITS_TERMINATING, numbers | {"terminating": coming})

    def _short(self, case: Case, option: Option, priority: int) -> Reason | None:
        lines = self._board.lines
        for flavor, units in option.needs:
            if self._room(flavor)[0] < units:
                return self._plainly(Code.NO_FREE_CAPACITY, case, flavor, units)
        for flavor, units in option.needs:
            if lines[flavor].available(case.place) < units:
                return self._plainly(Code.LEND_LIMIT, case, flavor, units)
        self._looked = True
        if not fits(self._board.ground, option):
            flavor, units = option.needs[0]
            code = Code.NO_DOMAIN_FITS if self._bound_to_domain(option) else Code.FRAGMENTED
            return self._plainly(code, case, flavor, units)
        return self._delays(case, option, priority)

    def _bound_to_domain(self, option: Option) -> bool:
        """Whether it is a domain that is lacking: one that the job asks for, or one cluster for all of a gang."""
        if option.together is not None or any(option.topologies):
            return True
        rooms = [sum(self._board.ground.rooms(pattern).values()) for pattern in option.patterns]
        return len(option.patterns) == 1 and rooms[0] >= option.tasks[0]

    def _delays(self, case: Case, option: Option, priority: int) -> Reason | None:
        """Return WOULD_DELAY where a keep or a hold stands in the way of what would fit."""
        board = self._board
        if not board.plans and not board.kept:
            return None
        flavor, units = option.needs[0]
        asker = Asker(case, None, priority, None)
        numbers = self._numbers(case, flavor, units)
        binding = board.binding(asker, option)
        if binding:
            return reason(Code.WOULD_DELAY, numbers | {"job": binding[0].job})
        return reason(Code.WOULD_DELAY, numbers) if board.kept and board.minds_keeps(asker, option) else None

    def _ahead(self, case: Case, option: Option) -> Reason:
        flavor, units = option.needs[0]
        numbers = self._numbers(case, flavor, units)
        last = next((row for row in reversed(self._board.log) if flavor in dict(row.option.needs)), None)
        if last is not None:
            numbers["ahead"] = self._board.team(last.case.place).name
        return reason(Code.BEHIND, numbers)

    def _room(self, flavor: int) -> tuple[int, int]:
        if flavor not in self._free:
            self._free[flavor] = (self._board.ground.free(flavor), self._board.ground.largest(flavor))
        return self._free[flavor]

    def _numbers(self, case: Case, flavor: int, units: int) -> Numbers:
        """Return what every reason tells: the ask, what is free, and what the team has left and may borrow."""
        free, largest = self._room(flavor)
        left, more = self._team_numbers(case, flavor)
        return {
            "flavor": self._board.flavors[flavor].name,
            "needs": units,
            "free": free,
            "largest_block": largest,
            "team_left": left,
            "may_borrow": more,
        }

    def _team_numbers(self, case: Case, flavor: int) -> tuple[int, int]:
        """Return what the team has left of what it is promised, and what it may borrow beside that."""
        key = (case.place, flavor)
        known = self._of_team.get(key)
        if known is None:
            line = self._board.lines[flavor]
            left = max(0, line.promised_room(case.place))
            known = self._of_team[key] = (left, max(0, line.available(case.place) - left))
        return known

    def _plainly(self, code: Code, case: Case, flavor: int, units: int) -> Reason:
        """Return a reason that tells the common numbers only; teams with equal numbers share it."""
        key = (code, flavor, units, *self._team_numbers(case, flavor))
        known = self._plain.get(key)
        if known is None:
            known = self._plain[key] = reason(code, self._numbers(case, flavor, units))
        return known
