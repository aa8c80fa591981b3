"""Who keeps a named set of units from borrowers, and for whom that counts as usage (SEMANTICS 7)."""

from dataclasses import replace

from queues.admission.board import Board
from queues.admission.holders import tired
from queues.admission.named import NamedSets
from queues.admission.record import Kept, Record
from queues.admission.rooms import minus, plus, rooms
from queues.admission.shapes import Option
from queues.admission.world import JobClass, Placed, Waiting


class Keeps:
    """The keeps of a cycle."""

    def __init__(self, board: Board, record: Record, sets: NamedSets) -> None:
        """Begin with none."""
        self._board = board
        self._record = record
        self._sets = sets
        self._no_set: set[Option] = set()

    def keep(self, job: Waiting, job_class: JobClass, option: Option, *, young: bool, behind: bool = False) -> bool:
        """Count the job as inside for those that come later, and keep a named set of units from borrowers.

        ``behind`` a hold of its own team it keeps none. Where no set could ever be free, as well as for one that has
        kept idle what it may, there is no keep that could count. Return whether others are to have the next turn.
        """
        board, record = self._board, self._record
        if tired(board, job, option):
            record.tired[job.id] = (job_class, option)
        placed = None if behind or job.id in record.tired else self._set_for(option)
        counts = placed is not None or behind
        if not counts and job.id not in record.tired:
            return False
        if counts:
            board.promise(board.case(job_class), option.needs, 1)
        for node, room in rooms(option, placed or ()).items():
            board.kept[node] = plus(board.kept.get(node, (0, 0, 0, 0)), room)
        record.kept.append(Kept(job, job_class, option, placed or (), young, counts))
        board.forget_views()
        return True

    def lower(self, kept: Kept) -> None:
        """Let a keep count as usage no more, but for those who come later and would take what it keeps."""
        board, case = self._board, self._board.case(kept.job_class)
        if kept.counts:
            board.promise(case, kept.option.needs, -1)
        if kept.placed:
            board.keeping.setdefault(kept.job.id, []).append((case, kept.option.needs))

    def forget(self, kept: Kept) -> None:
        """Forget a keep whose job starts."""
        self._record.kept.remove(kept)
        if kept.placed:
            self._free(kept)

    def _free(self, kept: Kept) -> None:
        """Give back what a job keeps, and let it count no more for those who would take it."""
        board = self._board
        for node, room in rooms(kept.option, kept.placed).items():
            board.kept[node] = minus(board.kept[node], room)
        board.keeping[kept.job.id].remove((board.case(kept.job_class), kept.option.needs))

    def give_up(self) -> bool:
        """Give up keeps of jobs no longer inside since others of their team start or claim; whether any were."""
        board, kept_rows = self._board, self._record.kept
        if not kept_rows:
            return False
        still: list[Kept] = []
        given_up = False
        for place, kept in enumerate(kept_rows):
            case = board.case(kept.job_class)
            if not kept.counts:
                continue
            if board.inside(case, kept.option) and board.covered(case, kept.option):
                board.promise(case, kept.option.needs, 1)
                still.append(kept)
            elif kept.placed:
                self._free(kept)
                kept_rows[place] = replace(kept, placed=(), waits_for_age=False)
                given_up = True
        for kept in still:
            board.promise(board.case(kept.job_class), kept.option.needs, -1)
        board.forget_views()
        return given_up

    def _set_for(self, option: Option) -> tuple[Placed, ...] | None:
        """Return a set that could be kept; one that is not there is not looked for again, since keeps only grow."""
        if option in self._no_set:
            return None
        placed = self._sets.nearest(option)
        if placed is None:
            self._no_set.add(option)
        return placed
