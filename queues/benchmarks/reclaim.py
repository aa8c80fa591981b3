"""Random claims on small worlds, against the best of all legal sets of victims found by trying every one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from statistics import fmean

from queues.admission.decide import decide
from queues.admission.heads import SimpleHeads
from queues.admission.world import (
    HOUR,
    MINUTE,
    Ask,
    Attempt,
    Flavor,
    Group,
    JobClass,
    JobShape,
    Node,
    Placed,
    Policy,
    Queue,
    Quota,
    Team,
    Waiting,
    World,
)
from queues.benchmarks.results import Result, Setting
from queues.benchmarks.stage import PLENTY, rank

CASES = 200
MOST = 14
NOW = 100 * HOUR
NODES = 5
SIZE = 8
CLAIMANT = 1
Costs = tuple[int, int, int]
"""Units that would claim in turn, shortfall, restart cost and unsaved work by units and evictions before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A claim: the claimant's team owns what it asks for, others have borrowed it."""

    guaranteed: dict[int, int]
    attempts: tuple[Attempt, ...]
    ask: int

    @property
    def free(self) -> int:
        """Return the units that nobody uses."""
        return NODES * SIZE - sum(self.usage().values())

    def usage(self) -> dict[int, int]:
        """Return the units in use by team."""
        used = dict.fromkeys(self.guaranteed, 0)
        for row in self.attempts:
            used[row.team] += units(row)
        return used


def units(row: Attempt) -> int:
    """Return the units of an attempt."""
    return sum(placed.tasks * row.groups[placed.group].units for placed in row.placed)


def case(random: Random) -> Case | None:
    """Draw a world that is full or nearly so; None where nothing has to be taken back."""
    teams = random.randint(3, 5)
    parts = [random.randint(1, 12) for _ in range(teams)]
    total = NODES * SIZE
    guaranteed = {number: max(2, total * part // sum(parts) - 1) for number, part in enumerate(parts, 1)}
    free = [SIZE] * NODES
    attempts: list[Attempt] = []
    for number in range(1, random.randint(6, MOST) + 1):
        size = random.choice((1, 2, 2, 4, 4, 8))
        able = [place for place, room in enumerate(free) if room >= size]
        if not able:
            continue
        place = random.choice(able)
        free[place] -= size
        since = NOW - random.randint(1, 12 * 60) * MINUTE
        attempts.append(
            Attempt(
                id=number,
                number=number,
                job=number,
                team=random.randint(CLAIMANT + 1, teams),
                user=1,
                groups=(Group(tasks=1, units=size, flavors=(1,)),),
                flavors=(1,),
                placed=(Placed(group=0, node=place + 1, tasks=1),),
                since=since,
                saved=random.randint(since, NOW),
                evictions=random.choice((0, 0, 0, 1, 2)),
            )
        )
    found = Case(guaranteed=guaranteed, attempts=tuple(attempts), ask=random.randint(1, guaranteed[CLAIMANT]))
    return found if found.ask > found.free else None


def victims(found: Case) -> list[Attempt]:
    """Return whom the rules evict."""
    ask = Ask(shape=JobShape.GANG, groups=(Group(tasks=found.ask, units=1, flavors=(1,)),))
    world = World(
        now=NOW,
        policy=Policy(),
        flavors=(Flavor(id=1, name="gpu"),),
        teams=tuple(
            Team(id=number, name=str(number), quotas=(Quota(flavor=1, guaranteed=part),))
            for number, part in found.guaranteed.items()
        ),
        queues=(Queue(id=1, name="default", team=CLAIMANT),),
        nodes=tuple(
            Node(id=number, name=str(number), cluster=1, flavor=1, units=SIZE, cpu=PLENTY, memory=PLENTY)
            for number in range(1, NODES + 1)
        ),
        attempts=found.attempts,
        classes=(JobClass(id=1, queue=1, priority=0, ask=ask),),
    )
    heads = SimpleHeads([Waiting(id=1000, job_class=1, user=1, wait_from=NOW, submitted=NOW)])
    gone = {eviction.attempt for eviction in decide(world, heads).evictions}
    return [row for row in found.attempts if row.id in gone]


def legal(found: Case, chosen: Sequence[Attempt]) -> bool:
    """Whether every team is above its guarantee before each removal, the largest going last, and enough comes free."""
    used = found.usage()
    if found.free + sum(units(row) for row in chosen) < found.ask:
        return False
    for number in {row.team for row in chosen}:
        sizes = [units(row) for row in chosen if row.team == number]
        if used[number] - sum(sizes) + max(sizes) <= found.guaranteed[number]:
            return False
    return True


def costs(found: Case, chosen: Sequence[Attempt]) -> Costs:
    """Return what counts first, second and third among legal sets."""
    before = found.usage()
    after = dict(before)
    for row in chosen:
        after[row.team] -= units(row)
    again = sum(units(row) for row in chosen if after[row.team] + units(row) <= found.guaranteed[row.team])
    short = sum(max(0, min(part, before[number]) - after[number]) for number, part in found.guaranteed.items())
    lost = sum(
        units(row)
        * (10 * MINUTE + min(4 * HOUR, NOW - max(row.since, row.saved if row.saved is not None else row.since)))
        * (1 + row.evictions)
        for row in chosen
    )
    return again, short, lost


def best(found: Case) -> tuple[Costs, int] | None:
    """Return the least costs of all legal sets, and the least lost work of any; None: no set is legal."""
    able = [row for row in found.attempts if row.team != CLAIMANT]
    every = [
        costs(found, chosen)
        for count in range(1, len(able) + 1)
        for chosen in combinations(able, count)
        if legal(found, chosen)
    ]
    return (min(every), min(row[2] for row in every)) if every else None


def reclaim(setting: Setting) -> Iterator[Result]:
    """Compare the victims of 200 random claims with the best of all legal sets, found by trying each."""
    random = Random(setting.seed)  # noqa: S311  repeatable cases, no secret
    ratios: list[float] = []
    plain: list[float] = []
    per_unit: list[float] = []
    worse = missed = idle = 0
    while len(ratios) + missed < CASES // setting.part:
        drawn = case(random)
        if drawn is None:
            continue
        found = best(drawn)
        chosen = victims(drawn)
        if found is None:
            idle += bool(chosen)
            continue
        if not chosen or not legal(drawn, chosen):
            missed += 1
            continue
        mine = costs(drawn, chosen)
        optimum, cheapest = found
        worse += mine[:2] != optimum[:2]
        ratios.append(mine[2] / optimum[2])
        plain.append(mine[2] / cheapest)
        per_unit.append(mine[2] / HOUR / drawn.ask)
    ratios.sort()
    yield Result(name="reclaim/ratio-mean", value=fmean(ratios), unit="of the optimum", limit="1.00", target="<= 1.05")
    yield Result(name="reclaim/ratio-p95", value=rank(ratios, 0.95), unit="of the optimum", limit="1.00")
    yield Result(name="reclaim/ratio-max", value=ratios[-1], unit="of the optimum", limit="1.00", target="<= 1.5")
    yield Result(name="reclaim/first-keys", value=worse, unit="claims worse in turn-claims or shortfall", limit="0")
    yield Result(name="reclaim/missed", value=missed, unit="claims with a legal set that found none", limit="0")
    yield Result(name="reclaim/wrong", value=idle, unit="evictions where no set is legal", limit="0")
    yield Result(name="reclaim/cheapest", value=fmean(plain), unit="of the cheapest set, shortfall ignored")
    yield Result(name="reclaim/lost", value=fmean(per_unit), unit="GPU-hours counted as lost for a reclaimed GPU")
