"""The third pass: elastic jobs grow, task by task, into what nobody else can use (SEMANTICS 6)."""

from queues.admission.board import Board
from queues.admission.order import Key
from queues.admission.outcome import Growth
from queues.admission.placement import witness
from queues.admission.plans import Asker, Case
from queues.admission.quota import ROOT
from queues.admission.record import Record
from queues.admission.shapes import Option, Shape
from queues.admission.shares import Share, counted
from queues.admission.world import Ask, Attempt, Group, JobShape, Near, Placed


class Surplus:
    """Grows the elastic jobs that run."""

    def __init__(self, board: Board, record: Record) -> None:
        """Nobody has grown yet."""
        self._board = board
        self._record = record
        self._grown: dict[int, list[Placed]] = {}
        self._options: dict[tuple[int, int], tuple[Case, Option]] = {}

    def grow(self) -> None:
        """Give one task after the other to the job whose team has least for its weight, surplus counted."""
        while (found := self._next()) is not None:
            attempt, row = found
            self._board.grow(attempt, row)
            self._grown.setdefault(attempt.id, []).append(row)
        for number in sorted(self._grown):
            self._record.growth.append(Growth(attempt=number, placed=tuple(self._grown[number])))

    def _next(self) -> tuple[Attempt, Placed] | None:
        able: dict[int, tuple[Key, Attempt, Placed, Option]] = {}
        for attempt in sorted(self._board.running.values(), key=lambda row: (row.number, row.id)):
            place = self._board.tree.number[attempt.team]
            if place in able or attempt.shape is not JobShape.ELASTIC or not attempt.placed:
                continue
            if attempt.grows_from > self._board.world.now:
                continue
            found = self._room(attempt)
            if found is not None:
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
            value = counted(board.lines, leaf, able[leaf][3].needs, only_needs=False)
            share = Share(value.get(child, 0), board.tree.weight[child])
            if best is None or share.below(best[0]) or (not best[0].below(share) and able[leaf][0] < best[1]):
                best = (share, able[leaf][0], leaf)
        return None if best is None else best[2]

    def _room(self, attempt: Attempt) -> tuple[Placed, Option] | None:
        """Return where one more task of an attempt could be, of its first group that has room."""
        for number, group in enumerate(attempt.groups):
            has = sum(row.tasks for row in attempt.placed + attempt.surplus if row.group == number)
            if group.most is None or has >= group.most:
                continue
            found = self._one_more(attempt, number, group)
            if found is not None:
                return found
        return None

    def _one_more(self, attempt: Attempt, number: int, group: Group) -> tuple[Placed, Option] | None:
        board = self._board
        case, option = self._single(attempt, number, group)
        if not board.entitled(case, option) or not board.quota(case, option):
            return None
        queue = board.queues.get(attempt.queue or 0)
        room = None if queue is None else board.user_room(case.place, queue, attempt.user)
        if room is not None and room < option.units:
            return None
        asker = Asker(case, attempt.job, -(1 << 30), attempt.ends_by)
        if not board.leaves_quota(asker, option, board.plans):
            return None
        domain = self._domain(attempt, group)
        ground = board.view(asker, option, everything=True)
        best: tuple[int, int] | None = None
        pattern = option.patterns[0]
        for kind, nodes in ground.within(domain, pattern).items():
            key = (kind.units, nodes[0])
            if best is None or key < best:
                best = key
        if best is None or witness(ground, option) is None:
            return None
        return Placed(group=number, node=best[1], tasks=1), option

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

    def _domain(self, attempt: Attempt, group: Group) -> tuple[int | str | None, ...]:
        """Return the domain in which the job must stay: its cluster, or what it requires."""
        board = self._board
        first = attempt.placed[0].node
        path = board.ground.paths.get(first, (0,))
        if group.topology is not None and group.topology.near is Near.REQUIRED:
            return (*path, first)[: group.topology.level + 2]
        return path[:1]
