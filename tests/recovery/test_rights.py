"""Who we are to the API server: tokens that run out, accounts that go, rights that are taken away and given back."""

import base64
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pytest_django import Settings

from clusters.asking import Failure
from queues.models import Wave
from queues.states import JobState
from tests.clusters.contract.ground import Ground, Site
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.proxy import Proxy
from tests.loop.stage import events, state
from tests.recovery.scene import Scene

pytestmark = pytest.mark.kubernetes

ROOT = Path(__file__).resolve().parents[2]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOME = "/api/v1/namespaces/default/serviceaccounts"


class Account:
    """A service account with the rights that the installation's manifests give to the worker and the watcher."""

    def __init__(self, ground: Ground, token: Path) -> None:
        self.ground, self.token = ground, token
        self.name = f"tidegate-{ground.key}"

    def open(self) -> None:
        role = next(
            each
            for each in yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "rbac.yaml").read_text())
            if (each["kind"], each["metadata"]["name"]) == ("ClusterRole", "tidegate")
        )
        self._create(f"{RBAC}/clusterroles", {**role, "metadata": {"name": self.name}})
        self.give_rights()
        self.hire()

    def close(self) -> None:
        for path in (f"{RBAC}/clusterrolebindings/{self.name}", f"{RBAC}/clusterroles/{self.name}", self.path):
            try:
                self.ground.send("delete", path)
            except Failure as failure:
                if failure.status != 404:
                    raise

    @property
    def path(self) -> str:
        return f"{HOME}/{self.name}"

    def hire(self) -> None:
        """Make the account and write a token of it into the file, as a kubelet does for a pod."""
        self._create(HOME, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": self.name}})
        self.renew()

    def renew(self) -> None:
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        self.token.write_text(self.ground.send("create", f"{self.path}/token", body=asked)["status"]["token"] + "\n")

    def dismiss(self) -> None:
        self.ground.send("delete", self.path)

    def give_rights(self) -> None:
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": self.name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.name},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": "default"}],
        }
        self._create(f"{RBAC}/clusterrolebindings", binding)

    def take_rights(self) -> None:
        self.ground.send("delete", f"{RBAC}/clusterrolebindings/{self.name}")

    def _create(self, path: str, body: dict[str, Any]) -> None:
        self.ground.send("create", path, body=body)


@pytest.fixture
def account(kubernetes: Site, tmp_path: Path) -> Iterator[Account]:
    account = Account(Ground(kubernetes), tmp_path / "token")
    account.open()
    yield account
    account.close()


@pytest.fixture
def hired(
    kubernetes: Site,
    account: Account,
    transactional_db: None,  # noqa: ARG001  asks for the database
    quick: None,  # noqa: ARG001  shortens waits
    settings: Settings,
    tmp_path: Path,
) -> Iterator[Scene]:
    """A scene whose Tidegate has no rights but those of the manifests."""
    with Proxy(kubernetes.kubeconfig) as proxy:
        scene = Scene(kubernetes, proxy, tmp_path, token_file=account.token)
        settings.TIDEGATE_NAMESPACE_PREFIX = f"team-{scene.ground.key}-"
        try:
            scene.open()
            yield scene
        finally:
            scene.close()


def survives(scene: Scene) -> tuple[JobState, JobState]:
    """Submit a second job while nobody answers us; return how both stand once the fault is known."""
    running = Wave.objects.get(number=1, job__name="train").job
    scene.until(lambda: scene.row().unreachable_since is not None)
    waiting = scene.submit(name="waiting", gpus="h100:8", forever="1")
    scene.until(lambda: scene.reason(waiting).get("code") == "CLUSTER_UNREACHABLE")
    return state(running), state(waiting)


def recovers(scene: Scene) -> None:
    """Wait until both jobs run, each in its first wave."""
    scene.until(lambda: scene.row().unreachable_since is None)
    scene.until(lambda: [wave.state for wave in Wave.objects.order_by("id")] == ["running", "running"])
    scene.balance()
    assert scene.books() == (16, 16, 16)


def test_rights_that_are_taken_away_and_given_back_fail_nothing(hired: Scene, account: Account) -> None:
    job = hired.runs(gpus="h100:8")

    account.take_rights()
    during = survives(hired)
    # A watch may be the first to be refused; the next list is then.
    hired.until(lambda: "cannot list resource" in hired.row().error)
    account.give_rights()
    recovers(hired)

    assert during == (JobState.RUNNING, JobState.ADMITTED)
    assert events(job).count("launched") == 1


def test_a_token_whose_account_is_deleted_is_no_failure_and_the_next_one_is_read(
    hired: Scene, account: Account
) -> None:
    hired.runs(gpus="h100:8")

    account.dismiss()
    during = survives(hired)
    hired.until(lambda: "Unauthorized" in hired.row().error)
    account.hire()
    recovers(hired)

    assert during == (JobState.RUNNING, JobState.ADMITTED)


def test_a_token_that_has_expired_is_no_failure_and_the_next_one_is_read(
    hired: Scene, account: Account, plane: ControlPlane
) -> None:
    hired.runs(gpus="h100:8")

    account.token.write_text(expired(account, plane))
    hired.cluster.api._client = hired.cluster.api._dial()  # type: ignore[attr-defined]  # noqa: SLF001  as after a restart
    during = survives(hired)
    account.renew()
    recovers(hired)

    assert during == (JobState.RUNNING, JobState.ADMITTED)


def expired(account: Account, plane: ControlPlane) -> str:
    """Sign the account's token anew with a time that is over: the API server allows a minute for clocks."""
    head, claims, _ = account.token.read_text().strip().split(".")
    told = json.loads(_decode(claims))
    then = int(time.time()) - 3600
    signed = f"{head}.{_encode(json.dumps({**told, 'iat': then - 60, 'nbf': then - 60, 'exp': then}).encode())}"
    command = ["openssl", "dgst", "-sha256", "-sign", str(plane.account_key)]
    done = subprocess.run(command, input=signed.encode(), capture_output=True, check=True)
    return f"{signed}.{_encode(done.stdout)}"


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
