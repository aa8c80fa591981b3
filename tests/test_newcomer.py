"""What a newcomer finds in the checkout fits together: files, names, variables, rights."""

import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from clusters.emulator import Emulator
from clusters.emulator.world import demo
from clusters.kinds import KINDS
from clusters.kube import KubeCluster, connect
from clusters.port import GroupSpec, Launch, Pin, Placement, RawObject, TaskSpec, WaveRef
from queues.admission.reasons import Code
from queues.states import JobState
from tests.queues.manifests import job as kube_job

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("platform", "tenants", "queues", "tests/servers.py", "docker-compose.yml", "Makefile", ".ci/run")
READ = re.compile(r"\b((?:TIDEGATE|DATABASE|REDIS)_[A-Z_]+)\b")
# Named in prose or made by the supervisor for its own children.
NOT_FOR_PEOPLE = {"TIDEGATE_RUN"}


def text(name: str) -> str:
    return (ROOT / name).read_text()


def documents(name: str) -> list[dict[str, Any]]:
    return [found for found in yaml.safe_load_all(text(name)) if found]


def manifests() -> list[dict[str, Any]]:
    return [
        found
        for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
        for found in documents(str(path.relative_to(ROOT)))
    ]


def read_variables() -> set[str]:
    """Return the variables that the code asks the environment for."""
    asks = re.compile(r"(?:env|env_flag|environ\.get|getenv)\(\s*\"([A-Z_]+)\"|environ\[\"([A-Z_]+)\"\]|\$\{([A-Z_]+)")
    found: set[str] = set()
    for source in SOURCES:
        path = ROOT / source
        for file in [path] if path.is_file() else path.rglob("*.py"):
            found |= {name for match in asks.findall(file.read_text()) for name in match if READ.fullmatch(name)}
    return found - NOT_FOR_PEOPLE


def test_env_example_names_every_variable_that_is_read_and_no_other() -> None:
    lines = text(".env.example").splitlines()
    named = {match[1] for line in lines if (match := re.match(r"#?([A-Z_]+)=", line))}

    assert named == read_variables()


def test_each_variable_in_env_example_has_a_line_that_explains_it() -> None:
    lines = text(".env.example").splitlines()

    for before, line in pairwise(lines):
        if re.match(r"#?[A-Z_]+=", line):
            assert re.match(r"# \S", before), line


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_file_has_hashes_for_every_package_and_names_no_host(lock: str) -> None:
    packages = re.split(r"\n(?=\S)", text(lock).strip())

    assert len(packages) > 50
    for package in packages:
        assert re.match(r"[\w.-]+==\S+", package), package[:80]
        assert "--hash=sha256:" in package, package[:80]
    assert "://" not in text(lock)
    assert "index" not in re.sub(r"==.*", "", text(lock))


def names_in(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=; ]", each)[0].lower().replace("_", "-") for each in requirements}


def test_the_lock_files_hold_what_pyproject_asks_for_and_development_holds_all() -> None:
    project = tomllib.loads(text("pyproject.toml"))
    run, dev = (
        dict(re.findall(r"^([\w.-]+)==([^ ;\\]+)", text(name), re.MULTILINE))
        for name in ("requirements.lock", "requirements-dev.lock")
    )

    assert names_in(project["project"]["dependencies"]) <= run.keys()
    assert names_in(project["dependency-groups"]["dev"]) <= dev.keys()
    assert run.items() <= dev.items()


def test_each_dependency_says_what_it_is_for() -> None:
    block = text("pyproject.toml").partition("[tool.")[0]

    wanted = [line for line in block.splitlines() if re.match(r'\s+"[a-z]', line)]
    assert len(wanted) > 15
    # The types of a package that is explained speak for themselves.
    silent = [line for line in wanted if "#" not in line and not re.search(r"stubs|types|mypy|pytest\"", line)]
    assert silent == []


def test_readme_begins_with_the_two_commands() -> None:
    first = re.search(r"```sh\n(.*?)```", text("README.md"), re.DOTALL)

    assert first is not None
    commands = [line.split("#")[0].strip() for line in first[1].strip().splitlines()]
    assert commands == ["make run", "make test"]


def test_every_make_target_and_file_that_the_documents_name_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))

    for name in ("README.md", "docs/operations.md", "docs/decisions.md", "docs/semantics.md"):
        said = set(re.findall(r"`make ([a-z-]+)", text(name)))
        assert said <= targets, name
        for link in re.findall(r"\]\(([^)#]+)\)", text(name)):
            if "://" not in link:
                assert ((ROOT / name).parent / link).exists(), f"{name}: {link}"


def test_the_semantics_name_every_reason_for_waiting_and_every_state() -> None:
    said = text("docs/semantics.md")

    assert [code for code in Code if f"`{code}`" not in said] == []
    assert [state for state in JobState if state not in said] == []


def test_readme_names_the_demos_logins() -> None:
    from queues.demo.cast import LOGINS  # noqa: PLC0415  only this test needs Django's apps

    for login in LOGINS:
        assert f"| `{login.name}` |" in text("README.md")


def test_ci_runs_set_up_gates_tests_and_the_real_control_plane_in_this_order_each_with_a_time_limit() -> None:
    stages = re.findall(r"^stage '([^']+)' (\d+) (.+)$", text(".ci/run"), re.MULTILINE)

    assert [command for _, _, command in stages] == ["make setup", "make lint", "make test", "make test-kubernetes"]
    assert sum(int(seconds) for _, seconds, _ in stages) <= 90 * 60
    assert "set -euo pipefail" in text(".ci/run")


def test_gates_stand_in_the_order_of_their_price() -> None:
    from stack.gates import gates  # noqa: PLC0415  reads the tree

    names = [gate.name for gate in gates()]

    expected = ["format", "ruff", "djade", "djlint", "mypy", "import contracts", "django check", "migrations"]
    assert names == [*expected, "rules without Django"]


def test_compose_runs_every_process_from_one_image_in_order_and_with_health_checks() -> None:
    (compose,) = documents("docker-compose.yml")
    services = compose["services"]

    assert set(services) == {"postgres", "valkey", "migrate", "web", "worker", "background", "beat", "watcher"}
    for name in ("migrate", "web", "worker", "background", "beat", "watcher"):
        assert services[name]["image"] == "tidegate:latest"
        assert services[name]["cap_drop"] == ["ALL"]
    for name in ("web", "worker", "background", "beat", "watcher"):
        assert services[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    for name in ("postgres", "valkey", "web", "worker", "background", "beat"):
        assert services[name]["healthcheck"]["test"]
    assert services["migrate"]["restart"] == "no"


def test_compose_mounts_no_path_of_the_host_and_publishes_only_the_web_port() -> None:
    (compose,) = documents("docker-compose.yml")

    for name, service in compose["services"].items():
        for volume in service.get("volumes", ()):
            assert volume.split(":")[0] in compose["volumes"], name
        assert ("ports" in service) == (name == "web")


def test_compose_has_no_default_for_secrets() -> None:
    said = re.findall(r"\$\{(TIDEGATE_(?:SECRET_KEY|DB_PASSWORD))(.)", text("docker-compose.yml"))

    assert {name for name, _ in said} == {"TIDEGATE_SECRET_KEY", "TIDEGATE_DB_PASSWORD"}
    assert {mark for _, mark in said} == {":"}
    assert ":-" not in "".join(
        re.findall(r"\$\{TIDEGATE_(?:SECRET_KEY|DB_PASSWORD)[^}]*\}", text("docker-compose.yml"))
    )


def has_compose() -> bool:
    docker = shutil.which("docker")
    return (
        bool(docker)
        and subprocess.run([docker or "", "compose", "version"], check=False, capture_output=True).returncode == 0
    )


@pytest.mark.skipif(not has_compose(), reason="needs the docker client with its compose plugin")
def test_compose_is_valid_to_docker_itself() -> None:
    env = {**os.environ, "TIDEGATE_SECRET_KEY": "x", "TIDEGATE_DB_PASSWORD": "y"}

    done = subprocess.run(
        ["docker", "compose", "--file", str(ROOT / "docker-compose.yml"), "config", "--quiet"],
        check=False,
        capture_output=True,
        text=True,
        env=env,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_every_manifest_is_in_the_kustomization_and_has_kind_and_name() -> None:
    (kustomization,) = documents("deploy/kubernetes/kustomization.yaml")
    files = {path.name for path in (ROOT / "deploy" / "kubernetes").glob("*.yaml")}

    assert set(kustomization["resources"]) == files - {"kustomization.yaml"}
    for found in manifests():
        assert found["apiVersion"]
        assert found["kind"] == "Kustomization" or found["metadata"]["name"]


def pods() -> dict[str, dict[str, Any]]:
    """Return the pod spec of each workload by name."""
    return {
        found["metadata"]["name"]: found["spec"]["template"]["spec"]
        for found in manifests()
        if found["kind"] in {"Deployment", "Job"}
    }


def test_pods_run_without_privileges() -> None:
    for name, spec in pods().items():
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False, name
            assert security["readOnlyRootFilesystem"] is True, name
            assert security["capabilities"] == {"drop": ["ALL"]}, name


def test_only_what_speaks_to_clusters_has_a_token() -> None:
    accounts = {
        name: (spec["serviceAccountName"], spec["automountServiceAccountToken"]) for name, spec in pods().items()
    }

    assert accounts == {
        "web": ("tidegate-logs", True),
        "background": ("tidegate", False),
        "beat": ("tidegate", False),
        "migrate": ("tidegate", False),
        "worker": ("tidegate-cluster", True),
        "watcher": ("tidegate-cluster", True),
    }


def test_the_image_is_run_by_a_user_without_privileges() -> None:
    assert re.search(r"^USER 10001", text("deploy/Dockerfile"), re.MULTILINE)
    assert "--require-hashes" in text("deploy/Dockerfile")


# Asked for after conflicts and refusals only, or where there are devices of DRA, of which the demo has none.
RARELY = {
    ("get", "pods"),
    ("get", "namespaces"),
    ("list", "events"),
    ("patch", "jobs/status"),
    ("list", "resourceclaims"),
    ("list", "deviceclasses"),
}
# Everybody who has a token may read these.
FREE = {"/version", "/apis", "/apis/resource.k8s.io"}


class Rights:
    """An API that notes which right each request takes, by its verb and path, and passes it on."""

    def __init__(self, api: Any) -> None:  # noqa: ANN401  what connect made
        self.api = api
        self.taken: set[tuple[str, str]] = set()

    def ask(self, verb: str, path: str, **more: Any) -> Any:  # noqa: ANN401  as the API's
        self._note(verb, path)
        return self.api.ask(verb, path, **more)

    def open(self, verb: str, path: str, **more: Any) -> Any:  # noqa: ANN401  as the API's
        self._note(verb, path)
        return self.api.open(verb, path, **more)

    def _note(self, verb: str, path: str) -> None:
        if path in FREE:
            return
        parts = re.sub(r"^/(api/v1|apis/[^/]+/[^/]+)/(namespaces/[^/]+/(?=.))?", "", path).split("/")
        kind, named = "/".join(parts[::2]), len(parts) > 1
        word = {"logs": "get", "replace": "update"}.get(verb, verb)
        self.taken.add(("deletecollection" if word == "delete" and not named else word, kind))


def cluster_role() -> dict[str, Any]:
    """Return the role of what speaks to clusters."""
    named = [
        found for found in manifests() if found["kind"] == "ClusterRole" and found["metadata"]["name"] == "tidegate"
    ]
    (role,) = named
    return role


def granted() -> set[tuple[str, str]]:
    role = cluster_role()
    written = {kind.plural for kind in KINDS} - {"jobs"}
    return {
        (verb, resource)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if resource not in written
    }


def use_everything(cluster: KubeCluster) -> None:
    """Make the adapter ask for all that it ever asks for."""
    wave = "0193e9d0-0000-7000-8000-000000000001"
    tasks = tuple(TaskSpec(index=at, task=at, node=f"h100-1-{at + 1}") for at in range(2))
    group = GroupSpec(
        group=0, tasks=tasks, resource="nvidia.com/gpu", units=8, cpu=1000, memory=2**30, image="registry.example/x:1"
    )
    by_class = replace(group, group=1, tasks=tasks[:1], resource="deviceclass.resource.kubernetes.io/gpu.example.com")
    launch = Launch(
        wave=wave,
        job=wave,
        job_name="all",
        number=1,
        attempt=1,
        team="nlp",
        queue="default",
        namespace="team-nlp",
        gang=True,
        groups=(group, by_class),
        priority_class="tidegate-normal",
        priority_value=0,
        placement=Placement.PIN,
    )
    cluster.check()
    cluster.ensure_team("team-nlp", team="nlp", ceiling={"nvidia.com/gpu": 32})
    cluster.ensure_team("team-nlp", team="nlp", ceiling={"nvidia.com/gpu": 64})
    cluster.launch(launch)
    cluster.launch(launch)
    connected = cluster.inventory()
    pods = [pod for pod in connected.pods if pod.wave == wave]
    cluster.pin([Pin(namespace="team-nlp", pod=pod.name, node="h100-1-1", task=pod.index or 0) for pod in pods])
    for _ in cluster.watch(connected.position, seconds=1):
        break
    for pod in pods[:1]:
        b"".join(cluster.logs("team-nlp", pod.name, tail=1).chunks())
    cluster.stop_pods("team-nlp", {pod.name: pod.uid for pod in pods[:1]}, grace_seconds=0)
    cluster.stop(WaveRef(wave=wave, job=wave, number=1, namespace="team-nlp", groups=1), grace_seconds=0)
    use_adoption(cluster, launch)
    cluster.ensure_team("team-nlp", team="nlp", ceiling=None)


def use_adoption(cluster: KubeCluster, launch: Launch) -> None:
    """Refuse an object that somebody made, then let it run and suspend it again."""
    manifest = kube_job("made", meta={"labels": {"tidegate.io/queue": "default"}}, suspend=True)
    cluster.api.ask("create", "/apis/batch/v1/namespaces/team-nlp/jobs", body=manifest)
    (offer,) = cluster.inventory().offers
    cluster.refuse(offer, "for a test")
    adopted = RawObject(kind=offer.kind, manifest=offer.manifest, adopted=offer.uid)
    cluster.launch(replace(launch, raw=adopted))
    ref = WaveRef(
        wave=launch.wave,
        job=launch.job,
        number=1,
        namespace="team-nlp",
        groups=1,
        kind=offer.kind,
        adopted=offer.name,
    )
    cluster.stop(ref)


def test_the_role_covers_every_kind_that_people_may_write() -> None:
    (rule,) = [rule for rule in cluster_role()["rules"] if "jobs" in rule["resources"]]

    assert {kind.group for kind in KINDS} == set(rule["apiGroups"])
    assert {kind.plural for kind in KINDS} == set(rule["resources"])


def test_the_role_grants_what_the_adapter_asks_for_and_nothing_about_secrets(tmp_path: Path) -> None:
    with Emulator(nodes=demo()) as emulator:
        connected = connect("demo", kubeconfig=emulator.kubeconfig(tmp_path / "kubeconfig"))
        api = Rights(connected.api)
        use_everything(KubeCluster("demo", cast("Any", api)))
        connected.close()

    rights = api.taken
    assert len(rights) >= 15
    assert granted() - rights == RARELY
    assert rights - granted() == set()
