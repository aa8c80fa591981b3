"""Who asks, and what a planned start needs: the values that keeps, holds and claims share."""

from dataclasses import dataclass, field

from queues.admission.nodes import Room
from queues.admission.quota import ROOT, Line
from queues.admission.rooms import plus
from queues.admission.shapes import Option, Shape
from queues.admission.world import Milliseconds, Placed, Standing

Grip = tuple[bool, tuple[int | None, ...]]
"""Whether a plan has become impossible, and the node within which it is guaranteed on each of its flavors."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """All classes of one leaf that ask for the same: the verdict on quota and placement is one for all of them.

    A board makes each case once, so that cases are told apart by identity.
    """

    place: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class Asker:
    """A job in search of room: what it asks for, how urgent it is, and when it surely ends if it starts now."""

    case: Case
    job: int | None
    priority: int
    ends: Milliseconds | None


@dataclass(slots=True, eq=False)
class Plan:
    """A planned start: what a hold needs at ``at`` (None: as soon as its nodes are free), and what is left beside it.

    ``spare`` is the room on its nodes at that time that it does not need, ``lines`` the quota then, its ask counted and
    those of the planned starts ``counted``. ``beside`` is what others that start together with it take of its nodes, by
    job: it is not in ``spare``. ``node`` is the one of its path within which it will be inside, ``rank`` how far above.
    """

    job: int
    job_class: int
    user: int
    case: Case
    option: Option
    priority: int
    wait_from: Milliseconds
    placed: tuple[Placed, ...]
    at: Milliseconds | None
    standing: Standing
    node: int | None
    rank: int
    needs: dict[int, Room]
    spare: dict[int, Room]
    lines: dict[int, Line]
    limit: Milliseconds | None
    grace: Milliseconds
    evictions: int
    idle: int
    counted: frozenset[int]
    beside: dict[int, dict[int, Room]]
    moved: str = ""
    _most: dict[int, tuple[int, dict[int, int]]] = field(default_factory=dict)

    def in_use_at(self, at: Milliseconds) -> bool:
        """Whether the job, started as planned, may still be running then."""
        if self.at is None or self.at > at:
            return False
        limit = self.limit if self.limit is not None else self.case.shape.ask.time_limit
        return limit is None or self.at + limit + self.grace > at

    def meets(self, other: "Plan") -> bool:
        """Whether the job may be running when another starts as planned."""
        return self.at is None or other.at is None or self.in_use_at(other.at)

    def outlasted_by(self, ends: Milliseconds | None) -> bool:
        """Whether what ends then (None: nobody knows when) may still be there at the planned start."""
        return self.at is not None and (ends is None or ends > self.at)

    def endless(self) -> bool:
        """Whether nobody knows when the job, once started, will have ended."""
        return self.limit is None and self.case.shape.ask.time_limit is None

    def broken(self) -> bool:
        """Whether the plan will no longer find its room or its quota."""
        if any(
            left < 0 < part
            for node, spare in self.spare.items()
            for left, part in zip(spare, self.needs[node], strict=True)
        ):
            return True
        return self.short()

    def short(self) -> bool:
        """Whether the plan will no longer find its quota; then it binds nobody's."""
        return any(short(line, self.case.place) for line in self.lines.values())

    def grip(self) -> Grip:
        """Return what decides whose quota the plan binds; where it changes, others may find room that had none."""
        return self.short(), tuple(self.inside(line) for line in self.lines.values())

    def inside(self, line: Line) -> int | None:
        """Return the lowest node of its path within which guaranteed demand will be then, on one flavor."""
        if self.standing is Standing.BORROWER:
            return None
        path = line.tree.path[self.case.place]
        return next((node for node in path if line.usage[node] <= line.subtree[node]), None)

    def leaves(self, place: int, flavor: int, units: int) -> bool:
        """Whether it still finds its quota and its guarantee with so many units more in use by a team."""
        known = self._most.get(flavor)
        if known is None:
            most = self.most(flavor)
            usage = self.lines[flavor].usage if most else []
            least = min((units - usage[node] for node, units in most.items()), default=1 << 60)
            known = self._most[flavor] = (least, most)
        if units <= known[0]:
            return True
        return all(after <= known[1].get(node, after) for node, after in self.lines[flavor].after(place, units))

    def robs(self, later: "Plan") -> bool:
        """Whether the job, started as planned, would leave a later planned start without its quota or its guarantee."""
        if self.at is None or later.at is None or self.at >= later.at or self.job in later.counted:
            return False
        place = self.case.place
        return self.in_use_at(later.at) and not all(later.leaves(place, *need) for need in self.option.needs)

    def most(self, flavor: int) -> dict[int, int]:
        """Return up to which usage it finds its quota and its guarantee, by team; one that is short binds nobody."""
        line, place = self.lines.get(flavor), self.case.place
        if line is None or short(line, place):
            return {}
        inside = self.inside(line)
        limits = {node: 0 if node == inside else line.borrow[node] for node in line.tree.path[place]} | {ROOT: 0}
        return {node: line.subtree[node] + limit for node, limit in limits.items() if limit is not None}

    def change(self, place: int, units: dict[int, int], sign: int) -> None:
        """Count units in or out of the quota at that time."""
        self._most.clear()
        for flavor, count in units.items():
            if flavor in self.lines:
                self.lines[flavor].take(place, count * sign)

    def change_in(self, lines: dict[int, Line], sign: int) -> None:
        """Count the plan's ask in the quota of some flavors (``sign`` -1: out)."""
        for flavor, units in self.option.needs:
            if flavor in lines:
                lines[flavor].take(self.case.place, sign * units)

    def room_beside(self, node: int, jobs: frozenset[int]) -> Room | None:
        """Return what the plan leaves of one of its nodes where of the others only these jobs are minded."""
        spare = self.spare.get(node)
        if spare is None:
            return None
        for job, needs in self.beside.items():
            if job not in jobs and node in needs:
                spare = plus(spare, needs[node])
        return spare

    def forget(self, job: int) -> None:
        """Give back the room of another that no longer starts together with it."""
        for node, room in self.beside.pop(job, {}).items():
            self.free(node, room)

    def free(self, node: int, room: Room) -> None:
        """Add room beside the plan on one of its nodes (negative: take it)."""
        if node in self.spare:
            self.spare[node] = plus(self.spare[node], room)


def short(line: Line, place: int) -> bool:
    """Whether a team, its ask counted already, uses more than the tree can give it."""
    for node in line.tree.path[place]:
        limit = line.borrow[node]
        if limit is not None and line.usage[node] > line.subtree[node] + limit:
            return True
    return line.usage[0] > line.subtree[0]
