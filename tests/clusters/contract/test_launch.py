from dataclasses import replace

import pytest

from clusters import names
from clusters.port import NameTaken, Placement, PodPhase, QuotaRefused, Refused, Toleration, Unreachable
from tests.clusters.contract.ground import GIB, GPU, Ground, GroupFields, ref
from tests.clusters.waiting import until

OTHER_WAVE = "0197a2b0-0000-7000-8000-000000000000"
MERGE = "application/merge-patch+json"
FOREVER = {"forever": "1"}


def test_tasks_of_one_node_run_there_without_a_gate_and_end(ground: Ground) -> None:
    ground.node()
    chosen = ground.node()
    launch = ground.launch(ground.group(chosen, chosen, steer={"run-for": "300ms"}))

    ground.cluster.launch(launch)

    wave = ground.ended(launch)
    assert (wave.failed, wave.leaving, wave.group, wave.wave) == (False, False, 0, launch.wave)
    pods = ground.pods(launch)
    assert [(pod.index, pod.node, pod.phase, pod.exit_code) for pod in pods] == [
        (0, chosen, PodPhase.SUCCEEDED, 0),
        (1, chosen, PodPhase.SUCCEEDED, 0),
    ]
    for pod in pods:
        assert pod.started_at is not None
        assert pod.ended_at is not None
        assert pod.started_at <= pod.ended_at
        assert (pod.cpu, pod.memory, dict(pod.counted)) == (1000, GIB, {GPU: 1})


def test_tasks_of_several_nodes_wait_for_their_pins_and_go_each_to_its_node(ground: Ground) -> None:
    first, second = ground.node(), ground.node()
    launch = ground.launch(ground.group(second, first, steer=FOREVER))

    ground.cluster.launch(launch)

    pins = ground.gated(launch)
    assert [pod.node for pod in ground.pods(launch)] == [None, None]
    ground.cluster.pin(pins)
    running = ground.running(launch)
    assert [(pod.index, pod.node, pod.gated) for pod in running] == [(0, second, False), (1, first, False)]


def test_a_preferred_node_that_is_full_is_left(ground: Ground) -> None:
    ground.node()
    full = ground.node(gpus=0)
    launch = ground.launch(
        ground.group(full, steer=FOREVER, node_labels=(("tidegate.test/ground", ground.key),)),
        placement=Placement.PREFER,
    )

    ground.cluster.launch(launch)

    assert ground.placed(launch)[0].node != full


def test_tasks_that_go_where_they_like_have_no_gate(ground: Ground) -> None:
    first, second = ground.node(), ground.node()
    labels = (("tidegate.test/ground", ground.key),)
    launch = ground.launch(ground.group(first, second, steer=FOREVER, node_labels=labels), placement=Placement.FREE)

    ground.cluster.launch(launch)

    pods = ground.placed(launch)
    assert {pod.node for pod in pods} <= {first, second}


def test_a_later_wave_tells_each_task_its_index_in_the_job(ground: Ground) -> None:
    node = ground.node()
    launch = ground.start(ground.launch(ground.group(node, node, first=7, steer=FOREVER), gang=False, number=3))

    pods = ground.placed(launch)

    texts = [ground.send("get", f"/api/v1/namespaces/{ground.namespace}/pods/{pod.name}") for pod in pods]
    assert [text["metadata"]["annotations"][names.ANNOTATION_TASK] for text in texts] == ["7", "8"]


def test_a_toleration_lets_a_task_onto_a_tainted_node(ground: Ground) -> None:
    node = ground.node(taints=({"key": "dedicated", "value": "research", "effect": "NoSchedule"},))
    tolerated = (Toleration(key="dedicated", operator="Equal", value="research", effect="NoSchedule"),)
    launch = ground.launch(ground.group(node, steer=FOREVER, tolerations=tolerated))

    ground.cluster.launch(launch)

    assert ground.placed(launch)[0].node == node


def test_launching_twice_makes_one_object(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer=FOREVER))

    ground.cluster.launch(launch)
    ground.cluster.launch(launch)

    assert len(ground.waves(launch)) == 1
    until(lambda: len(ground.pods(launch)) == 1)


def test_a_launch_that_broke_off_is_completed_by_the_next(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer=FOREVER), ground.group(node, first=1, steer=FOREVER))
    ground.cluster.launch(replace(launch, groups=launch.groups[:1]))

    ground.cluster.launch(launch)

    assert [wave.group for wave in ground.waves(launch)] == [0, 1]
    service = f"/api/v1/namespaces/{ground.namespace}/services/{names.service_name(launch.job, 1)}"
    assert ground.send("get", service)["spec"]["clusterIP"] == "None"


def test_a_name_that_another_wave_has_is_not_ours(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer=FOREVER))
    ground.cluster.launch(launch)
    path = f"/apis/batch/v1/namespaces/{ground.namespace}/jobs/{names.object_name(launch.job, 1, 0)}"
    ground.send("patch", path, body={"metadata": {"labels": {names.LABEL_JOB: "another"}}}, media=MERGE)

    with pytest.raises(NameTaken) as caught:
        ground.cluster.launch(replace(launch, wave=OTHER_WAVE))

    assert not caught.value.leaving


def test_a_name_that_a_lost_wave_of_the_same_job_has_can_be_tried_again(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer=FOREVER))
    ground.cluster.launch(launch)

    with pytest.raises(NameTaken) as caught:
        ground.cluster.launch(replace(launch, wave=OTHER_WAVE))

    assert caught.value.leaving


def test_a_name_that_is_on_its_way_out_can_be_tried_again(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(ground.group(node, steer=FOREVER))
    ground.cluster.launch(launch)
    path = f"/apis/batch/v1/namespaces/{ground.namespace}/jobs/{names.object_name(launch.job, 1, 0)}"
    patch = {"metadata": {"finalizers": ["tidegate.test/stays"]}}
    ground.send("patch", path, body=patch, media=MERGE)
    ground.cluster.stop(ref(launch))

    with pytest.raises(NameTaken) as caught:
        ground.cluster.launch(launch)

    assert caught.value.leaving
    assert [wave.leaving for wave in ground.waves(launch)] == [True]
    ground.send("patch", path, body={"metadata": {"finalizers": []}}, media=MERGE)
    until(lambda: not ground.waves(launch))
    ground.cluster.launch(launch)


def test_a_quota_on_objects_refuses_the_launch(ground: Ground) -> None:
    node = ground.node()
    quotas = f"/api/v1/namespaces/{ground.namespace}/resourcequotas"
    quota = {"metadata": {"name": "no-jobs"}, "spec": {"hard": {"count/jobs.batch": "0"}}}
    ground.send("create", quotas, body={"apiVersion": "v1", "kind": "ResourceQuota", **quota})
    until(lambda: ground.send("get", f"{quotas}/no-jobs").get("status", {}).get("hard"))

    def refused() -> bool:
        try:
            ground.cluster.launch(ground.launch(ground.group(node)))
        except QuotaRefused as refusal:
            return "exceeded quota" in str(refusal)
        return False  # the server has not heard of its quota yet

    until(refused)


def test_pods_that_the_fence_refuses_say_so_on_their_wave(ground: Ground) -> None:
    node = ground.node()
    ground.cluster.ensure_team(ground.namespace, team="Night shift", ceiling={GPU: 1})
    quota = f"/api/v1/namespaces/{ground.namespace}/resourcequotas/{names.FENCE}"
    until(lambda: ground.send("get", quota).get("status", {}).get("hard"))
    launch = ground.launch(ground.group(node, node, steer=FOREVER, units=1))

    ground.cluster.launch(launch)

    wave = until(lambda: next((wave for wave in ground.waves(launch) if wave.refusal), None))
    assert "exceeded quota" in wave.refusal
    assert not wave.failed


def test_pods_that_were_refused_and_have_come_since_are_refused_no_more(ground: Ground) -> None:
    node = ground.node()
    ground.cluster.ensure_team(ground.namespace, team="Night shift", ceiling={GPU: 1})
    quota = f"/api/v1/namespaces/{ground.namespace}/resourcequotas/{names.FENCE}"
    until(lambda: ground.send("get", quota).get("status", {}).get("hard"))
    launch, other = (ground.launch(ground.group(node, node, steer=FOREVER, units=1)) for _ in range(2))
    ground.cluster.launch(launch)
    until(lambda: [wave for wave in ground.waves(launch) if wave.refusal])

    ground.cluster.ensure_team(ground.namespace, team="Night shift", ceiling={GPU: 2})
    until(lambda: len(ground.pods(launch)) == 2)
    ground.cluster.launch(other)
    until(lambda: [wave for wave in ground.waves(other) if wave.refusal])

    until(lambda: [wave for wave in ground.waves(launch) if not wave.refusal])


@pytest.mark.parametrize(
    "fault",
    [{"image": ""}, {"env": (("NO\0GOOD", "x"),)}, {"node_labels": (("not a label!", "x"),)}],
    ids=["no image", "a bad variable", "a bad label"],
)
def test_what_kubernetes_finds_invalid_is_refused_with_its_words(ground: Ground, fault: GroupFields) -> None:
    node = ground.node()

    with pytest.raises(Refused, match=r"image|env|not a label"):
        ground.cluster.launch(ground.launch(ground.group(node, **fault)))

    assert ground.waves() == []


def test_a_launch_into_a_namespace_that_is_not_there_may_be_repeated(ground: Ground) -> None:
    launch = ground.launch(ground.group("anywhere"), namespace=f"missing-{ground.key}")

    with pytest.raises(Unreachable, match="not there"):
        ground.cluster.launch(launch)


def test_names_of_any_length_and_script_are_launched(ground: Ground) -> None:
    node = ground.node()
    odd = "Ünïcode/" + "long " * 40
    launch = ground.launch(
        ground.group(node, steer={"run-for": "100ms"}),
        job_name=odd,
        team=odd,
        queue=odd,
        priority_class=odd,
        number=123_456,
    )

    ground.cluster.launch(launch)

    assert ground.ended(launch).complete
    job = ground.job(names.object_name(launch.job, 123_456, 0))
    assert job["metadata"]["annotations"][names.ANNOTATION_JOB_NAME] == odd


def test_the_priority_class_is_mirrored_and_never_preempts(ground: Ground) -> None:
    node = ground.node()
    launch = ground.launch(
        ground.group(node, steer=FOREVER), priority_class=f"class-{ground.key}", priority_value=2_000_000_000
    )

    ground.cluster.launch(launch)

    name = names.priority_class_name(f"class-{ground.key}", 2_000_000_000)
    mirrored = ground.send("get", f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
    assert (mirrored["value"], mirrored["preemptionPolicy"]) == (1_000_000_000, "Never")
    pod = until(lambda: ground.pods(launch))[0]
    spec = ground.send("get", f"/api/v1/namespaces/{ground.namespace}/pods/{pod.name}")["spec"]
    assert spec["priorityClassName"] == name


def test_a_gang_finds_itself_through_a_service_that_goes_with_it(ground: Ground) -> None:
    first, second = ground.node(), ground.node()
    launch = ground.start(ground.launch(ground.group(first, second, steer=FOREVER)))
    path = f"/api/v1/namespaces/{ground.namespace}/services/{names.service_name(launch.job, 1)}"

    service = ground.send("get", path)

    assert service["spec"]["selector"] == {names.LABEL_WAVE: launch.wave}
    ground.cluster.stop(ref(launch))
    until(lambda: not ground.exists(path))


def test_a_launch_of_one_task_takes_one_request(ground: Ground) -> None:
    node = ground.node()
    ground.cluster.launch(ground.launch(ground.group(node, steer=FOREVER)))
    before = ground.cluster.api.requests.total()

    ground.cluster.launch(ground.launch(ground.group(node, steer=FOREVER)))

    assert ground.cluster.api.requests.total() - before == 1
