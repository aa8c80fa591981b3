"""What holds in every world: SEMANTICS 13 and the order of rows."""

import subprocess
import sys
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.admission.decide import decide
from queues.admission.heads import SimpleHeads
from queues.admission.quota import demand, in_use, ledger
from queues.admission.reasons import Code
from queues.admission.world import Attempt, NodeState, World
from tests.admission.site import Site
from tests.examples import examples


@st.composite
def sites(draw: st.DrawFn) -> Site:
    site = Site()
    for _ in range(draw(st.integers(1, 2))):
        site.flavor(f"f{len(site.flavors)}")
    flavors = [row.id for row in site.flavors]
    for _ in range(draw(st.integers(1, 4))):
        site.node(
            draw(st.sampled_from([2, 4, 8])),
            count=draw(st.integers(1, 2)),
            flavor=draw(st.sampled_from(flavors)),
            cluster=draw(st.integers(1, 2)),
            cpu=draw(st.sampled_from([3000, 64_000])),
        )
    parents: list[int] = [site.team() for _ in range(draw(st.integers(0, 2)))]
    limits = st.one_of(st.none(), st.integers(0, 4))
    left = sum(node.units for node in site.nodes if node.flavor == 1)
    leaves = []
    for _ in range(draw(st.integers(1, 4))):
        own = min(left, draw(st.integers(0, 6)))
        left -= own
        leaves.append(
            site.team(
                own,
                parent=draw(st.sampled_from([None, *parents])),
                borrow=draw(limits),
                lend=draw(limits),
                weight=draw(st.sampled_from([0, 1000, 2000])),
                per_user_limit=draw(st.one_of(st.none(), st.integers(1, 6))),
            )
        )
    for _ in range(draw(st.integers(0, 10))):
        site.waits(
            draw(st.sampled_from(leaves)),
            draw(st.integers(1, 3)),
            gang=draw(st.one_of(st.none(), st.integers(1, 6))),
            tasks=draw(st.integers(1, 5)),
            flavors=tuple(draw(st.permutations(flavors))),
            cpu=draw(st.sampled_from([0, 1000])),
            priority=draw(st.integers(-1, 1)),
            user=draw(st.integers(1, 3)),
            minutes=draw(st.integers(0, 200)),
            borrow=draw(st.booleans()),
            preemptible=draw(st.booleans()),
        )
    return site


def grown(site: Site) -> World:
    """Return the world after the first decision, some of its nodes cordoned by nobody."""
    decided = site.decide()
    attempts = []
    classes = {row.id: row for row in site.classes}
    waiting = {row.id: row for row in site.waiting}
    for number, row in enumerate(decided.outcome.admissions, start=1):
        job_class = classes[row.job_class]
        attempts.append(
            Attempt(
                id=number,
                number=number,
                job=row.job,
                team=job_class.queue,
                user=waiting[row.job].user,
                groups=job_class.ask.groups,
                flavors=row.flavors,
                placed=row.placed,
                since=0,
                borrow=job_class.ask.borrow,
                preemptible=job_class.ask.preemptible,
                queue=job_class.queue,
            )
        )
    return replace(site.world(), attempts=tuple(attempts))


def still_waiting(site: Site) -> SimpleHeads:
    decided = site.decide()
    rows = []
    for row in site.waiting:
        started = decided.tasks(row.id)
        independent = site.classes[row.job_class - 1].ask.shape.value == "independent"
        if not started or (independent and started < row.tasks):
            rows.append(replace(row, tasks=row.tasks - started if independent else row.tasks))
    return SimpleHeads(rows)


@given(sites())
@settings(max_examples=examples(150))
def test_no_node_goes_above_its_room_and_no_gang_is_split(site: Site) -> None:
    decided = site.decide()

    nodes = {node.id: node for node in site.nodes}
    units = dict.fromkeys(nodes, 0)
    cpu = dict.fromkeys(nodes, 0)
    for row in decided.outcome.admissions:
        ask = site.classes[row.job_class - 1].ask
        for placed in row.placed:
            group = ask.groups[placed.group]
            units[placed.node] += placed.tasks * group.units
            cpu[placed.node] += placed.tasks * group.cpu
            assert nodes[placed.node].flavor == row.flavors[placed.group]
        if ask.shape.value == "gang":
            assert row.tasks == sum(group.tasks for group in ask.groups)
            assert len({nodes[placed.node].cluster for placed in row.placed}) == 1
    assert all(units[node] <= nodes[node].units and cpu[node] <= nodes[node].cpu for node in nodes)


@given(sites())
@settings(max_examples=examples(150))
def test_quotas_hold_and_every_borrowed_unit_is_lent(site: Site) -> None:
    world = grown(site)

    tree, lines = in_use(world)
    for line in lines.values():
        for place in range(1, len(tree.parent)):
            limit = line.borrow[place]
            assert limit is None or line.usage[place] <= line.subtree[place] + limit
        assert line.usage[0] <= line.subtree[0]
    for loan in ledger(world).loans:
        assert sum(units for _, units in loan.borrowed) == sum(units for _, units in loan.lent)
    for team in site.teams:
        users: dict[int, int] = {}
        for attempt in world.attempts:
            if attempt.team == team.id:
                users[attempt.user] = users.get(attempt.user, 0) + sum(demand(attempt).values())
        assert team.per_user_limit is None or all(used <= team.per_user_limit for used in users.values())


@given(sites())
@settings(max_examples=examples(150))
def test_what_could_be_used_is_used_at_once(site: Site) -> None:
    again = decide(grown(site), still_waiting(site))

    # What started may have given others a right to evict that they had not in their turn.
    claimants = {row.job for row in again.evictions}
    assert [row.job for row in again.admissions if row.job not in claimants] == []


@given(sites())
@settings(max_examples=examples(150))
def test_every_waiting_job_has_one_reason(site: Site) -> None:
    decided = site.decide()

    keys = [(row.job_class, row.user, row.job) for row in decided.outcome.verdicts]
    assert len(keys) == len(set(keys))
    for row in site.waiting:
        independent = site.classes[row.job_class - 1].ask.shape.value == "independent"
        if decided.tasks(row.id) == 0 or (independent and decided.tasks(row.id) < row.tasks):
            assert decided.code(row.id) in Code


@given(sites(), st.randoms(use_true_random=False))
@settings(max_examples=examples(100))
def test_the_order_of_rows_does_not_matter(site: Site, shuffler: Random) -> None:
    world, heads = site.world(), site.heads()
    expected = decide(world, heads)

    mixed = replace(
        world,
        flavors=tuple(shuffler.sample(world.flavors, len(world.flavors))),
        teams=tuple(shuffler.sample(world.teams, len(world.teams))),
        queues=tuple(shuffler.sample(world.queues, len(world.queues))),
        nodes=tuple(shuffler.sample(world.nodes, len(world.nodes))),
        classes=tuple(shuffler.sample(world.classes, len(world.classes))),
    )

    assert decide(mixed, heads) == expected


@given(sites(), st.randoms(use_true_random=False))
@settings(max_examples=examples(60))
def test_the_order_of_rows_does_not_matter_for_claims_and_holds(site: Site, shuffler: Random) -> None:
    world, heads = grown(site), still_waiting(site)
    expected = decide(world, heads)

    mixed = replace(
        world,
        teams=tuple(shuffler.sample(world.teams, len(world.teams))),
        nodes=tuple(shuffler.sample(world.nodes, len(world.nodes))),
        attempts=tuple(shuffler.sample(world.attempts, len(world.attempts))),
        classes=tuple(shuffler.sample(world.classes, len(world.classes))),
    )

    assert decide(mixed, heads) == expected


@given(sites(), st.integers(0, 7))
@settings(max_examples=examples(100))
def test_nothing_starts_on_a_node_that_takes_nobody(site: Site, which: int) -> None:
    node = which % len(site.nodes) + 1
    site.cordon(node, NodeState.LOST)

    decided = site.decide()

    assert all(node not in decided.nodes(job) for job in decided.started())


def test_the_rules_do_not_import_django() -> None:
    code = "import sys, queues.admission.decide; assert not any(name.split('.')[0] == 'django' for name in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
