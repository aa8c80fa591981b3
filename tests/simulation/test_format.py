"""The scenario format, sentence by sentence: what each word of a file means on the virtual clock."""

import json

import pytest

from queues.simulation.reading import ScenarioError, parse
from queues.simulation.report import as_json
from queues.simulation.run import Result, simulate
from queues.simulation.scenario import Reader

ONE = "nodes: [{name: n, flavor: g, units: 4}]\nteams: [{name: a, guaranteed: {g: 4}}]\n"
TWO = "nodes: [{name: n, flavor: g, units: 4}]\nteams: [{name: a, guaranteed: {g: 4}}, {name: b}]\n"


def no_clock() -> float:
    return 0.0


def run(text: str) -> Result:
    return simulate(Reader(parse(text, "case.yaml"), "case.yaml").scenario(), no_clock)


def holds(text: str) -> None:
    """Fail unless all that the text expects is found."""
    assert run(text).failures == []


def refused(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        run(text)
    return str(caught.value)


def events(result: Result, kind: str) -> list[dict[str, object]]:
    return [row for row in result.events if row["event"] == kind]


def nested(depth: int) -> str:
    return "teams: " + "[" * depth


# --- the file as YAML


def test_what_is_no_readable_yaml_is_refused_with_its_line() -> None:
    bomb = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdef", "bcdefg", strict=True)
    )

    assert refused("teams:\n\t- {name: a}\n").startswith("case.yaml:2: file: is not YAML: ")
    assert refused("a: 1\n---\nb: 2\n").startswith("case.yaml:2: file: is not YAML: ")
    assert refused("a: 1\nb: \x00\n").startswith("case.yaml:2: file: is not YAML: ")
    assert refused("# nothing but a comment\n") == "case.yaml:1: file: is empty"
    assert refused(nested(20_000)) == "case.yaml:1: file: is nested too deeply"
    assert refused("teams:\n- &a [*a]\n") == "case.yaml:2: file: an alias contains itself"
    assert refused(bomb) == "case.yaml:1: file: has more than 5000000 values, aliases written out"


def test_aliases_are_understood() -> None:
    holds(ONE + "timeline:\n - {at: 0s, submit: &job {name: j, team: a}}\nexpect: [{job: j, starts: 0s}]\n")
    holds(
        "nodes: [{name: n, flavor: g, units: 4}]\n"
        "teams: [{name: a, guaranteed: &own {g: 2}}, {name: b, guaranteed: *own}]\n"
        "expect: [{at: 0s, team: b, available: 4}]\n"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ONE + "policy: {hold_after: 1w}\n", "3: policy.hold_after: must be a duration such as 90s"),
        (ONE + "policy: {hold_after: -5m}\n", "3: policy.hold_after: must be a duration"),
        (ONE + "policy: {tick: 0s}\n", "3: policy.tick: must be longer than 0s"),
        (ONE + "policy: {aging: {every: 0s}}\n", "3: policy.aging: every must be longer than 0s"),
        (ONE + "policy: {max_evictions: null}\n", "3: policy.max_evictions: must be a whole number"),
        (ONE + "policy: {overcommit: 1}\n", "3: policy.overcommit: must be true or false"),
        (ONE + "policy: {tick: 10s, tick: 5s}\n", "3: policy.tick: is given twice"),
        (ONE + "flavors: [{name: g, value: 0}]\n", "3: flavors[0].value: must be above 0"),
        (ONE + "flavors: [{name: g, slots: 0}]\n", "3: flavors[0].slots: must be at least 1"),
        (ONE + "flavors: [{name: g}, {name: g}]\n", "3: flavors[1]: flavor 'g' is defined twice"),
        (ONE + "flavors: [{name: g, placement: left}]\n", "3: flavors[0].placement: must be one of pack, spread"),
        (ONE + "levels: [rack, rack]\n", "3: levels: levels must differ"),
        (ONE + "levels: [node]\n", "3: levels: levels must differ, node is implied"),
        (ONE + "levels: [units]\n", "3: levels: levels must differ, node is implied, and a field of nodes is no level"),
        (ONE.replace("flavor: g", "flavour: g"), "1: nodes[0].flavour: unknown field; known are: "),
        (ONE.replace("units: 4", "units: 4.5"), "1: nodes[0].units: must be a whole number, not '4.5'"),
        (ONE.replace("units: 4", "units: 4, memory: 4GB"), "1: nodes[0].memory: must be a quantity such as 64Gi"),
        (ONE.replace("units: 4", "units: 4, cpu: many"), "1: nodes[0].cpu: must be a number"),
        (
            ONE.replace("}]\nteams", "}, {name: n, flavor: g, units: 1}]\nteams"),
            "1: nodes[1]: node 'n' is defined twice",
        ),
        (ONE.replace("name: n,", "name: n, count: 0,"), "1: nodes[0].count: must be at least 1"),
        (ONE.replace("name: n,", "name: n, count: 9999999,"), "1: nodes[0].count: must be at most 1000000"),
        (ONE.replace("g: 4}", "g: -1}"), "2: teams[0].guaranteed.g: must be at least 0"),
        (ONE.replace("name: a,", "name: a, parent: z,"), "2: teams[0].parent: no team is called 'z'"),
        (ONE.replace("name: a,", "name: a, parent: a,"), "2: teams: a department must not be its own parent"),
        (ONE.replace("name: a,", "name: a, weight: -1,"), "2: teams[0].weight: must be a number"),
        (ONE + "queues: [{name: q}]\n", "3: queues[0]: needs a team"),
        (ONE + "queues: [{name: q, team: a}, {name: q, team: a}]\n", "3: queues[1]: queue 'q' is defined twice"),
        (
            ONE + "queues: [{name: default, team: a}, {name: default, team: a}]\n",
            "3: queues[1]: queue 'default' is defined twice",
        ),
        (ONE + "queues: [{name: q, team: a, colour: red}]\n", "3: queues[0].colour: unknown field"),
        (ONE + "priorities: {top: {preemptible: true}}\n", "3: priorities.top: needs a value"),
        (ONE + "priorities: {top: 1.5}\n", "3: priorities.top: must be a whole number"),
        (ONE + "timeline: {at: 0s}\n", "3: timeline: must be a list"),
        (ONE + "timeline: [{at: 0s, cancel: x, hold: x}]\n", "3: timeline[0]: needs at and exactly one of submit"),
        (ONE + "timeline: [{at: 0s, explode: x}]\n", "3: timeline[0].explode: unknown field"),
        (ONE + "timeline: [{at: 0s, submit: {team: a}}]\n", "3: timeline[0].submit: needs a name"),
        (ONE + "timeline: [{at: 0s, submit: {name: j}}]\n", "3: timeline[0].submit: needs a team"),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, queue: q}}]\n",
            "submit.queue: team 'a' has no queue 'q'",
        ),
        (ONE + "timeline: [{at: 0s, submit: {name: j, team: a, priority: top}}]\n", "no priority is called 'top'"),
        (ONE + "timeline: [{at: 0s, submit: {name: j, team: a, shape: round}}]\n", "submit.shape: must be one of"),
        (ONE + "timeline: [{at: 0s, submit: {name: j, team: a, flavors: [h]}}]\n", "no flavor is called 'h'"),
        (ONE + "timeline: [{at: 0s, submit: {name: j, team: a, flavors: []}}]\n", "must name at least one flavor"),
        (ONE + "timeline: [{at: 0s, submit: {name: j, team: a, min: 1}}]\n", "min and max are for elastic jobs"),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, shape: elastic, min: 3, max: 2}}]\n",
            "submit.max: must be at least 3",
        ),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, required: node, preferred: node}}]\n",
            "only one of required, preferred and spread",
        ),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, shape: independent, groups: [{tasks: 1}]}}]\n",
            "an independent job has no groups",
        ),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, tasks: 2, groups: [{tasks: 1}]}}]\n",
            "submit.tasks: stands in the groups of this job",
        ),
        (ONE + "timeline: [{at: 0s, submit: {name: j, team: a, groups: []}}]\n", "needs at least one group"),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, flavors: [g, g]}}]\n",
            "3: timeline[0].submit.flavors[1]: flavor 'g' is listed twice; name each once",
        ),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, groups: [{flavors: [g, g]}]}}]\n",
            "3: timeline[0].submit.groups[0].flavors[1]: flavor 'g' is listed twice",
        ),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, shape: elastic}}]\n",
            "3: timeline[0].submit: an elastic job needs min",
        ),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, shape: elastic, max: 3}}]\n",
            "3: timeline[0].submit: an elastic job needs min",
        ),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, shape: elastic, groups: [{tasks: 2}]}}]\n",
            "3: timeline[0].submit.groups: an elastic job needs a group with min",
        ),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, shape: elastic, groups: [{max: 2}]}}]\n",
            "3: timeline[0].submit.groups[0]: what is elastic needs min",
        ),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, shape: elastic, tasks: 3, min: 1, max: 3}}]\n",
            "3: timeline[0].submit.tasks: what is elastic has min and max in place of tasks",
        ),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, shape: gang, required: node, max_skew: 1}}]\n",
            "3: timeline[0].submit.max_skew: goes with spread only",
        ),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a, groups: [{max_skew: 1}], spread: node}}]\n",
            "3: timeline[0].submit.groups[0].max_skew: goes with spread only",
        ),
        (ONE + "expect: [{at: 0s, count: {team: a}}]\n", "3: expect[0].count: needs a number beside it: equals, min"),
        (ONE + "expect: [{at: 0s, count: {user: z}, equals: 0}]\n", "3: expect[0].count.user: no job is of a user"),
        (
            ONE + "timeline: [{at: 0s, repeat: {every: 1m, submit: {name: s, team: a}}}]\n",
            "needs every, times and submit",
        ),
        (ONE + "timeline: [{at: 0s, hold: j}]\n", "3: timeline[0].hold: no job is called 'j'"),
        (ONE + "timeline: [{at: 0s, end: {state: failed}}]\n", "3: timeline[0].end: needs a job"),
        (ONE + "timeline: [{at: 0s, node: {name: m}}]\n", "3: timeline[0].node.name: no node is called 'm'"),
        (ONE + "timeline: [{at: 0s, node: {name: n, state: gone}}]\n", "node.state: must be one of ready, cordoned"),
        (ONE + "timeline: [{at: 0s, team: {paused: true}}]\n", "3: timeline[0].team: needs a name"),
        (ONE + "timeline: [{at: 0s, set_quota: {team: a}}]\n", "3: timeline[0].set_quota: needs team and flavor"),
        (ONE + "expect: [{job: j, starts: 0s}]\n", "3: expect[0].job: no job is called 'j'"),
        (ONE + "expect: [{at: 0s}]\n", "3: expect[0]: needs one of job, team, node, flavor, count, evictions"),
        (ONE + "expect: [{team: a, used: 0}]\n", "3: expect[0]: needs at, starts or always"),
        (ONE + "expect: [{at: 0s, team: a, used: 0, state: queued}]\n", "3: expect[0].state: does not go with"),
        (ONE + "expect: [{at: 0s, count: {team: z}, equals: 0}]\n", "3: expect[0].count.team: no team is called 'z'"),
        (
            ONE + "expect: [{at: 0s, count: {queue: z}, equals: 0}]\n",
            "3: expect[0].count.queue: no queue is called 'z'",
        ),
        (ONE + "expect: [{at: 0s, count: {priority: z}, equals: 0}]\n", "no priority is called 'z'"),
        (ONE + "expect: [{at: 0s, count: {name: z}, equals: 0}]\n", "no job is called 'z'"),
        (ONE + "expect: [{at: 0s, count: {state: asleep}, equals: 0}]\n", "count.state: must be one of queued"),
        (ONE + "expect: [{at: 0s, evictions: 0, of: [z]}]\n", "3: expect[0].of: no job is called 'z'"),
        (ONE + 'expect: [{always: "node n.borrowed <= 1"}]\n', "a node has .used only"),
        (ONE + 'expect: [{always: "team a.used is 1"}]\n', "must read like: team a.used <= 24"),
        (ONE + "expect: [{at: 5m, team: a, used: 0}]\nuntil: 1m\n", "3: expect[0]: at is beyond until"),
        (
            ONE + "timeline: [{at: 0s, submit: {name: j, team: a}}]\nexpect: [{at: 0s, job: j, reason: LAZY}]\n",
            "4: expect[0].reason: must be one of EXCEEDS_MAX",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_line_and_what_is_allowed(text: str, told: str) -> None:
    assert told in refused(text)


def test_guarantees_above_what_is_installed_are_refused_at_any_time() -> None:
    nodes = "nodes: [{name: n, count: 2, flavor: g, units: 2}]\nteams: [{name: a, guaranteed: {g: 4}}]\n"
    later = nodes.replace("g: 4", "g: 3")

    assert "4 units of 'g' are guaranteed, 2 are installed" in refused(
        nodes + "timeline: [{at: 1m, node: {name: n2, state: removed}}]\n"
    )
    assert "5 units of 'g'" in refused(later + "timeline: [{at: 1m, set_quota: {team: a, flavor: g, guaranteed: 5}}]\n")
    over = "policy: {overcommit: true}\n" + later.replace("g: 3", "g: 9")
    assert "9 units of 'g'" in refused(over + "timeline: [{at: 1m, policy: {overcommit: false}}]\n")
    holds(over)
    holds(nodes + "timeline: [{at: 1m, node: {name: n2, state: lost}}, {at: 2m, node: {name: n1, state: cordoned}}]\n")


def test_lines_and_expectations_that_say_nothing_are_taken() -> None:
    holds(
        "nodes: [{name: n, flavor: g, units: 1}]\nteams: [{name: a, guaranteed: {g: 1}}]\ntimeline:\n"
        " - {at: 0s, submit: {name: j, team: a}}\n"
        " - {at: 1m, set_quota: {team: a, flavor: g}}\n"
        " - {at: 1m, node: {name: n}}\n"
        " - {at: 1m, team: {name: a}}\n"
        " - {at: 1m, policy: {}}\n"
        " - {at: 1m, release: j}\n"
        " - {at: 2m, submit: {name: later, team: a}}\n"
        "expect: [{at: 1m, job: j}, {at: 1m, team: a}, {at: 1m, node: n}, {at: 1m, flavor: g},"
        " {at: 0s, job: later, units: 0, reserved: 0, on: []},"
        " {at: 1m, count: {state: admitted}, equals: 0}]\n"
    )


def test_a_removed_node_that_is_ready_again_comes_back() -> None:
    holds(
        "nodes: [{name: n, count: 2, flavor: g, units: 2}]\nteams: [{name: a, guaranteed: {g: 2}}]\ntimeline:\n"
        " - {at: 0s, submit: {name: j, team: a, tasks: 4}}\n"
        " - {at: 1m, node: {name: n2, state: removed}}\n"
        " - {at: 2m, node: {name: n2, outside: 1}}\n"
        " - {at: 3m, node: {name: n2, state: ready}}\n"
        "expect: [{at: 1m, job: j, units: 2}, {at: 2m, job: j, units: 2}, {at: 3m, job: j, units: 3}]\n"
    )


def test_a_waiting_job_counts_for_the_flavors_that_it_accepts_and_a_running_one_for_those_that_it_has() -> None:
    holds(
        "nodes: [{name: n, flavor: g, units: 1}, {name: m, flavor: h, units: 1}]\n"
        "teams: [{name: a, guaranteed: {g: 1}}]\n"
        "timeline: [{at: 0s, submit: {name: j, count: 3, team: a, flavors: [g]}}]\n"
        "expect: [{at: 0s, count: {flavor: g, state: queued}, equals: 2}, {at: 0s, count: {flavor: g}, equals: 3},"
        " {at: 0s, count: {flavor: h}, equals: 0}]\n"
    )


def test_merge_keys_and_decimal_quantities_are_read() -> None:
    holds(
        "nodes: [{name: n, flavor: g, units: 2, memory: 1.5Gi}]\nteams: [{name: a, guaranteed: {g: 2}}]\ntimeline:\n"
        " - {at: 0s, submit: &one {name: j, team: a, memory: 512Mi}}\n"
        " - {at: 0s, submit: {<<: *one, name: k, memory: 1Gi}}\n"
        "expect: [{at: 0s, team: a, used: 2}]\n"
    )


def test_several_teams_change_their_quota_at_once() -> None:
    world = "nodes: [{name: n, flavor: g, units: 4}]\nteams: [{name: a, guaranteed: {g: 4}}, {name: b}]\n"
    change = "[{team: b, flavor: g, guaranteed: 3}, {team: a, flavor: g, guaranteed: 1}]"

    holds(
        world + f"timeline: [{{at: 0s, set_quota: {change}}}, {{at: 1m, submit: {{name: j, team: b, units: 4}}}}]\n"
        "expect: [{at: 1m, team: b, used: 4, borrowed: 1}]\n"
    )


# --- the world


def test_a_count_always_numbers_and_without_it_the_name_stands_as_given() -> None:
    holds(
        "nodes: [{name: n, count: 1, flavor: g, units: 1}, {name: m, flavor: g, units: 1}]\nteams: [{name: a}]\n"
        "timeline:\n - {at: 0s, submit: {name: j, count: 1, team: a}}\n - {at: 0s, submit: {name: k, team: a}}\n"
        "expect: [{at: 0s, job: j1, on: [n1]}, {at: 0s, job: k, on: [m]}]\n"
    )


def test_flavors_named_by_nodes_come_after_those_that_are_listed_and_are_worth_one() -> None:
    holds(
        "flavors: [{name: h, value: 4}]\n"
        "nodes: [{name: g, flavor: g, units: 1}, {name: h, flavor: h, units: 1}]\nteams: [{name: a}]\n"
        "timeline: [{at: 0s, submit: {name: j, team: a}}]\n"
        "expect: [{at: 0s, job: j, on: [h]}]\n"
    )


def test_a_shared_flavor_counts_slots_everywhere() -> None:
    holds(
        "flavors: [{name: t4, slots: 4}]\nnodes: [{name: n, flavor: t4, units: 2}]\n"
        "teams: [{name: a, guaranteed: {t4: 8}, per_user_limit: 6}]\n"
        "timeline: [{at: 0s, submit: {name: j, count: 4, team: a, units: 2}}]\n"
        "expect: [{at: 0s, node: n, used: 6}, {at: 0s, team: a, used: 6, available: 2}, {at: 0s, job: j1, units: 2},"
        " {at: 0s, job: j4, reason: USER_LIMIT}]\n"
    )


def test_a_level_is_a_label_of_the_node_and_moves_with_it() -> None:
    holds(
        "levels: [rack]\n"
        "nodes: [{name: n, flavor: g, units: 1, rack: r1}, {name: m, flavor: g, units: 1, rack: r2}]\n"
        "teams: [{name: a, guaranteed: {g: 2}}]\n"
        "timeline:\n"
        " - {at: 0s, submit: {name: j, team: a, labels: {rack: r2}, runs: 1m}}\n"
        " - {at: 0s, submit: {name: pair, team: a, shape: gang, tasks: 2, required: rack}}\n"
        " - {at: 5m, node: {name: m, labels: {rack: r1}}}\n"
        "expect: [{at: 0s, job: j, on: [m]}, {at: 2m, job: pair, reason: [NO_DOMAIN_FITS, EXCEEDS_MAX]},"
        " {job: pair, starts: 5m}]\n"
    )


def test_labels_of_a_node_are_merged_into_what_it_has() -> None:
    holds(
        ONE.replace("units: 4", "units: 4, labels: {ib: 'yes'}") + "timeline:\n"
        " - {at: 0s, submit: {name: j, team: a, labels: {ib: 'yes', size: big}}}\n"
        " - {at: 1m, node: {name: n, labels: {size: big}}}\n"
        "expect: [{at: 30s, job: j, reason: NO_MATCHING_NODE}, {job: j, starts: 1m}]\n"
    )


def test_units_that_others_use_may_exceed_what_is_free_and_what_runs_stays() -> None:
    holds(
        ONE + "timeline:\n - {at: 0s, submit: {name: j, team: a, units: 3}}\n - {at: 1m, node: {name: n, outside: 4}}\n"
        " - {at: 2m, submit: {name: k, team: a}}\n - {at: 3m, node: {name: n, outside: 0}}\n"
        "expect: [{at: 2m, job: j, state: running}, {at: 2m, job: k, state: queued, reason: NO_FREE_CAPACITY},"
        " {job: k, starts: 3m}]\n"
    )


def test_jobs_have_the_defaults_of_the_format() -> None:
    holds(
        ONE + "timeline:\n - {at: 0s, submit: {name: j, team: a}}\n"
        " - {at: 0s, submit: {name: g, team: a, groups: [{tasks: 1}, {tasks: 2}]}}\n"
        "expect:\n - {at: 0s, count: {user: a, queue: default, priority: normal, state: running}, equals: 2}\n"
        " - {at: 0s, count: {priority: 0}, equals: 2}\n"
        " - {at: 0s, job: j, units: 1}\n - {at: 0s, job: g, units: 3}\n - {at: 100h, job: j, state: running}\n"
    )


def test_the_first_three_priorities_are_there_and_a_class_may_not_be_preempted() -> None:
    holds(
        TWO + "priorities: {interactive: {value: 1, preemptible: false}}\n"
        "timeline:\n - {at: 0s, submit: {name: j, team: a, units: 4, runs: 1m}}\n"
        " - {at: 0s, submit: {name: l, team: a, units: 4, priority: low, runs: 1m}}\n"
        " - {at: 0s, submit: {name: h, team: a, units: 4, priority: high, runs: 1m}}\n"
        " - {at: 0s, submit: {name: three, team: a, units: 4, priority: 3, runs: 1m}}\n"
        " - {at: 10m, submit: {name: firm, team: b, priority: interactive}}\n"
        "expect: [{job: three, starts: 0s}, {job: h, starts: 1m}, {job: j, starts: 2m}, {job: l, starts: 3m},"
        " {at: 11m, job: firm, state: queued, reason: EXCEEDS_MAX}]\n"
    )


def test_the_policy_of_users_yields_to_a_teams_own_limit_even_where_that_is_none() -> None:
    holds(
        "policy: {per_user_limit: 1}\nnodes: [{name: n, flavor: g, units: 6}]\n"
        "teams: [{name: a}, {name: b, per_user_limit: 2}, {name: c, per_user_limit: null}]\n"
        "timeline:\n"
        + "".join(f" - {{at: 0s, submit: {{name: {team}-, count: 3, team: {team}}}}}\n" for team in "abc")
        + " - {at: 1m, team: {name: a, per_user_limit: 3}}\n"
        "expect: [{at: 0s, team: a, used: 1}, {at: 0s, team: b, used: 2}, {at: 0s, team: c, used: 3},"
        " {at: 0s, job: a-2, reason: USER_LIMIT}]\n"
    )


def test_a_queue_has_the_policy_for_what_it_does_not_say() -> None:
    holds(
        "policy: {default_time_limit: 2m, hold_after: 1h}\n" + ONE + "queues:\n"
        " - {name: short, team: a, default_time_limit: 1m}\n - {name: capped, team: a, max_time_limit: 90s}\n"
        " - {name: free, team: a, default_time_limit: null}\n"
        "timeline:\n"
        " - {at: 0s, submit: {name: d, team: a}}\n - {at: 0s, submit: {name: s, team: a, queue: short}}\n"
        " - {at: 0s, submit: {name: c, team: a, queue: capped, time_limit: 1h}}\n"
        " - {at: 0s, submit: {name: f, team: a, queue: free}}\n"
        "expect:\n - {at: 59s, job: s, state: running}\n - {at: 60s, job: s, state: failed}\n"
        " - {at: 89s, job: c, state: running}\n - {at: 90s, job: c, state: failed}\n"
        " - {at: 119s, job: d, state: running}\n - {at: 120s, job: d, state: failed}\n"
        " - {at: 100h, job: f, state: running}\n"
    )


def test_a_time_limit_of_null_is_none_whatever_the_default() -> None:
    holds(
        "policy: {default_time_limit: 1m}\n"
        + ONE
        + "timeline: [{at: 0s, submit: {name: j, team: a, time_limit: null}}]\n"
        "expect: [{at: 10h, job: j, state: running}]\n"
    )


# --- the timeline


def test_lines_take_effect_by_time_then_in_their_order_and_may_name_what_comes_later_in_the_file() -> None:
    holds(
        ONE + "timeline:\n - {at: 5m, cancel: j}\n - {at: 0s, submit: {name: j, team: a}}\n"
        " - {at: 6m, submit: {name: k, team: a}}\n - {at: 6m, hold: k}\n"
        "expect: [{at: 4m, job: j, state: running}, {at: 5m, job: j, state: cancelled},"
        " {at: 6m, job: k, state: held}]\n"
    )


def test_between_ticks_ends_and_lines_take_effect_at_their_time_and_decisions_wait_for_the_tick() -> None:
    holds(
        "policy: {tick: 1m}\n" + ONE + "timeline:\n - {at: 0s, submit: {name: j, team: a, units: 4, runs: 90s}}\n"
        " - {at: 95s, submit: {name: k, team: a}}\n"
        "expect: [{at: 89s, job: j, units: 4}, {at: 90s, job: j, state: succeeded, units: 0},"
        " {at: 95s, job: k, state: queued}, {job: k, starts: 2m}]\n"
    )


def test_with_the_tick_event_a_cycle_follows_whatever_happens() -> None:
    holds(
        "policy: {tick: event, hold_after: 7s}\n" + ONE + "timeline:\n"
        " - {at: 1s, submit: {name: j, team: a, units: 4, runs: 12s, time_limit: 12s}}\n"
        " - {at: 2s, submit: {name: k, team: a, units: 2, runs: 5s}}\n"
        "expect: [{job: j, starts: 1s}, {at: 9s, job: k, reason: HOLDS}, {job: k, starts: 13s}]\n"
    )


def test_an_instant_is_ends_then_lines_then_the_cycle_then_what_is_expected() -> None:
    holds(
        ONE + "timeline:\n - {at: 0s, submit: {name: j, team: a, units: 4, runs: 1m}}\n"
        " - {at: 1m, submit: {name: k, team: a, units: 4}}\n"
        "expect: [{at: 1m, job: j, state: succeeded}, {at: 1m, job: k, state: running, units: 4},"
        " {job: k, starts: 60s}]\n"
    )


def test_repeat_numbers_like_count_and_what_it_names_behind_until_does_not_happen() -> None:
    result = run(
        ONE + "timeline: [{at: 1m, repeat: {every: 1m, times: 9, submit: {name: s, team: a, runs: 10s}}}]\n"
        "expect: [{job: s1, starts: 1m}, {job: s3, starts: 3m}]\nuntil: 3m30s\n"
    )

    assert result.failures == []
    assert result.summary["jobs"] == 3
    assert result.summary["started"] == 3


def test_without_until_the_run_ends_one_tick_after_the_last_time_named() -> None:
    result = run(ONE + "timeline: [{at: 1m, submit: {name: j, team: a, runs: 30s}}]\n")

    assert result.summary["cycles"] == 8
    assert [row["event"] for row in result.events] == ["submitted", "admitted"]


def test_what_holds_always_is_not_asked_after_until() -> None:
    holds(
        ONE + "timeline: [{at: 0s, submit: {name: j, team: a, units: 4, runs: 5m}}]\n"
        'expect: [{always: "team a.used >= 4"}, {always: "flavor g.used==4"}, {always: "node n.used <5"}]\nuntil: 1m\n'
    )


def test_always_names_the_flavor_of_a_team_in_brackets() -> None:
    nodes = "nodes: [{name: n, flavor: g, units: 4}, {name: m, flavor: h, units: 2}]\n"
    world = nodes + "teams: [{name: a, guaranteed: {g: 1}}]\n"
    jobs = "timeline: [{at: 0s, submit: {name: j, count: 3, team: a, flavors: [g]}}]\n"

    holds(
        world + jobs + 'expect: [{always: "team a.used[g] == 3"}, {always: "team a.used[h] == 0"},'
        ' {always: "team a.borrowed[g] > 1"}, {always: "team a.available[h] >= 2"}]\n'
    )
    assert [row["found"] for row in run(world + jobs + 'expect: [{always: "team a.used[g] < 3"}]\n').failures] == [
        {"used": 3}
    ]


def test_held_jobs_wait_for_their_owner_and_start_when_they_are_released() -> None:
    holds(
        ONE + "timeline:\n - {at: 0s, submit: {name: j, team: a, units: 4, runs: 2m}}\n"
        " - {at: 0s, submit: {name: k, team: a}}\n - {at: 1m, hold: k}\n - {at: 5m, release: k}\n"
        "expect: [{at: 3m, job: k, state: held, reason: HELD}, {job: k, starts: 5m}]\n"
    )


def test_a_held_job_that_can_never_start_says_that() -> None:
    holds(
        ONE + "timeline:\n - {at: 0s, submit: {name: k, team: a, units: 9}}\n - {at: 1m, hold: k}\n"
        "expect: [{at: 3m, job: k, state: held, reason: EXCEEDS_NODE}]\n"
    )


def test_an_end_frees_everything_or_the_oldest_tasks() -> None:
    holds(
        ONE + "timeline:\n - {at: 0s, submit: {name: j, team: a, tasks: 6}}\n - {at: 1m, end: {job: j, tasks: 3}}\n"
        " - {at: 2m, end: {job: j, state: failed}}\n"
        "expect: [{at: 30s, job: j, units: 4}, {at: 1m, job: j, units: 3}, {at: 2m, job: j, state: failed, units: 0}]\n"
    )


def test_a_job_that_is_ended_does_not_come_back_with_its_evicted_tasks() -> None:
    holds(
        "policy: {grace: 5m}\n" + TWO + "timeline:\n - {at: 0s, submit: {name: j, team: b, tasks: 4}}\n"
        " - {at: 1m, submit: {name: k, team: a, units: 1}}\n - {at: 2m, end: {job: j}}\n"
        "expect: [{at: 2m, job: j, units: 1}, {at: 6m, job: j, state: succeeded, units: 0}, {job: k, starts: 2m}]\n"
    )


def test_a_cancelled_job_holds_its_units_until_its_grace_is_over() -> None:
    holds(
        "policy: {grace: 1m}\n" + ONE + "timeline:\n - {at: 0s, submit: {name: j, team: a, units: 4}}\n"
        " - {at: 1m, cancel: j}\n - {at: 1m, submit: {name: k, team: a}}\n - {at: 1m, submit: {name: w, team: a}}\n"
        " - {at: 90s, cancel: w}\n"
        "expect: [{at: 1m, job: j, state: evicting, units: 4}, {at: 2m, job: j, state: cancelled, units: 0},"
        " {at: 90s, job: w, state: cancelled}, {job: k, starts: 2m}, {at: 3m, evictions: 0}]\n"
    )


def test_an_elastic_job_ends_although_its_surplus_is_still_leaving() -> None:
    holds(
        "policy: {grace: 2m}\n" + TWO + "timeline:\n"
        " - {at: 0s, submit: {name: el, team: b, shape: elastic, min: 1, max: 4, runs: 90s}}\n"
        " - {at: 1m, submit: {name: k, team: a, units: 2}}\n"
        "expect: [{at: 30s, job: el, units: 4}, {at: 95s, job: el, units: 2},"
        " {at: 3m, job: el, state: succeeded, units: 0}, {job: k, starts: 90s, within: 10s}]\n"
    )


def test_a_node_that_is_ready_again_in_time_changes_nothing() -> None:
    holds(
        ONE
        + "timeline:\n - {at: 0s, submit: {name: j, team: a, units: 2}}\n - {at: 1m, node: {name: n, state: lost}}\n"
        " - {at: 5m, node: {name: n, state: ready}}\n"
        "expect: [{at: 2m, job: j, state: running, units: 0}, {at: 2m, team: a, used: 0}, {at: 2m, node: n, used: 0},"
        " {at: 20m, job: j, state: running, units: 2}, {job: j, starts: 0s}]\n"
    )


def test_a_node_lost_for_good_sends_back_whole_gangs_and_single_tasks_without_an_eviction() -> None:
    world = "nodes: [{name: n, count: 2, flavor: g, units: 2}]\nteams: [{name: a, guaranteed: {g: 4}}]\n"
    result = run(
        "policy: {node_lost_after: 2m}\n" + world + "timeline:\n"
        " - {at: 0s, submit: {name: gang, team: a, shape: gang, tasks: 2}}\n"
        " - {at: 0s, submit: {name: ind, team: a, tasks: 2}}\n - {at: 1m, node: {name: n1, state: lost}}\n"
        "expect: [{at: 2m50s, team: a, used: 2}, {at: 3m, job: gang, state: queued, units: 0},"
        " {at: 3m, job: ind, state: running, units: 2}, {at: 3m, evictions: 0}]\n"
    )

    assert result.failures == []
    assert [(row["at"], row["job"]) for row in events(result, "requeued")] == [(180.0, "gang")]


def test_a_removed_node_does_the_same_at_once() -> None:
    holds(
        "policy: {overcommit: true}\nnodes: [{name: n, count: 2, flavor: g, units: 2}]\n"
        "teams: [{name: a, guaranteed: {g: 4}}]\n"
        "timeline:\n - {at: 0s, submit: {name: j, team: a, tasks: 4}}\n - {at: 65s, node: {name: n1, state: removed}}\n"
        "expect: [{at: 65s, job: j, units: 2}, {at: 2m, job: j, state: running, units: 2, on: [n2]},"
        " {at: 2m, evictions: 0}]\n"
    )


def test_what_runs_on_a_cordoned_node_stays() -> None:
    holds(
        ONE + "timeline:\n - {at: 0s, submit: {name: j, team: a}}\n - {at: 1m, node: {name: n, state: cordoned}}\n"
        " - {at: 1m, submit: {name: k, team: a}}\n"
        "expect: [{at: 9m, job: j, state: running, units: 1},"
        " {at: 9m, job: k, state: queued, reason: CAPACITY_REDUCED}]\n"
    )


def test_a_later_policy_counts_from_its_line_on() -> None:
    holds(
        ONE + "timeline:\n - {at: 0s, submit: {name: j, team: a, units: 3, time_limit: 1h}}\n"
        " - {at: 0s, submit: {name: k, team: a, units: 2, time_limit: 1h}}\n - {at: 9m, policy: {hold_after: 5m}}\n"
        "expect: [{at: 8m50s, job: k, reason: NO_FREE_CAPACITY}, {at: 9m, job: k, reason: HOLDS}]\n"
    )


# --- what is told


def test_a_result_has_the_fields_of_the_format() -> None:
    result = as_json(
        run(
            "name: told\n"
            + TWO
            + "timeline:\n - {at: 0s, submit: {name: b, team: b, shape: gang, tasks: 4, runs: 1h}}\n"
            " - {at: 30s, submit: {name: a1, team: a, units: 3, runs: 10s}}\n"
            "expect: [{at: 40s, team: a, used: 2}]\nuntil: 1m\n"
        )
    )

    assert list(result) == ["file", "name", "ok", "failures", "events", "summary"]
    assert result["name"] == "told"
    assert result["failures"] == [
        {
            "at": 40.0,
            "expect": {"at": "40s", "team": "a", "used": 2},
            "found": {"used": 0, "borrowed": 0, "available": 0},
        }
    ]
    assert result["summary"] == {
        "jobs": 2,
        "started": 2,
        "evictions": 1,
        "lost_unit_seconds": 120.0,
        "makespan": 40.0,
        "mean_wait": 0.0,
        "max_wait": 0.0,
        "cycles": 7,
        "decide_seconds": 0.0,
    }
    rows = result["events"]
    assert isinstance(rows, list)
    told = [(row["at"], row["job"], row["event"]) for row in rows if row["event"] != "reason"]
    assert told == [
        (0.0, "b", "submitted"),
        (0.0, "b", "admitted"),
        (30.0, "a1", "submitted"),
        (30.0, "b", "evicting"),
        (30.0, "b", "evicted"),
        (30.0, "a1", "admitted"),
        (40.0, "a1", "ended"),
        (40.0, "b", "admitted"),
    ]
    assert rows[1] == {
        "at": 0.0,
        "job": "b",
        "event": "admitted",
        "flavor": "g",
        "nodes": {"n": 4},
        "units": 4,
        "borrowed": 4,
    }
    assert json.loads(json.dumps(result)) == result


def test_what_is_borrowed_of_an_admission_is_what_is_above_the_teams_guarantee() -> None:
    world = "nodes: [{name: n, flavor: g, units: 6}]\nteams: [{name: a, guaranteed: {g: 4}}]\n"
    result = run(world + "timeline: [{at: 0s, submit: {name: j, count: 2, team: a, units: 3}}]\n")

    assert [(row["job"], row["borrowed"]) for row in events(result, "admitted")] == [("j1", 0), ("j2", 2)]


def test_events_tell_holds_shrinking_and_cancelling() -> None:
    result = run(
        "policy: {hold_after: 1m}\n" + TWO + "timeline:\n"
        " - {at: 0s, submit: {name: el, team: b, shape: elastic, min: 1, max: 4, time_limit: 10m}}\n"
        " - {at: 1m, submit: {name: k, team: b, units: 2, time_limit: 10m}}\n"
        " - {at: 2m, submit: {name: w, team: b, units: 2, time_limit: 10m}}\n - {at: 5m, cancel: w}\n"
    )

    assert [(row["at"], row["job"], row["units"]) for row in events(result, "shrunk")][:1] == [(60.0, "el", 2)]
    assert [row["job"] for row in events(result, "hold")] == ["w"]
    assert [(row["at"], row["job"]) for row in events(result, "hold_ended")] == [(300.0, "w")]
    assert [(row["at"], row["job"]) for row in events(result, "cancelled")] == [(300.0, "w")]


@pytest.mark.parametrize("until", ["5m", "10m"])
def test_what_comes_after_until_is_in_neither_events_nor_summary(until: str) -> None:
    result = run(ONE + f"timeline: [{{at: 0s, submit: {{name: j, team: a, runs: 20m}}}}]\nuntil: {until}\n")

    assert [row["event"] for row in result.events] == ["submitted", "admitted"]
    assert result.summary["makespan"] == 0.0
