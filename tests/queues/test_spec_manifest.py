"""Kubernetes objects read as specs."""

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters import kinds, raw
from clusters.port import GroupSpec, Launch, RawObject, TaskSpec
from queues import spec
from queues.admission.world import JobShape, Near
from queues.spec import to_json
from tenants.allowances import Allowance
from tenants.errors import FieldError, Invalid, NotFound
from tests.queues import manifests
from tests.queues.manifests import GPU
from tests.queues.test_spec import UNHURRIED, catalog, queue

GI = 2**30


def names(*teams: str, allows: frozenset[str] = frozenset()) -> spec.Catalog:
    """Return a catalog whose teams have namespaces and whose flavors have labels."""
    plain = catalog(queue(), replace(queue(), name="nightly"), teams=teams or ("nlp",))
    return replace(
        plain,
        teams=tuple(replace(team, namespace=f"team-{team.name}", allows=allows) for team in plain.teams),
        flavors=tuple(replace(row, node_labels=(("nvidia.com/gpu.product", row.name),)) for row in plain.flavors),
    )


def read(manifest: Mapping[str, Any], *teams: str, allows: frozenset[str] = frozenset()) -> spec.Spec:
    return spec.read(manifest, names(*teams, allows=allows))


def errors(manifest: Mapping[str, Any], *teams: str, allows: frozenset[str] = frozenset()) -> dict[str, FieldError]:
    with pytest.raises((Invalid, NotFound)) as caught:
        read(manifest, *teams, allows=allows)
    return {error.pointer: error for error in caught.value.fields}


def test_a_job_is_a_gang_of_its_parallel_pods() -> None:
    found = read(manifests.job("train", pods=4, units=8))

    (group,) = found.groups
    assert (found.name, found.team.name, found.queue.name, found.shape) == ("train", "nlp", "default", JobShape.GANG)
    assert (group.tasks, group.units, group.cpu_milli, group.memory) == (4, 8, 1000, GI)
    assert [flavor.name for flavor in group.flavors] == ["h100", "h200"]
    assert found.kind == "jobs.v1.batch"


def test_never_more_pods_than_completions_run_at_once() -> None:
    assert read(manifests.job(pods=8, completions=3)).tasks == 3


def test_containers_add_up_and_a_sidecar_counts_too() -> None:
    manifest = manifests.job(units=4)
    pod = manifest["spec"]["template"]["spec"]
    pod["containers"].append({"name": "b", "image": "b", "resources": {"limits": {"cpu": "500m", GPU: 2}}})
    pod["initContainers"] = [
        {"name": "log", "image": "c", "restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}}
    ]

    (group,) = read(manifest).groups

    assert (group.units, group.cpu_milli, group.memory) == (6, 1500, 2 * GI)


def test_labels_of_kueue_name_queue_and_priority_and_a_namespace_the_team() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "nightly", "kueue.x-k8s.io/priority-class": "high", "project": "llama"}

    found = read(manifests.job(meta={"namespace": "team-cv", "labels": labels}), "nlp", "cv")

    assert (found.team.name, found.queue.name, found.priority.name) == ("cv", "nightly", "high")
    assert found.labels == (("project", "llama"),)


def test_our_labels_and_annotations_say_the_rest() -> None:
    meta = {
        "labels": {"tidegate.io/team": "cv", "tidegate.io/queue": "nightly", "tidegate.io/priority-class": "high"},
        "annotations": {
            "tidegate.io/gpu-type": "h200, h100",
            "tidegate.io/time-limit": "6h",
            "tidegate.io/borrow": "false",
            "tidegate.io/topology": "required=rack",
        },
    }

    found = read(manifests.job(meta=meta), "nlp", "cv")

    (group,) = found.groups
    assert (found.team.name, found.queue.name, found.priority.name, found.borrow) == ("cv", "nightly", "high", False)
    assert [flavor.name for flavor in group.flavors] == ["h200", "h100"]
    assert found.time_limit == timedelta(hours=6)
    assert group.topology is not None
    assert (group.topology.near, group.topology.level) == (Near.REQUIRED, "rack")


def test_its_own_deadline_and_grace_are_the_jobs() -> None:
    manifest = manifests.job(activeDeadlineSeconds=7200)
    manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 90

    found = read(manifest)

    assert (found.time_limit, found.grace) == (timedelta(hours=2), timedelta(seconds=90))


def test_a_node_selector_rules_gpu_types_out() -> None:
    manifest = manifests.job()
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "h200", "zone": "a"}

    (group,) = read(manifest).groups

    assert [flavor.name for flavor in group.flavors] == ["h200"]
    assert group.run.node_labels == (("nvidia.com/gpu.product", "h200"), ("zone", "a"))


def test_a_node_selector_that_no_gpu_type_has_is_an_error() -> None:
    manifest = manifests.job()
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "a100"}

    assert "no node of h100, h200" in errors(manifest)["/spec/template/spec/nodeSelector"].detail


def test_a_stored_spec_reads_back_as_itself() -> None:
    found = read(manifests.job(pods=2, units=4, meta={"annotations": {"tidegate.io/topology": "preferred=zone"}}))

    assert spec.read(spec.to_json(found), names()) == found
    assert [run.image for run in spec.runs(spec.to_json(found))] == ["reg.example/train:1"]


def test_an_object_inside_a_spec_is_the_same() -> None:
    inside = {
        "apiVersion": "tidegate/v1",
        "kind": "Job",
        "metadata": {"name": "kube"},
        "spec": {"manifest": manifests.job(), "gpus": {"type": "h200"}, "retries": 2},
    }

    found = spec.read(inside, names())

    assert (found.retries, [flavor.name for flavor in found.groups[0].flavors]) == (2, ["h200"])


@pytest.mark.parametrize(
    ("change", "pointer", "words"),
    [
        ({"hostNetwork": True}, "/hostNetwork", "host_namespaces"),
        ({"hostPID": True}, "/hostPID", "host_namespaces"),
        ({"serviceAccountName": "admin"}, "/serviceAccountName", "service_accounts"),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}, "/volumes/0/hostPath", "host_path"),
        ({"volumes": [{"name": "a", "nfs": {"server": "b"}}]}, "/volumes/0/nfs", "nfs is not taken"),
        ({"nodeName": "h1"}, "/nodeName", "chooses nodes"),
        ({"affinity": {"nodeAffinity": {}}}, "/affinity", "tidegate.io/topology"),
        ({"schedulerName": "volcano"}, "/schedulerName", "default-scheduler"),
        ({"priorityClassName": "mine"}, "/priorityClassName", "priority-class"),
        ({"dreams": 1}, "/dreams", "dreams is not taken"),
        ({"securityContext": {"sysctls": [{"name": "a", "value": "b"}]}}, "/securityContext/sysctls", "privileged"),
        (
            {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
            "/securityContext/seccompProfile",
            "privileged",
        ),
    ],
)
def test_what_a_pod_may_not_say_is_refused_where_it_stands(change: dict[str, Any], pointer: str, words: str) -> None:
    manifest = manifests.job()
    manifest["spec"]["template"]["spec"] |= change

    found = errors(manifest)

    assert words in found[f"/spec/template/spec{pointer}"].detail
    assert len(found) == 1


@pytest.mark.parametrize(
    ("change", "pointer", "words"),
    [
        ({"securityContext": {"privileged": True}}, "/securityContext/privileged", "privileged"),
        ({"securityContext": {"procMount": "Unmasked"}}, "/securityContext/procMount", "privileged"),
        (
            {"securityContext": {"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}}},
            "/securityContext/capabilities/add/1",
            "capabilities",
        ),
        ({"ports": [{"containerPort": 1, "hostPort": 1}]}, "/ports/0/hostPort", "host_ports"),
        ({"resources": {"requests": {GPU: "1"}}}, "/resources/limits", "by limits"),
    ],
)
def test_what_a_container_may_not_say_is_refused_where_it_stands(
    change: dict[str, Any], pointer: str, words: str
) -> None:
    manifest = manifests.job()
    manifest["spec"]["template"]["spec"]["containers"][0] |= change

    assert words in errors(manifest)[f"/spec/template/spec/containers/0{pointer}"].detail


def test_what_an_admin_allowed_a_team_is_taken() -> None:
    manifest = manifests.job()
    pod = manifest["spec"]["template"]["spec"]
    pod |= {
        "hostNetwork": True,
        "serviceAccountName": "robot",
        "volumes": [{"name": "a", "hostPath": {"path": "/dev/infiniband"}}],
    }
    pod["containers"][0] |= {
        "securityContext": {"privileged": True, "capabilities": {"add": ["IPC_LOCK"]}},
        "ports": [{"containerPort": 1, "hostPort": 1}],
    }

    assert read(manifest, allows=frozenset(Allowance)).tasks == 1
    assert len(errors(manifest)) == 6


@pytest.mark.parametrize(
    ("manifest", "pointer", "words"),
    [
        ({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}, "/kind", "JobSet"),
        (manifests.job(units=0), "/spec/template", "nvidia.com/gpu"),
        (manifests.job(managedBy="kueue.x-k8s.io/multikueue"), "/spec/managedBy", "another controller"),
        (manifests.job(dreams=1), "/spec/dreams", "dreams is not taken"),
        (manifests.job(meta={"finalizers": ["a/b"]}), "/metadata/finalizers", "not taken"),
        (manifests.job(template=None), "/spec/template/spec/containers", "needs containers"),
        (
            manifests.job(meta={"labels": {"kueue.x-k8s.io/queue-name": "dreams"}}),
            "/metadata/labels/kueue.x-k8s.io~1queue-name",
            "no queue dreams",
        ),
        (
            manifests.job(meta={"annotations": {"tidegate.io/gpu-type": "h1000"}}),
            "/metadata/annotations/tidegate.io~1gpu-type/type/0",
            "no GPU type h1000",
        ),
        (manifests.job(meta={"namespace": "kube-system"}), "/metadata/namespace", "no team kube-system"),
        (manifests.job(name=""), "/metadata/name", "needed"),
    ],
)
def test_what_an_object_may_not_say_is_refused_where_it_stands(
    manifest: dict[str, Any], pointer: str, words: str
) -> None:
    assert words in errors(manifest)[pointer].detail


CONTAINER = "/spec/template/spec/containers/0"


@pytest.mark.parametrize(
    ("path", "given", "pointer", "words"),
    [
        (("spec", "parallelism"), "two", "/spec/parallelism", "whole number from 0 to 2147483647, not two"),
        (("spec", "parallelism"), -1, "/spec/parallelism", "not -1"),
        (("spec", "parallelism"), 0, "/spec/parallelism", "parallelism is 0, so no pod would run: say how many do"),
        (("spec", "parallelism"), True, "/spec/parallelism", "not true"),
        (("spec", "completions"), 10**12, "/spec/completions", "not 1000000000000"),
        (("metadata", "labels"), ["a"], "/metadata/labels", "a mapping of texts, not a list"),
        (("metadata", "annotations"), {"a/b": 1}, "/metadata/annotations/a~1b", "a text, not a number; write it in"),
        (("spec", "template", "spec", "nodeSelector"), "zone", "/spec/template/spec/nodeSelector", "not a text"),
        (("spec", "template", "spec", "containers"), [1], CONTAINER, "a mapping of fields, not a number"),
        (("spec", "template", "spec", "initContainers"), "a", "/spec/template/spec/initContainers", "not a text"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_where_it_stands(
    path: tuple[str, ...], given: object, pointer: str, words: str
) -> None:
    manifest = deepcopy(manifests.job(pods=2))
    above: Any = manifest
    for key in path[:-1]:
        above = above[key]
    above[path[-1]] = given

    assert words in errors(manifest)[pointer].detail


@pytest.mark.parametrize(
    ("resources", "pointer", "words"),
    [
        ([], "", "limits and requests, not a list"),
        ({"limits": [1]}, "/limits", "a mapping of amounts, not a list"),
        ({"limits": {GPU: "1500m"}}, "/limits/nvidia.com~1gpu", "counted in whole units; not 1500m"),
        ({"limits": {GPU: -1}}, "/limits/nvidia.com~1gpu", "not below 0"),
        ({"limits": {GPU: 1}, "requests": {"cpu": "lots"}}, "/requests/cpu", "such as 4, 500m or 16Gi; not 'lots'"),
    ],
)
def test_an_amount_that_cannot_be_counted_is_refused_where_it_stands(
    resources: object, pointer: str, words: str
) -> None:
    manifest = deepcopy(manifests.job(pods=2))
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = resources

    assert words in errors(manifest)[f"{CONTAINER}/resources{pointer}"].detail


def test_what_each_pod_of_a_train_job_asks_for_is_refused_where_it_stands() -> None:
    trainer = {"numNodes": "two", "resourcesPerNode": {"limits": {GPU: "half"}}}
    body = {"runtimeRef": {"name": "torch"}, "trainer": trainer}
    manifest = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "a"},
        "spec": body,
    }

    assert errors(manifest).keys() == {
        "/spec/trainer/numNodes",
        "/spec/trainer/resourcesPerNode/limits/nvidia.com~1gpu",
    }


def test_a_manifest_says_itself_what_runs() -> None:
    inside = {
        "apiVersion": "tidegate/v1",
        "kind": "Job",
        "metadata": {"name": "kube"},
        "spec": {"manifest": manifests.job(), "tasks": 2, "shape": "independent"},
    }

    found = errors(inside)

    assert found.keys() == {"/spec/tasks", "/spec/shape"}


SMALL = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**6) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of everything in a value."""
    found = [path] if path else []
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        found += places(child, (*path, key))
    return found


def launched(found: spec.Spec) -> Launch:
    """Return a wave that runs all pods of an object."""
    groups = tuple(
        GroupSpec(
            name=group.name,
            group=number,
            tasks=(TaskSpec(index=0, task=0, node="a"), TaskSpec(index=1, task=1, node="b")),
            resource=GPU,
            units=group.units,
            cpu=group.cpu_milli,
            memory=group.memory,
            image="",
        )
        for number, group in enumerate(found.groups)
    )
    uid = "0197a2b0-1111-7000-8000-00000000000a"
    return Launch(
        wave=uid,
        job=uid,
        job_name=found.name,
        number=1,
        attempt=1,
        team="nlp",
        queue="default",
        namespace="team-nlp",
        gang=True,
        groups=groups,
        priority_class="normal",
        priority_value=100,
        raw=RawObject(kind=found.kind, manifest=to_json(found)["spec"]["manifest"]),
    )


WRITTEN = (
    manifests.job(pods=2),
    manifests.job_set(parts={"a": (1, 2, 1)}),
    manifests.pytorch_job(runPolicy={"suspend": True}),
    manifests.mpi_job(runPolicy={"cleanPodPolicy": "All"}),
    manifests.ray_job(),
    manifests.train_job(),
)


@UNHURRIED
@given(written=st.sampled_from(WRITTEN), data=st.data(), anything=SMALL)
def test_whatever_was_read_can_be_sent_to_a_cluster(
    written: dict[str, Any], data: st.DataObject, anything: object
) -> None:
    manifest = deepcopy(written)
    for part in kinds.parts(kinds.BY_KEY[read(written).kind], manifest):
        if isinstance(part.template, dict) and "metadata" not in part.template:
            part.template["metadata"] = {"labels": {"a": "b"}, "annotations": {"a": "b"}}
            part.template["spec"] |= {"tolerations": [{}], "nodeSelector": {}}
    *path, last = data.draw(st.sampled_from(places(manifest)))
    above: Any = manifest
    for key in path:
        above = above[key]
    above[last] = anything

    with suppress(Invalid, NotFound):
        launch = launched(read(manifest))
        assert launch.raw is not None
        raw.new(launch, launch.raw)


@pytest.mark.parametrize(
    ("where", "given"),
    [
        (("spec", "runPolicy"), None),
        (("spec", "runPolicy"), 3),
        (("spec", "pytorchReplicaSpecs", "Worker", "template", "metadata"), [1]),
        (("spec", "pytorchReplicaSpecs", "Worker", "template", "metadata"), {"labels": 3}),
        (("spec", "pytorchReplicaSpecs", "Worker", "template", "spec", "tolerations"), 3),
    ],
)
def test_an_odd_value_on_the_way_of_what_is_set_is_refused_or_sent(where: tuple[str, ...], given: object) -> None:
    manifest = deepcopy(manifests.pytorch_job())
    above: Any = manifest
    for key in where[:-1]:
        above = above[key]
    above[where[-1]] = given

    with suppress(Invalid):
        launch = launched(read(manifest))
        assert launch.raw is not None
        assert raw.new(launch, launch.raw)["spec"]["runPolicy"]["suspend"] is False


@UNHURRIED
@given(data=st.data(), anything=SMALL)
def test_whatever_stands_anywhere_in_an_object_is_read_or_refused_with_a_pointer(
    data: st.DataObject, anything: object
) -> None:
    manifest = deepcopy(manifests.job(pods=2))
    manifest["spec"]["template"]["spec"] |= {"securityContext": {}, "volumes": [{"name": "a"}]}
    manifest["spec"]["template"]["spec"]["containers"][0] |= {
        "securityContext": {"capabilities": {"add": []}},
        "ports": [{}],
    }
    *path, last = data.draw(st.sampled_from(places(manifest)))
    above: Any = manifest
    for key in path:
        above = above[key]
    above[last] = anything

    with suppress(Invalid, NotFound):
        read(manifest)
