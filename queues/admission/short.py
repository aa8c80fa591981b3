"""Quota for which jobs wait that have no planned start only because others will use it first (SEMANTICS 7)."""

from collections.abc import Callable

from queues.admission.futures import Future
from queues.admission.holders import Holder
from queues.admission.plans import Plan
from queues.admission.quota import Tree
from queues.admission.world import Standing


class Short:
    """Who waits for quota so in one cycle: a new hold of a later job would use it again, and so on for ever."""

    def __init__(self, tree: Tree, last: Future, guaranteed: Callable[[Holder], bool]) -> None:
        """Nobody waits; ``last`` is when all has ended that runs now."""
        self._tree = tree
        self._last = last
        self._guaranteed = guaranteed
        self._waits: dict[int, set[tuple[int, bool]]] = {}

    def note(self, holder: Holder) -> None:
        """Let a job wait: for the quota of the node within which it will be inside, else of its leaf."""
        place, guaranteed = holder.asker.case.place, self._guaranteed(holder)
        for option in holder.asker.case.shape.options:
            _, node = self._last.standing(place, option.needs)
            noted = self._waits.setdefault(place if node is None else node, set())
            noted.update((flavor, guaranteed) for flavor, _ in option.needs)

    def taken_by(self, plan: Plan) -> bool:
        """Whether a later job would use what one waits for that it does not come before: not what is below that.

        Where it will be inside is told with the starts that are planned beside it.
        """
        if not self._waits:
            return False
        place, guaranteed = plan.case.place, plan.standing is Standing.GUARANTEED
        path = self._tree.path[place]
        for flavor, _ in plan.option.needs:
            node = plan.node
            if line := plan.lines.get(flavor):
                node = next((row for row in path if line.usage[row] <= line.subtree[row]), None)
            for above in path[: len(path) if node is None else path.index(node) + 1]:
                noted = self._waits.get(above, set())
                if (flavor, True) in noted or (flavor, guaranteed) in noted:
                    return True
        return False
