"""How each kind that people may write is steered: nodes, tolerations, priority and topology in its pods."""

from dataclasses import replace
from typing import Any

import pytest

from clusters import kinds, paths, raw
from clusters.port import Closeness, GroupSpec, Launch, Near, Placement, TaskSpec, Toleration
from tests.queues import manifests
from tests.queues.test_spec_manifest import launched, read

RACK = "tidegate.io/rack"
KINDS = {
    "Job": manifests.job(pods=2, units=8),
    "JobSet": manifests.job_set(parts={"a": (2, 1, 8)}),
    "PyTorchJob": manifests.pytorch_job(),
    "MPIJob": manifests.mpi_job(),
    "MPIJob v2beta1": manifests.mpi_job(version="v2beta1"),
    "RayJob": manifests.ray_job(),
    "TrainJob": manifests.train_job(),
}
every_kind = pytest.mark.parametrize("manifest", KINDS.values(), ids=KINDS)


def wave(manifest: dict[str, Any], *nodes: str, **more: Any) -> Launch:  # noqa: ANN401  fields of a launch
    """Return a wave of an object whose groups have a task on each of these nodes."""
    plain = launched(read(manifest))
    return replace(plain, groups=tuple(steered(group, nodes) for group in plain.groups), **more)


def steered(group: GroupSpec, nodes: tuple[str, ...]) -> GroupSpec:
    return replace(
        group,
        tasks=tuple(TaskSpec(index=place, task=place, node=node) for place, node in enumerate(nodes)),
        node_labels=(("nvidia.com/gpu.product", "h100"),),
        tolerations=(Toleration(key="gpu", operator="Exists"),),
        closeness=(Closeness(near=Near.REQUIRED, key=RACK, domains=("r1",)),),
    )


def sent(launch: Launch) -> dict[str, Any]:
    assert launch.raw is not None
    return raw.new(launch, launch.raw)


def pods(launch: Launch) -> list[dict[str, Any]]:
    """Return what steers the pods that count units, wherever the kind has it."""
    made = sent(launch)
    kind = kinds.kind_of(made)
    assert kind is not None
    if kind.overrides:
        return list(paths.at(made, kind.overrides))
    named = {group.name for group in launch.groups}
    return [dict(part.spec) for part in kinds.parts(kind, made) if part.name in named]


@every_kind
def test_labels_and_tolerations_of_the_gpu_type_are_on_all_pods_that_count_units(manifest: dict[str, Any]) -> None:
    launch = wave(manifest, "a", "b")

    found = pods(launch)

    assert len(found) == len(launch.groups)
    for pod in found:
        assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "h100"}
        assert pod["tolerations"] == [{"key": "gpu", "operator": "Exists"}]


@every_kind
def test_pods_on_several_nodes_wait_behind_our_gate_for_their_pin(manifest: dict[str, Any]) -> None:
    for pod in pods(wave(manifest, "a", "b")):
        assert pod["schedulingGates"] == [{"name": "tidegate.io/placement"}]
        assert "affinity" not in pod


@every_kind
def test_pods_on_one_node_are_sent_there_at_once_where_their_kind_has_a_template(manifest: dict[str, Any]) -> None:
    launch = wave(manifest, "a", "a")

    for pod in pods(launch):
        if manifest["kind"] == "TrainJob":
            assert pod["schedulingGates"] == [{"name": "tidegate.io/placement"}]
        else:
            terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            assert terms["nodeSelectorTerms"] == [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
            ]
            assert "schedulingGates" not in pod


@every_kind
def test_free_pods_stay_in_the_domain_that_was_planned(manifest: dict[str, Any]) -> None:
    for pod in pods(wave(manifest, "a", "b", placement=Placement.FREE)):
        assert "schedulingGates" not in pod
        if manifest["kind"] == "TrainJob":
            assert pod["nodeSelector"][RACK] == "r1"
        else:
            terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            rows = terms["nodeSelectorTerms"][0]["matchExpressions"]
            assert rows == [{"key": RACK, "operator": "In", "values": ["r1"]}]


@every_kind
def test_all_pods_have_the_mirrored_priority_class_and_never_preempt(manifest: dict[str, Any]) -> None:
    made = sent(wave(manifest, "a", "b", priority_class="high", priority_value=50))

    kind = kinds.kind_of(made)
    assert kind is not None
    if not kind.overrides:
        names = {part.spec["priorityClassName"] for part in kinds.parts(kind, made)}
        assert names == {"tidegate-high-50"}


def test_an_adopted_object_without_a_pin_stays_in_its_domain_by_labels() -> None:
    launch = wave(KINDS["Job"], "a", "b", placement=Placement.FREE)
    assert launch.raw is not None
    adopted = replace(launch, raw=replace(launch.raw, adopted="uid"))

    made = raw.release(adopted, dict(launch.raw.manifest), kinds.JOB)

    pod = made["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "h100", RACK: "r1"}
    assert "schedulingGates" not in pod


def test_a_launcher_without_units_is_left_to_the_scheduler_with_our_labels_and_priority() -> None:
    made = sent(wave(KINDS["MPIJob v2beta1"], "a", "b"))

    launcher = made["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    assert "schedulingGates" not in launcher["spec"]
    assert launcher["spec"]["priorityClassName"] == "tidegate-normal-100"
    assert launcher["metadata"]["labels"]["tidegate.io/group"] == "1000"
