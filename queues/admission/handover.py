"""Who gets what frees on a node for which several claims wait: the earlier claim first (SEMANTICS 8, Memory)."""

from collections.abc import Iterable, Iterator

from queues.admission.nodes import Room
from queues.admission.reserving import Reserving
from queues.admission.rooms import NOTHING, minus, plus, rooms, rooms_of
from queues.admission.shapes import Option
from queues.admission.world import Claim, Milliseconds, Placed

NEVER: Milliseconds = 1 << 62


class Handover:
    """The room for claims on nodes over time, as earlier ones take theirs as soon as they find it everywhere."""

    def __init__(self, board: Reserving, earlier: Iterable[Claim] = ()) -> None:
        """Let claims take theirs, the earliest first."""
        self._board = board
        self._taken: dict[int, list[tuple[Milliseconds, Room]]] = {}
        for claim in earlier:
            self.wait(claim)

    def wait(self, claim: Claim) -> None:
        """Let a claim take its room when it is free on all its nodes that are usable; one that lost it takes none."""
        where = self._board.ground.where
        needs = rooms(self._board.option_of(claim), tuple(row for row in claim.placed if row.node in where))
        times = [self._earliest(node, room) for node, room in needs.items()]
        known = [at for at in times if at is not None]
        for node, room in needs.items() if len(known) == len(times) else ():
            self._taken.setdefault(node, []).append((max(known), room))

    def free(self, option: Option, placed: tuple[Placed, ...]) -> bool:
        """Whether a reservation finds its room now, and leaves those that wait already theirs at their time."""
        if not self._board.physically_free(option, placed):
            return False
        needs = rooms(option, placed)
        return all(
            node not in self._taken or self._fits(node, room, self._board.world.now) for node, room in needs.items()
        )

    def comes(self, option: Option, placed: tuple[Placed, ...]) -> bool:
        """Whether what leaves will make room for a reservation: pods of others may have taken it."""
        return all(self._earliest(node, room) is not None for node, room in rooms(option, placed).items())

    def _earliest(self, node: int, room: Room) -> Milliseconds | None:
        times = sorted({self._board.world.now, *(at for at, _ in self._comes(node))})
        return next((at for at in times if self._fits(node, room, at)), None)

    def _fits(self, node: int, room: Room, since: Milliseconds) -> bool:
        """Whether so much is there from a time on, whatever the claims that wait take then."""
        comes, taken = list(self._comes(node)), self._taken.get(node, [])
        for time in {since, *(at for at, _ in taken if at > since)}:
            there = self._board.physical(node)
            for at, part in comes:
                there = plus(there, part) if at <= time else there
            for at, part in taken:
                there = minus(there, part) if at <= time else there
            if any(have < need for have, need in zip(there, room, strict=True)):
                return False
        return True

    def _comes(self, node: int) -> Iterator[tuple[Milliseconds, Room]]:
        """Yield what leaves a node and when; who has yet to go for a claim goes last."""
        board = self._board
        for until, room_of in board.leaving_until:
            if node in room_of:
                yield until, room_of[node]
        for claim in board.claims.values():
            for victim in claim.pending:
                attempt = board.running.get(victim.attempt)
                room = NOTHING if attempt is None else rooms_of(attempt, victim.placed).get(node, NOTHING)
                if room != NOTHING:
                    yield NEVER, room
