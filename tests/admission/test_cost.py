"""What a cycle costs: steps of the rules are counted, no time is taken. And what is remembered changes no decision."""

import sys
from collections import Counter
from dataclasses import replace
from random import Random
from types import FrameType

import pytest

from queues.admission import settled
from queues.admission.decide import Memory, Outcome, decide
from queues.admission.exchange import Exchange
from queues.admission.heads import SimpleHeads
from queues.admission.lanes import Candidate
from queues.admission.reasons import Code
from queues.admission.tournament import Tournament
from queues.admission.world import HOUR, Heads, NodeState, Waiting, World
from queues.simulation import engine
from queues.simulation.reading import parse
from queues.simulation.run import simulate
from queues.simulation.scenario import Reader
from tests.admission.site import NOW, Site
from tests.simulation.timelines import timeline


def steps(world: World, heads: Heads, memory: Memory | None = None) -> Counter[str]:
    """Count the calls of each function of the rules in one decision; finding a waiting job in its list is none."""
    counts: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and "/queues/admission/" in file and not file.endswith("heads.py"):
            counts[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        decide(world, heads, memory)
    finally:
        sys.setprofile(before)
    return counts


def full(teams: int, waiting: int) -> Site:
    """Teams with all but two units of a flavor in use, and so many waiting jobs of nine shapes in each."""
    site = Site()
    site.node(8, count=2 * teams)
    for number in range(teams):
        team = site.team(16)
        site.runs(team, 2 * number + 1, units=8)
        site.runs(team, 2 * number + 2, units=6 if number == 0 else 8)
        for job in range(waiting):
            site.waits(team, (1, 2, 4)[job % 3], gang=1, user=1 + job % 3, priority=job // 3 % 3)
    return site


def test_the_steps_of_a_cycle_do_not_grow_with_the_jobs_that_wait_behind_the_heads() -> None:
    few, many = full(4, waiting=27), full(4, waiting=2700)

    assert steps(many.world(), many.heads()) == steps(few.world(), few.heads())


def test_a_start_does_not_let_all_teams_be_asked_again() -> None:
    counts = [steps(site.world(), site.heads())["_ask"] for site in (full(5, waiting=9), full(40, waiting=9))]

    assert counts[1] - counts[0] <= 35  # once for each further team, however many steps there are


def unequal(teams: int) -> Site:
    """Teams of which each has borrowed more than the one before, with a unit free and jobs that wait in all of them."""
    site = Site()
    for number in range(1, teams + 1):
        team = site.team(0)
        [node] = site.node(number)
        site.runs(team, node, units=number)
        for units in (1, 1, 2):
            site.waits(team, units, gang=1, user=units)
    site.node(1)
    return site


def test_a_team_that_has_borrowed_more_than_who_goes_first_is_not_read() -> None:
    few, many = (steps(site.world(), site.heads()) for site in (unequal(4), unequal(16)))

    assert (few["admit"], many["admit"]) == (1, 1)
    assert (few["_begin"], many["_begin"]) == (1, 1)


def test_room_that_is_lost_lets_only_those_be_asked_again_who_wanted_it() -> None:
    site = Site()
    site.node(100)  # so that quota is never what lacks
    for rack in range(10):
        site.node(1, labels=(("rack", str(rack)),))
    for number in range(40):
        site.waits(site.team(0), 1, gang=1, labels=(("rack", str(number % 10)),))

    counts = steps(site.world(), site.heads())

    assert counts["admit"] == 10
    assert counts["_ask"] <= 40 + 10 * 4  # each at first; then those who wanted what a start has taken


def test_a_planned_start_with_quota_to_spare_lets_nobody_be_asked_again() -> None:
    site, here, large = Site(), (("here", "yes"),), (("large", "yes"),)
    [node] = site.node(8, labels=large)
    site.node(1, count=40, labels=here)
    site.node(100)  # so that quota is never what lacks
    site.runs(site.team(8), node, units=8, ends_by=NOW + HOUR)
    site.waits(site.team(8), 8, gang=1, minutes=60, limit=60, labels=large)
    held = decide(site.world(), site.heads()).holds
    for _ in range(20):
        site.waits(site.team(0), 1, gang=1, labels=here)

    counts = steps(replace(site.world(), holds=held), site.heads())

    assert len(held) == 1
    assert held[0].at == NOW + HOUR
    assert counts["admit"] == 20
    assert counts["_ask"] <= 20 + 20 + 20


def test_with_a_memory_a_decision_does_not_count_what_runs_nor_look_at_every_class() -> None:
    counts = []
    for teams in (5, 40):
        site, memory = full(teams, waiting=27), Memory()
        decide(site.world(), site.heads(), memory)
        counts.append(steps(site.world(), site.heads(), memory))

    assert [found["_count"] + found["_add"] + found["takes_turns"] for found in counts] == [0, 0]


class Asked(SimpleHeads):
    """Waiting jobs that remember of which classes the first ones were asked for."""

    def __init__(self, rows: list[Waiting]) -> None:
        super().__init__(rows)
        self.asked: set[int] = set()

    def users(self, job_class: int) -> tuple[Waiting, ...]:
        self.asked.add(job_class)
        return super().users(job_class)


def test_however_much_runs_nodes_are_filled_once_and_it_is_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled, "MOST_KINDS", 20)
    site, memory = Site(), Memory()
    [first, second] = site.node(100, count=2)
    team = site.team(200)
    for number in range(90):
        site.runs(team, (first, second)[number % 2], units=1)
    site.waits(team, 1, gang=300)

    cold = steps(site.world(), site.heads(), memory)
    site.runs(team, first, units=1)
    warm = steps(site.world(), site.heads(), memory)

    assert (cold["_use"], cold["shift"]) == (90, 2)
    assert (warm["_use"], warm["shift"]) == (1, 1)


def test_with_a_memory_only_classes_that_have_changed_are_asked_since_when_they_wait() -> None:
    site, memory = full(5, waiting=27), Memory()
    site.runs(1, 2, units=2)
    late = site.waits(2, 2, gang=1, user=9, minutes=5)
    heads = Asked([row for row in site.waiting if row.id != late])
    decide(site.world(), heads, memory)
    first = set(heads.asked)

    heads.asked.clear()
    heads.add(site.waiting[-1])
    decide(site.world(), heads, memory)

    assert len(first) == 5 * 9
    assert heads.asked == {site.waiting[-1].job_class}


def test_reasons_are_worked_out_only_when_they_are_read() -> None:
    site = full(5, waiting=27)

    counts = steps(site.world(), site.heads())

    assert (counts["_of_option"], counts["of_class"]) == (0, 0)
    assert {row.reason.code for row in decide(site.world(), site.heads()).verdicts} >= {Code.NO_FREE_CAPACITY}


def test_what_is_said_again_is_the_very_same_object() -> None:
    site, memory = full(5, waiting=27), Memory()

    first, second = (tuple(decide(site.world(), site.heads(), memory).verdicts) for _ in range(2))

    assert first
    assert all(now is before for now, before in zip(second, first, strict=True))


def test_what_is_said_of_a_class_follows_what_is_free() -> None:
    site, memory = Site(), Memory()
    site.node(8)
    team = site.team(4, borrow=0)
    site.runs(team, 1, units=2)
    site.waits(team, 3, gang=1)
    site.runs(site.team(4), 1, units=1)

    before = decide(site.world(), site.heads(), memory).verdicts[0].reason
    site.attempts.pop()
    after = decide(site.world(), site.heads(), memory).verdicts[0].reason

    assert (before.code, after.code) == (Code.TEAM_LIMIT, Code.TEAM_LIMIT)
    assert (dict(before.numbers)["free"], dict(after.numbers)["free"]) == (5, 6)


def test_an_attempt_whose_tasks_are_all_lost_is_counted_as_nothing() -> None:
    site, memory = full(2, waiting=3), Memory()
    site.cordon(1, NodeState.LOST)
    lost = site.attempts[0]
    site.attempts[0] = replace(lost, placed=())

    first = decide(site.world(), site.heads(), memory)
    site.attempts[0] = lost
    second = decide(site.world(), site.heads(), memory)

    assert second == decide(site.world(), site.heads())
    site.attempts[0] = replace(lost, placed=())
    assert first == decide(site.world(), site.heads()) == decide(site.world(), site.heads(), memory)


def claimed(teams: int) -> Site:
    """Teams inside their guarantees with a waiting job each, and one team that has half of the GPUs of all others."""
    site = Site()
    site.node(2, count=2 * teams)
    borrower = site.team(0)
    for number in range(teams):
        site.runs(borrower, 2 * number + 1, units=2)
    for number in range(teams):
        team = site.team(4)
        site.runs(team, 2 * number + 2, units=2)
        site.waits(team, 2, gang=1)
    return site


def test_a_claim_lets_only_the_teams_that_it_touches_be_asked_anew() -> None:
    few, many = (steps(site.world(), site.heads()) for site in (claimed(4), claimed(16)))

    assert (few["execute"], many["execute"]) == (4, 16)
    assert many["_find_inside"] <= 4 * few["_find_inside"]


def test_whether_only_minimum_run_times_stand_before_a_claim_is_asked_of_one_set_of_victims() -> None:
    site = Site()
    site.node(1, count=10)
    borrower, owner = site.team(0), site.team(10)
    for number in range(10):
        # Each costs something else, so that none stands for another: 252 sets of five would do.
        site.runs(borrower, number + 1, since=NOW - HOUR - number * 1000, safe_until=NOW + HOUR)
    site.waits(owner, 1, gang=5)

    assert steps(site.world(), site.heads())["_outside"] == 1


def holding(teams: int) -> Site:
    """Teams whose nodes are full until one of four times, each with a job that has waited long enough to hold."""
    site = Site()
    site.node(8, count=teams)
    for number in range(teams):
        team = site.team(8)
        site.runs(team, number + 1, units=8, ends_by=NOW + (1 + number % 4) * HOUR)
        site.waits(team, 8, gang=1, minutes=31, limit=HOUR)
    return site


def test_a_planned_start_is_counted_once_in_each_future_and_not_again_for_each_later_one() -> None:
    few, many = (steps(site.world(), site.heads()) for site in (holding(32), holding(128)))

    # Four times as many plans: counted for each later one it would be 16 times as often.
    assert few["change_in"] < many["change_in"] <= 6 * few["change_in"]
    assert few["set"] < many["set"] <= 6 * few["set"]


def promised(waiting: int) -> tuple[World, SimpleHeads]:
    """Teams that hold, one that keeps and one with a claim, with so many jobs waiting in the line of each."""
    site = Site()
    site.node(8, count=6)
    for number in range(1, 5):
        team = site.team(8)
        site.runs(team, number, units=8, ends_by=NOW + number * HOUR)
        for _ in range(waiting):
            site.waits(team, 8, gang=1, minutes=31, limit=60)
    keeper, claimant, borrower = site.team(8), site.team(8), site.team(0)
    site.runs(borrower, 5, units=8, safe_until=NOW + HOUR)
    site.runs(borrower, 6, units=8, leaving=True, claimed=True, ends_by=NOW + HOUR)
    for team in (keeper, claimant, borrower):
        claiming, *_ = [site.waits(team, 8, gang=1, limit=60) for _ in range(waiting)]
        if team == claimant:
            site.claims_on(claiming, 6)
    first = decide(site.world(), site.heads())
    assert (len(first.holds), len(first.keeps), len(first.claims)) == (4, 1, 1)
    return replace(site.world(), holds=first.holds), site.heads()


def test_holds_keeps_and_claims_cost_the_same_however_many_wait_behind_them() -> None:
    few, many = promised(40), promised(400)

    assert steps(*many) == steps(*few)
    assert steps(*many, Memory()) == steps(*few, Memory())


def delaying(askers: int) -> tuple[World, SimpleHeads]:
    """Many planned starts, one of them on a node with room now, and teams that would delay it if they took that."""
    site, here = holding(32), (("here", "yes"),)
    [node] = site.node(8, labels=here)
    site.runs(site.team(4), node, units=4, ends_by=NOW + HOUR)
    site.waits(site.team(8), 8, gang=1, minutes=31, limit=HOUR, labels=here)
    held = decide(site.world(), site.heads()).holds
    for _ in range(askers):
        site.waits(site.team(0), 1, gang=1, limit=10 * HOUR, labels=here)
    return replace(site.world(), holds=held), site.heads()


def test_not_every_job_asks_all_planned_starts_whether_it_would_delay_them() -> None:
    few, many = steps(*delaying(2)), steps(*delaying(32))

    assert (few["admit"], many["admit"]) == (0, 0)
    assert few["_spares_quota"] < many["_spares_quota"]
    assert (few["leaves"], few["_binds"]) == (many["leaves"], many["_binds"])


@pytest.mark.parametrize("seed", range(12))
def test_what_is_remembered_or_not_asked_changes_no_decision(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    winner = Tournament.winner

    def ask_everybody(tournament: Tournament) -> Candidate | None:
        first = winner(tournament)
        tournament.ask_all()
        return first

    def both(world: World, heads: Heads, memory: Memory) -> Outcome:
        warm = decide(world, heads, memory)
        with monkeypatch.context() as patch:
            patch.setattr(Tournament, "winner", ask_everybody)
            patch.setattr(Exchange, "within", lambda *_: None)
            assert warm == decide(world, heads)
        return warm

    monkeypatch.setattr(engine, "decide", both)
    scenario = Reader(parse(timeline(Random(seed)), "random.yaml"), "random.yaml").scenario()

    assert simulate(scenario, lambda: 0.0).ok


def test_a_claim_that_needs_its_own_team_to_give_way_tries_no_more_of_others_once_these_are_enough() -> None:
    site = Site()
    site.node(42)
    team, other = site.team(20), site.team()
    site.queues[0] = replace(site.queues[0], preempt_within_team=True)
    for row in range(7):
        site.runs(other, 1, units=5, since=NOW - row * 1000)
    for row, units in enumerate((5, 1, 1)):
        site.runs(team, 1, units=units, priority=-1, since=NOW - row * 1000)
    site.waits(team, gang=20)

    counts = steps(site.world(), site.heads())
    outcome = decide(site.world(), site.heads())

    # All three of its own go (7 and 20 are more than 20) and three of seven others. Of others alone 35 sets of four
    # are enough, and these grow by its own alone: 770 sets are tried in two searches.
    assert sorted(row.attempt for row in outcome.evictions) == [1, 2, 3, 8, 9, 10]
    assert counts["_outside"] < 900


def preempting(departments: int) -> Site:
    """Departments that lend nothing, each with three teams in which a job waits for two less urgent ones to go."""
    site = Site()
    for _ in range(departments):
        parent = site.team(lend=0)
        for _ in range(3):
            [node], team = site.node(4), site.team(4, parent=parent)
            site.queues[-1] = replace(site.queues[-1], preempt_within_team=True)
            for row in range(2):
                site.runs(team, node, units=2, priority=-1, since=NOW - row * 1000)
            site.waits(team, 4, gang=1)
    return site


def test_a_claim_that_others_cannot_see_lets_no_claim_of_theirs_be_searched_for_again() -> None:
    few, many = (steps(site.world(), site.heads()) for site in (preempting(2), preempting(16)))

    assert (few["execute"], many["execute"]) == (6, 48)
    # Eight times as many departments: searched for again in each of them it would be 38 times as often.
    assert many["best"] <= 9 * few["best"]


def test_nobody_is_looked_at_in_departments_within_their_promise() -> None:
    few, many = (steps(site.world(), site.heads()) for site in (preempting(2), preempting(16)))

    assert (few["_above"], many["_above"]) == (0, 0)
    assert many["_above_promise"] <= 9 * few["_above_promise"]
