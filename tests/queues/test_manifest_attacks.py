"""What people might write to get past the queue or their rights: it is refused where it stands, or does nothing."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from clusters import kinds, raw
from queues import spec
from tenants.allowances import Allowance
from tenants.errors import Invalid
from tests.queues import manifests
from tests.queues.lab import compact
from tests.queues.manifests import GPU
from tests.queues.test_spec_manifest import errors, launched, names, read

POD = ("spec", "template", "spec")
MAIN = (*POD, "containers", 0)


def changed(manifest: dict[str, Any], path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """Return a manifest with another value at a path, whatever is missing on the way made."""
    found = deepcopy(manifest)
    above: Any = found
    for key in path[:-1]:
        above = above.setdefault(key, {}) if isinstance(above, dict) else above[key]
    above[path[-1]] = value
    return found


def refused(manifest: dict[str, Any]) -> dict[str, str]:
    return {pointer: error.detail for pointer, error in errors(manifest).items()}


PROBE = {"httpGet": {"host": "169.254.169.254", "port": 80}}
TOKEN = {"serviceAccountToken": {"path": "token", "audience": "cloud"}}


@pytest.mark.parametrize(
    ("path", "value", "pointer", "allowance"),
    [
        ((*POD, "automountServiceAccountToken"), True, None, "service_accounts"),
        ((*POD, "runtimeClassName"), "nvidia", None, "runtime_classes"),
        (
            (*POD, "volumes"),
            [{"name": "a", "projected": {"sources": [TOKEN]}}],
            "/volumes/0/projected/sources/0/serviceAccountToken",
            "service_accounts",
        ),
        ((*MAIN, "livenessProbe"), PROBE, "/livenessProbe/httpGet/host", "host_namespaces"),
        ((*MAIN, "lifecycle"), {"preStop": PROBE}, "/lifecycle/preStop/httpGet/host", "host_namespaces"),
        ((*MAIN, "securityContext"), {"appArmorProfile": {"type": "Unconfined"}}, "/appArmorProfile", "privileged"),
        ((*MAIN, "securityContext"), {"capabilities": {"add": ["ALL"]}}, "/capabilities/add/0", "capabilities"),
        (
            ("spec", "template", "metadata", "annotations"),
            {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"},
            "/annotations/container.apparmor.security.beta.kubernetes.io~1main",
            "privileged",
        ),
    ],
)
def test_what_needs_an_allowance_is_refused_without_it(
    path: tuple[str | int, ...], value: object, pointer: str | None, allowance: str
) -> None:
    manifest = changed(manifests.job(), path, value)

    found = refused(manifest)

    (where,) = found
    assert where.endswith(pointer or str(path[-1]))
    assert f"({allowance})" in found[where]
    assert read(manifest, allows=frozenset({Allowance(allowance)})).tasks == 1


@pytest.mark.parametrize("part", ["containers", "initContainers"])
def test_init_containers_are_looked_at_as_containers_are(part: str) -> None:
    bad = {"name": "b", "image": "b", "securityContext": {"privileged": True}}
    manifest = manifests.job()
    pod = manifest["spec"]["template"]["spec"]
    pod[part] = [*pod.get(part, []), bad]

    (where,) = refused(manifest)

    assert where == f"/spec/template/spec/{part}/{len(pod[part]) - 1}/securityContext/privileged"


@pytest.mark.parametrize(
    ("path", "value", "pointer"),
    [
        ((*POD, "ephemeralContainers"), [{"name": "a"}], "/ephemeralContainers"),
        ((*POD, "resourceClaims"), [{"name": "a"}], "/resourceClaims"),
        ((*POD, "resources"), {"limits": {GPU: 8}}, "/resources"),
        ((*POD, "overhead"), {"cpu": "1"}, "/overhead"),
        ((*POD, "volumes"), {"a": {"hostPath": {"path": "/"}}}, "/volumes"),
        ((*POD, "volumes"), [{"name": "a", "csi": {"driver": "b"}}], "/volumes/0/csi"),
        (
            (*POD, "volumes"),
            [{"name": "a", "projected": {"sources": [{"podCertificate": {"signerName": "b"}}]}}],
            "/volumes/0/projected/sources/0/podCertificate",
        ),
        ((*POD, "securityContext"), {"Privileged": True}, "/securityContext/Privileged"),
        ((*POD, "securityContext"), {"windowsOptions": {"hostProcess": True}}, "/securityContext/windowsOptions"),
        ((*MAIN, "securityContext"), {"capabilities": {"add": "SYS_ADMIN"}}, "/securityContext/capabilities/add"),
        ((*MAIN, "env"), [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], "/env/0"),
        ((*MAIN, "env"), [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {}}}], "/env/0"),
        ((*POD, "tolerations"), [{"operator": "Exists"}], "/tolerations/0"),
        (
            (*POD, "tolerations"),
            [{"key": "a"}, {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
            "/tolerations/1",
        ),
        ((*POD, "tolerations"), [{"key": "node.kubernetes.io/unschedulable"}], "/tolerations/0"),
        (("spec", "template", "metadata", "finalizers"), ["a.example/b"], "/spec/template/metadata/finalizers"),
        (("spec", "template", "metadata", "ownerReferences"), [{"uid": "a"}], "/metadata/ownerReferences"),
        (("metadata", "ownerReferences"), [{"uid": "a"}], "/metadata/ownerReferences"),
    ],
)
def test_what_no_team_may_say_is_refused_where_it_stands(
    path: tuple[str | int, ...], value: object, pointer: str
) -> None:
    manifest = changed(manifests.job(), path, value)

    (where,) = refused(manifest)

    assert where.endswith(pointer)
    with pytest.raises(Invalid):
        read(manifest, allows=frozenset(Allowance))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*POD, "hostUsers"), False),
        ((*POD, "automountServiceAccountToken"), False),
        ((*POD, "tolerations"), [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]),
        ((*POD, "tolerations"), [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]),
        ((*MAIN, "env"), [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]),
        ((*MAIN, "readinessProbe"), {"httpGet": {"port": 80}}),
        ((*MAIN, "securityContext"), {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False}),
        (("spec", "template", "metadata", "creationTimestamp"), None),
    ],
)
def test_what_makes_a_pod_safer_or_is_usual_is_taken(path: tuple[str | int, ...], value: object) -> None:
    assert read(changed(manifests.job(), path, value)).tasks == 1


def test_cards_of_another_gpu_type_are_not_had_beside_those_that_are_counted() -> None:
    manifest = manifests.job(units=1)
    manifest["spec"]["template"]["spec"]["containers"].append(
        {"name": "b", "image": "b", "resources": {"limits": {"nvidia.com/mig-1g.10gb": 7}}}
    )

    (detail,) = refused(manifest).values()

    assert "one of nvidia.com/gpu, nvidia.com/mig-1g.10gb" in detail


WORKERS = ("spec", "rayClusterSpec", "workerGroupSpecs", 0)
HEAD = ("spec", "rayClusterSpec", "headGroupSpec")
REPLICATED = ("spec", "replicatedJobs", 0)


@pytest.mark.parametrize(
    ("manifest", "path", "value", "pointer"),
    [
        (manifests.ray_job(), (*WORKERS, "scaleStrategy"), {"workersToDelete": ["a"]}, "/0/scaleStrategy"),
        (manifests.ray_job(), (*HEAD, "serviceType"), "LoadBalancer", "/headGroupSpec/serviceType"),
        (manifests.ray_job(), (*HEAD, "headService"), {"spec": {"a": 1}}, "/headGroupSpec/headService"),
        (manifests.ray_job(), ("spec", "submitterPodTemplate"), manifests.pod(), "/spec/submitterPodTemplate"),
        (manifests.ray_job(), ("spec", "rayClusterSpec", "gcsFaultToleranceOptions"), {"a": 1}, "ToleranceOptions"),
        (manifests.ray_job(), ("spec", "rayClusterSpec", "enableInTreeAutoscaling"), True, "InTreeAutoscaling"),
        (
            manifests.ray_job(),
            (*HEAD, "template", "spec", "hostNetwork"),
            True,
            "/headGroupSpec/template/spec/hostNetwork",
        ),
        (manifests.train_job(), ("spec", "podSpecOverrides"), [{"hostNetwork": True}], "/spec/podSpecOverrides"),
        (manifests.train_job(), ("spec", "runtimeRef", "kind"), "TrainingRuntime", "/spec/runtimeRef/kind"),
        (manifests.train_job(), ("spec", "trainer", "numNodes"), None, "/spec/trainer/numNodes"),
        (
            manifests.train_job(),
            ("spec", "trainer", "env"),
            [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
            "/spec/trainer/env/0",
        ),
        (
            manifests.job_set(parts={"a": (1, 1, 1)}),
            (*REPLICATED, "template", "spec", "manualSelector"),
            True,
            "/template/spec/manualSelector",
        ),
        (
            manifests.job_set(parts={"a": (1, 1, 1)}),
            (*REPLICATED, "template", "metadata", "annotations"),
            {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"},
            "/annotations/alpha.jobset.sigs.k8s.io~1exclusive-topology",
        ),
        (
            manifests.pytorch_job(),
            ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec", "hostPID"),
            True,
            "/Worker/template/spec/hostPID",
        ),
        (manifests.pytorch_job(), ("spec", "elasticPolicy"), {"maxReplicas": 99}, "/spec/elasticPolicy"),
        (
            manifests.mpi_job(version="v2beta1"),
            ("spec", "mpiReplicaSpecs", "Launcher", "template", "spec", "hostIPC"),
            True,
            "/Launcher/template/spec/hostIPC",
        ),
    ],
)
def test_what_hides_pods_or_changes_their_number_is_refused_where_it_stands(
    manifest: dict[str, Any], path: tuple[str | int, ...], value: object, pointer: str
) -> None:
    found = refused(changed(manifest, path, value))

    (where,) = found
    assert where.endswith(pointer)


def sent(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is sent to the cluster."""
    launch = launched(read(manifest))
    assert launch.raw is not None
    return raw.new(launch, launch.raw)


def test_a_ray_group_is_counted_with_its_hosts_and_runs_no_more_than_was_counted() -> None:
    manifest = changed(manifests.ray_job(), (*WORKERS, "numOfHosts"), 3)
    manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"][0] |= {"minReplicas": 50, "maxReplicas": 90}

    (group,) = read(manifest).groups
    (workers,) = sent(manifest)["spec"]["rayClusterSpec"]["workerGroupSpecs"]

    assert group.tasks == 6
    assert [workers[key] for key in ("replicas", "minReplicas", "maxReplicas", "numOfHosts")] == [2, 2, 2, 3]


FORGED = {"tidegate.io/wave": "forged", "tidegate.io/job": "forged", "kueue.x-k8s.io/queue-name": "a", "mine": "b"}


@pytest.mark.parametrize(
    ("manifest", "path"),
    [
        (manifests.job(), ("metadata", "labels")),
        (manifests.job(), ("spec", "template", "metadata", "labels")),
        (manifests.job_set(parts={"a": (1, 1, 1)}), (*REPLICATED, "template", "metadata", "labels")),
        (manifests.train_job(), ("spec", "labels")),
        (manifests.train_job(), ("spec", "annotations")),
    ],
)
def test_labels_of_ours_or_another_queues_cannot_be_forged_anywhere(
    manifest: dict[str, Any], path: tuple[str | int, ...]
) -> None:
    forged = {key: value for key, value in FORGED.items() if path[0] != "metadata" or "kueue" not in key}

    made = sent(changed(manifest, path, forged))

    found: Any = made
    for key in path:
        found = found[key]
    assert "forged" not in found.values()
    assert not any(key.startswith("kueue") for key in found)
    assert found["mine"] == "b"


def test_a_runtime_of_the_namespace_is_for_teams_that_may_run_anything() -> None:
    manifest = changed(manifests.train_job(), ("spec", "runtimeRef", "kind"), "TrainingRuntime")

    assert spec.read(manifest, names(allows=frozenset({Allowance.PRIVILEGED}))).tasks == 2
    assert kinds.kind_of(manifest) is kinds.TRAIN_JOB


@pytest.mark.parametrize(("key", "value"), [("env", "all"), ("env", "none"), ("secret_env", "a/b")])
def test_a_spec_gives_no_cards_past_those_that_are_counted(key: str, value: str) -> None:
    given = compact(run={"image": "a", "command": ["b"], key: {"NVIDIA_VISIBLE_DEVICES": value}})

    if value == "none":
        assert spec.read(given, names()).tasks == 1
    else:
        assert f"/spec/run/{key}/NVIDIA_VISIBLE_DEVICES" in errors(given)
