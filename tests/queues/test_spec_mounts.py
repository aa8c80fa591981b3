"""What a task mounts, takes from Secrets by reference, and does before it ends."""

from dataclasses import replace
from typing import Any

import pytest

from clusters import manifests
from clusters.port import Mount
from queues import spec
from queues.spec import Volume
from tenants.allowances import Allowance
from tenants.errors import FieldError, Invalid
from tests.clusters.test_manifests import group, launch
from tests.queues.lab import compact
from tests.queues.test_spec import catalog

GI = 2**30
IMAGE = "reg.example/train:1"


def names(*allows: Allowance) -> spec.Catalog:
    plain = catalog()
    return replace(plain, teams=tuple(replace(team, allows=frozenset(allows)) for team in plain.teams))


def read(*allows: Allowance, **run: Any) -> spec.Spec:  # noqa: ANN401  fields of run
    return spec.read(compact(run={"image": IMAGE, **run}), names(*allows))


def errors(**run: Any) -> dict[str, FieldError]:  # noqa: ANN401  fields of run
    with pytest.raises(Invalid) as caught:
        read(**run)
    return {error.pointer: error for error in caught.value.fields}


def test_everything_is_read_and_reads_back_from_what_is_stored() -> None:
    found = read(
        Allowance.SERVICE_ACCOUNTS,
        Allowance.HOST_PATH,
        secret_env={"HF_TOKEN": "hf/token"},
        pull_secrets=["registry"],
        pre_stop=["sh", "-c", "save"],
        service_account="robot",
        volumes=[
            {"path": "/data", "claim": "datasets", "read_only": True},
            {"path": "/scratch", "size": "100Gi"},
            {"path": "/fast", "size": "1Gi", "memory": True},
            {"path": "/ib", "host": "/dev/infiniband"},
        ],
    )

    run = found.groups[0].run
    assert run.secret_env == (("HF_TOKEN", "hf/token"),)
    assert (run.pull_secrets, run.pre_stop, run.service_account) == (("registry",), ("sh", "-c", "save"), "robot")
    assert run.volumes == (
        Volume(path="/data", claim="datasets", read_only=True),
        Volume(path="/scratch", size=100 * GI),
        Volume(path="/fast", size=GI, memory=True),
        Volume(path="/ib", host="/dev/infiniband"),
    )
    assert spec.runs(spec.to_json(found)) == (run,)


@pytest.mark.parametrize(
    ("run", "pointer", "words"),
    [
        ({"secret_env": {"HF": "token"}}, "/spec/run/secret_env/HF", "SECRET/KEY"),
        ({"secret_env": {"1": "a/b"}}, "/spec/run/secret_env/1", "not starting with a digit"),
        ({"secret_env": ["a/b"]}, "/spec/run/secret_env", "not a list"),
        ({"secret_env": {"TIDEGATE_X": "a/b"}}, "/spec/run/secret_env/TIDEGATE_X", "set by Tidegate"),
        ({"env": {"A": "b"}, "secret_env": {"A": "b/c"}}, "/spec/run/secret_env/A", "in env too"),
        ({"service_account": "robot"}, "/spec/run/service_account", "service_accounts"),
        ({"volumes": {"path": "/a"}}, "/spec/run/volumes", "a list"),
        ({"volumes": [{"path": "/a"}]}, "/spec/run/volumes/0", "one of claim, size and host"),
        ({"volumes": [{"path": "/a", "size": "1Gi", "claim": "b"}]}, "/spec/run/volumes/0", "one of claim"),
        ({"volumes": [{"path": "a", "size": "1Gi"}]}, "/spec/run/volumes/0/path", "absolute path"),
        ({"volumes": [{"path": "/a", "size": "many"}]}, "/spec/run/volumes/0/size", "100Gi"),
        ({"volumes": [{"path": "/a", "host": "/dev"}]}, "/spec/run/volumes/0/host", "host_path"),
        ({"volumes": [{"path": "/a", "claim": "b", "memory": True}]}, "/spec/run/volumes/0/memory", "scratch space"),
        (
            {"volumes": [{"path": "/a", "size": 1}, {"path": "/a", "size": 1}]},
            "/spec/run/volumes/1/path",
            "two volumes",
        ),
        ({"volumes": [{"path": "/a", "size": 1, "odd": 1}]}, "/spec/run/volumes/0/odd", "no field odd"),
    ],
)
def test_what_is_wrong_is_told_where_it_stands(run: dict[str, Any], pointer: str, words: str) -> None:
    assert words in errors(**run)[pointer].detail


def test_all_of_it_stands_in_the_pods() -> None:
    asked = replace(
        group("gpu-1"),
        shm=GI,
        env=(("A", "b"),),
        secret_env=(("HF_TOKEN", "hf/token"),),
        pull_secrets=("registry",),
        pre_stop=("save",),
        service_account="robot",
        mounts=(
            Mount(path="/data", claim="datasets", read_only=True),
            Mount(path="/scratch", size=GI),
            Mount(path="/ib", host="/dev/infiniband"),
        ),
    )
    wanted = launch(asked)

    pod = manifests.job(wanted, asked)["spec"]["template"]["spec"]

    container = pod["containers"][0]
    assert container["env"][-1] == {
        "name": "HF_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}},
    }
    assert container["lifecycle"] == {"preStop": {"exec": {"command": ["save"]}}}
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("robot", True)
    assert pod["volumes"] == [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(GI)}},
        {"name": "volume-1", "persistentVolumeClaim": {"claimName": "datasets"}},
        {"name": "volume-2", "emptyDir": {"sizeLimit": str(GI)}},
        {"name": "volume-3", "hostPath": {"path": "/dev/infiniband"}},
    ]
    assert [(row["mountPath"], row.get("readOnly", False)) for row in container["volumeMounts"]] == [
        ("/dev/shm", False),  # noqa: S108  the container's
        ("/data", True),
        ("/scratch", False),
        ("/ib", False),
    ]
