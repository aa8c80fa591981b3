"""The third pass: elastic jobs grow, task by task, into what nobody else can use (SEMANTICS 6).

Of each that could not grow to its maximum the outcome says what stops it. One that gives surplus back does not grow.
"""

from queues.admission.board import Board
from queues.admission.nodes import Ground, Path
from queues.admission.order import Key
from queues.admission.outcome import Growth, Stalled
from queues.admission.placement import fits, witness
from queues.admission.plans import Asker, Case
from queues.admission.quota import ROOT
from queues.admission.reasons import Code
from queues.admission.record import Record
from queues.admission.shapes import Option, Pattern, Shape
from queues.admission.shares import Share, counted
from queues.admission.topology import depth, domain_rooms
from queues.admission.world import Ask, Attempt, Group, JobShape, Near, Placed, Topology


class Surplus:
    """Grows the elastic jobs that run."""

    def __init__(self, board: Board, record: Record) -> None:
        """Nobody has grown yet."""
        self._board = board
        self._record = record
        self._grown: dict[int, list[Placed]] = {}
        self._options: dict[tuple[int, int], tuple[Case, Option]] = {}
        self._shrinking: set[int] = set()
        self._stalled: dict[int, Code] = {}
        running = board.running.values() if board.elastic else ()
        elastic = [row for row in running if row.shape is JobShape.ELASTIC]
        self._elastic = [row.id for row in sorted(elastic, key=lambda row: (row.number, row.id))]

    def grow(self) -> None:
        """Give one task after the other to the job whose team has least for its weight, surplus counted."""
        self._shrinking = {row.attempt for row in self._record.evictions if row.surplus}
        pending = (victim for claim in self._board.claims.values() for victim in claim.pending)
        self._shrinking.update(victim.attempt for victim in pending if victim.surplus)
        while (found := self._next()) is not None:
            attempt, row = found
            self._board.grow(attempt, row)
            self._grown.setdefault(attempt.id, []).append(row)
        for number in sorted(self._grown):
            self._record.growth.append(Growth(attempt=number, placed=tuple(self._grown[number])))
        self._record.stalled += [Stalled(attempt=number, code=code) for number, code in sorted(self._stalled.items())]

    def _next(self) -> tuple[Attempt, Placed] | None:
        able: dict[int, tuple[Key, Attempt, Placed, Option]] = {}
        self._stalled.clear()
        for number in self._elastic:
            attempt = self._board.running.get(number)
            if attempt is None or not attempt.placed:
                continue
            place = self._board.tree.number[attempt.team]
            if place in able or attempt.grows_from > self._board.world.now or number in self._shrinking:
                continue
            found = self._room(attempt)
            if isinstance(found, Code):
                self._stalled[attempt.id] = found
            elif found is not None:
                able[place] = ((0, attempt.number, attempt.id, 0), attempt, *found)
        best = self._first(ROOT, able)
        return None if best is None else (able[best][1], able[best][2])

    def _first(self, node: int, able: dict[int, tuple[Key, Attempt, Placed, Option]]) -> int | None:
        """Return the leaf whose job grows next."""
        board = self._board
        if node in able:
            return node
        best: tuple[Share, Key, int] | None = None
        for child in board.tree.children[node]:
            leaf = self._first(child, able)
            if leaf is None:
                continue
            value = counted(board.lines, leaf, able[leaf][3].needs, child, only_needs=False)
            share = Share(value, board.tree.weight[child])
            if best is None or share.below(best[0]) or (not best[0].below(share) and able[leaf][0] < best[1]):
                best = (share, able[leaf][0], leaf)
        return None if best is None else best[2]

    def _room(self, attempt: Attempt) -> tuple[Placed, Option] | Code | None:
        """Return where one more task of an attempt could be, of its first group that has room, or what stops it.

        None: it has as many as it may.
        """
        stopped = None
        for number, group in enumerate(attempt.groups):
            has = sum(row.tasks for row in attempt.placed + attempt.surplus if row.group == number)
            if group.most is None or has >= group.most:
                continue
            found = self._one_more(attempt, number, group)
            if not isinstance(found, Code):
                return found
            stopped = stopped or found
        return stopped

    def _one_more(self, attempt: Attempt, number: int, group: Group) -> tuple[Placed, Option] | Code:
        board = self._board
        case, option = self._single(attempt, number, group)
        if not board.entitled(case, option):
            return Code.TEAM_LIMIT
        queue = board.queues.get(attempt.queue or 0)
        if queue is not None and board.paused(queue) is not None:
            return Code.QUEUE_PAUSED
        if (
            queue is not None
            and queue.limit_needed_to_borrow
            and attempt.ends_by is None
            and not _own(board, case, option)
        ):
            return Code.TIME_LIMIT_NEEDED
        room = None if queue is None else board.user_room(queue, attempt.user)
        if room is not None and room < option.units:
            return Code.USER_LIMIT
        if not board.quota(case, option):
            return Code.LEND_LIMIT if fits(board.ground, option) else Code.NO_FREE_CAPACITY
        asker = Asker(case, attempt.job, -(1 << 30), attempt.ends_by)
        if not board.leaves_quota(asker, option, board.plans):
            return Code.WOULD_DELAY
        node = self._node(board.view(asker, option, everything=True), attempt, number, group.topology, option)
        if node is None:
            free = self._node(board.ground, attempt, number, group.topology, option)
            return Code.NO_FREE_CAPACITY if free is None else Code.WOULD_DELAY
        return Placed(group=number, node=node, tasks=1), option

    def _node(self, ground: Ground, attempt: Attempt, number: int, wish: Topology | None, option: Option) -> int | None:
        """Return the node for one more task of a group: the fullest with room, where its wish lets it be."""
        pattern = option.patterns[0]
        if witness(ground, option) is None:
            return None
        for domain in self._domains(ground, attempt, number, wish, pattern):
            nodes = [(kind.units, nodes[0]) for kind, nodes in ground.within(domain, pattern).items()]
            if nodes:
                return min(nodes)[1]
        return None

    def _single(self, attempt: Attempt, number: int, group: Group) -> tuple[Case, Option]:
        key = (attempt.id, number)
        known = self._options.get(key)
        if known is None:
            one = Group(
                tasks=1,
                units=group.units,
                cpu=group.cpu,
                memory=group.memory,
                flavors=(attempt.flavors[number],),
                labels=group.labels,
            )
            shape = Shape(Ask(shape=JobShape.INDEPENDENT, groups=(one,), preemptible=True, borrow=True))
            known = self._options[key] = (Case(self._board.tree.number[attempt.team], shape), shape.options[0])
        return known

    def _domains(
        self, ground: Ground, attempt: Attempt, number: int, wish: Topology | None, pattern: Pattern
    ) -> list[Path]:
        """Return the domains in which one more task of the group may be, the best first; without a wish the cluster."""
        own = [row.node for row in attempt.placed if row.group == number] or [attempt.placed[0].node]
        path = (*ground.paths.get(own[0], (0,)), own[0])
        if wish is None:
            return [path[:1]]
        level = depth(wish)
        if wish.near is Near.REQUIRED:
            return [path[:level]]
        if wish.near is Near.PREFERRED:
            return [path[:length] for length in range(min(level, len(path)), 0, -1)]
        taken: dict[Path, int] = {}
        for row in attempt.placed + attempt.surplus:
            domain = (*ground.paths.get(row.node, ()), row.node)[:level]
            if row.group == number and len(domain) == level:
                taken[domain] = taken.get(domain, 0) + row.tasks
        rooms = domain_rooms(ground, pattern, path[:1], level)
        least = min(taken.get(domain, 0) for domain in {*taken, *rooms}) if taken or rooms else 0
        return [
            domain
            for domain in sorted(rooms, key=lambda domain: (taken.get(domain, 0), rooms[domain][1]))
            if wish.max_skew is None or taken.get(domain, 0) < least + wish.max_skew
        ]


def _own(board: Board, case: Case, option: Option) -> bool:
    """Whether one more task stays inside a guarantee, surplus counted."""
    return all(board.lines[flavor].within(case.place, units) is not None for flavor, units in option.needs)
