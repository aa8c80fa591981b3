"""What people install into a cluster beside Kubernetes: definitions of job kinds, and the real JobSet controller."""

import base64
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from clusters.asking import Failure
from clusters.kube import KubeCluster
from clusters.port import ClusterError
from tests.clusters.waiting import until
from tests.kubernetes import build
from tests.kubernetes.controlplane import PARENT_VARIABLE, ControlPlane, free_ports

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
MPI = "kubeflow.org_mpijobs.yaml"
FILES = (
    "jobset.x-k8s.io_jobsets.yaml",
    "trainer.kubeflow.org_trainjobs.yaml",
    "kubeflow.org_pytorchjobs.yaml",
    MPI,
    "ray.io_rayjobs.yaml",
)
START_SECONDS = 180.0


@contextmanager
def operators(plane: ControlPlane, cluster: KubeCluster, folder: Path) -> Iterator[None]:
    """Install all definitions, and run the JobSet controller with its webhooks while the context lasts."""
    definitions = [_read(build.OPERATORS, name) for name in FILES]
    for definition in definitions:
        cluster.api.ask("create", DEFINITIONS, body=definition)
    for definition in definitions:
        _wait_until_served(cluster, definition)
    hook, probe = free_ports(2)
    for source, target in (("apiserver.crt", "tls.crt"), ("apiserver.key", "tls.key")):
        (folder / target).write_bytes((plane.authority.parent / source).read_bytes())
    with (folder / "operators.log").open("wb") as log:
        process = subprocess.Popen(
            [build.OPERATORS.binary, str(hook), str(folder), str(probe)],
            env={**os.environ, "KUBECONFIG": str(plane.kubeconfig), PARENT_VARIABLE: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait_until_ready(process, probe, folder / "operators.log")
        for body in _hooks(plane.authority, hook):
            plural = f"{body['kind'].lower()}s"
            cluster.api.ask("create", f"{HOOKS}/{plural}", body=body)
        yield
    finally:
        process.kill()
        process.wait(60)


@contextmanager
def mpi_operator(cluster: KubeCluster) -> Iterator[None]:
    """Let the cluster serve MPIJobs as the MPI operator defines them, instead of the training operator's."""
    address = f"{DEFINITIONS}/mpijobs.kubeflow.org"
    (theirs,) = _read(build.MPI_OPERATOR, MPI)["spec"]["versions"]
    there = cluster.api.ask("get", address)["spec"]["versions"]
    before = [version for version in there if version["name"] != theirs["name"]]
    # What is stored has the fields of one version: that which is served.
    _serve(cluster, address, [*({**old, "served": False, "storage": False} for old in before), theirs])
    try:
        yield
    finally:
        _serve(cluster, address, [*before, {**theirs, "served": False, "storage": False}])


def _serve(cluster: KubeCluster, address: str, versions: list[dict[str, Any]]) -> None:
    """Write the versions of MPIJobs, and wait until the one that is to be served can be listed again."""
    body = {"spec": {"versions": versions}}
    cluster.api.ask("patch", address, body=body, media="application/merge-patch+json")
    (served,) = (version["name"] for version in versions if version["served"])

    def listed() -> bool:
        try:
            cluster.api.ask("list", f"/apis/kubeflow.org/{served}/mpijobs")
        except (Failure, ClusterError):
            # 404 at first, and 429 while its storage begins.
            return False
        return True

    until(listed, seconds=START_SECONDS)


def _read(program: build.Program, name: str) -> dict[str, Any]:
    found = _plain(yaml.load((program.definitions / name).read_text(), Loader=yaml.CSafeLoader))
    return dict(found)


def _plain(value: Any) -> Any:  # noqa: ANN401  any YAML value
    """Return a schema without its texts: an API server that has to make less of it is ready sooner."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _plain(each) for key, each in value.items() if key != "description" or isinstance(each, dict)}


def _wait_until_served(cluster: KubeCluster, definition: dict[str, Any]) -> None:
    spec = definition["spec"]
    version, plural = spec["versions"][0]["name"], spec["names"]["plural"]

    def served() -> bool:
        try:
            found = cluster.api.ask("get", f"/apis/{spec['group']}/{version}")
        except Failure:
            return False
        return any(resource["name"] == plural for resource in found["resources"])

    until(served, seconds=START_SECONDS)


def _hooks(authority: Path, port: int) -> Iterator[dict[str, Any]]:
    """Yield the module's webhooks, called at a port of this machine."""
    bundle = base64.b64encode(authority.read_bytes()).decode()
    for body in yaml.safe_load_all((build.OPERATORS.definitions / "manifests.yaml").read_text()):
        body["metadata"]["name"] = f"jobset-{body['metadata']['name']}"
        for hook in body["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
            if "pods" in hook["rules"][0]["resources"]:
                ours = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
                hook["objectSelector"] = {"matchExpressions": [ours]}
        yield json.loads(json.dumps(body))


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while not _is_ready(port):
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the operators did not start:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
