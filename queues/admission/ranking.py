"""The queue order as people see it: in which order the tournament would take the waiting jobs, regardless of room."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from queues.admission.board import Board
from queues.admission.lanes import Entrants
from queues.admission.lineup import least_of
from queues.admission.order import Stream, turn_key
from queues.admission.plans import Case
from queues.admission.shapes import Option
from queues.admission.tournament import Tournament
from queues.admission.verdicts import Judge
from queues.admission.world import Heads, JobClass, Queue, Waiting, World

EXACT_STEPS = 20
"""Steps of the tournament for each rank asked for; beyond them a ranking takes the tasks of a job at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A waiting job's place in the queue order, 1 first, and the units asked for by what goes before it."""

    position: int
    job: int
    units_ahead: int


def ranking(world: World, heads: Heads, *, flavor: int | None = None, limit: int = 200) -> tuple[Rank, ...]:
    """Return the order in which the tournament would take the waiting jobs, regardless of room, the first ``limit``.

    Jobs that can never start or whose queue is paused have no rank. ``flavor``: only jobs that would take it first.
    An independent job ranks where its first task is taken; its further tasks take their turns like others.
    """
    board = Board(world)
    judge = Judge(board)
    found = []
    for job_class in sorted(world.classes, key=lambda row: row.id):
        case = board.case(job_class)
        if judge.paused(job_class) or judge.permanent(job_class):
            continue
        if flavor is not None and all(flavor != taken for taken, _ in judge.first_option(case).needs):
            continue
        queue = board.queues[job_class.queue]
        found += [(case, queue, job_class, head) for head in heads.users(job_class.id)]
    heads.expect(_in_turn(world, found))
    streams = [Stream(board, heads, *row) for row in found]

    def inside(stream: Stream) -> Option | None:
        case = stream.case
        return next((row for row in case.shape.options if board.inside(case, row) and board.covered(case, row)), None)

    def any_option(stream: Stream) -> Option | None:
        return judge.first_option(stream.case)

    ranks: list[Rank] = []
    seen: set[int] = set()
    ahead = steps = 0
    for choose, guaranteed in ((inside, True), (any_option, False)):
        tournament = Tournament(board, _by_team(streams), choose, guaranteed=guaranteed, user_limits=False)
        while len(ranks) < limit and (candidate := tournament.winner()):
            job = candidate.key[3]
            if job not in seen:
                seen.add(job)
                ranks.append(Rank(position=len(ranks) + 1, job=job, units_ahead=ahead))
            steps += 1
            tasks = 1 if steps < EXACT_STEPS * limit else candidate.stream.left
            ahead += tasks * candidate.option.units
            board.suppose(candidate.stream.case, candidate.option, candidate.stream.user, tasks)
            candidate.stream.advance(tasks)
            tournament.touch(candidate.place)
    return tuple(ranks)


def _by_team(streams: Iterable[Stream]) -> dict[int, Entrants]:
    """Return the streams with a job left by team."""
    teams: dict[int, list[Stream]] = {}
    for stream in streams:
        if stream.head is not None:
            teams.setdefault(stream.case.place, []).append(stream)
    return {place: Entrants(least_of(row.case for row in rows), rows) for place, rows in teams.items()}


def _in_turn(world: World, found: Iterable[tuple[Case, Queue, JobClass, Waiting]]) -> Iterator[Waiting]:
    """Yield first jobs as their turn may come: the first of each team, then the second of each, and so on."""
    places: Counter[int] = Counter()
    turns = []
    for key, place, head in sorted((turn_key(world, row, head), case.place, head) for case, _, row, head in found):
        turns.append((places[place], key, head))
        places[place] += 1
    yield from (head for _, _, head in sorted(turns))
