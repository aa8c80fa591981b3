"""What the random timelines reach: a property that never sees a hold says nothing about holds."""

from collections import Counter
from random import Random
from unittest.mock import patch

from queues.admission.decide import Memory, Outcome, decide
from queues.admission.reasons import Code
from queues.admission.world import Heads, NodeState, Standing, World
from queues.simulation.reading import parse
from queues.simulation.run import simulate
from queues.simulation.scenario import Reader
from tests.simulation.timelines import timeline

WORLDS = 80


def reached(seed: int) -> set[str]:
    """Return by name what one random timeline comes across."""
    text = timeline(Random(seed))
    found = {word for word in ("required", "preferred", "spread", "slots", "groups", "outside: ") if f"{word}" in text}

    def listen(world: World, heads: Heads, memory: Memory) -> Outcome:
        outcome = decide(world, heads, memory)
        found.update(_of_world(world), _of_outcome(outcome))
        return outcome

    with patch("queues.simulation.engine.decide", listen):
        simulate(Reader(parse(text, "random.yaml"), "random.yaml").scenario(), lambda: 0.0)
    return found


def _of_world(world: World) -> set[str]:
    quotas = {(team.id, quota.flavor): quota.guaranteed for team in world.teams for quota in team.quotas}
    used: Counter[tuple[int, int]] = Counter()
    for row in world.attempts:
        for placed in row.placed:
            used[row.team, row.flavors[placed.group]] += placed.tasks * row.groups[placed.group].units
    found = {f"node {node.state.value}" for node in world.nodes if node.state is not NodeState.READY}
    found |= {"borrowed"} if any(units > quotas.get(key, 0) for key, units in used.items()) else set()
    return found | ({"over the promised"} if _over(world) else set())


def _over(world: World) -> bool:
    """Whether more is promised than is usable: after a loss, or a quota that was raised."""
    usable, promised = Counter[int](), Counter[int]()
    for node in world.nodes:
        usable[node.flavor] += node.units if node.state is NodeState.READY else 0
    for team in world.teams:
        promised.update({quota.flavor: quota.guaranteed for quota in team.quotas})
    return any(promised[flavor] > usable[flavor] for flavor in promised)


def _of_outcome(outcome: Outcome) -> set[str]:
    found = {f"evicted by {row.rule}" for row in outcome.evictions if not row.surplus}
    found |= {"surplus taken back" for row in outcome.evictions if row.surplus}
    found |= {f"hold of a {row.standing.value}" for row in outcome.holds}
    found |= {"hold without a time" if row.at is None else "hold with a time" for row in outcome.holds}
    found |= {"victims in turn" for row in outcome.claims if row.pending}
    found |= {f"claim of a {row.standing.value}" for row in outcome.claims}
    found |= {"surplus" for _ in outcome.growth} | {"keep" for _ in outcome.keeps}
    return found | {row.reason.code.value for row in outcome.verdicts}


WANTED = {
    "required", "preferred", "spread", "slots", "groups", "outside: ", "node cordoned", "node lost", "borrowed",
    "over the promised", "evicted by guarantee", "evicted by within team", "surplus", "surplus taken back", "keep",
    "victims in turn",
    f"hold of a {Standing.GUARANTEED.value}", f"hold of a {Standing.BORROWER.value}", "hold with a time",
    "hold without a time", f"claim of a {Standing.GUARANTEED.value}", f"claim of a {Standing.BORROWER.value}",
    *(code.value for code in (
        Code.WAITS_VICTIMS, Code.WAITS_MIN_RUNTIME, Code.BACKING_OFF, Code.QUEUE_PAUSED, Code.USER_LIMIT,
        Code.TEAM_LIMIT, Code.TIME_LIMIT_NEEDED, Code.WOULD_DELAY, Code.CAPACITY_REDUCED, Code.FRAGMENTED,
        Code.NO_DOMAIN_FITS, Code.LEND_LIMIT, Code.BORROW_LIMIT,
    )),
}  # fmt: skip


def test_the_random_timelines_reach_every_rule() -> None:
    found = Counter(name for seed in range(WORLDS) for name in reached(seed))

    assert {name: found[name] for name in sorted(WANTED) if not found[name]} == {}
