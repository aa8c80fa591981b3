"""The compact spec."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queues import spec
from queues.admission.world import JobShape
from queues.spec import amounts
from tenants.errors import FieldError, Invalid, NotFound
from tests.queues.lab import compact

GI = 2**30
# A busy machine is no mistake of the code.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Everything:
    """Ceilings without a ceiling, but for l40s which nobody can have."""

    def most(self, team: int, flavor: int) -> int:  # noqa: ARG002
        return 0 if flavor == 2 else 1000


def flavor(number: int, name: str) -> spec.FlavorChoice:
    return spec.FlavorChoice(
        id=number,
        name=name,
        default_cpu_milli=4000,
        default_memory=16 * GI,
        cpu_step_milli=1000,
        memory_step=GI,
        largest=8,
        installed=64,
    )


def queue(
    *,
    default_time_limit: timedelta | None = timedelta(hours=24),
    max_time_limit: timedelta | None = None,
    max_priority: int | None = None,
) -> spec.QueueChoice:
    return spec.QueueChoice(
        id=1,
        name="default",
        default_time_limit=default_time_limit,
        max_time_limit=max_time_limit,
        max_grace=timedelta(seconds=120),
        max_priority=max_priority,
    )


def catalog(*queues: spec.QueueChoice, teams: tuple[str, ...] = ("nlp",), annotations: bool = False) -> spec.Catalog:
    lines = queues or (queue(),)
    return spec.Catalog(
        teams=tuple(spec.TeamChoice(id=number, name=name, queues=lines) for number, name in enumerate(teams, start=1)),
        flavors=(flavor(1, "h100"), flavor(2, "l40s"), flavor(3, "h200")),
        priorities=(
            spec.PriorityChoice(id=3, name="high", value=1, preemptible=True),
            spec.PriorityChoice(id=1, name="normal", value=0, preemptible=True),
        ),
        ceilings=Everything(),
        test_annotations=annotations,
        levels=("zone", "rack"),
    )


def read(data: object, names: spec.Catalog | None = None) -> spec.Spec:
    return spec.read(data, names or catalog())


def errors(data: object, names: spec.Catalog | None = None) -> dict[str, FieldError]:
    with pytest.raises((Invalid, NotFound)) as caught:
        read(data, names)
    return {error.pointer: error for error in caught.value.fields}


def test_a_full_spec_is_read_to_the_letter() -> None:
    data = compact(
        name="llama-sft",
        metadata={"external_id": "airflow/dag1/3", "labels": {"mlflow.run_id": "8f2c"}},
        shape="gang",
        tasks=4,
        gpus={"count": 8, "type": ["h200", "h100"]},
        resources={"cpu": 64, "memory": "512Gi", "shm": "64Gi"},
        run={
            "image": "reg.example/sft:1.4",
            "command": ["torchrun", "train.py"],
            "env": {"A": "b"},
            "secrets": ["hf-token"],
        },
        time_limit="12h",
        priority="high",
        borrow=False,
        grace="60s",
        retries=2,
        node_labels={"zone": "z1"},
    )

    found = read(data)

    (group,) = found.groups
    assert (found.name, found.team.name, found.queue.name) == ("llama-sft", "nlp", "default")
    assert (found.external_id, found.labels) == ("airflow/dag1/3", (("mlflow.run_id", "8f2c"),))
    assert (found.shape, found.tasks, found.units) == (JobShape.GANG, 4, 32)
    assert [kind.name for kind in group.flavors] == ["h200", "h100"]
    assert (group.cpu_milli, group.memory, group.run.shm) == (64_000, 512 * GI, 64 * GI)
    assert group.run == spec.Run(
        image="reg.example/sft:1.4",
        command=("torchrun", "train.py"),
        env=(("A", "b"),),
        secrets=("hf-token",),
        shm=64 * GI,
        node_labels=(("zone", "z1"),),
    )
    assert (found.time_limit, found.priority.name, found.borrow) == (timedelta(hours=12), "high", False)
    assert (found.grace, found.retries) == (timedelta(seconds=60), 2)


def test_what_is_left_out_gets_its_default() -> None:
    found = read(compact(team=None))

    (group,) = found.groups
    assert (found.shape, found.tasks, found.units, found.retries) == (JobShape.INDEPENDENT, 1, 1, 0)
    assert (found.team.name, found.queue.name, found.priority.name, found.borrow) == ("nlp", "default", "normal", True)
    assert (group.cpu_milli, group.memory) == (4000, 16 * GI)
    assert (found.time_limit, found.grace) == (timedelta(hours=24), timedelta(seconds=30))


def test_defaults_of_a_task_grow_with_its_units() -> None:
    (group,) = read(compact(gpus="h100:8")).groups

    assert (group.units, group.cpu_milli, group.memory) == (8, 32_000, 128 * GI)


def test_without_a_type_the_team_takes_every_type_of_which_it_could_get_a_unit() -> None:
    (group,) = read(compact(gpus={"count": 1})).groups

    assert [kind.name for kind in group.flavors] == ["h100", "h200"]


def test_groups_share_what_they_do_not_say_and_are_named() -> None:
    data = compact(
        shape="gang",
        gpus=None,
        groups=[
            {"name": "driver", "gpus": "l40s:1", "run": {"image": "reg.example/driver:1"}},
            {"name": "worker", "tasks": 3, "gpus": "h100:8", "resources": {"cpu": "500m"}},
        ],
    )

    driver, worker = read(data).groups

    assert (driver.name, driver.tasks, driver.units, driver.run.image) == ("driver", 1, 1, "reg.example/driver:1")
    assert (worker.name, worker.tasks, worker.units, worker.run.image) == ("worker", 3, 8, "reg.example/train:1")
    assert (worker.cpu_milli, worker.memory) == (500, 128 * GI)


def test_a_mistake_in_what_groups_share_is_told_once() -> None:
    data = compact(shape="gang", gpus="h900:1", groups=[{"name": "a"}, {"name": "b"}])

    with pytest.raises(Invalid) as caught:
        read(data)

    assert [error.pointer for error in caught.value.fields] == ["/spec/gpus/type"]


def test_all_mistakes_are_told_at_once_with_what_would_be_right() -> None:
    data = compact(
        name="-odd name-",
        shape="gnag",
        tasks=0,
        gpus={"count": -8, "type": "h10"},
        run={"image": "", "command": "python train.py"},
        priority="urgent",
        borrow="yes",
        retries=11,
        timelimit="3h",
    )

    found = errors(data)

    assert set(found) == {
        "/metadata/name",
        "/spec/shape",
        "/spec/tasks",
        "/spec/gpus/count",
        "/spec/gpus/type",
        "/spec/run/image",
        "/spec/run/command",
        "/spec/priority",
        "/spec/borrow",
        "/spec/retries",
        "/spec/timelimit",
    }
    assert found["/spec/shape"].allowed == ("independent", "gang", "elastic")
    assert "did you mean gang?" in found["/spec/shape"].detail
    assert found["/spec/gpus/count"].detail == "count is from 1 to 100000, not -8"
    assert found["/spec/gpus/type"].allowed == ("h100", "l40s", "h200")
    assert found["/spec/priority"].allowed == ("high", "normal")
    assert found["/spec/timelimit"].detail == "there is no field timelimit; did you mean time_limit?"


@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"gpus": {"count": 0, "type": "h100"}}, "/spec/gpus/count", "out_of_range"),
        ({"gpus": "h100:0"}, "/spec/gpus/count", "out_of_range"),
        ({"gpus": "h100"}, "/spec/gpus", "bad_form"),
        ({"gpus": None}, "/spec/gpus", "required"),
        ({"gpus": 8}, "/spec/gpus", "bad_form"),
        ({"gpus": {"count": 1.5, "type": "h100"}}, "/spec/gpus/count", "not_a_whole_number"),
        ({"gpus": {"count": True, "type": "h100"}}, "/spec/gpus/count", "not_a_whole_number"),
        ({"gpus": {"count": 1, "type": []}}, "/spec/gpus/type", "bad_form"),
        ({"gpus": {"count": 1, "type": ["h100", "x"]}}, "/spec/gpus/type/1", "unknown_gpu_type"),
        ({"tasks": 10_001}, "/spec/tasks", "out_of_range"),
        ({"shape": "elastic"}, "/spec/tasks", "needs_range"),
        ({"shape": "elastic", "tasks": 4}, "/spec/tasks", "needs_range"),
        ({"shape": "elastic", "tasks": {}}, "/spec/tasks/max", "required"),
        ({"shape": "elastic", "tasks": {"min": 2}}, "/spec/tasks/max", "required"),
        ({"shape": "elastic", "tasks": {"min": 4, "max": 2}}, "/spec/tasks/max", "out_of_range"),
        ({"shape": "elastic", "tasks": {"min": 0, "max": 2}}, "/spec/tasks/min", "out_of_range"),
        ({"shape": "elastic", "tasks": {"min": 2, "max": "8"}}, "/spec/tasks/max", "not_a_whole_number"),
        ({"shape": "elastic", "tasks": {"max": 10_001}}, "/spec/tasks/max", "out_of_range"),
        ({"shape": "elastic", "tasks": {"max": 8, "desired": 6}}, "/spec/tasks/desired", "not_yet"),
        ({"shape": "elastic", "tasks": {"max": 8, "mix": 6}}, "/spec/tasks/mix", "unknown_field"),
        ({"shape": "gang", "tasks": {"min": 2, "max": 8}}, "/spec/tasks", "needs_elastic"),
        ({"tasks": {"min": 2, "max": 8}}, "/spec/tasks", "needs_elastic"),
        ({"shape": "elastic", "groups": [{"name": "a", "tasks": 2}]}, "/spec/groups", "needs_range"),
        (
            {"shape": "elastic", "groups": [{"name": n, "tasks": {"max": 6000}} for n in "ab"]},
            "/spec/groups",
            "out_of_range",
        ),
        ({"topology": {"required": "rak"}}, "/spec/topology/required", "unknown_level"),
        ({"topology": {"required": "rack", "spread": "zone"}}, "/spec/topology", "bad_form"),
        ({"topology": {}}, "/spec/topology", "bad_form"),
        ({"topology": "rack"}, "/spec/topology", "bad_form"),
        ({"topology": {"required": "rack", "max_skew": 2}}, "/spec/topology/max_skew", "not_allowed"),
        ({"topology": {"required": "rack", "spred": 1}}, "/spec/topology/spred", "unknown_field"),
        ({"tasks": 2, "topology": {"required": "rack"}}, "/spec/topology/required", "needs_gang"),
        ({"tasks": 2, "topology": {"preferred": "rack"}}, "/spec/topology/preferred", "needs_gang"),
        ({"tasks": 2, "topology": {"spread": "rack", "max_skew": 1}}, "/spec/topology/max_skew", "needs_gang"),
        (
            {"groups": [{"name": "a", "tasks": 2, "topology": {"required": "rack"}}]},
            "/spec/groups/0/topology/required",
            "needs_gang",
        ),
        ({"resources": {"cpu": "-4"}}, "/spec/resources/cpu", "bad_form"),
        ({"resources": {"cpu": 0}}, "/spec/resources/cpu", "out_of_range"),
        ({"resources": {"cpu": float("nan")}}, "/spec/resources/cpu", "bad_form"),
        ({"resources": {"memory": "16 GB"}}, "/spec/resources/memory", "bad_form"),
        ({"resources": {"memory": "1Gi", "shm": "2Gi"}}, "/spec/resources/shm", "out_of_range"),
        ({"resources": {"ephemeral": "2Gi"}}, "/spec/resources/ephemeral", "not_yet"),
        ({"run": None}, "/spec/run", "required"),
        ({"run": "train.py"}, "/spec/run", "not_a_mapping"),
        ({"run": {"image": "two words"}}, "/spec/run/image", "bad_form"),
        ({"run": {"image": "a", "env": {"1A": "b"}}}, "/spec/run/env/1A", "bad_key"),
        ({"run": {"image": "a", "env": {"A": 1}}}, "/spec/run/env/A", "not_a_text"),
        ({"run": {"image": "a", "env": {"TIDEGATE_JOB_ID": "1"}}}, "/spec/run/env/TIDEGATE_JOB_ID", "reserved"),
        ({"run": {"image": "a", "args": ["a\x00b"]}}, "/spec/run/args/0", "odd_characters"),
        ({"run": {"image": "a", "args": ["\ud800"]}}, "/spec/run/args/0", "odd_characters"),
        ({"run": {"image": "a", "secrets": ["Not A Name"]}}, "/spec/run/secrets/0", "bad_form"),
        ({"time_limit": "soon"}, "/spec/time_limit", "bad_form"),
        ({"time_limit": 0}, "/spec/time_limit", "out_of_range"),
        ({"time_limit": "-1h"}, "/spec/time_limit", "bad_form"),
        ({"time_limit": "366d"}, "/spec/time_limit", "out_of_range"),
        ({"grace": "2h"}, "/spec/grace", "out_of_range"),
        ({"annotations": {"tidegate.test/run-for": "1s"}}, "/spec/annotations", "not_allowed"),
        ({"groups": []}, "/spec/groups", "not_a_list"),
        ({"groups": [{"name": "a"}, {"name": "a"}], "shape": "gang"}, "/spec/groups", "twice"),
        ({"groups": [{"name": "a"}, {"name": "b"}]}, "/spec/shape", "groups_need_gang"),
        ({"groups": [{"name": "a"}], "tasks": 2}, "/spec/tasks", "not_with_groups"),
        ({"groups": [{"name": "a", "taks": 2}]}, "/spec/groups/0/taks", "unknown_field"),
        ({"groups": [{"name": n, "tasks": 6000} for n in "ab"], "shape": "gang"}, "/spec/groups", "out_of_range"),
        ({"node_labels": {"zone": "a b"}}, "/spec/node_labels/zone", "bad_form"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], pointer: str, code: str) -> None:
    found = errors(compact(**changes))

    assert {place: error.code for place, error in found.items()} == {pointer: code}


@pytest.mark.parametrize(
    ("data", "pointer", "code"),
    [
        (["a"], "", "not_a_mapping"),
        (None, "", "not_a_mapping"),
        ({**compact(), "apiVersion": "v2"}, "/apiVersion", "unknown_version"),
        ({**compact(), "kind": "JobSet"}, "/kind", "unknown_kind"),
        ({**compact(), "status": {}}, "/status", "unknown_field"),
        ({**compact(), "spec": []}, "/spec", "not_a_mapping"),
        ({key: value for key, value in compact().items() if key != "metadata"}, "/metadata", "required"),
        (compact(name="n" * 201), "/metadata/name", "too_long"),
        (compact(name="ünï"), "/metadata/name", "bad_form"),
        (compact(name="a\nb"), "/metadata/name", "bad_form"),
        (compact(name=7), "/metadata/name", "not_a_text"),
        (compact(metadata={"queue": "defualt"}), "/metadata/queue", "unknown_queue"),
        (compact(metadata={"external_id": "e" * 201}), "/metadata/external_id", "too_long"),
        (compact(metadata={"labels": {"a b": "c"}}), "/metadata/labels/a b", "bad_key"),
        (compact(metadata={"labels": {str(n): "" for n in range(33)}}), "/metadata/labels", "too_many"),
        (compact(metadata={"owner": "carl"}), "/metadata/owner", "unknown_field"),
    ],
)
def test_a_wrong_envelope_is_named(data: object, pointer: str, code: str) -> None:
    found = errors(data)

    assert (pointer, code) in {(place, error.code) for place, error in found.items()}


def test_a_name_of_200_letters_works() -> None:
    assert read(compact(name="n" * 200)).name == "n" * 200


def test_a_team_that_is_unknown_or_hidden_is_not_found() -> None:
    with pytest.raises(NotFound) as caught:
        read(compact(team="cv"))

    (error,) = caught.value.fields
    assert (error.pointer, error.allowed) == ("/metadata/team", ("nlp",))


def test_with_two_teams_one_must_be_named() -> None:
    found = errors(compact(team=None), catalog(teams=("nlp", "cv")))

    assert found["/metadata/team"].detail == "team is needed, one of nlp, cv"


def test_a_queue_bounds_the_time_limit() -> None:
    short = catalog(queue(default_time_limit=None, max_time_limit=timedelta(hours=2)))

    assert read(compact(), short).time_limit == timedelta(hours=2)
    assert read(compact(time_limit="2h"), short).time_limit == timedelta(hours=2)
    assert errors(compact(time_limit="3h"), short)["/spec/time_limit"].allowed == ("2h",)
    assert errors(compact(time_limit="none"), short)["/spec/time_limit"].code == "too_long"


def test_no_time_limit_can_be_asked_for_where_the_queue_has_no_maximum() -> None:
    assert read(compact(time_limit="none")).time_limit is None


def test_a_queue_bounds_the_priority() -> None:
    low = catalog(queue(max_priority=0))

    found = errors(compact(priority="high"), low)

    assert (found["/spec/priority"].code, found["/spec/priority"].allowed) == ("priority_too_high", ("normal",))


def test_test_annotations_need_the_setting_and_their_own_prefix() -> None:
    allowed = catalog(annotations=True)

    (group,) = read(compact(annotations={"tidegate.test/run-for": "3s"}), allowed).groups

    assert group.run.annotations == (("tidegate.test/run-for", "3s"),)
    wrong = errors(compact(annotations={"kubernetes.io/x": "3s"}), allowed)
    assert wrong["/spec/annotations/kubernetes.io~1x"].code == "bad_key"


def test_what_was_given_is_shown_short_and_sound() -> None:
    found = errors(compact(name="\ud800" + "x" * 5000))

    given = found["/metadata/name"].given
    assert isinstance(given, str)
    assert len(given) == 201
    given.encode()


PLAIN = st.fixed_dictionaries(
    {"gpus": st.sampled_from(["h100:1", {"count": 8, "type": ["h200", "h100"]}, {"count": 2}])},
    optional={
        "shape": st.sampled_from(["gang", "independent"]),
        "tasks": st.integers(1, 10_000),
        "resources": st.fixed_dictionaries(
            {},
            optional={
                "cpu": st.sampled_from([1, 0.5, "1500m", "64"]),
                "memory": st.sampled_from(["1Gi", "1500M", 12345]),
            },
        ),
        "time_limit": st.sampled_from(["none", "1d6h", "90m", 45, "59s"]),
        "priority": st.sampled_from(["normal", "high"]),
        "borrow": st.booleans(),
        "grace": st.sampled_from([0, "15s", "1m"]),
        "retries": st.integers(0, 10),
        "node_labels": st.just({"zone": "a"}),
        "annotations": st.just({"tidegate.test/run-for": "3s"}),
    },
)
RANGES = st.sampled_from([{"max": 4}, {"min": 2, "max": 8}, {"min": 3, "max": 3}])
SMALL = PLAIN | st.builds(lambda body, tasks: {**body, "shape": "elastic", "tasks": tasks}, PLAIN, RANGES)


@UNHURRIED
@given(SMALL)
def test_the_canonical_form_reads_back_as_the_same_spec(body: dict[str, Any]) -> None:
    names = catalog(annotations=True)
    found = read(compact(**body), names)

    stored = spec.to_json(found)

    assert read(stored, names) == found
    assert spec.runs(stored) == tuple(group.run for group in found.groups)


def test_the_canonical_form_of_groups_reads_back_as_the_same_spec() -> None:
    found = read(compact(shape="gang", groups=[{"name": "a", "tasks": 2}, {"name": "b", "gpus": "h200:4"}]))

    assert read(spec.to_json(found)) == found


def test_an_elastic_job_says_how_many_tasks_start_together_and_how_many_there_may_be() -> None:
    head, workers = {"name": "head"}, {"name": "workers", "tasks": {"min": 2, "max": 8}, "gpus": "h100:4"}

    one = read(compact(shape="elastic", tasks={"max": 5}))
    two = read(compact(shape="elastic", groups=[head, workers]))

    assert (one.tasks, one.most_tasks, one.units) == (1, 5, 1)
    assert [(group.tasks, group.most) for group in two.groups] == [(1, None), (2, 8)]
    assert (two.tasks, two.most_tasks, two.units) == (3, 9, 9)
    assert read(spec.to_json(two)) == two


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
FIELDS = [
    "shape",
    "tasks",
    "gpus",
    "resources",
    "run",
    "time_limit",
    "priority",
    "borrow",
    "grace",
    "retries",
    "groups",
]


@UNHURRIED
@given(
    st.dictionaries(st.sampled_from(FIELDS), JUNK), st.dictionaries(st.sampled_from(["name", "team", "labels"]), JUNK)
)
def test_junk_is_refused_in_the_domain_s_own_words(body: dict[str, Any], head: dict[str, Any]) -> None:
    data = {"apiVersion": "tidegate/v1", "kind": "Job", "metadata": {"name": "n", **head}, "spec": body}

    with suppress(Invalid, NotFound):
        read(data)


@pytest.mark.parametrize(
    ("given", "seconds"), [("12h", 43_200), ("1d6h", 108_000), ("90m", 5_400), ("90", 90), (90, 90), ("1h30m5s", 5_405)]
)
def test_durations(given: object, seconds: int) -> None:
    assert amounts.duration(given) == timedelta(seconds=seconds)


@pytest.mark.parametrize("given", ["", "h", "1.5h", "1h 30m", "²", -1, True, None, [], "1m1h", "9" * 30])
def test_what_is_no_duration(given: object) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        amounts.duration(given)


@UNHURRIED
@given(st.integers(0, 10**9))
def test_a_duration_reads_back(seconds: int) -> None:
    length = timedelta(seconds=seconds)

    assert amounts.duration(amounts.duration_text(length)) == length


@UNHURRIED
@given(st.integers(0, 10**18))
def test_memory_and_cpu_read_back(amount: int) -> None:
    assert amounts.memory(amounts.memory_text(amount)) == amount
    assert amounts.cpu_milli(amounts.cpu_text(amount)) == amount


@pytest.mark.parametrize(
    ("wish", "place"),
    [({"required": "zone"}, 0), ({"preferred": "rack"}, 1), ({"spread": "node", "max_skew": 2}, 2)],
)
def test_a_topology_names_a_level_and_is_kept_as_it_was_said(wish: dict[str, Any], place: int) -> None:
    found = read(compact(shape="gang", tasks=2, topology=wish))

    assert found.topology is None
    assert found.groups[0].topology is not None
    assert (found.groups[0].topology.place, found.groups[0].topology.max_skew) == (place, wish.get("max_skew"))
    assert spec.to_json(found)["spec"]["topology"] == wish
    assert read(spec.to_json(found)) == found


def test_a_topology_of_the_job_binds_its_groups_and_each_may_have_its_own() -> None:
    groups = [{"name": "a", "tasks": 2, "topology": {"required": "rack"}}, {"name": "b"}]

    found = read(compact(shape="gang", groups=groups, topology={"required": "zone"}))

    assert found.topology is not None
    assert (found.topology.level, [group.topology and group.topology.level for group in found.groups]) == (
        "zone",
        ["rack", None],
    )
    assert read(spec.to_json(found)) == found
