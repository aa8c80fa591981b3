"""What a spec says its pods carry, from the spec to the pod that a cluster has taken."""

from dataclasses import replace
from typing import Any

import pytest

from clusters.port import TaskSpec
from queues import spec
from queues.launches import group_of
from queues.models import TaskGroup
from tenants.allowances import Allowance
from tenants.errors import Invalid
from tenants.models import Flavor
from tests.clusters.contract.ground import GIB, GPU, Ground
from tests.clusters.waiting import until
from tests.queues.lab import compact
from tests.queues.test_spec import catalog

IMAGE = "registry.example/train:1"
VOLUMES = [
    {"path": "/data", "claim": "datasets", "read_only": True},
    {"path": "/scratch", "size": "100Gi"},
    {"path": "/fast", "size": "1Gi", "memory": True},
    {"path": "/ib", "host": "/dev/infiniband"},
]


def read(*allows: Allowance, **run: Any) -> spec.Run:  # noqa: ANN401  fields of run
    """Read what runs from a spec of a team with these allowances."""
    names = catalog()
    teams = tuple(replace(team, allows=frozenset(allows)) for team in names.teams)
    found = spec.read(compact(run={"image": IMAGE, **run}), replace(names, teams=teams))
    return found.groups[0].run


def pod(ground: Ground, run: spec.Run) -> dict[str, Any]:
    """Launch one task that runs this, and return the spec of its pod."""
    row = TaskGroup(index=0, name="", tasks=1, units=1, cpu_milli=1000, memory=2 * GIB, node_labels={})
    flavor = Flavor(resource=GPU, node_labels={}, tolerations=[])
    task = TaskSpec(index=0, task=0, node=ground.node())
    launch = ground.launch(group_of(row, run, flavor, (task,)))
    ground.cluster.launch(launch)
    name = until(lambda: ground.pods(launch))[0].name
    found: dict[str, Any] = ground.send("get", f"/api/v1/namespaces/{ground.namespace}/pods/{name}")["spec"]
    return found


def account(ground: Ground, name: str) -> None:
    """Make a service account; a real cluster creates no pod of one that is not there."""
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    ground.send("create", f"/api/v1/namespaces/{ground.namespace}/serviceaccounts", body=body)


def test_volumes_are_mounted_each_from_its_source(ground: Ground) -> None:
    found = pod(ground, read(Allowance.HOST_PATH, volumes=VOLUMES))

    (container,) = found["containers"]
    sources = {volume.pop("name"): volume for volume in found["volumes"]}
    mounted = {each["mountPath"]: each for each in container["volumeMounts"]}
    by_path = {path: sources[each["name"]] for path, each in mounted.items()}
    assert by_path["/data"]["persistentVolumeClaim"]["claimName"] == "datasets"
    assert by_path["/scratch"] == {"emptyDir": {"sizeLimit": str(100 * GIB)}}
    assert by_path["/fast"] == {"emptyDir": {"medium": "Memory", "sizeLimit": str(GIB)}}
    assert by_path["/ib"]["hostPath"]["path"] == "/dev/infiniband"
    assert {path for path, each in mounted.items() if each.get("readOnly")} == {"/data"}


def test_variables_come_from_keys_of_secrets_and_no_value_is_written(ground: Ground) -> None:
    found = pod(ground, read(secret_env={"HF_TOKEN": "hf/token"}))

    (variable,) = [each for each in found["containers"][0]["env"] if each["name"] == "HF_TOKEN"]
    assert variable == {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}


def test_images_are_pulled_with_the_secrets_that_are_named(ground: Ground) -> None:
    assert pod(ground, read(pull_secrets=["registry", "mirror"]))["imagePullSecrets"] == [
        {"name": "registry"},
        {"name": "mirror"},
    ]


def test_a_command_runs_before_the_pod_ends(ground: Ground) -> None:
    (container,) = pod(ground, read(pre_stop=["sh", "-c", "save"]))["containers"]

    assert container["lifecycle"] == {"preStop": {"exec": {"command": ["sh", "-c", "save"]}}}


def test_an_allowed_service_account_is_the_pods_and_brings_its_token(ground: Ground) -> None:
    account(ground, "robot")

    found = pod(ground, read(Allowance.SERVICE_ACCOUNTS, service_account="robot"))

    assert (found["serviceAccountName"], found["automountServiceAccountToken"]) == ("robot", True)


def test_a_pod_that_names_nothing_has_no_token_and_nothing_of_the_node(ground: Ground) -> None:
    found = pod(ground, read())

    assert (found["serviceAccountName"], found["automountServiceAccountToken"]) == ("default", False)
    assert found.get("volumes", []) == []
    assert not any(found.get(key) for key in ("hostNetwork", "hostPID", "hostIPC", "imagePullSecrets"))
    assert found["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False}


@pytest.mark.parametrize(
    ("run", "pointer"),
    [
        ({"volumes": [{"path": "/ib", "host": "/dev/infiniband"}]}, "/spec/run/volumes/0/host"),
        ({"service_account": "robot"}, "/spec/run/service_account"),
    ],
)
def test_without_an_allowance_there_is_no_such_spec_to_make_a_pod_of(run: dict[str, Any], pointer: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(**run)

    assert [(error.pointer, error.code) for error in caught.value.fields] == [(pointer, "not_allowed")]
