"""What stays the same from one decision to the next while only jobs come and go; worked out once and remembered."""

from dataclasses import replace

from queues.admission.ends import Ends
from queues.admission.lineup import Lineup
from queues.admission.outcome import Verdict
from queues.admission.plans import Case
from queues.admission.quota import Line, Tree, lines
from queues.admission.reasons import Reason
from queues.admission.settled import Settled
from queues.admission.shapes import Option, Shapes
from queues.admission.world import JobClass, NodeState, World

MOST_FORGOTTEN = 10_000
"""Classes remembered beyond those of the world before all are forgotten."""


Said = dict[int, tuple[JobClass, object, tuple[Verdict, ...]]]
"""What was said of a class, and what that rests on."""

Never = dict[Case, Reason | None]
"""Why no job of a case can ever start; None: it may."""


class Frame:
    """The team tree, quotas with nothing in use, the shapes of asks, and which of them can never start."""

    def __init__(self, world: World) -> None:
        """Take teams, queues and flavors; asks are worked out when they are met."""
        self.tree = Tree(world)
        self.shapes = Shapes()
        self.flavors = {flavor.id: flavor for flavor in world.flavors}
        self.teams = {team.id: team for team in world.teams}
        self.queues = {queue.id: queue for queue in world.queues}
        self.cases: dict[int, tuple[JobClass, Case]] = {}
        self.one_case: dict[tuple[int, int], Case] = {}
        self.user_limits: dict[int, tuple[tuple[int | None, int], ...]] = {}
        self.permanent: Never = {}
        self.never_on_nodes: dict[Option, Reason | None] = {}
        self.said: Said = {}
        self.rests: dict[tuple[int, tuple[int, ...]], object] = {}
        self._classes: tuple[World | None, dict[int, JobClass]] = (None, {})
        self.lineup = Lineup()
        self.ends = Ends()
        limits = [team.per_user_limit for team in world.teams] + [queue.per_user_limit for queue in world.queues]
        self.limits_users = any(limit is not None for limit in limits)
        self._all_ready = all(node.state is NodeState.READY for node in world.nodes)
        self._lines: dict[int, Line] | None = None
        self._settled: Settled | None = None
        self.unusable = {node.flavor for node in world.nodes if node.state is not NodeState.READY}

    def move(self, world: World) -> None:
        """Take the classes of a world, and count what its attempts hold from what was counted before."""
        before, classes = self._classes
        if before is None or before.classes != world.classes:
            classes = {row.id: row for row in world.classes}
        self._classes = (world, classes)
        if self._settled is None or not self._settled.move(world):
            self._settled = Settled(world, self.tree, lines(replace(world, attempts=()), self.tree))
            if not self._settled.move(world):
                self._settled = None

    def classes(self, world: World) -> dict[int, JobClass]:
        """Return the classes of a world by id."""
        if self._classes[0] is world:
            return self._classes[1]
        return {row.id: row for row in world.classes}

    def settled(self, world: World) -> Settled | None:
        """Return what the attempts of this very world hold, where that has been counted."""
        return self._settled if self._settled is not None and self._settled.of(world) else None

    def lines(self, world: World, *, count_lost: bool) -> dict[int, Line]:
        """Return the quota lines with nothing in use; with unusable nodes they depend on what runs there."""
        if not self._all_ready:
            return lines(world, self.tree, count_lost=count_lost)
        if self._lines is None:
            self._lines = lines(world, self.tree)
        return {flavor: line.copy() for flavor, line in self._lines.items()}


class Memory:
    """Remembers the frame between decisions; it changes no decision, only what has to be worked out again."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._frame: Frame | None = None
        self._seen: tuple[object, ...] = ()

    def frame(self, world: World) -> Frame:
        """Return the frame of a world: the last one where teams, queues, flavors and nodes are the same."""
        seen = (world.flavors, world.teams, world.queues, world.nodes)
        frame = self._frame
        if frame is None or seen != self._seen or len(frame.cases) > len(world.classes) + MOST_FORGOTTEN:
            before, frame = frame, Frame(world)
            if before is not None:
                frame.said.update((key, (row, None, rows)) for key, (row, _, rows) in before.said.items())
            self._frame = frame
            self._seen = seen
        frame.move(world)
        return frame
