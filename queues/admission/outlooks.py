"""What a job would find at a later time with the planned starts that bind it counted in (SEMANTICS 7).

A new plan changes only the quota and the nodes that it takes: nothing that was counted before is counted again.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from queues.admission.board import Board
from queues.admission.futures import Future, Futures
from queues.admission.margins import Margins
from queues.admission.nodes import Ground, Room
from queues.admission.placement import fits, witness
from queues.admission.plans import Case, Plan
from queues.admission.quota import ROOT, Line
from queues.admission.rooms import NOTHING, minus
from queues.admission.shapes import Needs, Option, Pattern
from queues.admission.usage import copies
from queues.admission.world import Milliseconds, Placed, Standing


class Whom(NamedTuple):
    """Whose plans bind: not those of less urgent jobs of this team (ROOT: it has none), and borrowers' a borrower."""

    standing: Standing
    place: int
    priority: int


def binds(plan: Plan, whom: Whom) -> bool:
    """Whether a plan stands in the way: a borrower's binds no guaranteed demand, no plan the more urgent of its team.

    What borrows gives way to guaranteed demand all the same.
    """
    guaranteed = plan.standing is Standing.GUARANTEED
    if plan.case.place == whom.place and plan.priority < whom.priority:
        return guaranteed and whom.standing is Standing.BORROWER
    return guaranteed or whom.standing is Standing.BORROWER


def within_limit(line: Line, place: int, units: int, *, lent: bool) -> bool:
    """Whether no team's limit stands against an ask, and one that may not be ``lent`` anything is inside."""
    return line.limited_by(place, units) is None and (lent or line.within(place, units) is not None)


class Book:
    """The planned starts of a board, and in which order they came and went."""

    def __init__(self, plans: list[Plan]) -> None:
        """Write down those that are there."""
        self.log: list[tuple[Plan, bool]] = []
        self.dropped = 0
        self.guaranteed = 0
        self._on_flavor: Counter[tuple[int, bool]] = Counter()
        self.times: list[Milliseconds] = []
        self.on: dict[int, list[Plan]] = {}
        self._of: dict[int, Plan] = {}
        self._margins = Margins()
        self._number: dict[Plan, int] = {}
        self._urgent: dict[int, Counter[int]] = {}
        self._at: Counter[Milliseconds] = Counter()
        for plan in plans:
            self.add(plan)

    def add(self, plan: Plan) -> None:
        """Write down a plan."""
        self._number[plan] = len(self.log)
        self._of[plan.job] = plan
        self._count(plan, 1)
        self._margins.add(plan)
        for node in plan.needs:
            self.on.setdefault(node, []).append(plan)
        if plan.at is not None and self._at[plan.at] == 1:
            insort(self.times, plan.at)
        self.log.append((plan, True))

    def drop(self, plan: Plan) -> None:
        """Strike a plan out."""
        del self._number[plan]
        del self._of[plan.job]
        self._count(plan, -1)
        self._margins.drop(plan)
        for node in plan.needs:
            self.on[node].remove(plan)
        if plan.at is not None and not self._at[plan.at]:
            del self.times[bisect_left(self.times, plan.at)]
        self.dropped += 1
        self.log.append((plan, False))

    def _count(self, plan: Plan, sign: int) -> None:
        guaranteed = plan.standing is Standing.GUARANTEED
        self.guaranteed += sign if guaranteed else 0
        for flavor in set(plan.option.flavors):
            self._on_flavor[flavor, guaranteed] += sign
        priorities = self._urgent.setdefault(plan.case.place, Counter())
        priorities[plan.priority] += sign
        if not priorities[plan.priority]:
            del priorities[plan.priority]
        if plan.at is not None:
            self._at[plan.at] += sign

    def on_flavor(self, flavor: int, *, guaranteed: bool) -> int:
        """Return how many plans take units of a flavor, of all or of those of guaranteed demand alone."""
        return self._on_flavor[flavor, True] + (0 if guaranteed else self._on_flavor[flavor, False])

    def of(self, job: int) -> Plan | None:
        """Return the plan of a job."""
        return self._of.get(job)

    def tight(self, places: Iterable[int], needs: Needs) -> set[Plan]:
        """Return the plans that may lack quota with these needs more in use in all these teams."""
        return self._margins.tight(places, needs)

    def near(self, plan: Plan) -> list[Plan]:
        """Return the plans with nodes in common with another, in the order in which they were made."""
        found = {other for node in plan.needs for other in self.on.get(node, ())}
        return sorted(found, key=self._number.__getitem__)

    def whom(self, standing: Standing, place: int, priority: int) -> Whom:
        """Return whose plans bind a job of this standing, team and urgency."""
        if self.outranks(place, priority):
            return Whom(standing, place, priority)
        return Whom(standing, ROOT, 0)

    def outranks(self, place: int, priority: int) -> bool:
        """Whether a team has planned the start of a job that is less urgent."""
        return any(other < priority for other in self._urgent.get(place, ()))


class View:
    """The nodes at a time, as far as planned starts leave them; what was found not to fit is remembered."""

    def __init__(self, outlook: "Outlook", *, alone: bool, ending: bool) -> None:
        """``alone``: as if nobody else held. ``ending``: only nodes on which something ends until then."""
        self._outlook = outlook
        self._alone = alone
        self._space = outlook.future.space
        self._freed = self._space.freed if ending else None
        self._avoid: frozenset[int] = frozenset()
        self._ground: Ground | None = None
        self._read = 0
        self._dropped = 0
        self._too_many: dict[Pattern, int] = {}
        self._never: set[Option] = set()

    def fits(self, option: Option, avoid: frozenset[int]) -> bool:
        """Whether there is room for the option without the nodes to avoid."""
        self._forget(avoid)
        simple = len(option.patterns) == 1 and not (option.together or option.topologies[0])
        if option in self._never or (simple and option.tasks[0] >= self._too_many.get(option.patterns[0], 1 << 60)):
            return False
        found = fits(self.ground(avoid), option)
        if not found and simple:
            self._too_many[option.patterns[0]] = option.tasks[0]
        elif not found:
            self._never.add(option)
        return found

    def witness(self, option: Option, avoid: frozenset[int]) -> tuple[Placed, ...] | None:
        """Return nodes for the option without the nodes to avoid."""
        return witness(self.ground(avoid), option) if self.fits(option, avoid) else None

    def ground(self, avoid: frozenset[int]) -> Ground:
        """Return the room without the nodes to avoid; the caller leaves it as it is."""
        book = self._outlook.book
        if self._ground is None:
            self._avoid = avoid
            self._ground = self._first()
        else:
            for plan, added in () if self._alone else book.log[self._read :]:
                if binds(plan, self._outlook.whom):
                    self._change(plan, added=added)
            if avoid is not self._avoid:
                changed, self._avoid = avoid ^ self._avoid, avoid
                for node in changed:
                    self._look(node)
        self._read = len(book.log)
        return self._ground

    def _forget(self, avoid: frozenset[int]) -> None:
        """Forget what did not fit where there may be more room than then."""
        dropped = 0 if self._alone else self._outlook.book.dropped
        if dropped != self._dropped or (avoid is not self._avoid and not avoid >= self._avoid):
            self._too_many.clear()
            self._never.clear()
            self._dropped = dropped

    def _first(self) -> Ground:
        outlook, base = self._outlook, self._space.ground
        out, shared = set(self._avoid), set[int]()
        for node, plans in () if self._alone else outlook.book.on.items():
            for plan in plans:
                if binds(plan, outlook.whom):
                    (shared if plan.at == outlook.at else out).add(node)
        if self._freed is not None:
            out.update(base.where.keys() - self._freed)
        ground = self._ground = base.without(out)
        for node in (shared | set(outlook.kept)) - out:
            self._look(node)
        return ground

    def _change(self, plan: Plan, *, added: bool) -> None:
        if self._ground is None:
            return
        for node in plan.needs:
            if added and plan.at != self._outlook.at:
                if node in self._ground.where:
                    self._ground.set(node, NOTHING)
            else:
                self._look(node)

    def _look(self, node: int) -> None:
        """Work out anew what is left of a node."""
        if self._ground is not None and node in self._ground.where:
            self._ground.set(node, self._room(node))

    def _room(self, node: int) -> Room:
        outlook, kind = self._outlook, self._space.ground.where[node]
        if node in self._avoid or (self._freed is not None and node not in self._freed):
            return NOTHING
        room = minus((kind.units, kind.cpu, kind.memory, kind.pods), outlook.kept.get(node, NOTHING))
        for plan in () if self._alone else outlook.book.on.get(node, ()):
            if binds(plan, outlook.whom):
                if plan.at != outlook.at:
                    return NOTHING
                room = minus(room, plan.needs[node])
        return room


class Outlook:
    """What those whom the same planned starts bind find at a time."""

    def __init__(self, future: Future, book: Book, at: Milliseconds, whom: Whom, kept: dict[int, Room]) -> None:
        """``kept`` is the room that keeps take from those who ask."""
        self.future = future
        self.book = book
        self.at = at
        self.whom = whom
        self.kept = kept
        self.counted: set[int] = set()
        self._lines = copies(future.lines)
        self._read = 0
        self._dropped = 0
        self._refused: set[tuple[int, bool, bool, Needs]] = set()
        self._views: dict[tuple[bool, bool], View] = {}

    def allows(self, case: Case, option: Option, *, lent: bool) -> bool:
        """Whether quota will let the job start then; one that may not be ``lent`` anything has to be inside."""
        if self._dropped != self.book.dropped:
            self._dropped = self.book.dropped
            self._refused.clear()
        key = (case.place, case.shape.firm, lent, option.needs)
        if key in self._refused:
            return False
        for flavor, units in option.needs:
            line = self.lines[flavor]
            if not (
                within_limit(line, case.place, units, lent=lent)
                and line.available(case.place) >= units
                and (not case.shape.firm or line.covers(case.place, units))
            ):
                self._refused.add(key)
                return False
        return True

    @property
    def lines(self) -> dict[int, Line]:
        """Return the quota then, with the planned starts that bind and may still be running; not to be changed."""
        log = self.book.log
        for plan, added in log[self._read :] if self._read < len(log) else ():
            if binds(plan, self.whom) and plan.in_use_at(self.at):
                plan.change_in(self._lines, 1 if added else -1)
                (self.counted.add if added else self.counted.discard)(plan.job)
        self._read = len(log)
        return self._lines

    def view(self, *, alone: bool, ending: bool) -> View:
        """Return the nodes then (see ``View``)."""
        known = self._views.get((alone, ending))
        if known is None:
            known = self._views[alone, ending] = View(self, alone=alone, ending=ending)
        return known


class Outlooks:
    """Outlooks on the futures of a board on which nothing changes meanwhile but the planned starts."""

    def __init__(self, board: Board) -> None:
        """Look at the board as it is now."""
        self.book = Book(board.plans)
        self.futures = Futures(board)
        self._kept = board.kept
        self._known: dict[tuple[Milliseconds, Whom], Outlook] = {}

    def at(self, at: Milliseconds, standing: Standing, place: int, priority: int) -> Outlook:
        """Return the outlook of a job at a time by what it will rest on then."""
        whom = self.book.whom(standing, place, priority)
        known = self._known.get((at, whom))
        if known is None:
            kept = self._kept if standing is Standing.BORROWER else {}
            known = self._known[at, whom] = Outlook(self.futures.at(at), self.book, at, whom, kept)
        return known
