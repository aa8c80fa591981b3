"""How many units more in use leave planned starts their quota: who may lack is found without asking all of them."""

from bisect import insort
from collections.abc import Iterable, Iterator
from itertools import count

from queues.admission.plans import Plan
from queues.admission.shapes import Needs


class Margins:
    """Plans by what they can spare, the tightest first, on each flavor and in each team."""

    def __init__(self) -> None:
        """Begin with none."""
        self._rows: dict[tuple[int, int], list[tuple[int, int, Plan]]] = {}
        self._number: dict[Plan, int] = {}
        self._numbers = count()

    def add(self, plan: Plan) -> None:
        """Add a plan; while it is here nothing changes its quota."""
        number = self._number[plan] = next(self._numbers)
        for flavor, place, margin in _margins(plan):
            insort(self._rows.setdefault((flavor, place), []), (margin, number, plan))

    def drop(self, plan: Plan) -> None:
        """Take a plan out."""
        number = self._number.pop(plan)
        for flavor, place, margin in _margins(plan):
            self._rows[flavor, place].remove((margin, number, plan))

    def tight(self, places: Iterable[int], needs: Needs) -> set[Plan]:
        """Return the plans that may lack quota with these needs more in use in all these teams."""
        found = set()
        for flavor, units in needs:
            for place in places:
                for margin, _, plan in self._rows.get((flavor, place), ()):
                    if margin >= units:
                        break
                    found.add(plan)
        return found


def _margins(plan: Plan) -> Iterator[tuple[int, int, int]]:
    """Yield, by flavor and team, how many units more in use leave a plan its quota."""
    for flavor, line in plan.lines.items():
        for place, most in plan.most(flavor).items():
            yield flavor, place, most - line.usage[place]
