"""Why a job can never start, whatever ends: not even an empty cluster with idle teams could start it (SEMANTICS 10)."""

from queues.admission.board import Board
from queues.admission.nodes import Ground, bare
from queues.admission.placement import fits
from queues.admission.plans import Case
from queues.admission.reasons import ORDER, Code, Numbers, Reason, reason
from queues.admission.shapes import Option


class Never:
    """Finds permanent reasons on one board, and remembers them from one decision to the next."""

    def __init__(self, board: Board) -> None:
        """Look at the board as it is now."""
        self._board = board
        self._bare: Ground | None = None
        self._on_nodes = board.frame.never_on_nodes
        self._permanent = board.frame.permanent

    def of_case(self, case: Case) -> Reason | None:
        """Return why no job of a case could ever start, on whatever it lists."""
        if case not in self._permanent:
            self._permanent[case] = self._on_all(case)
        return self._permanent[case]

    def _on_all(self, case: Case) -> Reason | None:
        rows = [self.of_option(case, option) for option in case.shape.options]
        if all(row is not None for row in rows):
            return max((row for row in rows if row is not None), key=lambda row: ORDER[row.code])
        return None

    def of_option(self, case: Case, option: Option) -> Reason | None:
        """Return why not even an empty cluster with idle teams could start the job."""
        if option not in self._on_nodes:
            self._on_nodes[option] = self._fits(option)
        found = self._on_nodes[option]
        if found is not None:
            return found
        for flavor, units in option.needs:
            line = self._board.lines[flavor]
            limit = line.most(case.place)
            if units <= limit and not case.shape.firm:
                continue
            stop = line.limited_by(case.place, units, alone=True)
            if stop is not None:
                limit = line.subtree[stop] + (line.borrow[stop] or 0)
            elif case.shape.firm and not line.covers(case.place, units, alone=True):
                limit = sum(line.guaranteed[node] for node in line.tree.path[case.place])
            elif units <= limit:
                continue
            return reason(Code.EXCEEDS_MAX, {"flavor": line.flavor.name, "needs": units, "limit": limit})
        return None

    def _fits(self, option: Option) -> Reason | None:
        if self._bare is None:
            self._bare = bare(self._board.ground)
        for pattern in option.patterns:
            flavor = self._board.flavors[pattern.flavor].name
            matching = [kind for kind, _ in self._bare.usable(pattern.flavor) if kind.host.matches(pattern.labels)]
            if not matching:
                labels = ", ".join(f"{key}={value}" for key, value in pattern.labels)
                return reason(Code.NO_MATCHING_NODE, {"flavor": flavor, "labels": labels})
            if not any(kind.tasks(pattern) for kind in matching):
                largest = max(kind.units for kind in matching)
                numbers: Numbers = {"flavor": flavor, "needs": pattern.units, "largest_node": largest}
                return reason(Code.EXCEEDS_NODE, numbers)
        if fits(self._bare, option):
            return None
        pattern = option.patterns[0]
        limit = max(self._bare.rooms(pattern).values(), default=0) * pattern.units
        return reason(
            Code.EXCEEDS_MAX,
            {"flavor": self._board.flavors[pattern.flavor].name, "needs": option.units, "limit": limit},
        )
