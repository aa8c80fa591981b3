"""Every benchmark runs in a tiny form and prints its lines; what can be worked out by hand is right."""

import json
from io import StringIO
from pathlib import Path
from random import Random

import pytest
from django.core.management import CommandError, call_command

from queues.admission import placement
from queues.admission.nodes import Ground, Host
from queues.admission.shapes import Pattern
from queues.admission.world import Node
from queues.benchmarks import packing, policies, reclaim, topology
from queues.benchmarks.catalog import BENCHMARKS
from queues.benchmarks.philly import Shares, fair_shares, shared
from queues.benchmarks.policies import Policy, Request
from queues.benchmarks.results import Result, Setting, commit
from queues.benchmarks.stage import rank
from tests.benchmarks.traces import write

TRACED = ("kueue-baseline", "kueue-large", "packing", "borrowing", "gangs", "topology")


def run(name: str, setting: Setting) -> dict[str, Result]:
    return {row.name: row for row in BENCHMARKS[name](setting)}


@pytest.fixture
def tiny(tmp_path: Path) -> Setting:
    return Setting(data=write(tmp_path), seed=1)


def bench(*arguments: str) -> str:
    out = StringIO()
    call_command("bench", *arguments, stdout=out)
    return out.getvalue()


def test_the_list_names_every_benchmark_with_what_it_does() -> None:
    lines = bench("--list").splitlines()

    assert [line.split()[0] for line in lines] == list(BENCHMARKS)
    assert all(len(line.split()) > 4 for line in lines)


def test_each_value_is_a_line_for_people_and_a_line_of_json(tmp_path: Path) -> None:
    write(tmp_path)
    lines = tmp_path / "lines.jsonl"

    out = bench("topology", "--data", str(tmp_path), "--json", str(lines), "--seed", "7")

    first = json.loads(lines.read_text().splitlines()[0])
    assert out.startswith("calibration: fdatasync ")
    assert "topology/trace/mean 1 racks / fewest | peer - | limit 1.00 | seed 7 | " in out
    assert (first["name"], first["value"], first["limit"], first["seed"]) == ("topology/trace/mean", 1.0, "1.00", 7)


def test_unknown_names_and_missing_traces_are_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no benchmark is called nothing"):
        bench("nothing")
    with pytest.raises(CommandError, match="name one"):
        bench()
    with pytest.raises(CommandError, match=r"packing needs openb/.*--data"):
        bench("packing", "--data", str(tmp_path))


@pytest.mark.parametrize("name", TRACED)
def test_the_same_seed_gives_the_same_values_but_for_wall_times(name: str, tiny: Setting) -> None:
    rows, again = run(name, tiny), run(name, tiny)

    assert rows
    assert {key: row for key, row in rows.items() if _exact(row)} == {
        key: row for key, row in again.items() if _exact(row)
    }


def _exact(row: Result) -> bool:
    return "wall" not in row.unit and "/s" not in row.unit


def test_kueue_workloads_end_and_preemption_lets_large_jobs_start_sooner(tiny: Setting) -> None:
    rows = run("kueue-baseline", tiny)

    variants = ("no-preemption", "within-queue", "recall", "full", "full-minute")
    assert all(rows[f"kueue-baseline/{name}/unfinished"].value == 0 for name in variants)
    assert rows["kueue-baseline/no-preemption/evictions"].value == 0
    assert rows["kueue-baseline/full/large"].value <= rows["kueue-baseline/no-preemption/large"].value


def test_lending_is_worth_more_than_fixed_partitions(tiny: Setting) -> None:
    rows = run("borrowing", tiny)

    assert rows["borrowing/ours/all/max"].value == 0
    assert rows["borrowing/ours/worse"].value == 0
    assert rows["reclaim/philly/most"].value == 0


def test_decisions_are_timed_and_the_peak_of_memory_is_told() -> None:
    rows = run("decide", Setting(data=None, seed=1, part=250))

    assert {name.rsplit("/", 1)[1] for name in rows} == {"p50", "p99", "longest", "first", "held", "rss"}


def test_decisions_are_timed_by_themselves_once_what_waits_may_hold() -> None:
    rows = run("decide", Setting(data=None, seed=1, part=250))

    assert rows["decide/lent/40/4/holds/longest"].value > 0
    assert rows["decide/lent/40/4/holds/held"].value > 0


def test_decisions_on_the_same_shapes_are_timed_whatever_waits_behind() -> None:
    rows = run("decide-flat", Setting(data=None, seed=1, part=50))

    assert list(rows) == ["decide-flat/10000/p50", "decide-flat/100000/p50"]


def test_a_gang_waits_no_longer_than_the_bound_says() -> None:
    rows = run("gangs-stream", Setting(data=None, seed=1, part=4))

    assert rows
    assert all(row.value <= float(row.limit.split()[0]) for row in rows.values())


def test_victims_are_the_best_of_all_legal_sets() -> None:
    rows = run("reclaim", Setting(data=None, seed=1, part=40))

    assert rows["reclaim/ratio-max"].value == 1
    assert rows["reclaim/missed"].value == rows["reclaim/wrong"].value == rows["reclaim/first-keys"].value == 0


def test_brute_force_spares_what_a_guarantee_covers() -> None:
    drawn = next(found for found in map(reclaim.case, [Random(seed) for seed in range(50)]) if found is not None)
    covered = [row for row in drawn.attempts if drawn.usage()[row.team] <= drawn.guaranteed[row.team]]

    assert not any(reclaim.legal(drawn, [row]) for row in covered)


def test_the_commit_of_a_worktree_is_found_where_its_file_points(tmp_path: Path) -> None:
    own = tmp_path / "main/.git/worktrees/w"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/w\n")
    (own / "commondir").write_text("../..\n")
    (tmp_path / "main/.git/refs/heads").mkdir(parents=True)
    (tmp_path / "main/.git/refs/heads/w").write_text("0123456789abcdef\n")
    (tmp_path / "w").mkdir()
    (tmp_path / "w/.git").write_text(f"gitdir: {own}\n")

    assert commit(tmp_path / "w") == "012345678"


def test_packing_counts_unusable_units_as_the_rules_do() -> None:
    state = packing.State("T4", (1000,), 3000, 100)
    pod, stranger = packing.Pod(2000, 10, 1, 400, frozenset()), packing.Pod(0, 0, 1, 300, frozenset({"P100"}))
    host = Host(Node(id=1, name="n", cluster=1, flavor=1, units=1000, cpu=3000, memory=100, labels=(("m", "T4"),)))
    kind = Ground().kind(host, 1000, 3000, 100, 110)
    pattern, strange = Pattern(1, 400, 2000, 10, ()), Pattern(1, 300, 0, 0, (("m", "P100"),))

    fleet = packing.Fleet([state], [(pod, 3), (stranger, 5)], [0])

    # two tasks would fit by units, one and a half by CPU: 400 of 1,000 are lost to each of three
    assert fleet.unusable(state) == placement.unusable(kind, ((pattern, 3), (strange, 5))) == 1200


def test_a_fractional_pod_takes_the_device_that_it_fills() -> None:
    half, whole = packing.Pod(1, 1, 1, 500, frozenset()), packing.Pod(1, 1, 1, 1000, frozenset())
    fleet = packing.Fleet([packing.State("T4", (1000, 1000), 99, 99)], [(half, 1), (whole, 1)], [0])

    placed = [fleet.place(pod) for pod in (half, half, whole, half)]

    assert placed == [True, True, True, False]


def test_fewest_racks_fill_the_largest_first() -> None:
    assert topology.fewest([2, 8, 4], 9) == 2
    with pytest.raises(ValueError, match="larger than the machine"):
        topology.fewest([2], 3)


def starts(policy: Policy) -> dict[int, int]:
    """One job of 6 ends at 10; one of 8 waits for it, then a long and a short one of 2."""
    rows = [
        Request(1, "a", 0, 6, 10, 10),
        Request(2, "a", 1, 8, 5, 5),
        Request(3, "b", 2, 2, 20, 20),
        Request(4, "b", 2, 2, 4, 4),
    ]
    return policies.play(rows, 8, policy, {"a": 4, "b": 4})


def test_reference_policies_pass_the_head_as_their_names_say() -> None:
    assert starts(Policy.FIFO) == {1: 0, 2: 10, 3: 15, 4: 15}
    assert starts(Policy.EASY) == {1: 0, 4: 2, 2: 10, 3: 15}
    assert starts(Policy.GREEDY) == {1: 0, 3: 2, 4: 10, 2: 22}


def test_reference_policies_on_nodes_know_fragments_and_plan_on_single_nodes() -> None:
    """Two nodes of 8; jobs of 6 end at 10 and 20: one of 8 plans for 10 on the first, beside it others may stay."""
    rows = [
        Request(1, "a", 0, 6, 10, 10),
        Request(2, "a", 0, 6, 20, 20),
        Request(3, "a", 1, 8, 5, 5),
        Request(4, "b", 2, 2, 30, 30),
        Request(5, "b", 2, 2, 8, 8),
        Request(6, "b", 2, 2, 30, 30),
    ]
    gang = [Request(1, "a", 0, 2, 10, 10), Request(2, "a", 1, 6, 4, 4), Request(3, "b", 2, 16, 1, 1)]

    on_nodes = policies.play(rows, 16, Policy.EASY, {"a": 8, "b": 8}, nodes=2)
    few = policies.play([*rows[:2], Request(3, "b", 1, 3, 1, 1)], 16, Policy.GREEDY, {}, nodes=2)
    pool = policies.play([*rows[:2], Request(3, "b", 1, 3, 1, 1)], 16, Policy.GREEDY, {})

    assert on_nodes == {1: 0, 2: 0, 4: 2, 5: 2, 3: 10, 6: 15}
    assert (few[3], pool[3]) == (10, 1)
    assert policies.play(gang, 16, Policy.GREEDY, {}, nodes=2) == {1: 0, 2: 1, 3: 10}


def test_shares_are_max_min_and_the_under_served_part_is_timed() -> None:
    shares = Shares(8, {"a": 4, "b": 4})
    shares.look(0, {"a": 8}, {"b": 4})
    shares.look(10, {"a": 4, "b": 4}, {})

    assert fair_shares(8, {"a": 1, "b": 20}, {"a": 4, "b": 4}) == {"a": 1.0, "b": 7.0}
    assert shared(10, {"a": 1, "b": 2}) == {"a": 3, "b": 7}
    assert shares.mean() == 0.5


def test_ranks_are_the_nearest_ones() -> None:
    assert [rank([1, 2, 3, 4], part) for part in (0.25, 0.5, 0.99, 1.0)] == [1, 2, 4, 4]
    assert rank([], 0.5) == 0
