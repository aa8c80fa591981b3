from dataclasses import replace
from typing import Any

import pytest

from clusters import manifests, names, rendezvous, steering
from clusters.port import Elastic, GroupSpec, Launch, Pin, Placement, TaskSpec, Toleration

JOB = "0197a2b0-1111-7000-8000-00000000000a"
HEX = "0197a2b011117000800000000000000a"
WAVE = "0197a2b0-2222-7000-8000-00000000000b"
INDEX = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}
PINNED = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['tidegate.io/task']"}}}


def group(*nodes: str, first: int = 0, number: int = 0) -> GroupSpec:
    return GroupSpec(
        group=number,
        tasks=tuple(TaskSpec(index=i, task=first + i, node=node) for i, node in enumerate(nodes)),
        resource="nvidia.com/gpu",
        units=8,
        cpu=4500,
        memory=2**34,
        image="registry.example/train:1",
    )


def launch(*groups: GroupSpec) -> Launch:
    return Launch(
        wave=WAVE,
        job=JOB,
        job_name="train llama",
        number=2,
        attempt=1,
        team="vision",
        queue="night shift",
        namespace="team-vision",
        gang=True,
        groups=groups,
        priority_class="normal",
        priority_value=100,
    )


def environment(job: dict[str, Any]) -> dict[str, Any]:
    """Return a container's variables by name, each as a value or as where it comes from."""
    entries = job["spec"]["template"]["spec"]["containers"][0]["env"]
    return {entry["name"]: entry.get("value", entry) for entry in entries}


def pod(job: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = job["spec"]["template"]["spec"]
    return spec


def test_one_task_is_one_pinned_pod() -> None:
    wanted = launch(group("gpu-1"))

    job = manifests.job(wanted, wanted.groups[0])

    labels = {
        "tidegate.io/job": JOB,
        "tidegate.io/wave": WAVE,
        "tidegate.io/team": "vision",
        "tidegate.io/group": "0",
    }
    annotations = {
        "tidegate.io/job-name": "train llama",
        "tidegate.io/team-name": "vision",
        "tidegate.io/queue-name": "night shift",
        "tidegate.io/attempt": "1",
    }
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}
    resources = {"cpu": "4500m", "memory": "17179869184", "nvidia.com/gpu": "8"}
    assert job["metadata"]["labels"].pop("tidegate.io/queue").startswith("night-shift-")
    assert job["spec"]["template"]["metadata"]["labels"].pop("tidegate.io/queue").startswith("night-shift-")
    assert job == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"tg-{HEX}-2-0",
            "namespace": "team-vision",
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "priorityClassName": "tidegate-normal-100",
                    "terminationGracePeriodSeconds": 30,
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
                        }
                    },
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.example/train:1",
                            "env": [
                                {"name": "TIDEGATE_JOB_ID", "value": JOB},
                                {"name": "TIDEGATE_ATTEMPT", "value": "1"},
                                {"name": "TIDEGATE_TASK_INDEX", "value": "0"},
                                {"name": "TIDEGATE_TASK_COUNT", "value": "1"},
                                {"name": "TIDEGATE_GPUS_PER_TASK", "value": "8"},
                            ],
                            "resources": {"requests": resources, "limits": resources},
                            "securityContext": {"allowPrivilegeEscalation": False},
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                        }
                    ],
                },
            },
        },
    }


def test_a_jobs_own_labels_are_on_its_pods_but_for_what_kubernetes_would_refuse_or_others_own() -> None:
    own = (
        ("team.example/run", "8f2c"),
        ("experiment", "a b"),
        ("kubernetes.io/x", "1"),
        ("batch.kubernetes.io/job-name", "1"),
        ("tidegate.io/wave", "stolen"),
        ("plain", "yes"),
    )
    wave = replace(launch(group("h1")), labels=own)

    template = manifests.job(wave, wave.groups[0])["spec"]["template"]

    labels = template["metadata"]["labels"]
    assert {key: labels.get(key) for key, _ in own} == {
        "team.example/run": "8f2c",
        "experiment": None,
        "kubernetes.io/x": None,
        "batch.kubernetes.io/job-name": None,
        "tidegate.io/wave": wave.wave,
        "plain": "yes",
    }


def test_a_gang_over_nodes_is_gated_and_knows_its_ranks() -> None:
    wanted = launch(group("gpu-1", "gpu-2"))

    job = manifests.job(wanted, wanted.groups[0])

    assert (job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["backoffLimit"]) == (2, 2, 0)
    assert pod(job)["schedulingGates"] == [{"name": "tidegate.io/placement"}]
    assert "affinity" not in pod(job)
    assert pod(job)["subdomain"] == f"tg-{HEX}-2"
    env = environment(job)
    assert env["MASTER_ADDR"] == f"tg-{HEX}-2-0-0.tg-{HEX}-2"
    assert (env["MASTER_PORT"], env["WORLD_SIZE"], env["TIDEGATE_TASK_COUNT"]) == ("29500", "2", "2")
    assert env["RANK"] == {"name": "RANK", **INDEX}
    assert env["TIDEGATE_TASK_INDEX"] == {"name": "TIDEGATE_TASK_INDEX", **INDEX}


def test_ranks_of_a_second_group_come_after_the_first() -> None:
    wanted = launch(group("gpu-1"), group("gpu-2", "gpu-2", first=1, number=1))

    head, workers = (manifests.job(wanted, each) for each in wanted.groups)

    assert environment(head)["RANK"] == "0"
    assert environment(workers)["RANK"] == {"name": "RANK", **PINNED}
    assert environment(head)["WORLD_SIZE"] == environment(workers)["WORLD_SIZE"] == "3"
    assert environment(workers)["MASTER_ADDR"] == f"tg-{HEX}-2-0-0.tg-{HEX}-2"
    assert pod(workers)["schedulingGates"] == [{"name": "tidegate.io/placement"}]
    assert workers["metadata"]["name"] == f"tg-{HEX}-2-1"


def test_a_gang_on_one_node_needs_no_gate() -> None:
    wanted = launch(group("gpu-1", "gpu-1"))

    job = manifests.job(wanted, wanted.groups[0])

    assert "schedulingGates" not in pod(job)
    assert "affinity" in pod(job)
    assert environment(job)["RANK"] == {"name": "RANK", **INDEX}


def test_independent_tasks_fail_alone_and_have_no_rendezvous() -> None:
    wanted = replace(launch(group("gpu-1", "gpu-1", first=4)), gang=False, task_count=100)

    job = manifests.job(wanted, wanted.groups[0])

    assert job["spec"]["backoffLimitPerIndex"] == 0
    assert "backoffLimit" not in job["spec"]
    assert "subdomain" not in pod(job)
    assert not {"MASTER_ADDR", "RANK", "WORLD_SIZE"} & environment(job).keys()
    assert environment(job)["TIDEGATE_TASK_INDEX"] == {"name": "TIDEGATE_TASK_INDEX", **PINNED}
    assert environment(job)["TIDEGATE_TASK_COUNT"] == "100"


@pytest.mark.parametrize(
    ("gang", "groups", "needed"),
    [
        (True, (group("a"),), False),
        (True, (group("a", "b"),), True),
        (True, (group("a"), group("b", first=1, number=1)), True),
        (False, (group("a", "b"),), False),
    ],
    ids=["one task", "two tasks", "two groups", "independent"],
)
def test_only_a_gang_of_more_than_one_needs_a_service(
    *, gang: bool, groups: tuple[GroupSpec, ...], needed: bool
) -> None:
    assert rendezvous.needs_service(replace(launch(*groups), gang=gang)) is needed


@pytest.mark.parametrize(
    ("placement", "nodes", "gated"),
    [
        (Placement.PIN, ("a", "a"), False),
        (Placement.PIN, ("a", "b"), True),
        (Placement.PREFER, ("a", "b"), True),
        (Placement.FREE, ("a", "b"), False),
    ],
)
def test_a_gate_stands_where_pods_have_to_be_told_apart(
    placement: Placement, nodes: tuple[str, ...], *, gated: bool
) -> None:
    wanted = replace(launch(group(*nodes)), placement=placement)

    assert steering.is_gated(wanted, wanted.groups[0]) is gated


def test_a_preferred_node_is_preferred() -> None:
    wanted = replace(launch(group("gpu-1")), placement=Placement.PREFER)

    job = manifests.job(wanted, wanted.groups[0])

    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}
    preferred = [{"weight": 100, "preference": term}]
    assert pod(job)["affinity"] == {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def test_a_free_task_has_no_affinity() -> None:
    wanted = replace(launch(group("gpu-1")), placement=Placement.FREE)

    assert "affinity" not in pod(manifests.job(wanted, wanted.groups[0]))


def test_what_a_group_asks_for_stands_in_its_pods() -> None:
    asked = replace(
        group("gpu-1"),
        shm=2**31,
        command=("python", "train.py"),
        args=("--fast",),
        env=(("LR", "0.1"),),
        secrets=("wandb", "s3"),
        node_labels=(("pool", "h100"),),
        tolerations=(Toleration(key="gpu", operator="Exists"), Toleration(operator="Exists", effect="NoSchedule")),
        annotations=(("example.com/note", "hello"),),
    )
    wanted = replace(launch(asked), grace_seconds=90, fence_seconds=3600)

    job = manifests.job(wanted, wanted.groups[0])

    container = pod(job)["containers"][0]
    assert (container["command"], container["args"]) == (["python", "train.py"], ["--fast"])
    assert container["envFrom"] == [{"secretRef": {"name": "wandb"}}, {"secretRef": {"name": "s3"}}]
    assert container["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108 - the container's
    assert pod(job)["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2147483648"}}]
    assert pod(job)["nodeSelector"] == {"pool": "h100"}
    assert pod(job)["tolerations"] == [
        {"key": "gpu", "operator": "Exists"},
        {"operator": "Exists", "effect": "NoSchedule"},
    ]
    assert pod(job)["terminationGracePeriodSeconds"] == 90
    assert job["spec"]["activeDeadlineSeconds"] == 3600
    assert job["spec"]["template"]["metadata"]["annotations"]["example.com/note"] == "hello"
    assert environment(job)["LR"] == "0.1"


def test_a_user_may_choose_the_rendezvous_but_not_who_the_task_is() -> None:
    asked = replace(group("a", "b"), env=(("MASTER_PORT", "1234"), ("TIDEGATE_JOB_ID", "mine"), ("MINE", "$(RANK)")))
    wanted = launch(asked)

    entries = pod(manifests.job(wanted, wanted.groups[0]))["containers"][0]["env"]

    values = [(entry["name"], entry.get("value")) for entry in entries]
    assert ("MASTER_PORT", "1234") in values
    assert ("TIDEGATE_JOB_ID", JOB) in values
    assert len({name for name, _ in values}) == len(values)
    assert [name for name, _ in values].index("RANK") < [name for name, _ in values].index("MINE")


@pytest.mark.parametrize(
    ("resource", "units", "requests"),
    [
        ("nvidia.com/gpu", 0, {"cpu": "4500m", "memory": "17179869184"}),
        ("nvidia.com/mig-1g.10gb", 2, {"cpu": "4500m", "memory": "17179869184", "nvidia.com/mig-1g.10gb": "2"}),
        ("cpu", 8, {"cpu": "8000m", "memory": "17179869184"}),
        ("cpu", 2, {"cpu": "4500m", "memory": "17179869184"}),
    ],
)
def test_the_counted_resource_may_be_any(resource: str, units: int, requests: dict[str, str]) -> None:
    wanted = launch(replace(group("a"), resource=resource, units=units))

    container = pod(manifests.job(wanted, wanted.groups[0]))["containers"][0]

    assert container["resources"] == {"requests": requests, "limits": requests}


def test_the_service_is_headless_and_belongs_to_the_first_job() -> None:
    wanted = launch(group("a", "b"))
    owner = {**manifests.job(wanted, wanted.groups[0])}
    owner["metadata"] = {**owner["metadata"], "uid": "u-1"}

    service = manifests.service(wanted, owner=owner)

    assert service["metadata"]["name"] == f"tg-{HEX}-2"
    assert service["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": f"tg-{HEX}-2-0", "uid": "u-1"}
    ]
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"tidegate.io/wave": WAVE},
        "ports": [{"name": "rendezvous", "port": 29500}],
    }


def test_a_namespace_and_its_fence() -> None:
    assert manifests.namespace("team-vision", team="Vision & more")["metadata"]["annotations"] == {
        "tidegate.io/team-name": "Vision & more"
    }
    assert manifests.fence("team-vision", ceiling={"nvidia.com/gpu": 16, "cpu": 4}) == {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tidegate-fence", "namespace": "team-vision"},
        "spec": {"hard": {"requests.cpu": "4", "requests.nvidia.com/gpu": "16"}},
    }


@pytest.mark.parametrize(
    ("value", "mirrored"), [(0, 0), (-5, -5), (10**9, 10**9), (10**12, 10**9), (-(10**12), -(2**31))]
)
def test_a_priority_stays_within_what_kubernetes_leaves_to_users(value: int, mirrored: int) -> None:
    made = manifests.priority_class("urgent", value)

    assert made["metadata"]["name"] == names.priority_class_name("urgent", value)
    assert (made["value"], made["preemptionPolicy"]) == (mirrored, "Never")


def test_a_pin_narrows_tells_and_releases_in_one_patch() -> None:
    patch = manifests.release(Pin(namespace="n", pod="p", node="gpu-1", task=7))

    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}
    assert patch == {
        "metadata": {"annotations": {"tidegate.io/task": "7"}},
        "spec": {
            "schedulingGates": [{"$patch": "delete", "name": "tidegate.io/placement"}],
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            },
        },
    }


def test_the_first_wave_of_an_elastic_job_brings_the_place_at_which_all_tasks_meet() -> None:
    wanted = replace(launch(group("gpu-1", "gpu-2")), elastic=Elastic(least=2, most=6, first=2), task_count=6)

    job = manifests.job(wanted, wanted.groups[0])
    service = manifests.service(wanted, owner={"metadata": {"name": "x", "uid": "y"}})

    told = environment(job)
    assert (told["TIDEGATE_TASK_COUNT"], told["TIDEGATE_MIN_TASKS"], told["TIDEGATE_MAX_TASKS"]) == ("6", "2", "6")
    assert told["MASTER_ADDR"] == f"tg-{HEX}-2-0-0.tg-{HEX}-2"
    assert not told.keys() & {"WORLD_SIZE", "RANK"}
    assert job["spec"]["backoffLimit"] == 0
    assert service["spec"]["selector"] == {"tidegate.io/job": JOB}


def test_surplus_of_an_elastic_job_meets_the_first_wave_and_each_task_ends_alone() -> None:
    bounds = Elastic(least=2, most=6, first=2)
    wanted = replace(launch(group("gpu-3", "gpu-3", first=2)), number=5, gang=False, elastic=bounds, task_count=6)

    job = manifests.job(wanted, wanted.groups[0])

    told = environment(job)
    assert (job["metadata"]["name"], pod(job)["subdomain"]) == (f"tg-{HEX}-5-0", f"tg-{HEX}-2")
    assert told["MASTER_ADDR"] == f"tg-{HEX}-2-0-0.tg-{HEX}-2"
    assert told["TIDEGATE_TASK_INDEX"] == {"name": "TIDEGATE_TASK_INDEX", **PINNED}
    assert job["spec"]["backoffLimitPerIndex"] == 0
    assert pod(job)["schedulingGates"] == [{"name": "tidegate.io/placement"}]
    assert not rendezvous.needs_service(wanted)
