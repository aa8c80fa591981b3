"""Each invariant can fail: a fault put into the rules, or into what happens to their decisions, is caught by name."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from queues.admission.board import Board
from queues.admission.claims import Claims
from queues.admission.decide import Memory, decide
from queues.admission.outcome import Outcome, Verdict
from queues.admission.passes import Passes
from queues.admission.quota import Ledger, in_use, ledger
from queues.admission.reasons import Code, Reason
from queues.admission.world import Heads, Placed, World
from queues.simulation.engine import Engine
from queues.simulation.jobs import Job, Part
from queues.simulation.reading import parse
from queues.simulation.run import Result, simulate
from queues.simulation.scenario import Reader
from queues.simulation.tally import Tally

Change = Callable[[Outcome, World], Outcome]
Break = Callable[[Change], None]

FULL = """\
nodes: [{name: n, flavor: g, units: 4}]
teams: [{name: a, guaranteed: {g: 2}, borrow_limit: {g: 1}}, {name: b, guaranteed: {g: 2}}]
timeline:
  - {at: 0s, submit: {name: j, team: a, shape: gang, tasks: 2, user: u}}
  - {at: 1m, submit: {name: k, team: b, shape: gang, tasks: 2}}
  - {at: 2m, submit: {name: w, team: a, user: v}}
"""


def run(text: str) -> Result:
    return simulate(Reader(parse(text, "case.yaml"), "case.yaml").scenario(), lambda: 0.0)


def breach(text: str) -> object:
    """Return the invariant that a run breaks."""
    failures = run(text).failures
    found = failures[0]["found"] if failures else {}
    return found.get("invariant") if isinstance(found, dict) else None


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Let a test change what the rules decide."""

    def change(how: Change) -> None:
        def other(world: World, heads: Heads, memory: Memory) -> Outcome:
            return how(decide(world, heads, memory), world)

        monkeypatch.setattr("queues.simulation.engine.decide", other)

    return change


def admitted(outcome: Outcome, **more: object) -> Outcome:
    rows = tuple(replace(row, **more) for row in outcome.admissions)  # type: ignore[arg-type]
    return replace(outcome, admissions=rows)


def test_without_a_fault_nothing_is_found() -> None:
    assert run(FULL).failures == []


def test_i1_more_on_a_node_than_it_has(broken: Break) -> None:
    broken(lambda outcome, _: admitted(outcome, placed=(Placed(group=0, node=1, tasks=5),), tasks=5))

    assert breach(FULL) == "I1"


def test_i1_more_memory_than_a_node_has(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "nodes: [{name: n, flavor: g, units: 4, memory: 8Gi}]\nteams: [{name: a, guaranteed: {g: 4}}]\n"
        "timeline: [{at: 0s, submit: {name: j, count: 2, team: a, memory: 6Gi}}]\n"
    )
    assert breach(text) is None

    monkeypatch.setattr(Board, "admissible", lambda *_: True)
    monkeypatch.setattr(Board, "place", lambda *_: (Placed(group=0, node=1, tasks=1),))

    assert breach(text) == "I1"


@pytest.mark.parametrize("state", ["cordoned", "lost"])
def test_i1_a_start_on_a_node_that_takes_nobody(broken: Break, state: str) -> None:
    text = (
        "nodes: [{name: n, count: 2, flavor: g, units: 4}]\nteams: [{name: a}]\n"
        f"timeline: [{{at: 0s, node: {{name: n1, state: {state}}}}}, {{at: 0s, submit: {{name: j, team: a}}}}]\n"
    )
    broken(lambda outcome, _: admitted(outcome, placed=(Placed(group=0, node=1, tasks=1),)))

    assert breach(text) == "I1"


def test_i1_a_start_on_units_that_others_use(broken: Break) -> None:
    text = (
        "nodes: [{name: n, flavor: g, units: 4, outside: 4}, {name: m, flavor: g, units: 4}]\nteams: [{name: a}]\n"
        "timeline: [{at: 0s, submit: {name: j, team: a}}]\n"
    )
    broken(lambda outcome, _: admitted(outcome, placed=(Placed(group=0, node=1, tasks=1),)))

    assert breach(text) == "I1"


def test_i1_a_start_on_a_node_without_the_label(broken: Break) -> None:
    text = (
        "nodes: [{name: n, flavor: g, units: 4}, {name: m, flavor: g, units: 4, labels: {ib: 'yes'}}]\n"
        "teams: [{name: a}]\ntimeline: [{at: 0s, submit: {name: j, team: a, labels: {ib: 'yes'}}}]\n"
    )
    broken(lambda outcome, _: admitted(outcome, placed=(Placed(group=0, node=1, tasks=1),)))

    assert breach(text) == "I1"


def test_i2_a_team_above_its_borrow_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = FULL.replace("tasks: 2, user: u", "tasks: 2, user: u, runs: 1h").replace(
        "{name: k, team: b,", "{name: k, team: a,"
    )
    assert breach(text) is None

    monkeypatch.setattr(Board, "quota", lambda *_: True)

    assert breach(text) == "I2"


def test_i2_a_user_above_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "policy: {per_user_limit: 1}\n" + FULL.replace("shape: gang, ", "")
    assert breach(text) is None

    monkeypatch.setattr(Board, "user_room", lambda *_, **__: None)

    assert breach(text) == "I2"


def test_i2_firm_work_on_what_is_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    text = FULL.replace("user: u", "preemptible: false").replace("user: v", "preemptible: false")
    text = text.replace("tasks: 2}}", "tasks: 1}}")
    assert breach(text) is None

    monkeypatch.setattr(Board, "covered", lambda *_: True)

    assert breach(text) == "I2"


def test_i2_a_start_of_a_paused_team(monkeypatch: pytest.MonkeyPatch) -> None:
    text = FULL.replace("timeline:\n", "timeline:\n  - {at: 0s, team: {name: b, paused: true}}\n")
    assert breach(text) is None

    monkeypatch.setattr(Engine, "_team_row", lambda _, team: replace(team, paused=False))

    assert breach(text) == "I2"


def test_i3_half_a_gang(broken: Break) -> None:
    broken(lambda outcome, _: admitted(outcome, placed=(Placed(group=0, node=1, tasks=1),)))

    assert breach(FULL) == "I3"


def test_i3_more_surplus_than_the_maximum(broken: Break) -> None:
    text = FULL.replace("shape: gang, tasks: 2, user: u", "shape: elastic, min: 1, max: 2, user: u")
    assert breach(text) is None

    def twice(outcome: Outcome, _: World) -> Outcome:
        rows = tuple(replace(row, placed=row.placed * 2) for row in outcome.growth)
        return replace(outcome, growth=rows)

    broken(twice)

    assert breach(text) == "I3"


def test_i5_a_run_that_is_not_booked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "queues.simulation.checks.in_use", lambda world: in_use(replace(world, attempts=world.attempts[1:]))
    )

    assert breach(FULL) == "I5"


def test_i6_a_borrowed_unit_that_nobody_lends(monkeypatch: pytest.MonkeyPatch) -> None:
    text = FULL.replace("tasks: 2, user: u", "tasks: 3, user: u").replace("tasks: 2}}", "tasks: 1}}")
    assert breach(text) is None

    def without_lenders(world: World, counted: object) -> Ledger:
        found = ledger(world, counted)  # type: ignore[arg-type]
        return replace(found, loans=tuple(replace(row, lent=()) for row in found.loans))

    monkeypatch.setattr("queues.simulation.checks.ledger", without_lenders)

    assert breach(text) == "I6"


def test_i7_no_reason_two_reasons_and_a_reason_that_the_facts_deny(broken: Break) -> None:
    broken(lambda outcome, _: replace(outcome, verdicts=()))
    assert breach(FULL) == "I7"

    broken(lambda outcome, _: replace(outcome, verdicts=tuple(outcome.verdicts) * 2))
    assert breach(FULL) == "I7"


@pytest.mark.parametrize("code", [Code.QUEUE_PAUSED, Code.BACKING_OFF, Code.WAITS_VICTIMS, Code.HOLDS])
def test_i7_a_reason_that_the_facts_deny(broken: Break, code: Code) -> None:
    def other(row: Verdict) -> Verdict:
        return replace(row, reason=Reason(code=code))

    broken(lambda outcome, _: replace(outcome, verdicts=tuple(other(row) for row in outcome.verdicts)))

    assert breach(FULL) == "I7"


def test_i7_no_free_capacity_where_units_are_free(broken: Break) -> None:
    text = FULL.replace("tasks: 2}}", "tasks: 1}}").replace(
        "{name: w, team: a, user: v}", "{name: w, team: a, units: 2}"
    )
    assert breach(text) is None

    def other(row: Verdict) -> Verdict:
        return replace(row, reason=Reason(code=Code.NO_FREE_CAPACITY))

    broken(lambda outcome, _: replace(outcome, verdicts=tuple(other(row) for row in outcome.verdicts)))

    assert breach(text.replace("units: 2}", "units: 1, borrow: false}")) == "I7"


def test_i9_a_job_hidden_behind_another_of_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "policy: {max_evictions: 1}\nnodes: [{name: n, flavor: g, units: 2}]\n"
        "teams: [{name: l, guaranteed: {g: 2}}, {name: b}]\ntimeline:\n"
        "  - {at: 0s, submit: {name: b1, team: b, runs: 60m}}\n"
        "  - {at: 1m, submit: {name: l1, team: l, shape: gang, tasks: 2, runs: 10m}}\n"
        "  - {at: 2m, submit: {name: b2, team: b, runs: 5m}}\n"
    )
    assert breach(text) is None

    monkeypatch.setattr(
        Passes,
        "_borrowed_option",
        lambda self, stream: self._remembered(stream, 2, self._find_borrowed),
    )

    assert breach(text) == "I9"


def test_i9_the_check_tries_every_shape(broken: Break) -> None:
    shapes = [
        "tasks: 3",
        "shape: gang, tasks: 2",
        "shape: elastic, min: 2, max: 4",
        "shape: gang, tasks: 2, required: rack",
        "shape: gang, tasks: 2, preferred: rack",
        "shape: gang, tasks: 2, spread: rack",
        "groups: [{tasks: 1, flavors: [g]}, {tasks: 1, flavors: [h]}]",
        "units: 2, preemptible: false",
        "units: 2, borrow: false",
        "labels: {rack: r1}, flavors: [h, g]",
    ]
    world = (
        "levels: [rack]\nnodes: [{name: n, count: 2, flavor: g, units: 2, rack: r1}, {name: h, flavor: h, units: 2}]\n"
        "teams: [{name: a, guaranteed: {g: 4, h: 2}}]\n"
    )
    texts = [world + f"timeline: [{{at: 0s, submit: {{name: j, team: a, {shape}}}}}]\n" for shape in shapes]
    assert [breach(text) for text in texts] == [None] * len(texts)

    def nobody(outcome: Outcome, world: World) -> Outcome:
        rows = [Verdict(job_class=row.id, user=None, reason=Reason(code=Code.BEHIND)) for row in world.classes]
        return replace(outcome, admissions=(), growth=(), verdicts=tuple(rows))

    broken(nobody)

    assert [breach(text) for text in texts] == ["I9"] * len(texts)


def test_i10_a_victim_goes_twice_for_the_same_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "policy: {evictions_per_minute: 1}\nnodes: [{name: n, flavor: g, units: 4}]\n"
        "teams: [{name: a, guaranteed: {g: 4}}, {name: b}]\ntimeline:\n"
        "  - {at: 0s, submit: {name: b, count: 3, team: b}}\n"
        "  - {at: 1m, submit: {name: a, team: a, shape: gang, tasks: 4}}\n"
    )
    assert breach(text) is None

    def same(_: Engine, run: int) -> tuple[int, int]:
        return (1, 0) if run else (0, 0)

    monkeypatch.setattr(Engine, "victim", same)

    assert breach(text) == "I10"


def test_i10_evictions_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "policy: {max_evictions: 9999}\nnodes: [{name: n, flavor: g, units: 1}]\n"
        "teams: [{name: a, guaranteed: {g: 1}}, {name: b}]\ntimeline:\n"
        "  - {at: 0s, submit: {name: b, team: b}}\n  - {at: 1m, submit: {name: a, team: a, runs: 1m}}\n"
    )
    assert breach(text) is None
    finish = Engine._end_if_done  # noqa: SLF001

    def again(self: Engine, job: Job, state: object) -> None:
        if job.name == "a":
            job.waiting.append(Part())
            self.due(self.now + 60_000, lambda: self._queue_again(job))
            return
        finish(self, job, state)  # type: ignore[arg-type]

    monkeypatch.setattr(Engine, "_end_if_done", again)

    assert breach(text + "until: 2m\n") == "I10"


@pytest.mark.parametrize(("nodes", "one_in"), [(50, 1), (250, 3)])
def test_a_large_world_is_counted_anew_after_some_of_its_cycles(
    nodes: int, one_in: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Counter[str]()
    decided = Engine.cycle

    def cycle(engine: Engine) -> bool:
        found["cycles"] += 1
        return decided(engine)

    def count(engine: Engine) -> Tally:
        found["tallies"] += 1
        return Tally(engine)

    monkeypatch.setattr("queues.simulation.checks.Tally", count)
    monkeypatch.setattr(Engine, "cycle", cycle)
    jobs = "{name: j, team: a, runs: 5s}"
    text = f"""\
policy: {{tick: 10s}}
nodes: [{{name: n, count: {nodes}, flavor: g, units: 1}}]
teams: [{{name: a, guaranteed: {{g: 1}}}}]
timeline: [{{at: 0s, repeat: {{every: 100s, times: 30, submit: {jobs}}}}}]
until: 3000s
"""
    result = run(text)

    assert result.ok
    assert found["cycles"] >= 30
    assert found["tallies"] == -(-found["cycles"] // one_in)


@pytest.mark.parametrize(("line", "found"), [("node: {name: n1, state: lost}", "I10"), ("hold: a1", None)])
def test_i10_a_lost_node_takes_no_claim_away_but_people_do(
    line: str, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Claims, "_there", lambda _, claim: claim.placed)
    text = (
        "policy: {grace: 1m}\nnodes: [{name: n, count: 2, flavor: g, units: 1}]\n"
        "teams: [{name: a, guaranteed: {g: 2}}, {name: b}]\ntimeline:\n"
        "  - {at: 0s, submit: {name: b, count: 2, team: b}}\n"
        "  - {at: 1m, submit: {name: a1, team: a, shape: gang, tasks: 2}}\n"
        f"  - {{at: 90s, {line}}}\n  - {{at: 5m, node: {{name: n1, state: ready}}}}\n  - {{at: 5m, release: a1}}\n"
    )

    assert breach(text) == found
